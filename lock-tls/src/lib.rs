//! TLS for the backends of polylock: which certificates a connection is made with, and what its
//! failures mean. The server is always verified, and the crypto provider is aws-lc-rs, whatever the
//! process has besides.
//!
//! A backend that opens its connections itself has [`Security`] make them secure. One whose driver
//! does so takes the parts that the driver leaves to it: [`client_config`] to see what is wrong
//! with the files before the driver does, [`roots_in_pem`], and [`explain`].
//!
//! Errors name no backend; whoever passes them on does.

mod failures;
mod files;
mod handshake;

pub use failures::{explain, meaning};
pub use files::{client_config, roots_in_pem};
pub use handshake::{Handshake, Security, server_name};
