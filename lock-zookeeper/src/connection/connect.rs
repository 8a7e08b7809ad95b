//! Opens connections from a configuration.

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
use crate::connection::tls::TlsSettings;
use crate::error::{DriverResult, config_error, error_of, translate};
use crate::url::with_port;

/// The time after which a silent server is given up, at most two fifths of the session timeout.
const SILENCE_LIMIT: Duration = Duration::from_secs(2);

/// The duration of a failed attempt from which on a server counts as slow, not as missing.
const SLOW: Duration = Duration::from_millis(300);

/// The connector of a client, which opens all connections to the ensemble.
pub(crate) struct Connector {
    /// The servers, each as `host:port`.
    servers: Vec<String>,
    auth: Option<String>,
    /// True if a server requires the user before any other request.
    user_comes_first: AtomicBool,
    /// The sizes of requests that the servers take.
    pub(crate) request_sizes: Arc<RequestSizes>,
    is_secure: bool,
    #[cfg(feature = "tls")]
    tls: Option<TlsSettings>,
}

impl Connector {
    /// Checks the settings, and opens no connection.
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
        #[cfg(feature = "tls")]
        let tls = match &config.tls {
            Some(tls) => Some(TlsSettings::new(tls.clone(), &config.servers)?),
            None => None,
        };
        let servers = config.servers.split(',').map(|server| {
            with_port(server.trim()).map_err(|_problem| {
                config_error(format!(
                    "servers has {server:?}: write servers like host1:2181,host2:2181"
                ))
            })
        });
        let servers: Result<Vec<String>> = servers.collect();
        Ok(Self {
            servers: servers?,
            auth: config.auth.clone(),
            user_comes_first: AtomicBool::new(false),
            request_sizes: Arc::default(),
            is_secure: config.tls.is_some(),
            #[cfg(feature = "tls")]
            tls,
        })
    }

    /// Returns true if the client has a user, for whom nodes can be created.
    pub(crate) fn has_user(&self) -> bool {
        self.auth.is_some()
    }

    /// Returns all servers in random order.
    pub(crate) fn servers(&self) -> Vec<&str> {
        let mut servers: Vec<&str> = self.servers.iter().map(String::as_str).collect();
        fastrand::shuffle(&mut servers);
        servers
    }

    /// Opens a session with this timeout on any server. The driver's task runs on the caller's
    /// runtime.
    pub(crate) async fn open(&self, timeout: Duration) -> Result<Arc<Connection>> {
        loop {
            let mut failure = None;
            let mut was_slow = false;
            for server in self.servers() {
                let begun = Clock::Boot.now();
                match self.connect(server, timeout, None).await {
                    Ok(connection) => return Ok(connection.ready()),
                    Err(Failure::Setting(error)) => return Err(error),
                    Err(Failure::Driver(error)) => {
                        // If no server listens, an attempt fails at once.
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

    /// Connects to one server, with a new session or to continue `session`.
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
        let (connector, server) = match &self.tls {
            Some(tls) => {
                let options = tls.options().await.map_err(Failure::Setting)?;
                (connector.with_tls(options), &*format!("tcp+tls://{server}"))
            }
            None => (connector, server),
        };
        let open = |connector| Unready::open(connector, server, goes_on, &self.request_sizes);
        let Some(auth) = &self.auth else {
            return Ok(open(connector).await?);
        };
        if !self.user_comes_first.load(Ordering::Relaxed) {
            // Send the user after the connection request where that works. Some servers answer the
            // user first, which zookeeper-client 0.11 does not expect.
            let told = async { authenticated(open(connector.clone()).await?, auth).await };
            match told.await {
                // `enforce.auth.enabled`: the server requires the user before the first request of
                // the driver.
                Err(ZooKeeperError::AuthFailed) => {}
                outcome => return Ok(outcome?),
            }
        }
        let connector = connector.with_auth("digest", auth.as_bytes());
        let connection = open(connector).await?;
        self.user_comes_first.store(true, Ordering::Relaxed);
        Ok(connection)
    }

    /// Explains a failure to connect. The driver does not report the reason, so this method asks
    /// the server without the driver.
    async fn explain(&self, server: &str, error: ZooKeeperError) -> Error {
        if error != ZooKeeperError::NoHosts {
            return translate(error).with_server(server.to_owned());
        }
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls
            && let Some(told) = tls.explain(server).await
        {
            return told.with_server(server.to_owned());
        }
        let told = diagnose(server, self.is_secure, self.has_user()).await;
        told.with_source(error).with_server(server.to_owned())
    }

    /// Returns the version of a server, if the server reports it. No server reports it over TLS.
    pub(crate) async fn version(&self) -> Option<String> {
        match self.is_secure {
            true => None,
            false => version(self.servers.first()?).await,
        }
    }

    /// Returns the addresses of the servers, for errors.
    pub(crate) fn address(&self) -> String {
        self.servers.join(",")
    }
}

/// The reason of a failed attempt to connect.
pub(crate) enum Failure {
    /// A setting or a file is wrong.
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

async fn authenticated(connection: Unready, auth: &str) -> DriverResult<Unready> {
    let asked = connection.get();
    let telling = asked.client().auth("digest", auth.as_bytes());
    asked.answer(telling).await?;
    Ok(connection)
}

/// Creates the error for a server that grants only longer sessions.
pub(crate) fn too_short(ttl: Duration, shortest: Duration) -> Error {
    error_of(
        ErrorKind::Unsupported,
        format!(
            "ttl {} is shorter than the shortest session that the server grants: use {} or more",
            HumanDuration(ttl),
            HumanDuration(shortest)
        ),
    )
}
