//! The connection between an instance and the headquarters in another process.
//!
//! It carries lines of JSON over the loopback interface, many calls at a time.

mod connection;
mod server;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::stage::problem::Problem;

pub(crate) use connection::Connection;
pub(crate) use server::Server;

/// A call or its reply. The common number matches them, so that a slow call does not delay the
/// others.
#[derive(Debug, Serialize, Deserialize)]
struct Numbered<T> {
    number: u64,
    content: T,
}

impl<T: Serialize> Numbered<T> {
    fn to_line(&self) -> Result<String, Problem> {
        let mut line = serde_json::to_string(self)?;
        line.push('\n');
        Ok(line)
    }
}

impl<T: DeserializeOwned> Numbered<T> {
    fn from_line(line: &str) -> Result<Self, Problem> {
        Ok(serde_json::from_str(line)?)
    }
}
