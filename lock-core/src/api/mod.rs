//! The types and traits that applications use.

pub(crate) mod capabilities;
pub(crate) mod error;
pub(crate) mod guard;
pub(crate) mod human_duration;
pub(crate) mod key;
pub(crate) mod lock;
pub(crate) mod lock_ext;
pub(crate) mod mysql_hold;
pub(crate) mod once;
pub(crate) mod redacted_url;
pub(crate) mod request;
pub(crate) mod tls;
pub(crate) mod token;
pub(crate) mod with_lock;
