//! The election of a leader: one of many candidates, until its term ends.

mod campaign;
mod leaders;
mod led;
mod term;

pub use self::campaign::Election;
pub use self::leaders::{Leader, Leaders};
pub use self::term::Term;
