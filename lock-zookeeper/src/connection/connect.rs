//! Opens connections from a configuration.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lock_core::backend::{Clock, HumanDuration};
use lock_core::{Error, ErrorKind, Result};
use zookeeper_client::{Client as ZooKeeper, Error as ZooKeeperError, SessionInfo};

use crate::ZooKeeperConfig;
use crate::connection::diagnosis::{diagnose, version};
use crate::connection::open::{Connection, Unready};
use crate::connection::request_size::RequestSizes;
#[cfg(feature = "tls")]
use crate::connection::tls::Security;
use crate::error::{BACKEND, DriverResult, config_error, translate};

/// The time after which a silent server is given up for another one, if two fifths of the session's
/// timeout are not less.
const SILENCE_LIMIT: Duration = Duration::from_secs(2);

/// The time after which a failed attempt has met a slow server rather than none.
const SLOW: Duration = Duration::from_millis(300);

/// The port of servers that are written without one.
const DEFAULT_PORT: u16 = 2181;

/// Opens connections to one ensemble.
pub(crate) struct Connector {
    /// `host:port` of each.
    servers: Vec<String>,
    auth: Option<String>,
    /// True if a server wants the user before any other request.
    user_comes_first: AtomicBool,
    /// The sizes of requests that the servers take.
    pub(crate) request_sizes: Arc<RequestSizes>,
    #[cfg(feature = "tls")]
    security: Option<Security>,
}

impl Connector {
    /// Checks the settings; opens nothing.
    pub(crate) fn new(config: &ZooKeeperConfig) -> Result<Self> {
        if config.servers.contains('/') {
            return Err(config_error(
                "servers has a slash: write it like host1:2181,host2:2181, and the node below which locks are as chroot",
            ));
        }
        if config.servers.contains('@') {
            return Err(config_error(
                "servers has an @: write it like host1:2181,host2:2181, and user:password as auth",
            ));
        }
        if config.auth.as_ref().is_some_and(|auth| !auth.contains(':')) {
            return Err(config_error(
                "auth has no colon: write it like user:password",
            ));
        }
        if config.tls.is_some() && !cfg!(feature = "tls") {
            return Err(config_error(
                "TLS needs the cargo feature `tls` of lock-zookeeper, which was turned off: leave its default features on",
            ));
        }
        let servers: Result<Vec<String>> = config.servers.split(',').map(with_port).collect();
        Ok(Self {
            servers: servers?,
            auth: config.auth.clone(),
            user_comes_first: AtomicBool::new(false),
            request_sizes: Arc::default(),
            #[cfg(feature = "tls")]
            security: match &config.tls {
                Some(tls) => Some(Security::new(tls.clone(), &config.servers)?),
                None => None,
            },
        })
    }

    /// Returns true if nodes can be created for one user.
    pub(crate) fn has_user(&self) -> bool {
        self.auth.is_some()
    }

    /// Returns all servers in random order.
    pub(crate) fn servers(&self) -> Vec<&str> {
        let mut servers: Vec<&str> = self.servers.iter().map(String::as_str).collect();
        fastrand::shuffle(&mut servers);
        servers
    }

    /// Opens a session with this timeout on any server. Its task runs on the runtime of the caller.
    pub(crate) async fn open(&self, timeout: Duration) -> Result<Arc<Connection>> {
        loop {
            let mut failure = None;
            let mut was_slow = false;
            for server in self.servers() {
                let begun = Clock::Boot.now();
                let connected = self.connect(server, timeout, None).await;
                match connected.and_then(|connection| Ok(connection.ready()?)) {
                    Ok(connection) => return Ok(connection),
                    Err(Failure::Setting(error)) => return Err(error),
                    Err(Failure::Driver(error)) => {
                        // Without any server, the attempt fails at once.
                        was_slow |= Clock::Boot.now().since(begun) > SLOW;
                        failure = failure.or(Some((server, error)));
                    }
                }
            }
            match failure {
                Some((_, ZooKeeperError::NoHosts)) if was_slow => {}
                Some((server, error)) => return Err(self.explain(server, error).await),
                None => return Err(translate(ZooKeeperError::NoHosts)),
            }
        }
    }

