//! Certificates and keys in files.

use std::path::Path;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use lock_core::{Error, ErrorKind, Result, Tls};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

/// Reads the files of `tls` into a client configuration.
///
/// # Errors
///
/// [`ErrorKind::Config`] if a file is unreadable or has other content, if key and certificate do
/// not match, or if no authority is trusted.
pub fn client_config(tls: &Tls) -> Result<ClientConfig> {
    // Not the process's default provider: asking for it panics if two are compiled in.
    let provider = Arc::new(aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|source| {
            config_error("the TLS library supports no version of TLS").with_source(source)
        })?
        .with_root_certificates(roots(tls.ca.as_deref())?);
    let (Some(cert), Some(key)) = (&tls.cert, &tls.key) else {
        return Ok(config.with_no_client_auth());
    };
    let chain = certificates("tls_cert", cert)?;
    let private = PrivateKeyDer::from_pem_file(key)
        .map_err(|source| unreadable("tls_key", key, "a private key", source))?;
    let config = config.with_client_auth_cert(chain, private);
    config.map_err(|source| unusable(cert, key, source))
}

/// Returns the error of a client certificate that rustls rejects.
fn unusable(cert: &Path, key: &Path, source: rustls::Error) -> Error {
    let (cert, key) = (cert.display(), key.display());
    // Match the text, because the type of the cause is private.
    let is_outdated = source.to_string().contains("UnsupportedCertVersion");
    let told = if is_outdated {
        format!(
            "tls_cert: {cert} holds an X.509 certificate of version 1, which TLS libraries refuse: issue it again with an extension, such as subjectAltName, which makes it one of version 3"
        )
    } else {
        format!(
            "tls_key: {key} does not fit the certificate in {cert} ({source}): set both to files of one pair"
        )
    };
    config_error(told).with_source(source)
}

/// Returns the trusted certificate authorities: from `ca` if set, else from the platform.
fn roots(ca: Option<&Path>) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    if let Some(ca) = ca {
        for certificate in certificates("tls_ca", ca)? {
            roots.add(certificate).map_err(|source| {
                config_error(format!(
                    "tls_ca: {} holds a certificate that cannot be used ({source}): replace it",
                    ca.display()
                ))
                .with_source(source)
            })?;
        }
        return Ok(roots);
    }
    roots.add_parsable_certificates(platform_roots());
    if roots.is_empty() {
        return Err(config_error(
            "this machine trusts no certificate authority: install its ca-certificates, or set tls_ca",
        ));
    }
    Ok(roots)
}

/// Returns the platform's certificate authorities that can be parsed.
fn platform_roots() -> Vec<CertificateDer<'static>> {
    let found = rustls_native_certs::load_native_certs();
    for error in found.errors {
        tracing::debug!(%error, "tls: some root certificates of the platform are unreadable");
    }
    found.certs
}

/// Returns the platform's certificate authorities in PEM, for a driver without a root store.
pub fn roots_in_pem() -> String {
    let in_pem = |certificate| {
        let text = STANDARD.encode(certificate);
        format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
    };
    platform_roots().iter().map(in_pem).collect()
}

fn certificates(setting: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let problem = match read {
        Ok(chain) if chain.is_empty() => PemError::NoItemsFound,
        Ok(chain) => return Ok(chain),
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

pub(crate) fn config_error(message: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::Config, message)
}
