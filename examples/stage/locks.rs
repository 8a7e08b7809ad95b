//! The lock store that the command line names.

use std::path::{Path, PathBuf};

use clap::Args;
use polylock::Config;
use serde::{Deserialize, Serialize};

use super::problem::Problem;

/// A lock store, named by its URL or by a configuration file.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
pub(crate) struct LockStore {
    /// The store behind polylock, such as redis://127.0.0.1:6379
    #[arg(long = "lock", value_name = "URL", default_value = "memory://")]
    url: String,

    /// A TOML file with the configuration of polylock, instead of --lock
    #[arg(long, value_name = "FILE", conflicts_with = "url")]
    config: Option<PathBuf>,
}

impl LockStore {
    /// Returns the configuration for polylock.
    pub(crate) fn configuration(&self) -> Result<Config, Problem> {
        match &self.config {
            Some(file) => {
                read(file).map_err(|problem| format!("{}: {problem}", file.display()).into())
            }
            None => Ok(Config::new(self.url.clone())),
        }
    }

    /// Returns true if several processes can share the store.
    pub(crate) fn is_shared_by_processes(&self) -> Result<bool, Problem> {
        let config = self.configuration()?;
        let is_memory = |one: &Config| scheme(&one.url) == "memory";
        Ok(!is_memory(&config) && !config.locks.values().any(is_memory))
    }
}

fn read(file: &Path) -> Result<Config, Problem> {
    Ok(toml::from_str(&std::fs::read_to_string(file)?)?)
}

/// Returns the scheme of a lock URL, which names the kind of store.
pub(crate) fn scheme(url: &str) -> String {
    url.split("://")
        .next()
        .unwrap_or_default()
        .to_ascii_lowercase()
}
