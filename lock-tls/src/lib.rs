//! TLS for the backends of polylock: certificates, handshakes, and the meaning of their failures.
//!
//! The server is always verified, and the crypto provider is always aws-lc-rs, even if the process
//! has another default.
//!
//! A backend that opens its own connections uses [`Security`]. A backend whose driver opens them
//! checks the files first with [`client_config`], and uses [`roots_in_pem`] and [`explain`].
//!
//! Errors have no backend name; the backend adds it.

mod failures;
mod files;
mod handshake;

pub use failures::{explain, meaning};
pub use files::{client_config, roots_in_pem};
pub use handshake::{Handshake, Security, server_name};