    /// Connects to one server: with a new session, or to continue one.
    pub(crate) async fn connect(
        &self,
        server: &str,
        timeout: Duration,
        session: Option<&SessionInfo>,
    ) -> std::result::Result<Unready, Failure> {
        let goes_on = session.is_some();
        let mut connector = ZooKeeper::connector()
            .with_session_timeout(timeout)
            .with_connection_timeout(SILENCE_LIMIT.min(timeout * 2 / 5))
            .with_fail_eagerly();
        if let Some(session) = session {
            connector = connector.with_session(session.clone());
        }
        #[cfg(feature = "tls")]
        let (connector, secure) = match &self.security {
            Some(security) => {
                let options = security.options().await.map_err(Failure::Setting)?;
                (connector.with_tls(options), true)
            }
            None => (connector, false),
        };
        #[cfg(not(feature = "tls"))]
        let secure = false;
        let Some(auth) = &self.auth else {
            let connection =
                Connection::open(connector, server, secure, &self.request_sizes).await?;
            return Ok(Unready::new(connection, goes_on));
        };
        if !self.user_comes_first.load(Ordering::Relaxed) {
            // Send the user after the connection where that works: some servers answer it before
            // they answer the connection, which the driver does not expect (zookeeper-client 0.11).
            let opened =
                Connection::open(connector.clone(), server, secure, &self.request_sizes).await;
            let told = match opened.map(|connection| Unready::new(connection, goes_on)) {
                Ok(connection) => told_later(connection, auth).await,
                Err(error) => Err(error),
            };
            match told {
                // `enforce.auth.enabled`: the driver has asked something else before.
                Err(ZooKeeperError::AuthFailed) => {}
                outcome => return Ok(outcome?),
            }
        }
        let connector = connector.with_auth("digest", auth.as_bytes());
        let connection = Connection::open(connector, server, secure, &self.request_sizes).await?;
        self.user_comes_first.store(true, Ordering::Relaxed);
        Ok(Unready::new(connection, goes_on))
    }

    /// Explains a failure to connect. The driver does not report the reason, so the server is asked
    /// once more without it.
    async fn explain(&self, server: &str, error: ZooKeeperError) -> Error {
        if error != ZooKeeperError::NoHosts {
            return translate(error).with_server(server.to_owned());
        }
        #[cfg(feature = "tls")]
        if let Some(security) = &self.security
            && let Some(told) = security.explain(server).await
        {
            return told.with_server(server.to_owned());
        }
        #[cfg(feature = "tls")]
        let is_secure = self.security.is_some();
        #[cfg(not(feature = "tls"))]
        let is_secure = false;
        let told = diagnose(server, is_secure, self.has_user()).await;
        told.with_source(error).with_server(server.to_owned())
    }

    /// Returns the version of a server, if it says so: none does over TLS.
    pub(crate) async fn version(&self) -> Option<String> {
        #[cfg(feature = "tls")]
        if self.security.is_some() {
            return None;
        }
        version(self.servers.first()?).await
    }

    /// Returns the addresses of the servers, for errors.
    pub(crate) fn address(&self) -> String {
        self.servers.join(",")
    }
}

/// The reason why there is no connection.
pub(crate) enum Failure {
    /// A setting or a file.
    #[cfg_attr(
        not(feature = "tls"),
        expect(dead_code, reason = "only certificates fail so")
    )]
    Setting(Error),
    Driver(ZooKeeperError),
}

impl From<ZooKeeperError> for Failure {
    fn from(error: ZooKeeperError) -> Self {
        Self::Driver(error)
    }
}

async fn told_later(connection: Unready, auth: &str) -> DriverResult<Unready> {
    let asked = connection.get()?;
    let telling = asked.client().auth("digest", auth.as_bytes());
    asked.answer(telling).await?;
    Ok(connection)
}

/// Writes a server like `host:port`.
fn with_port(server: &str) -> Result<String> {
    let server = server.trim();
    let (host, port) = match server.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port.parse().unwrap_or(0)),
        _ => (server, DEFAULT_PORT),
    };
    if host.is_empty() || port == 0 {
        return Err(config_error(format!(
            "servers has {server:?}: write servers like host1:2181,host2:2181"
        )));
    }
    Ok(format!("{host}:{port}"))
}

/// Creates the error for a server that grants only longer sessions.
pub(crate) fn too_short(ttl: Duration, shortest: Duration) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!(
            "a ttl of {} is shorter than any session that the server gives: use {} or more",
            HumanDuration(ttl),
            HumanDuration(shortest)
        ),
    )
    .with_backend(BACKEND)
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Only the servers: the rest holds the password.
        self.servers.fmt(f)
    }
}
