//! Generates `tests/FAILURES.md` from the tables.

use std::fmt::Write;

use crate::table::Mutation;

/// Returns the whole file: a fixed head, and a row for each proof.
pub(crate) fn failures(mutations: &[Mutation]) -> String {
    let mut rows: Vec<_> = mutations
        .iter()
        .flat_map(|mutation| {
            mutation
                .proofs
                .iter()
                .map(move |proof| (proof, &*mutation.name))
        })
        .collect();
    rows.sort_by_key(|(proof, name)| (proof.scenario, *name));
    let mut text = HEAD.to_owned();
    for (proof, name) in rows {
        let tests: Vec<String> = proof.tests.iter().map(|test| format!("`{test}`")).collect();
        let tests = tests.join("<br>");
        let (scenario, what) = (proof.scenario, &proof.what);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| {scenario} | {what} | {tests} | `{name}` |");
    }
    text
}

const HEAD: &str = "\
# What can go wrong, and which test would notice

Generated from `tests/mutations/tables` by `scripts/sabotage --table`; change it there.

Each row: something that goes wrong in the life of a lock, the tests that show that it does no harm
here, and a mutation of the sources under which every one of these tests fails. A test is a package, a
test target (`lib` for the tests beside the code) and its name: `lock-redis conformance exclusion::x` is
run by `cargo test -p lock-redis --test conformance exclusion::x`. Where the cases are run for several
stores, the name begins with the store: `lock-mysql conformance lease_on_mariadb::exclusion::x`.

`scripts/sabotage 33` breaks the sources for one scenario, `scripts/sabotage no-release-on-drop` in one
way, and expects the tests to fail.

| No. | What happens | Tests | Mutation |
|---:|---|---|---|
";
