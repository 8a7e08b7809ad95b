//! A copy of the workspace that may be broken.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::sources::git;

/// The copy. It is kept, so that the next run compiles changed files only.
#[derive(Debug)]
pub(crate) struct Copy {
    pub(crate) tree: PathBuf,
}

impl Copy {
    /// Makes the copy in `tree` equal to the workspace at `root`.
    ///
    /// It does not write equal files. Why: cargo rebuilds a crate when the time of a file changes.
    pub(crate) fn of(root: &Path, tree: PathBuf) -> Result<Self, String> {
        let listing = ["ls-files", "--cached", "--others", "--exclude-standard"].map(String::from);
        let listed = git(root, listing)?;
        let wanted: BTreeSet<PathBuf> = listed
            .lines()
            .map(PathBuf::from)
            .filter(|file| root.join(file).is_file())
            .collect();
        let copy = Self { tree };
        copy.update(root, &wanted)
            .map_err(|error| format!("{}: {error}", copy.tree.display()))?;
        Ok(copy)
    }

    fn update(&self, root: &Path, wanted: &BTreeSet<PathBuf>) -> io::Result<()> {
        fs::create_dir_all(&self.tree)?;
        let mut there = BTreeSet::new();
        walk(&self.tree, &mut there)?;
        for file in &there {
            let file = file.strip_prefix(&self.tree).unwrap_or(file);
            if !wanted.contains(file) {
                fs::remove_file(self.tree.join(file))?;
            }
        }
        for file in wanted {
            let (from, to) = (root.join(file), self.tree.join(file));
            let mut text = fs::read(&from)?;
            if file == Path::new("Cargo.toml") {
                text = with_another_version(&text);
            }
            if fs::read(&to).ok().as_ref() != Some(&text) {
                if let Some(directory) = to.parent() {
                    fs::create_dir_all(directory)?;
                }
                // Copy the permissions, but give the file a new time.
                fs::copy(&from, &to)?;
                fs::write(&to, &text)?;
            }
        }
        Ok(())
    }

    /// Writes files of the copy.
    pub(crate) fn write(&self, files: &BTreeMap<String, String>) -> Result<(), String> {
        files.iter().try_for_each(|(file, text)| {
            fs::write(self.tree.join(file), text).map_err(|error| format!("{file}: {error}"))
        })
    }
}

/// Returns the manifest of the workspace with another version of its packages.
///
/// Invariant: cargo never uses a build of broken sources for the workspace. Why: both share the
/// target directory for their dependencies, and cargo tells packages apart by path and version.
fn with_another_version(manifest: &[u8]) -> Vec<u8> {
    let manifest = String::from_utf8_lossy(manifest);
    let lines = manifest.lines().map(|line| {
        let version = line
            .strip_prefix("version = \"")
            .and_then(|rest| rest.strip_suffix('"'));
        version.map_or_else(
            || line.to_owned(),
            |version| format!("version = \"{version}+broken\""),
        )
    });
    (lines.collect::<Vec<_>>().join("\n") + "\n").into_bytes()
}

fn walk(directory: &Path, files: &mut BTreeSet<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            walk(&path, files)?;
        } else {
            files.insert(path);
        }
    }
    Ok(())
}
