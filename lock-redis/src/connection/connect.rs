//! From a url to an open connection: over TCP, over TLS or through a Unix socket.

use std::fmt;
use std::io;
use std::time::Duration;

use lock_core::backend::Clock;
use lock_core::{Error, Result};
#[cfg(feature = "tls")]
use lock_core::{ErrorKind, backend::HumanDuration};
use redis::aio::MultiplexedConnection;
use redis::io::tcp::socket2::{SockRef, TcpKeepalive};
use redis::{
    AsyncConnectionConfig, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::{AbortHandle, JoinSet};

use crate::RedisConfig;
use crate::connection::abortable::{Abort, Abortable};
use crate::connection::preflight::preflight;
#[cfg(feature = "tls")]
use crate::error::{BACKEND, explain};
use crate::error::{broken, config_error, no_answer, translate};

/// The time that a connection may be idle before it is shown to be in use, so that no firewall on
/// the way forgets it.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// The time that one address of a host is tried before the next one is.
const ADDRESS_LIMIT: Duration = Duration::from_millis(500);

/// Runs the connection's input and output; dropping it stops them.
pub(crate) struct Driver {
    _tasks: JoinSet<()>,
    task: AbortHandle,
    abort: Abort,
}

impl Driver {
    /// Closes the connection so that nothing arrives any more of what was sent on it and is still
    /// on its way from here. Over TCP it is reset: closed in order, the system would go on sending
    /// that for many minutes.
    pub(crate) fn abort(&self) {
        (self.abort)();
        self.task.abort();
    }
}

/// Opens connections to one server.
pub(crate) struct Connector {
    info: ConnectionInfo,
    #[cfg(feature = "tls")]
    security: Option<lock_tls::Security>,
}

impl Connector {
    /// Reads the url and checks that the other settings fit it; nothing is opened.
    pub(crate) fn new(config: &RedisConfig) -> Result<Self> {
        let is_secure = check(config)?;
        let mut url = config.url.clone();
        if is_secure && let Some(end) = url.find("s://") {
            // The driver accepts the name for TLS only where it brings the TLS as well.
            url.remove(end);
        }
        let info = url.as_str().into_connection_info().map_err(translate)?;
        let settings = info.redis_settings().clone();
        let settings = settings.set_protocol(ProtocolVersion::RESP3);
        Ok(Self {
            info: info.set_redis_settings(settings),
            #[cfg(feature = "tls")]
            security: is_secure.then(|| lock_tls::Security::new(config.tls.clone())),
        })
    }

    /// Where connections go, as `host:port`.
    pub(crate) fn server(&self) -> String {
        match self.info.addr() {
            ConnectionAddr::Tcp(host, port) if host.contains(':') => format!("[{host}]:{port}"),
            address => address.to_string(),
        }
    }

    /// Opens a connection on the runtime of the caller, which has to outlive it.
    pub(crate) async fn open(
        &self,
        options: &AsyncConnectionConfig,
    ) -> Result<(MultiplexedConnection, Driver)> {
        match self.info.addr() {
            ConnectionAddr::Tcp(host, port) => {
                #[cfg(feature = "tls")]
                if let Some(security) = &self.security {
                    let ready = security.prepare(host).await;
                    let handshake = ready.map_err(|error| error.with_backend(BACKEND))?;
                    let stream = connect(host, *port).await.map_err(broken)?;
                    let stream = handshake.over(stream).await.map_err(explain)?;
                    return self
                        .hand_over(stream, |stream| discard_unsent(stream.get_ref().0), options)
                        .await;
                }
                let stream = connect(host, *port).await.map_err(broken)?;
                self.hand_over(stream, discard_unsent, options).await
            }
            #[cfg(unix)]
            ConnectionAddr::Unix(path) => {
                let stream = tokio::net::UnixStream::connect(path).await;
                // What was written has arrived.
                self.hand_over(stream.map_err(broken)?, |_| (), options)
                    .await
            }
            _ => Err(config_error(
                "this kind of address cannot be used here: write the url like redis://host:6379",
            )),
        }
    }

    /// Says which server an error is about, without a password.
    pub(crate) fn at(&self, error: Error) -> Error {
        error.with_server(self.server())
    }

    /// Nothing was opened in time.
    pub(crate) fn not_opened(&self, limit: Duration) -> Error {
        #[cfg(feature = "tls")]
        if self.security.is_some() {
            // A Redis server that expects plain text waits for the end of the first line.
            return Error::new(
                ErrorKind::Unavailable,
                format!(
                    "no answer within {}: check that the server runs, is reachable, and speaks TLS on this port",
                    HumanDuration(limit)
                ),
            )
            .with_backend(BACKEND);
        }
        no_answer(limit)
    }

    /// Lets the driver run its protocol over `stream`.
    async fn hand_over<S>(
        &self,
        mut stream: S,
        discard: fn(&S),
        options: &AsyncConnectionConfig,
    ) -> Result<(MultiplexedConnection, Driver)>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        preflight(&mut stream).await?;
        let (stream, abort) = Abortable::new(stream, discard);
        let (connection, driving) = MultiplexedConnection::new_with_config(
            self.info.redis_settings(),
            stream,
            options.clone(),
        )
        .await
        .map_err(translate)?;
        let mut tasks = JoinSet::new();
        let task = tasks.spawn(driving);
        let driver = Driver {
            _tasks: tasks,
            task,
            abort,
        };
        Ok((connection, driver))
    }
}

