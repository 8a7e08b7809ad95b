//! The hand-off queue: many waiters of one process in front of few claims on the store.

mod grants;
mod lock;
mod place;
mod queue;
mod queue_watch;
mod queues;
mod shared_grant;
mod slot;
mod waiting;

pub use lock::HandOff;
