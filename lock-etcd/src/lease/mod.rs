//! The leases that claims are attached to.

pub(crate) mod grant;
pub(crate) mod keep_alive;
pub(crate) mod maintain;
pub(crate) mod migrate;
pub(crate) mod pool;
pub(crate) mod revoke;
pub(crate) mod shared_lease;
