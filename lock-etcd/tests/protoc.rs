//! The check of the build script for `protoc`.

#[allow(dead_code, reason = "its main runs in the build")]
#[path = "../build.rs"]
mod build;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

fn check(protoc: &OsStr) -> Result<(), String> {
    build::check(protoc, None, Path::new(env!("CARGO_TARGET_TMPDIR")))
}

#[test]
fn a_missing_protoc_is_told_with_what_to_install() {
    assert_eq!(check("protoc".as_ref()), Ok(()));
    let told = check("/no/such/protoc".as_ref()).unwrap_err();
    for part in ["/no/such/protoc cannot be run", "apt-get install", "PROTOC"] {
        assert!(told.contains(part), "{told}");
    }
}

#[test]
fn a_protoc_without_its_includes_is_told_with_what_to_install() {
    let protoc = Path::new(env!("CARGO_TARGET_TMPDIR")).join("protoc-without-includes");
    let script =
        "#!/bin/sh\necho 'google/protobuf/descriptor.proto: File not found.' >&2\nexit 1\n";
    fs::write(&protoc, script).unwrap();
    fs::set_permissions(&protoc, fs::Permissions::from_mode(0o755)).unwrap();
    let told = check(protoc.as_os_str()).unwrap_err();
    for part in ["descriptor.proto: File not found.", "libprotobuf-dev"] {
        assert!(told.contains(part), "{told}");
    }
}
