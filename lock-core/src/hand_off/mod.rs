//! Few claims on the store, and many waiters of the same process in front of it.

mod grants;
mod lock;
mod place;
mod queue;
mod queue_watch;
mod queues;
mod shared;
mod slot;
mod waiting;

pub use lock::HandOff;
