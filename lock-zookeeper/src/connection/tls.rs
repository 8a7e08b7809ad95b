//! The TLS settings of connections.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lock_core::{Error, Result, Tls};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::ServerName;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use zookeeper_client::{TlsCa, TlsCerts, TlsIdentity, TlsOptions};

use crate::error::{BACKEND, config_error, translate};

/// The time that a server may take to refuse the client's certificate.
const WORD_LIMIT: Duration = Duration::from_millis(500);

/// The certificate files of a client.
pub(crate) struct TlsSettings {
    files: Tls,
}

impl TlsSettings {
    pub(crate) fn new(files: Tls, servers: &str) -> Result<Self> {
        files.check()?;
        for server in servers.split(',') {
            name_of(server)?;
        }
        Ok(Self { files })
    }

    /// Reads the files for a new connection, since they may be replaced while the application runs.
    pub(crate) async fn options(&self) -> Result<TlsOptions> {
        let files = self.files.clone();
        let read = tokio::task::spawn_blocking(move || options(&files)).await;
        read.unwrap_or_else(|source| {
            Err(
                config_error("tls: reading the certificate files was cut short: connect again")
                    .with_source(source),
            )
        })
    }

    /// Explains a failed handshake, if TLS is the reason. The driver does not report it, so this
    /// method makes a handshake without the driver.
    pub(crate) async fn explain(&self, server: &str) -> Option<Error> {
        let greeted = tokio::time::timeout(WORD_LIMIT, self.greet(server)).await;
        let refused = greeted.ok()?.err()?;
        let told = lock_tls::explain(refused).ok()?;
        Some(told.with_backend(BACKEND))
    }

    /// Makes a handshake, and waits for an alert after it. With TLS 1.3 the server checks the
    /// client's certificate last.
    async fn greet(&self, server: &str) -> io::Result<()> {
        let name = name_of(server).map_err(io::Error::other)?;
        let config = lock_tls::client_config(&self.files).map_err(io::Error::other)?;
        let stream = TcpStream::connect(server).await?;
        let connector = TlsConnector::from(Arc::new(config));
        let mut stream = connector.connect(name, stream).await?;
        stream.read_u8().await.map(drop)
    }
}

/// Returns the name that a server's certificate has to have. The driver requires a valid name.
fn name_of(server: &str) -> Result<ServerName<'static>> {
    let host = match server.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => server.split(':').next().unwrap_or_default(),
    };
    lock_tls::server_name(host).map_err(|error| error.with_backend(BACKEND))
}

fn options(files: &Tls) -> Result<TlsOptions> {
    // The errors of this check are clearer than the driver's.
    lock_tls::client_config(files).map_err(|error| error.with_backend(BACKEND))?;
    // The driver uses the default provider of the process. Its lookup panics if several providers
    // are compiled in and the application chose none.
    if CryptoProvider::get_default().is_none() {
        // Another thread may have installed a provider first, which serves as well.
        let _ours_or_theirs = aws_lc_rs::default_provider().install_default();
    }
    let ca = match &files.ca {
        Some(ca) => authorities("tls_ca", &read("tls_ca", ca)?)?,
        None => authorities("the platform's certificates", &lock_tls::roots_in_pem())?,
    };
    let certificates = TlsCerts::builder().with_ca(ca);
    let certificates = match (&files.cert, &files.key) {
        (Some(cert), Some(key)) => {
            let (own, private) = (read("tls_cert", cert)?, read("tls_key", key)?);
            let identity = TlsIdentity::from_pem(&own, &private).map_err(|source| {
                config_error(format!(
                    "tls_cert and tls_key: {source}: set them to PEM files of one pair"
                ))
                .with_source(source)
            })?;
            certificates.with_identity(identity)
        }
        (None, None) | (Some(_), None) | (None, Some(_)) => certificates,
    };
    let certificates = certificates.build().map_err(translate)?;
    Ok(TlsOptions::new().with_certs(certificates))
}

fn authorities(setting: &str, pem: &str) -> Result<TlsCa> {
    TlsCa::from_pem(pem).map_err(|source| {
        config_error(format!("{setting}: {source}: set tls_ca to a PEM file")).with_source(source)
    })
}

fn read(setting: &str, path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|source| {
        config_error(format!(
            "{setting}: cannot read {} ({source}): set it to a PEM file",
            path.display()
        ))
        .with_source(source)
    })
}
