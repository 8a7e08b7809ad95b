//! TLS: which certificates a connection is made with, and what its failures mean.

use std::io;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use lock_core::{Error, ErrorKind, Result, Tls};
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use sqlx::mysql::{MySqlConnectOptions, MySqlSslMode};

use crate::wire::config_error;

/// Has the server verified, with the certificates of `tls`.
///
/// The driver reads the files again for every connection; what is wrong with them is better told now.
pub(crate) fn verified(options: MySqlConnectOptions, tls: &Tls) -> Result<MySqlConnectOptions> {
    let options = options.ssl_mode(MySqlSslMode::VerifyIdentity);
    let options = match &tls.ca {
        Some(ca) => {
            check_certificates("tls_ca", ca)?;
            options.ssl_ca(ca)
        }
        None => options.ssl_ca_from_pem(platform_roots()),
    };
    let (Some(cert), Some(key)) = (&tls.cert, &tls.key) else {
        return Ok(options);
    };
    check_certificates("tls_cert", cert)?;
    PrivateKeyDer::from_pem_file(key)
        .map_err(|source| unreadable("tls_key", key, "a private key", source))?;
    Ok(options.ssl_client_cert(cert).ssl_client_key(key))
}

/// What a failure below the protocol means, if TLS is the cause: when one side does not trust the other,
/// no second try makes it better.
pub(crate) fn explain(error: &io::Error) -> Option<(ErrorKind, &'static str)> {
    let cause = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    let advice = match cause {
        rustls::Error::InvalidCertificate(_) => {
            "the server's certificate has to be valid, for the url's host, and come from an authority that tls_ca names"
        }
        rustls::Error::AlertReceived(_) => {
            "the server refuses our client certificate or misses one: check tls_cert and tls_key, and which authorities it trusts"
        }
        rustls::Error::InvalidMessage(_) => return None,
        _ => "look at the server's log, and which versions of TLS it allows",
    };
    Some((ErrorKind::Denied, advice))
}

/// All roots of the platform in PEM. What cannot be read is left out: a server that needs it is refused.
fn platform_roots() -> Vec<u8> {
    let found = rustls_native_certs::load_native_certs();
    for error in found.errors {
        tracing::debug!(%error, "some of the platform's certificate roots cannot be read");
    }
    let in_pem = |certificate| {
        let text = STANDARD.encode(certificate);
        format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
    };
    let roots: String = found.certs.iter().map(in_pem).collect();
    roots.into_bytes()
}

fn check_certificates(setting: &str, path: &Path) -> Result<()> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let problem = match read {
        Ok(found) if found.is_empty() => PemError::NoItemsFound,
        Ok(_) => return Ok(()),
        Err(source) => source,
    };
    Err(unreadable(setting, path, "a certificate", problem))
}

fn unreadable(setting: &str, path: &Path, wanted: &str, source: PemError) -> Error {
    config_error(format!(
        "{setting}: cannot read {wanted} from {} ({source}): set it to a PEM file",
        path.display()
    ))
    .with_source(source)
}
