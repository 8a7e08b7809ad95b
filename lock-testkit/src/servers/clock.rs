//! A wall clock of a server, which a test can set.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use super::ground;

const SOURCE: &str = include_str!("clock.c");

/// The difference between the wall clock of a server and the clock of the machine.
#[derive(Debug)]
pub(super) struct Clock {
    file: PathBuf,
}

impl Clock {
    /// Creates a clock for the server in `directory`, without a difference at first.
    pub(super) fn new(directory: &Path) -> Self {
        let file = directory.join("clock");
        std::fs::write(&file, 0_i64.to_ne_bytes()).expect("the server's directory is ours");
        Self { file }
    }

    pub(super) fn environment(&self) -> [(&'static str, PathBuf); 2] {
        [
            ("LD_PRELOAD", library().to_owned()),
            ("LOCK_TESTKIT_CLOCK", self.file.clone()),
        ]
    }

    pub(super) fn set_ahead(&self, by: Duration) {
        self.set(nanoseconds(by));
    }

    pub(super) fn set_back(&self, by: Duration) {
        self.set(-nanoseconds(by));
    }

    fn set(&self, ahead: i64) {
        // Write in place, since the server has the file mapped.
        OpenOptions::new()
            .write(true)
            .open(&self.file)
            .and_then(|mut file| file.write_all(&ahead.to_ne_bytes()))
            .expect("the server's directory is ours");
    }
}

fn nanoseconds(duration: Duration) -> i64 {
    duration.as_nanos().try_into().expect("less than 292 years")
}

/// Returns the preloaded library, which is compiled once per process.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();

    LIBRARY.get_or_init(|| {
        let directory = ground::directory("clock").keep();
        let (source, library) = (directory.join("clock.c"), directory.join("clock.so"));
        std::fs::write(&source, SOURCE).expect("the directory is ours");
        let compiled = Command::new("cc")
            .args(["-O2", "-shared", "-fPIC", "-pthread", "-o"])
            .args([&library, &source])
            .output()
            .expect("cc is on the path, since Rust links with it");
        assert!(
            compiled.status.success(),
            "cc: {}",
            String::from_utf8_lossy(&compiled.stderr)
        );
        library
    })
}
