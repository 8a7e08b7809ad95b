//! From a connection to a secure one.

use std::sync::{Arc, Mutex, PoisonError};
use std::{fmt, io};

use lock_core::{Error, ErrorKind, Result, Tls};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::files::{client_config, config_error};

/// Makes connections secure.
pub struct Security {
    files: Tls,
    protocol: Option<&'static str>,
    /// What was read last, in case that the files are just being replaced.
    last: Mutex<Option<Arc<ClientConfig>>>,
}

impl Security {
    /// With the certificates in `files`, which are read for every connection.
    pub fn new(files: Tls) -> Self {
        Self {
            files,
            protocol: None,
            last: Mutex::new(None),
        }
    }

    /// Says what will be spoken (ALPN), without which some servers do not speak it. Default:
    /// nothing.
    #[must_use]
    pub fn speaking(mut self, protocol: &'static str) -> Self {
        self.protocol = Some(protocol);
        self
    }

    /// Gets everything ready for a connection to `host`, so that what is wrong on our side shows
    /// before anything is sent.
    ///
    /// # Errors
    ///
    /// Those of [`server_name`]; those of [`client_config`], unless the files were good before:
    /// then what they held is used again, with a warning. [`ErrorKind::Unavailable`] when the
    /// runtime ends.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn prepare(&self, host: &str) -> Result<Handshake> {
        let host = server_name(host)?;
        let connector = TlsConnector::from(self.config().await?);
        Ok(Handshake { connector, host })
    }

    /// Reads the files for every new connection, since certificates are replaced while we run.
    async fn config(&self) -> Result<Arc<ClientConfig>> {
        let files = self.files.clone();
        let read = tokio::task::spawn_blocking(move || client_config(&files)).await;
        let read = read.unwrap_or_else(|source| {
            let cut_short = "reading the certificates was cut short";
            Err(Error::new(ErrorKind::Unavailable, cut_short).with_source(source))
        });
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match (read, &*last) {
            (Ok(mut config), _) => {
                config.alpn_protocols = self.protocol.iter().map(|name| (*name).into()).collect();
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

impl fmt::Debug for Security {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not what the files hold, since that may be a private key.
        f.debug_struct("Security")
            .field("files", &self.files)
            .field("protocol", &self.protocol)
            .finish_non_exhaustive()
    }
}

/// A handshake that is ready to be made.
pub struct Handshake {
    connector: TlsConnector,
    host: ServerName<'static>,
}

impl Handshake {
    /// Verifies the other end of `stream`, and encrypts from here on.
    ///
    /// # Errors
    ///
    /// Those of the connection; [`meaning`](crate::meaning) tells what they mean.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connection.
    pub async fn over(self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        self.connector.connect(self.host, stream).await
    }
}

impl fmt::Debug for Handshake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handshake")
            .field("host", &self.host)
            .finish_non_exhaustive()
    }
}

/// Whom the certificate of a server has to be for.
///
/// # Errors
///
/// [`ErrorKind::Config`] when no certificate can be for that.
pub fn server_name(host: &str) -> Result<ServerName<'static>> {
    ServerName::try_from(host.to_owned()).map_err(|source| {
        config_error(format!(
            "{host:?} is no name that a certificate can be for: use the server's host name"
        ))
        .with_source(source)
    })
}
