//! `tests/FAILURES.md` fits the sources: its tests exist, its sabotages apply, and no scenario is
//! without a row. That the tests fail under the sabotages is for `scripts/sabotage` to show.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The scenarios that have to be covered.
const WANTED: &[std::ops::RangeInclusive<u32>] = &[
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
];

struct Row {
    number: u32,
    tests: Vec<String>,
    sabotage: String,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What stands between backticks.
fn quoted(cell: &str) -> Vec<String> {
    cell.split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

fn rows() -> Vec<Row> {
    let table = read("tests/FAILURES.md");
    let cells = table
        .lines()
        .map(|line| line.split('|').collect::<Vec<_>>());
    let rows = cells.filter_map(|cells| {
        let number = cells.get(1)?.trim().parse().ok()?;
        let [tests, sabotage] = [3, 4].map(|cell| quoted(cells[cell]));
        assert_eq!(sabotage.len(), 1, "row {number} names one sabotage");
        assert!(!tests.is_empty(), "row {number} names no test");
        let sabotage = sabotage.concat();
        Some(Row {
            number,
            tests,
            sabotage,
        })
    });
    let rows: Vec<Row> = rows.collect();
    assert!(rows.len() > 50, "the table is read wrongly");
    rows
}

#[test]
fn every_scenario_has_a_row() {
    let covered: BTreeSet<u32> = rows().iter().map(|row| row.number).collect();
    let wanted: BTreeSet<u32> = WANTED.iter().cloned().flatten().collect();
    let missing: Vec<&u32> = wanted.difference(&covered).collect();
    assert!(missing.is_empty(), "scenarios without a row: {missing:?}");
    assert!(
        rows().is_sorted_by_key(|row| row.number),
        "rows are in order"
    );
}

#[test]
fn every_sabotage_has_a_patch_and_every_patch_a_row() {
    let named: BTreeSet<String> = rows().into_iter().map(|row| row.sabotage).collect();
    let entries = fs::read_dir(root().join("tests/sabotage")).expect("the patches");
    let files = entries.map(|entry| entry.expect("a patch").file_name());
    let there: BTreeSet<String> = files
        .map(|name| name.to_string_lossy().trim_end_matches(".patch").to_owned())
        .collect();
    assert_eq!(named, there);
}

#[test]
fn every_patch_says_what_it_breaks_and_applies() {
    for row in rows() {
        let name = format!("tests/sabotage/{}.patch", row.sabotage);
        let patch = read(&name);
        let head = patch.lines().take_while(|line| !line.starts_with("--- "));
        assert!(head.count() > 0, "{name} does not say what it breaks");
        if let Err(problem) = fits(&patch) {
            panic!("{name} does not apply any more, adapt it: {problem}");
        }
    }
}

/// Whether what a patch takes out or leaves alone stands at exactly one place of its file.
fn fits(patch: &str) -> Result<(), String> {
    let mut hunks = 0;
    for file in patch.split("--- a/").skip(1) {
        let (path, file) = file.split_once('\n').unwrap_or_default();
        let text = format!("\n{}", read(path));
        for hunk in file.split("\n@@ ").skip(1) {
            hunks += 1;
            let lines = hunk.lines().skip(1).filter(|line| !line.starts_with('+'));
            let lines = lines.map(|line| line.get(1..).unwrap_or_default());
            let before = format!("\n{}\n", lines.collect::<Vec<_>>().join("\n"));
            let places = text.matches(&before).count();
            if places != 1 {
                return Err(format!("{places} places of {path} look like{before}"));
            }
            // `git apply` takes a change with nothing behind it for the end of the file.
            let ends_in_context = hunk
                .lines()
                .last()
                .is_some_and(|line| line.starts_with(' '));
            if !ends_in_context && !text.ends_with(&before) {
                return Err(format!(
                    "{path} goes on, without a line of it, behind{before}"
                ));
            }
        }
    }
    if hunks == 0 {
        return Err("it changes nothing".into());
    }
    Ok(())
}

#[test]
fn every_test_exists() {
    let cases = lock_testkit::cases();
    for test in rows().iter().flat_map(|row| &row.tests) {
        let [package, target, path] = test.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{test:?} is not a package, a test target and a name");
        };
        let exists = match target {
            "conformance" => {
                let case = match path.split("::").count() {
                    3 => in_contract(package, path),
                    _ => path,
                };
                cases.iter().any(|known| known.to_string() == case)
            }
            _ => is_written(&sources(package, target), path),
        };
        assert!(exists, "there is no test {test}");
    }
}

/// The case of a test where the cases are run for several stores, which are listed as contracts.
fn in_contract<'a>(package: &str, path: &'a str) -> &'a str {
    let (store, case) = path.split_once("::").unwrap_or_default();
    let listed = read(format!("{package}/tests/conformance/main.rs"));
    let is_listed = listed.split("contract!(").skip(1).any(|contract| {
        let name = contract.trim_start().strip_prefix(store);
        name.is_some_and(|rest| rest.starts_with(','))
    });
    if is_listed { case } else { path }
}

/// Where the tests of a target are written.
fn sources(package: &str, target: &str) -> Vec<PathBuf> {
    let package = root().join(if package == "polylock" { "." } else { package });
    let tests = package.join("tests");
    match target {
        "lib" => vec![package.join("src")],
        _ => vec![tests.join(target), tests.join(format!("{target}.rs"))],
    }
}

/// Whether the function of a test is in the file of its module, in or below one of `places`.
fn is_written(places: &[PathBuf], path: &str) -> bool {
    let function = format!("fn {}(", path.rsplit("::").next().unwrap_or_default());
    let file = match path.rsplit_once("::") {
        Some((module, _)) => format!("{}.rs", module.replace("::", "/")),
        None => "main.rs".into(),
    };
    // The tests of a module are in its file, or in one of their own.
    let beside = file.replace("/tests.rs", ".rs");
    let files = places
        .iter()
        .flat_map(|place| [place.join(&file), place.join(&beside), place.clone()]);
    files
        .filter_map(|file| fs::read_to_string(file).ok())
        .any(|text| text.contains(&function))
}
