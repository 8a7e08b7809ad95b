//! Reentrant locks: requests of one owner enter the grant that it has already.

pub(crate) mod enter;
mod identity;
mod locks;

pub use self::identity::Owner;
pub use self::locks::WithOwner;
