//! Keys that no client gets for some time after their last holder.

pub(crate) mod delay;
pub(crate) mod minimum;
