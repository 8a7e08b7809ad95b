//! Locks on the server of what the driver has.

mod from_pool;
