//! Data directories: the first takes seconds to create, and is copied for each server.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use super::super::ground;
use super::vendor::{Installation, SqlVendor};

/// Creates the data directory `data` with nothing but an empty database `locks`.
pub(super) fn copy_to(data: &Path, vendor: SqlVendor, installation: &Installation) {
    let template = template(vendor, installation);
    fs::create_dir(data).expect("the server's directory is ours");
    tar(Command::new("tar")
        .arg("-xf")
        .arg(template)
        .arg("-C")
        .arg(data));
}

/// Returns the template, which is created now if it does not exist.
///
/// It is one file, so it is either complete or absent. Other processes may create the same file, or
/// clear the temporary directory.
fn template(vendor: SqlVendor, installation: &Installation) -> PathBuf {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut kind = DefaultHasher::new();
    (
        &installation.version,
        vendor.usual_arguments(),
        vendor.first_statements(),
    )
        .hash(&mut kind);
    let template = ground::shared().join(format!("{}-{:016x}.tar", vendor.name(), kind.finish()));
    if !template.exists() {
        make(&template, vendor, installation);
    }
    template
}

fn make(template: &Path, vendor: SqlVendor, installation: &Installation) {
    let work = ground::directory("template");
    let [data, first, packed] = ["data", "first.sql", "packed"].map(|name| work.path().join(name));
    fs::write(&first, vendor.first_statements()).expect("the directory is ours");
    let mut command = vendor.initialize(installation, &data, &first);
    command.arg(format!("--tmpdir={}", work.path().display()));
    let output = command.output().expect("it was found before");
    assert!(
        output.status.success(),
        "{command:?} fails:\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    // Without the file `auto.cnf`, every server creates an identity of its own.
    tar(Command::new("tar")
        .args(["--exclude=auto.cnf", "-cSf"])
        .arg(&packed)
        .arg("-C")
        .arg(&data)
        .arg("."));
    fs::rename(&packed, template).expect("both are below the temporary directory");
}

fn tar(command: &mut Command) {
    let output = command.output().expect("tar is on the path");
    assert!(
        output.status.success(),
        "{command:?} fails: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}