/// Returns true if the url asks for TLS; an error when the settings say otherwise.
fn check(config: &RedisConfig) -> Result<bool> {
    if config.url.contains('#') {
        // It cuts a password short, and to other clients it means not to verify the server.
        return Err(config_error(
            "the url has a #: write it as %23 in passwords; the server's certificate is always verified",
        ));
    }
    if let Some(rest) = config.url.split_once("://").map(|(_, rest)| rest)
        && !config.url.contains("unix")
    {
        let authority = rest.split(['/', '?']).next().unwrap_or_default();
        if rest.contains('@') && !authority.contains('@') {
            return Err(config_error(
                "the url has a / or ? before its @: in user and password write / as %2F, ? as %3F and @ as %40",
            ));
        }
        let host = authority.rsplit('@').next().unwrap_or_default();
        let is_of_address = |c: char| c.is_ascii_hexdigit() || ":.".contains(c);
        if host.matches(':').count() > 1 && host.chars().all(is_of_address) {
            return Err(config_error(
                "an IPv6 address stands in brackets: redis://[::1]:6379",
            ));
        }
        if host.contains(',') {
            return Err(config_error(
                "the url names several servers, and locks on two servers exclude nobody: name one, the master",
            ));
        }
        if authority.matches('@').count() > 1 {
            return Err(config_error(
                "the url has more than one @: in user and password write it as %40",
            ));
        }
    }
    config.tls.check()?;
    let scheme = config.url.split("://").next().unwrap_or_default();
    let is_secure = ["rediss", "valkeys"].contains(&scheme);
    if let Some(setting) = config.tls.first_given().filter(|_| !is_secure) {
        return Err(config_error(format!(
            "{setting} is set, and {} has no TLS: use rediss://, or leave {setting} out",
            if scheme.contains("unix") {
                "a Unix socket"
            } else {
                "redis://"
            }
        )));
    }
    if is_secure && !cfg!(feature = "tls") {
        return Err(config_error(
            "rediss:// needs the cargo feature `tls` of lock-redis, which was turned off: leave its default features on",
        ));
    }
    Ok(is_secure)
}

/// Connects to the first address of the host that answers, in the resolver's order: with several
/// servers behind one name, whichever is quickest would be another one each time.
async fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in tokio::net::lookup_host((host, port)).await? {
        // In real time, also on a runtime whose time is paused.
        let limit = Clock::Boot.now().plus(ADDRESS_LIMIT);
        let attempt = tokio::select! {
            attempt = TcpStream::connect(address) => attempt,
            () = Clock::Boot.sleep_until(limit) => Err(io::ErrorKind::TimedOut.into()),
        };
        match attempt {
            Ok(stream) => {
                // Requests are small, and each is waited for.
                stream.set_nodelay(true)?;
                let keep_alive = TcpKeepalive::new().with_time(KEEP_ALIVE);
                SockRef::from(&stream).set_tcp_keepalive(&keep_alive)?;
                return Ok(stream);
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// Has the end of `stream` throw away what was not sent yet, and reset the connection.
fn discard_unsent(stream: &TcpStream) {
    // It fails where the connection has broken already.
    let _broken = stream.set_zero_linger();
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Nothing else of it, since it holds the password.
        self.server().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv6_address_is_shown_in_brackets_and_needs_them() {
        for (url, server) in [
            ("redis://[::1]:6380", "[::1]:6380"),
            ("redis://u:p@[::1]/0", "[::1]:6379"),
            ("redis://127.0.0.1", "127.0.0.1:6379"),
        ] {
            let connector = Connector::new(&RedisConfig::new(url)).unwrap();
            assert_eq!(connector.server(), server);
            assert!(format!("{connector:?}").contains(server));
        }
        for url in ["redis://::1:6379", "redis://u:p:q@::1"] {
            let error = Connector::new(&RedisConfig::new(url))
                .map(drop)
                .unwrap_err();
            assert!(error.to_string().contains("in brackets"), "{error}");
        }
        assert!(Connector::new(&RedisConfig::new("redis://u:p:q@h:1")).is_ok());
    }
}
