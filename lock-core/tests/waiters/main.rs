//! Many waiters of one process: what they cost the store, what they share, and what becomes of those that are
//! not polled.

mod modes;
mod patient;
mod permits;
mod shared;
mod slow;
mod support;
mod unpolled;
