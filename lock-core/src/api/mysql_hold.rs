//! The form of a held lock on MySQL and MariaDB.

/// The form of a held lock on a MySQL or MariaDB server.
///
/// It is part of the core so that a configuration can name it whether or not the backend is
/// compiled in.
///
/// ```
/// use lock_core::MySqlHold;
///
/// assert_eq!(MySqlHold::default(), MySqlHold::Lease);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MySqlHold {
    /// `"lease"`: a row that says who holds the key and until when, with short transactions, a ttl
    /// and all three modes. It needs no connection while it is held, and survives restarts, proxies
    /// and Galera.
    #[default]
    Lease,
    /// `"row"`: the row lock of a transaction that stays open, which any client's `SELECT … FOR
    /// UPDATE` on the row respects. The server frees it as soon as the connection dies, so there is
    /// no [lock delay](crate::LockRequest::lock_delay). Each held lock and each waited key needs a
    /// connection; there are no permits, and ttls start at 1 s.
    ///
    /// When the server restarts, ends the connection or is demoted (`read_only` and its like),
    /// another client may be granted the key before the guard is told, which takes half a second
    /// and at most one, whatever the ttl.
    ///
    /// Its tokens are the server's clock, and written down once an hour at most. Where the clock is
    /// set back by less than that, or a switchover leads to a server whose clock is behind, they go
    /// back by as much.
    ///
    /// On a server that runs with `--sysdate-is-now` a lease may get a fencing token below that of
    /// a row lock which was granted while the lease was being asked for: hold a key in one way only
    /// there.
    Row,
}
