//! The files that mutations may change.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::process::Command;

use crate::lexer::Language;

/// The texts of source files, by their paths from the root.
#[derive(Debug, Default)]
pub(crate) struct Sources(BTreeMap<String, String>);

impl Sources {
    #[cfg(test)]
    pub(crate) fn new<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let files = files
            .into_iter()
            .map(|(path, text)| (path.to_owned(), text.to_owned()));
        Self(files.collect())
    }

    /// Reads the sources of `packages` in the workspace at `root`.
    pub(crate) fn read(root: &Path, packages: &[&str]) -> Result<Self, String> {
        let mut sources = Self::default();
        for package in packages {
            sources.walk(root, &root.join(package).join("src"))?;
        }
        Ok(sources)
    }

    fn walk(&mut self, root: &Path, directory: &Path) -> Result<(), String> {
        let told = |error| format!("{}: {error}", directory.display());
        for entry in fs::read_dir(directory).map_err(told)? {
            let path = entry.map_err(told)?.path();
            let name = path
                .strip_prefix(root)
                .unwrap_or(&path)
                .to_string_lossy()
                .into_owned();
            if path.is_dir() {
                self.walk(root, &path)?;
            } else if Language::of(&name).is_some() {
                let text = fs::read_to_string(&path).map_err(|error| format!("{name}: {error}"))?;
                self.0.insert(name, text);
            }
        }
        Ok(())
    }

    /// Reads the sources of `packages` as they were at a revision.
    pub(crate) fn at(root: &Path, revision: &str, packages: &[&str]) -> Result<Self, String> {
        let mut sources = Self::default();
        let paths = packages.iter().map(|package| format!("{package}/src"));
        let listed = git(
            root,
            ["ls-tree", "-r", "--name-only", revision, "--"]
                .map(String::from)
                .into_iter()
                .chain(paths),
        )?;
        for path in listed.lines().filter(|path| Language::of(path).is_some()) {
            let text = git(root, ["show".to_owned(), format!("{revision}:{path}")])?;
            sources.0.insert(path.to_owned(), text);
        }
        Ok(sources)
    }

    /// Returns the texts of `changed` before the changes.
    pub(crate) fn originals(&self, changed: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let same = self
            .0
            .iter()
            .filter(|(file, _)| changed.contains_key(*file));
        same.map(|(file, text)| (file.clone(), text.clone()))
            .collect()
    }

    /// Returns the files of a crate.
    pub(crate) fn of(&self, package: &str) -> impl Iterator<Item = (&str, &str)> {
        let start = format!("{package}/src/");
        let files = self
            .0
            .iter()
            .filter(move |(path, _)| path.starts_with(&start));
        files.map(|(path, text)| (&**path, &**text))
    }

    /// Returns a hash of all sources and of `salt`.
    pub(crate) fn hash(&self, salt: &str) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.0, salt).hash(&mut hasher);
        hasher.finish()
    }
}

/// Returns the output of a git command.
pub(crate) fn git(
    root: &Path,
    arguments: impl IntoIterator<Item = String>,
) -> Result<String, String> {
    let arguments: Vec<String> = arguments.into_iter().collect();
    let done = Command::new("git")
        .current_dir(root)
        .args(&arguments)
        .output();
    let done = done.map_err(|error| format!("git: {error}"))?;
    if !done.status.success() {
        let told = String::from_utf8_lossy(&done.stderr);
        return Err(format!("git {}: {}", arguments.join(" "), told.trim()));
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}
