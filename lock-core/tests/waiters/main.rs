//! Many waiters of one process: their load on the store, shared grants, and waiters that are not
//! polled.

mod modes;
mod patient;
mod permits;
mod shared;
mod slow;
mod support;
mod unpolled;
