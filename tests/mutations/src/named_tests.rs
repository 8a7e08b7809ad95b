//! Checks that the tests that the tables name exist.

use std::fs;
use std::path::{Path, PathBuf};

/// Fails if a test (package, target and path) does not exist in the workspace at `root`.
pub(crate) fn check(root: &Path, test: &str) -> Result<(), String> {
    let [package, target, path] = test.split(' ').collect::<Vec<_>>()[..] else {
        return Err(format!(
            "{test:?} is not a package, a test target and a path"
        ));
    };
    let exists = match target {
        "conformance" => {
            let case = match path.split("::").count() {
                3 => in_contract(root, package, path),
                _ => path,
            };
            lock_testkit::cases()
                .iter()
                .any(|known| known.to_string() == case)
        }
        _ => is_written(&places(root, package, target), path),
    };
    exists
        .then_some(())
        .ok_or_else(|| format!("there is no test {test}"))
}

/// Returns the case of a conformance test, which runs for several stores.
fn in_contract<'a>(root: &Path, package: &str, path: &'a str) -> &'a str {
    let (store, case) = path.split_once("::").unwrap_or_default();
    let listed = fs::read_to_string(root.join(package).join("tests/conformance/main.rs"));
    let is_listed = listed
        .unwrap_or_default()
        .split("contract!(")
        .skip(1)
        .any(|contract| {
            let name = contract.trim_start().strip_prefix(store);
            name.is_some_and(|rest| rest.starts_with(','))
        });
    if is_listed { case } else { path }
}

/// Returns the files and folders with the tests of a target.
fn places(root: &Path, package: &str, target: &str) -> Vec<PathBuf> {
    let package = root.join(if package == "polylock" { "." } else { package });
    let tests = package.join("tests");
    match target {
        "lib" => vec![package.join("src")],
        _ => vec![tests.join(target), tests.join(format!("{target}.rs"))],
    }
}

/// Returns true if a test's function is in the file of its module, in or below one of `places`.
fn is_written(places: &[PathBuf], path: &str) -> bool {
    let function = format!("fn {}(", path.rsplit("::").next().unwrap_or_default());
    let file = match path.rsplit_once("::") {
        Some((module, _)) => format!("{}.rs", module.replace("::", "/")),
        None => "main.rs".into(),
    };
    // A module has its unit tests in its own file, or in a file beside it.
    let beside = file.replace("/tests.rs", ".rs");
    let files = places
        .iter()
        .flat_map(|place| [place.join(&file), place.join(&beside), place.clone()]);
    files
        .filter_map(|file| fs::read_to_string(file).ok())
        .any(|text| text.contains(&function))
}
