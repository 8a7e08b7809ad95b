//! Selects the mutations to run.

use std::collections::BTreeMap;
use std::path::Path;

use crate::edit::tokens_of;
use crate::sources::{Sources, git};
use crate::table::{self, Mutation};

/// Returns the mutations with these names, or of these scenarios.
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

/// Returns the mutations whose items differ from `then`, or whose row of a table has changed.
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

/// Returns the mutations of one crate, in an order that the hash of the sources draws.
///
/// A single crate takes the least time to compile. A crate with more mutations is drawn more often.
pub(crate) fn drawn<'a>(mutations: &'a [Mutation], sources: &Sources) -> Vec<&'a Mutation> {
    let mut order: Vec<&Mutation> = mutations.iter().collect();
    order.sort_by_cached_key(|mutation| sources.hash(&mutation.name));
    let package = order.first().map(|first| &first.package);
    order
        .into_iter()
        .filter(|mutation| Some(&mutation.package) == package)
        .collect()
}
