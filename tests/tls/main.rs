//! TLS as users configure it: the same by URL and by fields.

#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "redis")]
mod redis;
