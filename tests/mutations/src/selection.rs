//! Which mutations run.

use std::collections::BTreeMap;
use std::path::Path;

use crate::edit::tokens_of;
use crate::sources::{Sources, git};
use crate::table::{self, Mutation};

/// Returns those of some names or scenarios.
pub(crate) fn named<'a>(
    mutations: &'a [Mutation],
    names: &[String],
) -> Result<Vec<&'a Mutation>, String> {
    let is = |mutation: &Mutation, name: &String| {
        let mut proofs = mutation.proofs.iter();
        mutation.name == *name || proofs.any(|proof| proof.scenario.to_string() == *name)
    };
    for name in names {
        if !mutations.iter().any(|mutation| is(mutation, name)) {
            return Err(format!(
                "{name} is no mutation and no scenario of one: see tests/FAILURES.md"
            ));
        }
    }
    let chosen = mutations
        .iter()
        .filter(|mutation| names.iter().any(|name| is(mutation, name)));
    Ok(chosen.collect())
}

/// Returns those whose items are not as they were `then`, and those whose row of a table is not.
pub(crate) fn changed<'a>(
    root: &Path,
    revision: &str,
    mutations: &'a [Mutation],
    now: &Sources,
    then: &Sources,
) -> Vec<&'a Mutation> {
    let mut rows: BTreeMap<&str, Vec<Mutation>> = BTreeMap::new();
    for mutation in mutations {
        rows.entry(&mutation.package).or_insert_with(|| {
            let path = format!(
                "{revision}:tests/mutations/tables/{}.toml",
                mutation.package
            );
            let text = git(root, ["show".to_owned(), path]).unwrap_or_default();
            table::parse(&text, &mutation.package).unwrap_or_default()
        });
    }
    let differs = |mutation: &&Mutation| {
        let same_row = rows
            .get(&*mutation.package)
            .is_some_and(|rows| rows.contains(mutation));
        let same_items = mutation.edits().all(|(package, edit)| {
            tokens_of(package, &edit.item, now) == tokens_of(package, &edit.item, then)
        });
        !(same_row && same_items)
    };
    mutations.iter().filter(differs).collect()
}

/// Returns those of one crate, in an order that the hash of the sources draws. A single crate takes the least time to
/// compile, and one with more mutations is drawn more often.
pub(crate) fn drawn<'a>(mutations: &'a [Mutation], sources: &Sources) -> Vec<&'a Mutation> {
    let mut order: Vec<&Mutation> = mutations.iter().collect();
    order.sort_by_cached_key(|mutation| sources.hash(&mutation.name));
    let package = order.first().map(|first| &first.package);
    order
        .into_iter()
        .filter(|mutation| Some(&mutation.package) == package)
        .collect()
}
