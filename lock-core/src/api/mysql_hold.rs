//! The two kinds of lock on MySQL and MariaDB.

/// The kind of lock on a MySQL or MariaDB server.
///
/// It is part of the core so that a configuration can name it even if the backend is not compiled
/// in.
///
/// ```
/// use lock_core::MySqlHold;
///
/// assert_eq!(MySqlHold::default(), MySqlHold::Lease);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MySqlHold {
    /// `"lease"`: a row that stores the holder and its deadline, written by short transactions. It
    /// has a ttl and all three modes, needs no connection while it is held, and survives restarts,
    /// proxies and Galera.
    #[default]
    Lease,
    /// `"row"`: the row lock of an open transaction. Any client's `SELECT … FOR UPDATE` on the row
    /// respects it. The server frees it as soon as the connection dies, so [lock
    /// delays](crate::LockRequest::lock_delay) are not supported. Each held lock and each key with
    /// waiters needs a connection. Permits are not supported, and the minimum ttl is 1 s.
    ///
    /// If the server restarts, closes the connection or is demoted (such as by `read_only`),
    /// another client may get the key before this guard learns of it. The guard learns of it within
    /// one second, or within two if the connection dies silently, whatever the ttl.
    ///
    /// Tokens are the server's clock, persisted at most once an hour. If the clock is set back by
    /// less than that, or a switchover leads to a server whose clock is behind, tokens go back by
    /// as much.
    ///
    /// On a server with `--sysdate-is-now`, a lease may get a lower token than a row lock granted
    /// during its request. Use only one kind for each key there.
    Row,
}
