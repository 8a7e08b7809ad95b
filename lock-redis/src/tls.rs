//! TLS over a connection: the server is always verified.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use lock_core::{Error, ErrorKind, Result, Tls};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{AlertDescription, CertificateError, ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::error::BACKEND;
use crate::wire::broken;

/// Makes connections secure.
pub(crate) struct Security {
    files: Tls,
    /// What was read last, in case that the files are just being replaced.
    last: Mutex<Option<Arc<ClientConfig>>>,
}

impl Security {
    pub(crate) fn new(files: Tls) -> Self {
        Self {
            files,
            last: Mutex::new(None),
        }
    }

    /// Gets everything ready for a connection to `host`, so that what is wrong on our side shows
    /// before anything is sent.
    pub(crate) async fn prepare(&self, host: &str) -> Result<Handshake> {
        let host = ServerName::try_from(host.to_owned()).map_err(|source| {
            config_error(format!(
                "{host:?} is no name that a certificate can be for: use the server's host name"
            ))
            .with_source(source)
        })?;
        let connector = TlsConnector::from(self.certificates().await?);
        Ok(Handshake { connector, host })
    }

    /// Reads the files for every new connection, since certificates are replaced while we run.
    async fn certificates(&self) -> Result<Arc<ClientConfig>> {
        let files = self.files.clone();
        let read = tokio::task::spawn_blocking(move || client_config(&files)).await;
        let read = read.unwrap_or_else(|error| Err(broken(error.into())));
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match (read, &*last) {
            (Ok(config), _) => {
                let config = Arc::new(config);
                *last = Some(Arc::clone(&config));
                Ok(config)
            }
            (Err(error), Some(config)) => {
                tracing::warn!(%error, "the certificates of before are used again");
                Ok(Arc::clone(config))
            }
            (Err(error), None) => Err(error),
        }
    }
}

/// A handshake that is ready to be made.
pub(crate) struct Handshake {
    connector: TlsConnector,
    host: ServerName<'static>,
}

impl Handshake {
    /// Verifies the other end of `stream`, and encrypts from here on.
    pub(crate) async fn over(self, stream: TcpStream) -> Result<TlsStream<TcpStream>> {
        let connecting = self.connector.connect(self.host, stream);
        connecting.await.map_err(explain)
    }
}

fn client_config(files: &Tls) -> Result<ClientConfig> {
    // Never the process's default provider: where two are compiled in, asking for it panics.
    let provider = Arc::new(aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|source| config_error("no version of TLS can be had").with_source(source))?
        .with_root_certificates(roots(files.ca.as_deref())?);
    let (Some(cert), Some(key)) = (&files.cert, &files.key) else {
        return Ok(config.with_no_client_auth());
    };
    let chain = certificates("tls_cert", cert)?;
    let private = PrivateKeyDer::from_pem_file(key)
        .map_err(|source| unreadable("tls_key", key, "a private key", source))?;
    config
        .with_client_auth_cert(chain, private)
        .map_err(|source| {
            config_error(format!(
                "tls_key: {} does not fit the certificate in {} ({source}): set both to files of one pair",
                key.display(),
                cert.display()
            ))
            .with_source(source)
        })
}

/// Whom the server's certificate may come from.
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
    // Platforms have certificates that nobody can read any more; the others do.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(config_error(
            "this machine trusts no certificate authority: install its ca-certificates, or set tls_ca",
        ));
    }
    Ok(roots)
}

fn certificates(setting: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(chain) if chain.is_empty() => Err(unreadable(
            setting,
            path,
            "a certificate",
            rustls::pki_types::pem::Error::NoItemsFound,
        )),
        Ok(chain) => Ok(chain),
        Err(source) => Err(unreadable(setting, path, "a certificate", source)),
    }
}

fn unreadable(
    setting: &str,
    path: &Path,
    wanted: &str,
    source: rustls::pki_types::pem::Error,
) -> Error {
    config_error(format!(
        "{setting}: cannot read {wanted} from {} ({source}): set it to a PEM file",
        path.display()
    ))
    .with_source(source)
}

/// Tells what a failure below the protocol means: when one side does not trust the other it is
/// [`ErrorKind::Denied`], which no second try makes better; all else, also something else than TLS at
/// the other end, is [`ErrorKind::Unavailable`].
pub(crate) fn explain(error: io::Error) -> Error {
    let cause = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let (kind, advice) = match cause {
        None => return broken(error),
        Some(rustls::Error::InvalidMessage(_)) => (
            ErrorKind::Unavailable,
            "the server does not seem to speak TLS there: use its TLS port, or redis://",
        ),
        Some(cause) => (ErrorKind::Denied, advice(cause)),
    };
    Error::new(kind, format!("TLS: {error}: {advice}"))
        .with_backend(BACKEND)
        .with_source(error)
}

fn advice(error: &rustls::Error) -> &'static str {
    use rustls::Error as Tls;

    match error {
        Tls::InvalidCertificate(certificate) => match certificate {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                "set tls_ca to the certificate of the authority that the server's comes from"
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "renew the server's certificate"
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "check the clocks of both machines"
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "use a host name in the url that the server's certificate is for"
            }
            _ => "replace the server's certificate",
        },
        Tls::AlertReceived(AlertDescription::CertificateRequired) => {
            "the server demands a client certificate: set tls_cert and tls_key"
        }
        Tls::AlertReceived(
            AlertDescription::BadCertificate
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateUnknown
            | AlertDescription::DecryptError
            | AlertDescription::UnknownCA
            | AlertDescription::UnsupportedCertificate,
        ) => {
            "the server refuses our client certificate: check tls_cert and tls_key, and which authorities the server trusts"
        }
        Tls::AlertReceived(AlertDescription::HandshakeFailure) => {
            "look at the server's log; if it demands a client certificate, set tls_cert and tls_key"
        }
        _ => "look at the server's log, and which TLS versions it allows",
    }
}

fn config_error(message: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::Config, message).with_backend(BACKEND)
}
