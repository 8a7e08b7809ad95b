//! Several keys under one guard.

mod acquire;
mod guard;
mod together;

pub(crate) use self::acquire::{acquire_all, requests};
pub use self::guard::LockSet;
