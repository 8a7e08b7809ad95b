//! The programs of the examples, which cargo builds next to the tests.

use std::path::PathBuf;
use std::process::{Command, Output};

fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a running program has a path");
    let profile = test.ancestors().nth(2).expect("tests lie in deps/");
    let file = format!("{name}{}", std::env::consts::EXE_SUFFIX);
    let program = profile.join("examples").join(file);
    assert!(
        program.exists(),
        "{} is not built: run `cargo test` without --test, or `cargo build --example {name}` first",
        program.display()
    );
    program
}

/// Runs an example to its end.
pub(crate) fn run(name: &str, arguments: &[&str]) -> Output {
    Command::new(program(name))
        .args(arguments)
        .output()
        .expect("the example starts")
}

/// Asserts that wrong arguments are rejected with status 2 and a message.
pub(crate) fn assert_refuses(name: &str, arguments: &[&str]) {
    let output = run(name, arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.starts_with("error:"), "{message}");
    assert!(output.stdout.is_empty());
}

/// Asserts that an unreachable store is an error with status 1.
pub(crate) fn assert_misses_its_store(name: &str) {
    for url in ["carrier-pigeon://home", "redis://127.0.0.1:1"] {
        let output = run(name, &["--lock", url]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(message.starts_with(&format!("{name}: ")), "{message}");
        assert!(output.stdout.is_empty());
    }
}
