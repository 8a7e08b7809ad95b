//! Checks for `protoc` before the driver's build fails without it.
//!
//! This script needs no other crate, so cargo runs it while it still compiles what the driver's
//! build script needs. On a machine with two cores the driver's build script may come first, since
//! cargo prefers crates with many dependents.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;

const ADVICE: &str = "install it (Debian, Ubuntu: apt-get install protobuf-compiler libprotobuf-dev; \
     macOS: brew install protobuf; Alpine: apk add protoc protobuf-dev), or set PROTOC to its path";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=PROTOC");
    println!("cargo::rerun-if-env-changed=PROTOC_INCLUDE");
    let protoc = std::env::var_os("PROTOC").unwrap_or_else(|| "protoc".into());
    let include = std::env::var_os("PROTOC_INCLUDE");
    let directory = std::env::var_os("OUT_DIR").expect("cargo sets it");
    if let Err(problem) = check(&protoc, include.as_deref(), Path::new(&directory)) {
        println!("cargo::error={problem}");
    }
}

/// Compiles a file that imports what the driver's files import.
pub(crate) fn check(
    protoc: &OsStr,
    include: Option<&OsStr>,
    directory: &Path,
) -> Result<(), String> {
    const FILE: &str =
        "syntax = \"proto3\";\nimport \"google/protobuf/descriptor.proto\";\nmessage M {}\n";
    let name = protoc.display();
    let file = directory.join("probe.proto");
    fs::write(&file, FILE).map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    let mut command = Command::new(protoc);
    command.arg("--proto_path").arg(directory);
    if let Some(include) = include {
        command.arg("--proto_path").arg(include);
    }
    let descriptor = directory.join("probe.bin");
    let command = command.arg("--descriptor_set_out").arg(&descriptor);
    let output = command.arg(&file).output().map_err(|error| {
        format!(
            "the etcd driver is built with protoc, and {name} cannot be run ({error}): {ADVICE}"
        )
    })?;
    if output.status.success() {
        return Ok(());
    }
    let told = String::from_utf8_lossy(&output.stderr);
    let told = told.lines().next().unwrap_or("no text");
    Err(format!(
        "{name} does not compile what the etcd driver needs ({told}): {ADVICE}"
    ))
}
