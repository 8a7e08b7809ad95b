//! TLS: the certificates of a connection.

use lock_core::{Result, Tls};
use sqlx::mysql::{MySqlConnectOptions, MySqlSslMode};

use crate::error::BACKEND;

/// Turns the verification of the server on, with the certificates of `tls`.
///
/// The driver reads the files again for every connection. They are also checked here, so that their
/// errors are reported at connect.
pub(crate) fn verified(options: MySqlConnectOptions, tls: &Tls) -> Result<MySqlConnectOptions> {
    lock_tls::client_config(tls).map_err(|error| error.with_backend(BACKEND))?;
    let options = options.ssl_mode(MySqlSslMode::VerifyIdentity);
    let options = match &tls.ca {
        Some(ca) => options.ssl_ca(ca),
        None => options.ssl_ca_from_pem(lock_tls::roots_in_pem().into_bytes()),
    };
    Ok(match (&tls.cert, &tls.key) {
        (Some(cert), Some(key)) => options.ssl_client_cert(cert).ssl_client_key(key),
        _ => options,
    })
}
