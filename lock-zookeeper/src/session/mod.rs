//! Sessions with the ensemble, and the requests in them.

pub(crate) mod batch;
pub(crate) mod confirmed;
pub(crate) mod connection;
pub(crate) mod lock_node;
pub(crate) mod looks;
pub(crate) mod loss_watch;
pub(crate) mod node;
pub(crate) mod pool;
pub(crate) mod reattach;
pub(crate) mod remembered;
pub(crate) mod requests;
pub(crate) mod shared_look;
pub(crate) mod shared_watches;
pub(crate) mod ttl_class;
