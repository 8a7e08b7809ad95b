//! Keys that stay closed although nobody holds them.

pub(crate) mod delay;
pub(crate) mod minimum;
