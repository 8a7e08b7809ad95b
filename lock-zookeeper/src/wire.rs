//! From a configuration to an open session.

use std::fmt;
use std::time::Duration;

use lock_core::{Clock, Error, ErrorKind, Result};
use zookeeper_client::{Client as ZooKeeper, Connector, Error as ZooKeeperError};

use crate::ZooKeeperConfig;
use crate::error::{BACKEND, config_error, translate};
use crate::session::Answer;
#[cfg(feature = "tls")]
use crate::tls::Security;

/// After how long a silent server is given up for another one, if two fifths of the session's timeout
/// are not less.
const SILENCE_LIMIT: Duration = Duration::from_secs(2);

/// From when on an attempt to connect has met a slow server, and not none.
const SLOW: Duration = Duration::from_millis(300);

/// Opens sessions on one ensemble.
pub(crate) struct Wire {
    servers: String,
    auth: Option<String>,
    #[cfg(feature = "tls")]
    security: Option<Security>,
}

impl Wire {
    /// Checks that the settings fit together; nothing is opened.
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
        Ok(Self {
            servers: config.servers.clone(),
            auth: config.auth.clone(),
            #[cfg(feature = "tls")]
            security: match &config.tls {
                Some(tls) => Some(Security::new(tls.clone(), &config.servers)?),
                None => None,
            },
        })
    }

    /// Whether nodes can be made for a user of their own.
    pub(crate) fn has_user(&self) -> bool {
        self.auth.is_some()
    }

    /// Opens a session that lives for `timeout` without a sign of life. Its task runs on the runtime of
    /// the caller.
    pub(crate) async fn open(&self, timeout: Duration) -> Result<ZooKeeper> {
        let connector = ZooKeeper::connector()
            .with_session_timeout(timeout)
            .with_connection_timeout(SILENCE_LIMIT.min(timeout * 2 / 5))
            .with_fail_eagerly();
        let client = self.connect(connector).await?;
        if let Some(auth) = &self.auth {
            // Not sent along by the driver: some servers answer it before they answer the connection.
            let told = client.auth("digest", auth.as_bytes()).await;
            told.map_err(translate)?;
        }
        Ok(client)
    }

    async fn connect(&self, connector: Connector) -> Result<ZooKeeper> {
        #[cfg(feature = "tls")]
        if let Some(security) = &self.security {
            let connector = connector.with_tls(security.options().await?);
            let connecting = || connector.clone().secure_connect(&self.servers);
            return match patiently(connecting).await {
                Ok(client) => Ok(client),
                Err(error) => Err(security.explain(error).await),
            };
        }
        let connecting = || connector.clone().connect(&self.servers);
        patiently(connecting).await.map_err(translate)
    }
}

/// Tries again as long as a server is slow to answer. Where none is there, that shows at once.
async fn patiently<F>(connect: impl Fn() -> F) -> Answer<ZooKeeper>
where
    F: Future<Output = Answer<ZooKeeper>>,
{
    loop {
        let begun = Clock::Boot.now();
        match connect().await {
            Err(ZooKeeperError::NoHosts) if Clock::Boot.now().since(begun) > SLOW => {}
            outcome => return outcome,
        }
    }
}

/// The server ends sessions later than asked for.
pub(crate) fn too_short(ttl: Duration, shortest: Duration) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!("a ttl of {ttl:?} cannot be had here: the shortest session that the server gives is {shortest:?}; use that, or lower the server's tickTime or minSessionTimeout"),
    )
    .with_backend(BACKEND)
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Nothing else of it, since it holds the password.
        self.servers.fmt(f)
    }
}
