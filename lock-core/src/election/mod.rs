//! The election of a leader: one of many candidates, until its term ends.

mod campaign;
mod led;
mod term;

pub use self::campaign::Election;
pub use self::term::Term;
