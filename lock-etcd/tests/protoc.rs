//! The check of the build script for `protoc`.

#[expect(dead_code, reason = "its main runs in the build")]
#[path = "../build.rs"]
mod build;

use std::ffi::OsStr;
use std::path::Path;

fn check(protoc: &OsStr) -> Result<(), String> {
    let include = std::env::var_os("PROTOC_INCLUDE");
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    build::check(protoc, include.as_deref(), directory)
}

#[test]
fn what_is_missing_is_told_with_what_to_install() {
    let protoc = std::env::var_os("PROTOC").unwrap_or_else(|| "protoc".into());
    assert_eq!(check(&protoc), Ok(()));
    let cases = [
        ("/no/such/protoc", "/no/such/protoc cannot be run"),
        // A program that fails as protoc does without its includes.
        ("false", "false does not compile what the etcd driver needs"),
    ];
    for (protoc, problem) in cases {
        let told = check(protoc.as_ref()).unwrap_err();
        for part in [problem, "apt-get install", "libprotobuf-dev", "PROTOC"] {
            assert!(told.contains(part), "{told}");
        }
    }
}
