//! Which connection it is, also when the server has started anew and numbers its connections anew.

use std::collections::HashSet;
use std::sync::Arc;

use lock_core::backend::{Clock, Moment};

use crate::schema::literals::hexadecimal;

/// The name that a server has for itself, so that the numbers of one are not taken for another's.
pub(crate) const SERVER: &str = "CONCAT_WS(':', @@hostname, @@port, @@server_id)";

/// Where the server sees a connection come from: the address and, but for local ones, the port.
pub(crate) const PEER: &str =
    "(SELECT HOST FROM information_schema.PROCESSLIST WHERE ID = CONNECTION_ID())";

/// A connection as its server knows it.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionId {
    number: u64,
    /// The server's name for itself.
    server: Arc<str>,
    /// Where the server sees it come from.
    peer: Arc<str>,
    opened: Moment,
}

impl ConnectionId {
    /// Makes the id of a connection that has just been opened.
    pub(crate) fn new(number: u64, server: &str, peer: &str) -> Self {
        Self {
            number,
            server: server.into(),
            peer: peer.into(),
            opened: Clock::Boot.now(),
        }
    }

    /// Answers which of these connections the server has: their numbers and where they come from,
    /// and 0 with what it says of itself.
    pub(crate) fn look_for<'a>(connections: impl Iterator<Item = &'a Self>) -> String {
        let numbers: Vec<String> = connections.map(|one| one.number.to_string()).collect();
        format!(
            "SELECT CAST(CONCAT_WS(' ', 0, {SERVER}) AS BINARY) UNION ALL SELECT CAST(CONCAT_WS(' ', ID, HOST) AS BINARY) FROM information_schema.PROCESSLIST WHERE ID IN ({})",
            numbers.join(", ")
        )
    }

    /// Returns true if this connection is among those `found`, as [`look_for`](Self::look_for)
    /// answers them.
    pub(crate) fn is_among(&self, found: &HashSet<Vec<u8>>) -> bool {
        let has = |number, text: &str| found.contains(format!("{number} {text}").as_bytes());
        has(0, &self.server) && has(self.number, &self.peer)
    }

    /// Answers what the connection is doing, in the server's words.
    pub(crate) fn state(&self) -> String {
        format!(
            "SELECT COALESCE(STATE, '') FROM information_schema.PROCESSLIST WHERE ID = {} AND CAST(HOST AS BINARY) = {}",
            self.number,
            hexadecimal(self.peer.as_bytes())
        )
    }

    /// Ends the connection, with what it waits for and its transaction. One that was there before
    /// the server started last is not there any more, and its number may be that of another one:
    /// none has the number 0.
    ///
    /// Whose number it is now is told by the port that it comes from. The age of the server alone
    /// does not tell, since it is counted in whole seconds by a clock that can be set; it does
    /// where there are no ports.
    pub(crate) fn kill(&self, on_mariadb: bool) -> String {
        let status = if on_mariadb {
            "information_schema"
        } else {
            "performance_schema"
        };
        // The server counts whole seconds.
        let age = Clock::Boot.now().since(self.opened).as_secs_f64() - 1.0;
        format!(
            "SET @uptime = (SELECT VARIABLE_VALUE FROM {status}.global_status WHERE VARIABLE_NAME = 'Uptime'), @peer = (SELECT HOST FROM information_schema.PROCESSLIST WHERE ID = {number});KILL IF(@uptime >= {age} AND CAST(@peer AS BINARY) = {peer} AND CAST({SERVER} AS BINARY) = {server}, {number}, 0)",
            number = self.number,
            peer = hexadecimal(self.peer.as_bytes()),
            server = hexadecimal(self.server.as_bytes()),
        )
    }
}
