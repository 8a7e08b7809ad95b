//! Checks the tables without running a test.

use std::collections::BTreeSet;
use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;

use crate::edit::apply;
use crate::markdown::failures;
use crate::named_tests;
use crate::sources::Sources;
use crate::table::Mutation;

/// The scenarios that need a proof.
const WANTED: &[RangeInclusive<u32>] = &[
    1..=10,
    13..=13,
    15..=20,
    22..=23,
    29..=36,
    38..=38,
    41..=46,
    48..=59,
    65..=66,
    68..=68,
    70..=72,
    76..=77,
    96..=96,
    101..=101,
    104..=105,
    113..=113,
    115..=123,
    126..=127,
    129..=131,
    133..=133,
    136..=141,
    144..=144,
    146..=150,
    165..=165,
    167..=168,
    171..=171,
    173..=173,
    179..=179,
    184..=187,
    190..=194,
    196..=199,
];

/// Returns all errors of the tables.
///
/// These are mutations that do not apply, tests that do not exist, scenarios without a proof, and a
/// `tests/FAILURES.md` that differs from the tables.
pub(crate) fn complaints(root: &Path, mutations: &[Mutation], sources: &Sources) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut names = BTreeSet::new();
    for mutation in mutations {
        let name = &mutation.name;
        let mut complain = |what: String| complaints.push(format!("{name}: {what}"));
        if !names.insert(name) {
            complain("another mutation has its name".into());
        }
        if mutation.edits.is_empty() || mutation.proofs.is_empty() || mutation.breaks.is_empty() {
            complain("it has no edits, no proofs or does not say what it breaks".into());
        }
        if let Err(what) = apply(mutation, sources) {
            complain(what);
        }
        let proofs = mutation.proofs.iter();
        if proofs.clone().any(|proof| proof.tests.is_empty()) {
            complain("a proof names no test".into());
        }
        for test in proofs.flat_map(|proof| &proof.tests) {
            if let Err(what) = named_tests::check(root, test) {
                complain(what);
            }
        }
    }
    let proofs = mutations.iter().flat_map(|mutation| &mutation.proofs);
    let covered: BTreeSet<u32> = proofs.map(|proof| proof.scenario).collect();
    let wanted = WANTED.iter().cloned().flatten();
    let missing = wanted.filter(|scenario| !covered.contains(scenario));
    complaints.extend(missing.map(|scenario| format!("nothing proves scenario {scenario}")));
    let written = fs::read_to_string(root.join("tests/FAILURES.md")).unwrap_or_default();
    if written != failures(mutations) {
        complaints.push(
            "tests/FAILURES.md is not what the tables say: run scripts/sabotage --table".into(),
        );
    }
    complaints
}
