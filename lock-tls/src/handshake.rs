//! TLS handshakes over open connections.

use std::sync::{Arc, Mutex, PoisonError};
use std::{fmt, io};

use lock_core::{Error, ErrorKind, Result, Tls};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::files::{client_config, config_error};

/// The TLS settings of a client, from which it prepares handshakes.
///
/// ```no_run
/// # async fn connect() -> Result<(), Box<dyn std::error::Error>> {
/// let security = lock_tls::Security::new(lock_core::Tls::new());
/// let handshake = security.prepare("cache.internal").await?;
/// let stream = tokio::net::TcpStream::connect(("cache.internal", 6380)).await?;
/// let encrypted = handshake.over(stream).await?;
/// # let _ = encrypted;
/// # Ok(())
/// # }
/// ```
pub struct Security {
    files: Tls,
    protocol: Option<&'static str>,
    /// The last valid configuration, used while the files are being replaced.
    last: Mutex<Option<Arc<ClientConfig>>>,
}

impl Security {
    /// Creates settings with the certificates in `files`, which are read for every connection.
    pub fn new(files: Tls) -> Self {
        Self {
            files,
            protocol: None,
            last: Mutex::new(None),
        }
    }

    /// Sets the ALPN protocol, which some servers require. Default: none.
    #[must_use]
    pub fn speaking(mut self, protocol: &'static str) -> Self {
        self.protocol = Some(protocol);
        self
    }

    /// Prepares a handshake with `host`, so that wrong settings fail before the client connects.
    ///
    /// # Errors
    ///
    /// - The errors of [`server_name`].
    /// - The errors of [`client_config`], unless the files were valid before: their previous
    ///   content is then used, with a warning.
    /// - [`ErrorKind::Unavailable`] if the runtime ends.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    pub async fn prepare(&self, host: &str) -> Result<Handshake> {
        let host = server_name(host)?;
        let connector = TlsConnector::from(self.config().await?);
        Ok(Handshake { connector, host })
    }

    /// Reads the files for every new connection, since certificates are replaced at run time.
    async fn config(&self) -> Result<Arc<ClientConfig>> {
        let files = self.files.clone();
        let read = tokio::task::spawn_blocking(move || client_config(&files)).await;
        let read = read.unwrap_or_else(|source| {
            let cut_short = "reading the certificates was interrupted";
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
                tracing::warn!(%error, "tls: reading the certificates failed, using the previous ones");
                Ok(Arc::clone(config))
            }
            (Err(error), None) => Err(error),
        }
    }
}

impl fmt::Debug for Security {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The paths only, since the configuration may hold a private key.
        f.debug_struct("Security")
            .field("files", &self.files)
            .field("protocol", &self.protocol)
            .finish_non_exhaustive()
    }
}

/// A prepared handshake.
///
/// ```no_run
/// # async fn connect(security: lock_tls::Security) -> Result<(), Box<dyn std::error::Error>> {
/// let handshake = security.prepare("cache.internal").await?;
/// let stream = tokio::net::TcpStream::connect(("cache.internal", 6380)).await?;
/// let encrypted = handshake.over(stream).await?;
/// # let _ = encrypted;
/// # Ok(())
/// # }
/// ```
pub struct Handshake {
    connector: TlsConnector,
    host: ServerName<'static>,
}

impl Handshake {
    /// Verifies the server at the other end of `stream` and encrypts the connection.
    ///
    /// # Errors
    ///
    /// The errors of the connection, which [`meaning`](crate::meaning) explains.
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

/// Parses the name that the server's certificate must be valid for.
///
/// # Errors
///
/// [`ErrorKind::Config`] if `host` is no valid host name or IP address.
pub fn server_name(host: &str) -> Result<ServerName<'static>> {
    ServerName::try_from(host.to_owned()).map_err(|source| {
        config_error(format!(
            "host {host:?} cannot be named by a certificate: use the server's host name"
        ))
        .with_source(source)
    })
}
