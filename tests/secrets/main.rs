//! Nothing that is printed or logged gives a password or a private key away.

#![cfg(any(feature = "mysql", feature = "redis"))]

mod keys;
#[cfg(feature = "mysql")]
mod mysql;
mod printed;
#[cfg(feature = "redis")]
mod redis;
