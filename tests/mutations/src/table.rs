//! The tables of mutations in `tests/mutations/tables`, one per crate.

use std::fs;
use std::path::Path;

use serde::Deserialize;

/// A way to break the sources.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mutation {
    pub(crate) name: String,
    /// The flaw of sources that are broken in this way.
    pub(crate) breaks: String,
    /// The changes, which are made together.
    pub(crate) edits: Vec<Edit>,
    /// The tests that have to fail, and the scenarios that they show.
    pub(crate) proofs: Vec<Proof>,
    /// The crate of the table.
    #[serde(skip)]
    pub(crate) package: String,
}

/// One change of an item. Comments and layout do not count.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Edit {
    /// The crate of the item, if it differs from the table's.
    pub(crate) package: Option<String>,
    /// The end of the item's path; of the file's path if the file is not Rust.
    pub(crate) item: String,
    /// The tokens to replace, which occur in the item once.
    pub(crate) find: String,
    /// The replacement.
    pub(crate) replace: String,
}

/// A scenario of `tests/FAILURES.md`.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Proof {
    pub(crate) scenario: u32,
    /// The events of the scenario.
    pub(crate) what: String,
    /// Tests that fail under the mutation: package, test target (`lib` for unit tests) and path.
    pub(crate) tests: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    mutations: Vec<Mutation>,
}

impl Mutation {
    /// Returns the edits, each with the crate that it changes.
    pub(crate) fn edits(&self) -> impl Iterator<Item = (&str, &Edit)> {
        self.edits
            .iter()
            .map(|edit| (edit.package.as_deref().unwrap_or(&self.package), edit))
    }

    /// Returns the tests that have to fail, each once, in order.
    pub(crate) fn tests(&self) -> Vec<&str> {
        let mut tests: Vec<&str> = self
            .proofs
            .iter()
            .flat_map(|proof| proof.tests.iter().map(String::as_str))
            .collect();
        tests.sort_unstable();
        tests.dedup();
        tests
    }
}

/// Reads all tables of the workspace at `root`.
///
/// # Errors
///
/// Names the table that is wrong, and the place in it.
pub(crate) fn read(root: &Path) -> Result<Vec<Mutation>, String> {
    let directory = root.join("tests/mutations/tables");
    let entries =
        fs::read_dir(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let mut mutations = Vec::new();
    for path in paths {
        let package = path.file_stem().unwrap_or_default().to_string_lossy();
        let text = fs::read_to_string(&path).map_err(|error| error.to_string());
        let table = text.and_then(|text| parse(&text, &package));
        mutations.extend(table.map_err(|error| format!("{}: {error}", path.display()))?);
    }
    Ok(mutations)
}

/// Parses the table of a crate.
pub(crate) fn parse(text: &str, package: &str) -> Result<Vec<Mutation>, String> {
    let table: Table = toml::from_str(text).map_err(|error| error.to_string())?;
    let named = table.mutations.into_iter().map(|mutation| Mutation {
        package: package.to_owned(),
        ..mutation
    });
    Ok(named.collect())
}
