//! Finds functions, types and constants in Rust code by their names.

use std::ops::Range;

use crate::lexer::{Language, tokens};

/// A function, constant, type or block of a file.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    /// The names of the item, each from the module on.
    ///
    /// Examples: `session::Session::renew`, `session::<Session as Renew>::renew`, `session::struct
    /// Session` or `session::impl Drop for Session`.
    names: Vec<String>,
    /// The place in the file, in bytes.
    pub(crate) range: Range<usize>,
}

impl Item {
    /// Returns true if a name of the item ends with `name`.
    pub(crate) fn is(&self, name: &str) -> bool {
        self.names.iter().any(|known| {
            let before = known.strip_suffix(name);
            before.is_some_and(|before| before.is_empty() || before.ends_with("::"))
        })
    }

    #[cfg(test)]
    fn name(&self) -> &str {
        &self.names[0]
    }
}

/// Returns the items of a source file, without its tests; `path` is relative to `src`.
pub(crate) fn items(path: &str, text: &str) -> Vec<Item> {
    if !path.ends_with(".rs") {
        let whole = Item {
            names: vec![path.replace('/', "::")],
            range: 0..text.len(),
        };
        return vec![whole];
    }
    let module = path.trim_end_matches(".rs").trim_end_matches("/mod");
    let module = match module {
        "lib" | "main" => String::new(),
        module => format!("{}::", module.replace('/', "::")),
    };
    let mut walk = Walk {
        text,
        tokens: tokens(text, Language::Rust),
        items: Vec::new(),
    };
    walk.scope(0..walk.tokens.len(), &[module]);
    walk.items
}

struct Walk<'a> {
    text: &'a str,
    tokens: Vec<Range<usize>>,
    items: Vec<Item>,
}

impl<'a> Walk<'a> {
    fn token(&self, at: usize) -> &'a str {
        let token = self.tokens.get(at);
        token.map_or("", |token| &self.text[token.clone()])
    }

    /// Notes the items among the tokens `within`, whose names begin with each of `prefixes`.
    fn scope(&mut self, within: Range<usize>, prefixes: &[String]) {
        let mut at = within.start;
        while at < within.end {
            let begin = at;
            let mut is_test = false;
            while self.token(at) == "#" {
                let end = self.closing(at + 1);
                is_test |= (at..end).any(|at| self.token(at) == "test");
                at = end + 1;
            }
            while matches!(
                self.token(at),
                "pub" | "async" | "unsafe" | "default" | "extern"
            ) || self.token(at) == "const"
                && matches!(self.token(at + 1), "fn" | "async" | "unsafe")
                || self.token(at).starts_with('"')
                || self.token(at) == "(" && at > begin && self.token(at - 1) == "pub"
            {
                at = if self.token(at) == "(" {
                    self.closing(at) + 1
                } else {
                    at + 1
                };
            }
            let keyword = self.token(at);
            let open = self.body(
                at,
                within.end,
                matches!(keyword, "const" | "static" | "type" | "use"),
            );
            let end = if self.token(open) == "{" {
                self.closing(open)
            } else {
                open
            };
            if !is_test {
                self.note(keyword, at, open, begin..end, prefixes);
            }
            at = end.max(begin) + 1;
        }
    }

    /// Notes the item that begins with the token `keyword` at `at`, and the items inside it.
    fn note(
        &mut self,
        keyword: &str,
        at: usize,
        open: usize,
        whole: Range<usize>,
        prefixes: &[String],
    ) {
        let name = self.token(at + 1);
        let named = |name: &str| {
            prefixes
                .iter()
                .map(|prefix| format!("{prefix}{name}"))
                .collect()
        };
        let inside = open + 1..whole.end;
        match keyword {
            "fn" | "const" | "static" => self.push(named(name), whole),
            "macro_rules" => self.push(named(&format!("{}!", self.token(at + 2))), whole),
            "struct" | "enum" | "union" | "type" => {
                self.push(named(&format!("{keyword} {name}")), whole)
            }
            "trait" => {
                self.push(named(&format!("trait {name}")), whole);
                self.scope(inside, &[format!("{}{name}::", prefixes[0])]);
            }
            "mod" if self.token(open) == "{" => {
                self.scope(inside, &[format!("{}{name}::", prefixes[0])]);
            }
            "impl" => {
                let (of, subject) = self.header(at + 1, open);
                let prefix = &prefixes[0];
                let mut inner = vec![format!("{prefix}{subject}::")];
                let block = match of {
                    None => format!("impl {subject}"),
                    Some(of) => {
                        inner.push(format!("{prefix}<{subject} as {of}>::"));
                        format!("impl {of} for {subject}")
                    }
                };
                self.push(named(&block), whole);
                self.scope(inside, &inner);
            }
            _ => {}
        }
    }

    fn push(&mut self, names: Vec<String>, tokens: Range<usize>) {
        let end = tokens.end.min(self.tokens.len() - 1);
        let range = self.tokens[tokens.start].start..self.tokens[end].end;
        self.items.push(Item { names, range });
    }

    /// Returns the names of the trait, if any, and of the type of an `impl` whose header ends at
    /// `open`.
    fn header(&self, begin: usize, open: usize) -> (Option<String>, String) {
        let mut depth = 0_i32;
        let mut names = vec![String::new()];
        for at in begin..open {
            match self.token(at) {
                "<" => depth += 1,
                ">" if self.token(at - 1) != "-" => depth -= 1,
                "for" if depth == 0 && self.token(at + 1) != "<" => names.push(String::new()),
                "where" if depth == 0 => break,
                word if depth == 0 && word.starts_with(|first: char| first.is_alphabetic()) => {
                    *names.last_mut().unwrap_or(&mut String::new()) = word.to_owned();
                }
                _ => {}
            }
        }
        let subject = names.pop().unwrap_or_default();
        (names.pop(), subject)
    }

    /// Returns the place of the `{` that opens the item's block, or of the `;` that ends the item.
    fn body(&self, begin: usize, end: usize, is_value: bool) -> usize {
        let mut at = begin;
        while at < end {
            match self.token(at) {
                ";" => return at,
                "{" if !is_value => return at,
                "(" | "[" | "{" => at = self.closing(at) + 1,
                _ => at += 1,
            }
        }
        end
    }

    /// Returns the place of the bracket that closes the bracket at `open`.
    fn closing(&self, open: usize) -> usize {
        let mut depth = 0_i32;
        for at in open..self.tokens.len() {
            match self.token(at) {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => {
                    depth -= 1;
                    if depth <= 0 {
                        return at;
                    }
                }
                _ => {}
            }
        }
        self.tokens.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = r#"
//! Docs.
use a::{b, c};

const LIMIT: [u8; 2] = { [1, 2] };

pub(crate) struct Hold<T> { a: T }
struct Unit;

#[derive(Debug)]
enum Kind { A(u8) }

impl<'a, T: Fn(u8) -> u8> Hold<T> {
    /// Docs.
    pub const fn new() -> Self { if true { one } else { two } }
    pub(crate) async fn check(&self) {}
}

