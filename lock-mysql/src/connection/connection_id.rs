//! The identity of a connection, also after a server restart that assigns its number again.

use std::collections::HashSet;
use std::sync::Arc;

use lock_core::backend::{Clock, Moment};

use crate::schema::literals::hexadecimal;

/// The server's name for itself, since different servers use the same connection numbers.
pub(crate) const SERVER: &str = "CONCAT_WS(':', @@hostname, @@port, @@server_id)";

/// The client's address as the server sees it, with the port unless the connection is local.
pub(crate) const PEER: &str =
    "(SELECT HOST FROM information_schema.PROCESSLIST WHERE ID = CONNECTION_ID())";

/// A connection as its server knows it.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionId {
    number: u64,
    /// The server's name for itself.
    server: Arc<str>,
    /// The client's address as the server sees it.
    peer: Arc<str>,
    opened: Moment,
}

impl ConnectionId {
    /// Creates the id of a connection that has just been opened.
    pub(crate) fn new(number: u64, server: &str, peer: &str) -> Self {
        Self {
            number,
            server: server.into(),
            peer: peer.into(),
            opened: Clock::Boot.now(),
        }
    }

    /// Selects which of these `connections` the server has: their numbers with the clients'
    /// addresses.
    ///
    /// The answer also has number 0, with the server's name.
    pub(crate) fn look_for<'a>(connections: impl Iterator<Item = &'a Self>) -> String {
        let numbers: Vec<String> = connections.map(|one| one.number.to_string()).collect();
        format!(
            "SELECT CAST(CONCAT_WS(' ', 0, {SERVER}) AS BINARY) UNION ALL SELECT CAST(CONCAT_WS(' ', ID, HOST) AS BINARY) FROM information_schema.PROCESSLIST WHERE ID IN ({})",
            numbers.join(", ")
        )
    }

    /// Returns true if `found`, an answer to [`look_for`](Self::look_for), has this connection.
    pub(crate) fn is_among(&self, found: &HashSet<Vec<u8>>) -> bool {
        let has = |number, text: &str| found.contains(format!("{number} {text}").as_bytes());
        has(0, &self.server) && has(self.number, &self.peer)
    }

    /// Selects the state of the connection, as the server describes it.
    pub(crate) fn state(&self) -> String {
        format!(
            "SELECT COALESCE(STATE, '') FROM information_schema.PROCESSLIST WHERE ID = {} AND CAST(HOST AS BINARY) = {}",
            self.number,
            hexadecimal(self.peer.as_bytes())
        )
    }

    /// Ends the connection on the server, with its wait and its transaction.
    ///
    /// After a restart of the server, the number may belong to another connection. The statement
    /// then kills number 0, which no connection has.
    ///
    /// The client's address with its port identifies the connection. The uptime alone does not: the
    /// server counts whole seconds by a clock that can be set. The uptime decides for local
    /// connections, which have no port.
    pub(crate) fn kill(&self, on_mariadb: bool) -> String {
        let status = if on_mariadb {
            "information_schema"
        } else {
            "performance_schema"
        };
        // The server counts its uptime in whole seconds.
        let age = Clock::Boot.now().since(self.opened).as_secs_f64() - 1.0;
        format!(
            "SET @uptime = (SELECT VARIABLE_VALUE FROM {status}.global_status WHERE VARIABLE_NAME = 'Uptime'), @peer = (SELECT HOST FROM information_schema.PROCESSLIST WHERE ID = {number});KILL IF(@uptime >= {age} AND CAST(@peer AS BINARY) = {peer} AND CAST({SERVER} AS BINARY) = {server}, {number}, 0)",
            number = self.number,
            peer = hexadecimal(self.peer.as_bytes()),
            server = hexadecimal(self.server.as_bytes()),
        )
    }
}
