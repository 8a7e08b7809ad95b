//! Builds test programs and runs single tests.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The outcome of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    Passed,
    Failed,
    /// The test ran for longer than the limit.
    Hung,
    /// The whole program ended, as after a panic in a drop.
    Aborted,
    /// The test does not exist.
    Absent,
    /// The test does not compile.
    Broken,
    /// There was no time left for the test.
    Unfinished,
}

/// Runs tests of the workspace at `tree`.
#[derive(Debug)]
pub(crate) struct Runner {
    pub(crate) tree: PathBuf,
    pub(crate) target: PathBuf,
    /// Time after which tests count as hung.
    pub(crate) limit: Duration,
    /// Time at which all runs have to end.
    pub(crate) deadline: Option<Instant>,
}

/// The outcomes of tests.
#[derive(Debug, Default)]
pub(crate) struct Results {
    pub(crate) outcomes: BTreeMap<String, Outcome>,
    /// The output of the programs.
    pub(crate) log: String,
}

impl Runner {
    /// Runs tests (package, target and path), with `limit` for all tests of a program together.
    pub(crate) fn run(&self, tests: &[&str], limit: Duration) -> Results {
        let mut programs: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
        for test in tests {
            if let [package, target, path] = test.split(' ').collect::<Vec<_>>()[..] {
                programs.entry((package, target)).or_default().push(path);
            }
        }
        let mut results = Results::default();
        for ((package, target), paths) in programs {
            let (outcomes, log) = self.run_program(package, target, &paths, limit);
            let named = outcomes
                .into_iter()
                .map(|(path, outcome)| (format!("{package} {target} {path}"), outcome));
            results.outcomes.extend(named);
            results.log.push_str(&log);
        }
        results
    }

    /// Builds the programs of tests. Ignores compile errors, which `run` reports.
    pub(crate) fn build_all(&self, tests: &[&str]) {
        for test in tests {
            if let [package, target, _] = test.split(' ').collect::<Vec<_>>()[..] {
                let _program = self.build(package, target);
            }
        }
    }

    fn run_program<'a>(
        &self,
        package: &str,
        target: &str,
        paths: &[&'a str],
        limit: Duration,
    ) -> (Vec<(&'a str, Outcome)>, String) {
        let all = |outcome| paths.iter().map(|path| (*path, outcome)).collect();
        let program = match self.build(package, target) {
            Ok(program) => program,
            Err(log) if self.is_late() => return (all(Outcome::Unfinished), log),
            Err(log) => return (all(Outcome::Broken), log),
        };
        let directory = self
            .tree
            .join(if package == "polylock" { "." } else { package });
        let mut command = Command::new(program);
        command.arg("--exact").args(paths).current_dir(directory);
        let ran = self.run_within(limit, &command);
        let log = match ran {
            Ok(ref output) => printed(output),
            Err(error) => return (all(Outcome::Broken), error),
        };
        let is_cut = ran.is_ok_and(|output| matches!(output.status.code(), Some(124 | 137)));
        let outcomes = paths.iter().map(|path| {
            let outcome = match said_of(path, &log) {
                Some(outcome) => outcome,
                None if is_cut && self.is_late() => Outcome::Unfinished,
                None if is_cut => Outcome::Hung,
                None if log.contains("running 0 tests") => Outcome::Absent,
                None => Outcome::Aborted,
            };
            (*path, outcome)
        });
        (outcomes.collect(), log)
    }

    /// Returns the program of a test target, or the compiler's errors.
    fn build(&self, package: &str, target: &str) -> Result<PathBuf, String> {
        let mut cargo = Command::new("cargo");
        cargo.args([
            "test",
            "--quiet",
            "--all-features",
            "--no-run",
            "--message-format=json-render-diagnostics",
        ]);
        cargo
            .args(["--package", package])
            .current_dir(&self.tree)
            // Each mutation changes a few lines of a crate that was just compiled.
            .env("CARGO_INCREMENTAL", "1")
            .env("CARGO_TARGET_DIR", &self.target);
        match target {
            "lib" => cargo.arg("--lib"),
            target => cargo.args(["--test", target]),
        };
        let output = self.run_within(Duration::from_secs(3_600), &cargo)?;
        let messages = String::from_utf8_lossy(&output.stdout);
        let program = messages.lines().rev().find_map(executable);
        program
            .filter(|_| output.status.success())
            .ok_or_else(|| String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// Runs a command, and ends it and its children at the limit or the deadline.
    fn run_within(&self, limit: Duration, command: &Command) -> Result<Output, String> {
        let left = self
            .deadline
            .map(|deadline| deadline.saturating_duration_since(now()));
        let seconds = left.unwrap_or(limit).min(limit).as_secs_f64();
        if seconds < 1.0 {
            return Err("no time is left".into());
        }
        let mut bounded = Command::new("timeout");
        bounded.arg("--kill-after=5").arg(format!("{seconds:.1}"));
        bounded
            .arg(command.get_program())
            .args(command.get_args())
            .stdin(Stdio::null());
        if let Some(directory) = command.get_current_dir() {
            bounded.current_dir(directory);
        }
        for (name, value) in command.get_envs() {
            value.map(|value| bounded.env(name, value));
        }
        bounded
            .output()
            .map_err(|error| format!("timeout {}: {error}", command.get_program().display()))
    }

    fn is_late(&self) -> bool {
        self.deadline
            .is_some_and(|deadline| now() + Duration::from_secs(1) >= deadline)
    }
}

/// Returns the program that a message of cargo names.
fn executable(message: &str) -> Option<PathBuf> {
    let message: serde_json::Value = serde_json::from_str(message).ok()?;
    message
        .get("executable")?
        .as_str()
        .map(|path| Path::new(path).to_owned())
}

/// Returns the outcome of a test from the output of its program.
fn said_of(path: &str, log: &str) -> Option<Outcome> {
    let said = log
        .lines()
        .find_map(|line| line.strip_prefix(&format!("test {path} ... ")))?;
    match said.split_whitespace().next()? {
        "ok" => Some(Outcome::Passed),
        "FAILED" => Some(Outcome::Failed),
        _ => None,
    }
}

fn printed(output: &Output) -> String {
    let [out, error] =
        [&output.stdout, &output.stderr].map(|printed| String::from_utf8_lossy(printed));
    format!("{out}{error}")
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Hung => "hung",
            Self::Aborted => "aborted",
            Self::Absent => "is absent",
            Self::Broken => "does not compile",
            Self::Unfinished => "had no time left",
        })
    }
}

/// Returns the current time, which no test controls.
#[expect(
    clippy::disallowed_methods,
    reason = "nothing here runs with paused time"
)]
pub(crate) fn now() -> Instant {
    Instant::now()
}