#[async_trait]
impl<T> fmt::Display for a::Hold<T> where T: Send {
    fn fmt(&self) {}
}

trait Store: Send {
    fn renew(&self);
    fn close(&self) { done }
}

mod inner { fn below() {} }

fn free() {}

#[cfg(test)]
mod tests { fn free() {} }
"#;

    #[test]
    fn every_item_has_its_name() {
        let found = items("session/pool.rs", CODE);
        let names: Vec<&str> = found.iter().map(Item::name).collect();
        let expected = [
            "LIMIT",
            "struct Hold",
            "struct Unit",
            "enum Kind",
            "impl Hold",
            "Hold::new",
            "Hold::check",
            "impl Display for Hold",
            "Hold::fmt",
            "trait Store",
            "Store::renew",
            "Store::close",
            "inner::below",
            "free",
        ];
        let expected = expected.map(|name| format!("session::pool::{name}"));
        assert_eq!(names, expected);
    }

    #[test]
    fn an_item_is_found_by_the_end_of_its_name() {
        let found = items("session/pool.rs", CODE);
        let of = |name: &str| {
            let hits: Vec<&Item> = found.iter().filter(|item| item.is(name)).collect();
            assert_eq!(hits.len(), 1, "{name}");
            &CODE[hits[0].range.clone()]
        };
        assert_eq!(of("Hold::fmt"), "fn fmt(&self) {}");
        assert_eq!(of("<Hold as Display>::fmt"), "fn fmt(&self) {}");
        assert_eq!(of("free"), "fn free() {}");
        assert_eq!(of("struct Unit"), "struct Unit;");
        assert_eq!(of("LIMIT"), "const LIMIT: [u8; 2] = { [1, 2] };");
        assert_eq!(of("enum Kind"), "#[derive(Debug)]\nenum Kind { A(u8) }");
        assert!(of("Hold::new").ends_with("{ if true { one } else { two } }"));
    }

    #[test]
    fn other_files_are_one_item() {
        let found = items("commands/take.lua", "return 1");
        assert!(found[0].is("take.lua") && found.len() == 1);
    }
}
