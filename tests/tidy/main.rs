//! The rules of the style guide that a program can check.

mod circles;

use std::fs;
use std::path::{Path, PathBuf};

use circles::Imports;

/// Maximum lines of code in a file, without comments and blank lines.
const FILE_LINES_MAX: usize = 300;

/// Maximum lines of a function, from its name to its closing brace.
const FUNCTION_LINES_MAX: usize = 70;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns every Rust file of the workspace with its text; paths are relative to the root.
fn rust_files() -> Vec<(PathBuf, String)> {
    let mut files = Vec::new();
    let mut directories = vec![root().to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).expect("a directory of the workspace") {
            let path = entry.expect("an entry of it").path();
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            if path.is_dir() && name != "target" && !name.starts_with('.') {
                directories.push(path);
            } else if name.ends_with(".rs") {
                let text = fs::read_to_string(&path).expect("a source file");
                files.push((path.strip_prefix(root()).unwrap_or(&path).to_owned(), text));
            }
        }
    }
    assert!(files.len() > 30, "the walk misses the sources");
    files
}

fn is_code(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && !line.starts_with("//")
}

/// Returns the complaints of `is_bad` about all files.
fn offenders(is_bad: impl Fn(&Path, &str) -> Vec<String>) -> Vec<String> {
    let check = |(path, text): (PathBuf, String)| {
        let complaints = is_bad(&path, &text);
        complaints
            .into_iter()
            .map(move |complaint| format!("{}: {complaint}", path.display()))
    };
    rust_files().into_iter().flat_map(check).collect()
}

fn assert_none(rule: &str, offenders: &[String]) {
    assert!(offenders.is_empty(), "{rule}:\n{}", offenders.join("\n"));
}

#[test]
fn files_are_small() {
    let large = offenders(|_, text| {
        let lines = text.lines().filter(|line| is_code(line)).count();
        (lines > FILE_LINES_MAX)
            .then(|| format!("{lines} lines of code"))
            .into_iter()
            .collect()
    });
    assert_none("one idea a file", &large);
}

#[test]
fn functions_are_short() {
    let long = offenders(|_, text| {
        let lines: Vec<&str> = text.lines().collect();
        let mut long = Vec::new();
        for (start, line) in lines.iter().enumerate() {
            let indent = line.len() - line.trim_start().len();
            let code = line
                .trim_start()
                .trim_start_matches("pub ")
                .trim_start_matches("pub(crate) ");
            if !code.trim_start_matches("async ").starts_with("fn ") {
                continue;
            }
            // A method of a trait may have no body.
            let signature_ends = |line: &&&str| line.ends_with(['{', ';']);
            if lines[start..]
                .iter()
                .find(signature_ends)
                .is_some_and(|line| line.ends_with(';'))
            {
                continue;
            }
            let closing = format!("{}}}", " ".repeat(indent));
            let length = lines[start..]
                .iter()
                .position(|line| *line == closing)
                .unwrap_or(0);
            if length > FUNCTION_LINES_MAX {
                long.push(format!("line {}: {length} lines", start + 1));
            }
        }
        long
    });
    assert_none("functions stay on one screen", &long);
}

#[test]
fn nothing_is_ignored_or_left_unfinished() {
    let marks = [
        "#[ignore",
        "todo!(",
        "unimplemented!(",
        "dbg!(",
        "FIXME",
        "XXX",
    ];
    let unfinished = offenders(|path, text| {
        if path.ends_with("tests/tidy/main.rs") {
            return Vec::new();
        }
        let code = |line: &&str| is_code(line);
        let hits = text
            .lines()
            .filter(code)
            .filter(|line| marks.iter().any(|mark| line.contains(mark)));
        hits.map(str::to_owned).collect()
    });
    assert_none("finish it, or leave it out", &unfinished);
}

/// The names by which a program reads the clock that can be set.
const WALL_CLOCKS: &[&str] = &[
    "SystemTime::now",
    "UNIX_EPOCH.elapsed",
    "Realtime",
    "Utc::now",
    "Local::now",
];

