//! Applies mutations to the texts of sources.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::items::items;
use crate::lexer::{Language, fine_tokens};
use crate::sources::Sources;
use crate::table::Mutation;

/// Returns the files that `mutation` changes, by their paths from the root, with the change.
///
/// # Errors
///
/// Names the item, or the tokens in it, that are missing or occur more than once.
pub(crate) fn apply(
    mutation: &Mutation,
    sources: &Sources,
) -> Result<BTreeMap<String, String>, String> {
    let mut changed: BTreeMap<String, String> = BTreeMap::new();
    for (package, edit) in mutation.edits() {
        let mut found = Vec::new();
        let mut is_known = false;
        for (file, text) in sources.of(package) {
            // The text after the earlier edits of the mutation.
            let text = changed.get(file).map_or(text, String::as_str);
            for item in named(package, file, text, &edit.item) {
                is_known = true;
                let places = places(&text[item.clone()], &edit.find, language(file));
                found.extend(places.into_iter().map(|place| {
                    let (start, end) = (item.start + place.start, item.start + place.end);
                    let edited = format!("{}{}{}", &text[..start], edit.replace, &text[end..]);
                    (file.to_owned(), edited)
                }));
            }
        }
        match found.len() {
            1 => changed.extend(found),
            0 if !is_known => return Err(format!("{package} has no item {}", edit.item)),
            0 => {
                return Err(format!(
                    "{} of {package} has no `{}`",
                    edit.item,
                    edit.find.trim()
                ));
            }
            _ => {
                return Err(format!(
                    "{} of {package} has `{}` more than once",
                    edit.item,
                    edit.find.trim()
                ));
            }
        }
    }
    Ok(changed)
}

/// Returns the tokens of all items of `package` with this name, in order.
pub(crate) fn tokens_of<'a>(package: &str, item: &str, sources: &'a Sources) -> Vec<&'a str> {
    let mut all = Vec::new();
    for (file, text) in sources.of(package) {
        for item in named(package, file, text, item) {
            let text = &text[item];
            all.extend(
                fine_tokens(text, language(file))
                    .into_iter()
                    .map(|token| &text[token]),
            );
        }
    }
    all
}

/// Returns the places of the items with this name in a file.
fn named(package: &str, file: &str, text: &str, item: &str) -> Vec<Range<usize>> {
    let start = format!("{package}/src/");
    let known = items(file.strip_prefix(&start).unwrap_or(file), text);
    known
        .into_iter()
        .filter(|known| known.is(item))
        .map(|known| known.range)
        .collect()
}

fn language(file: &str) -> Language {
    Language::of(file).unwrap_or(Language::Rust)
}

/// Returns the places in `text` where the tokens of `find` occur.
pub(crate) fn places(text: &str, find: &str, language: Language) -> Vec<Range<usize>> {
    let there = fine_tokens(text, language);
    let wanted: Vec<&str> = fine_tokens(find, language)
        .into_iter()
        .map(|token| &find[token])
        .collect();
    if wanted.is_empty() {
        return Vec::new();
    }
    let windows = there.windows(wanted.len());
    let hits = windows.filter(|window| {
        let found = window.iter().map(|token| &text[token.clone()]);
        found.eq(wanted.iter().copied())
    });
    hits.filter_map(|window| Some(window.first()?.start..window.last()?.end))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Edit;

    fn mutation(edits: Vec<Edit>) -> Mutation {
        Mutation {
            name: "a".into(),
            breaks: "b".into(),
            edits,
            proofs: Vec::new(),
            package: "core".into(),
        }
    }

    fn edit(item: &str, find: &str, replace: &str) -> Edit {
        Edit {
            package: None,
            item: item.into(),
            find: find.into(),
            replace: replace.into(),
        }
    }

    fn sources() -> Sources {
        let file = "impl Hold {\n    fn a() { b(1); // c\n b(2); }\n    fn d() { b(1) }\n}\n";
        Sources::new([("core/src/hold.rs", file), ("core/src/take.lua", "a(1)")])
    }

    #[test]
    fn edits_of_a_mutation_go_together() {
        let mutation = mutation(vec![
            edit("Hold::a", "b(1);\nb(2)", "e()"),
            edit("Hold::d", "1", "2"),
            edit("take.lua", "a (1)", "b(1)"),
        ]);
        let changed = apply(&mutation, &sources()).expect("it applies");
        assert_eq!(
            changed["core/src/hold.rs"],
            "impl Hold {\n    fn a() { e(); }\n    fn d() { b(2) }\n}\n"
        );
        assert_eq!(changed["core/src/take.lua"], "b(1)");
    }

    #[test]
    fn what_does_not_fit_is_told() {
        let told =
            |wanted: Edit| apply(&mutation(vec![wanted]), &sources()).expect_err("it does not fit");
        assert_eq!(told(edit("Hold::e", "1", "2")), "core has no item Hold::e");
        assert_eq!(
            told(edit("Hold::d", "3", "2")),
            "Hold::d of core has no `3`"
        );
        assert_eq!(
            told(edit("Hold::a", "b", "c")),
            "Hold::a of core has `b` more than once"
        );
    }
}
