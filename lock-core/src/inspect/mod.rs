//! The holders of a key, as its store knows them.

mod key_info;
pub(crate) mod label;
pub(crate) mod metadata;
mod serialize;
mod this_process;

pub use self::key_info::{HolderInfo, KeyInfo};