/// The files that read the wall clock: schedules are planned by it, the description of a holder has
/// it, and a test is told that the clock of a child was set.
const WALL_CLOCK_READERS: [&str; 3] = [
    "lock-core/src/api/once.rs",
    "lock-core/src/inspect/this_process.rs",
    "lock-testkit/src/processes/tell.rs",
];

#[test]
fn locks_never_look_at_the_wall_clock() {
    let lookers = offenders(|path, text| {
        let library = path.components().any(|part| part.as_os_str() == "src")
            && !path.starts_with("examples")
            && !WALL_CLOCK_READERS
                .iter()
                .any(|reader| path == Path::new(reader));
        let hits = text
            .lines()
            .filter(|line| is_code(line) && WALL_CLOCKS.iter().any(|name| line.contains(name)));
        hits.filter(|_| library).map(str::to_owned).collect()
    });
    assert_none(
        "time is read in lock-core/src/clock.rs, and never from the wall clock",
        &lookers,
    );
}

#[test]
fn backends_depend_on_core_and_core_on_no_backend() {
    let backends = ["lock-redis", "lock-mysql", "lock-etcd", "lock-zookeeper"];
    for package in backends.iter().chain(&["lock-core", "lock-testkit"]) {
        let Ok(manifest) = fs::read_to_string(root().join(package).join("Cargo.toml")) else {
            continue;
        };
        for line in manifest.lines() {
            let dependency = line.split(['.', ' ', '=']).next().unwrap_or_default();
            assert!(
                dependency == *package || !backends.contains(&dependency),
                "{package} depends on {dependency}"
            );
        }
    }
}

/// The backends use the same name for the same content.
#[test]
fn backends_have_the_same_files() {
    for backend in ["lock-redis", "lock-mysql", "lock-etcd", "lock-zookeeper"] {
        let sources = root().join(backend).join("src");
        if !sources.exists() {
            continue;
        }
        for file in [
            "lib.rs",
            "config.rs",
            "lock.rs",
            "acquire.rs",
            "lease_store.rs",
            "client.rs",
            "error.rs",
        ] {
            assert!(sources.join(file).exists(), "{backend} has no {file}");
        }
    }
}

/// Maximum source files in one folder of core and backends, and of the other crates.
const FOLDER_FILES_MAX: usize = 15;
const FOLDER_FILES_MAX_ELSEWHERE: usize = 20;

const CORE_AND_BACKENDS: [&str; 5] = [
    "lock-core",
    "lock-redis",
    "lock-mysql",
    "lock-etcd",
    "lock-zookeeper",
];

#[test]
fn folders_are_small() {
    let mut folders = std::collections::BTreeMap::<PathBuf, usize>::new();
    for (path, _) in rust_files() {
        *folders
            .entry(path.parent().unwrap_or(Path::new("")).to_owned())
            .or_default() += 1;
    }
    let is_large = |(folder, files): (PathBuf, usize)| {
        let of_a_backend = |package: &&str| folder.starts_with(Path::new(package).join("src"));
        let max = match CORE_AND_BACKENDS.iter().any(of_a_backend) {
            true => FOLDER_FILES_MAX,
            false => FOLDER_FILES_MAX_ELSEWHERE,
        };
        (files > max).then(|| format!("{}: {files} files", folder.display()))
    };
    let large: Vec<String> = folders.into_iter().filter_map(is_large).collect();
    assert_none("a folder is one room", &large);
}

/// A type and a type that it contains, each with methods that take the other.
const CIRCLES_ALLOWED: [&[&str]; 1] = [&["api::error", "api::key"]];

#[test]
fn files_need_each_other_in_no_circle() {
    let files = rust_files();
    for package in CORE_AND_BACKENDS {
        let imports = Imports::of(package, &files);
        let circles = imports.circles();
        let faults: Vec<_> = circles
            .iter()
            .filter(|circle| !CIRCLES_ALLOWED.contains(&circle.as_slice()))
            .collect();
        assert!(
            faults.is_empty(),
            "circles of files in {package}: {faults:#?}"
        );
    }
}
