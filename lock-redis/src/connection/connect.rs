//! Opening a connection: over TCP, over TLS, or through a Unix socket.

use std::fmt;
use std::io;
use std::time::Duration;

use lock_core::backend::connect_to_first;
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

/// Idle time of a connection before a keep-alive probe, so that firewalls do not forget it.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// The task that runs a connection's I/O, until this value is dropped.
pub(crate) struct Driver {
    _tasks: JoinSet<()>,
    task: AbortHandle,
    abort: Abort,
}

impl Driver {
    /// Closes the connection and discards data that has not left this machine. TCP connections are
    /// reset: after a regular close, the kernel would keep sending that data for many minutes.
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
    /// Parses the URL and checks that the other settings fit it; opens nothing.
    pub(crate) fn new(config: &RedisConfig) -> Result<Self> {
        let is_secure = check(config)?;
        let mut url = config.url.clone();
        if is_secure && let Some(end) = url.find("s://") {
            // The driver accepts `rediss` only if it is built with its own TLS.
            url.remove(end);
        }
        let info = url.as_str().into_connection_info().map_err(translate)?;
        Ok(Self::to(info, is_secure, config))
    }

    /// Takes address, database and user from a client of the driver; opens nothing.
    #[cfg(feature = "driver")]
    pub(crate) fn of_client(client: &redis::Client, config: &RedisConfig) -> Result<Self> {
        if !config.url.is_empty() {
            return Err(config_error(
                "the url is set beside a client, which names the server: leave the url empty",
            ));
        }
        config.tls.check()?;
        let info = client.get_connection_info().clone();
        let (host, port) = match info.addr() {
            ConnectionAddr::TcpTls { insecure: true, .. } => {
                return Err(config_error(
                    "the client does not verify its server: open it without `insecure`, and name the server's authority in tls",
                ));
            }
            ConnectionAddr::TcpTls { tls_params, .. }
                if tls_params.is_some() && config.tls.first_given().is_none() =>
            {
                return Err(config_error(
                    "the client has certificates, which the driver does not hand out: name their files in tls",
                ));
            }
            ConnectionAddr::TcpTls { host, port, .. } => (host.clone(), *port),
            _ => {
                check_tls(config, "the client", false)?;
                return Ok(Self::to(info, false, config));
            }
        };
        check_tls(config, "the client", true)?;
        let info = info.set_addr(ConnectionAddr::Tcp(host, port));
        Ok(Self::to(info, true, config))
    }

    #[cfg_attr(
        not(feature = "tls"),
        expect(unused_variables, reason = "both are for TLS")
    )]
    fn to(info: ConnectionInfo, is_secure: bool, config: &RedisConfig) -> Self {
        let settings = info.redis_settings().clone();
        let settings = settings.set_protocol(ProtocolVersion::RESP3);
        Self {
            info: info.set_redis_settings(settings),
            #[cfg(feature = "tls")]
            security: is_secure.then(|| lock_tls::Security::new(config.tls.clone())),
        }
    }

    /// Returns the server as `host:port`.
    pub(crate) fn server(&self) -> String {
        match self.info.addr() {
            ConnectionAddr::Tcp(host, port) if host.contains(':') => format!("[{host}]:{port}"),
            address => address.to_string(),
        }
    }

    /// Opens a connection on the caller's runtime, with which it ends.
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
                // Written data has arrived already.
                self.hand_over(stream.map_err(broken)?, |_| (), options)
                    .await
            }
            _ => Err(config_error(
                "this kind of address is not supported: write the url like redis://host:6379",
            )),
        }
    }

    /// Adds the server to `error`.
    pub(crate) fn at(&self, error: Error) -> Error {
        error.with_server(self.server())
    }

    /// Returns the error of a connection that was not opened in time.
    pub(crate) fn not_opened(&self, limit: Duration) -> Error {
        #[cfg(feature = "tls")]
        if self.security.is_some() {
            // A Redis server without TLS waits for the end of the first line.
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

    /// Starts the driver's protocol on `stream`.
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

/// Returns true if the URL requires TLS; an error if other settings contradict it.
fn check(config: &RedisConfig) -> Result<bool> {
    if config.url.contains('#') {
        // A `#` cuts off the password, and other clients read it as "do not verify the server".
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
                "an IPv6 address needs brackets: redis://[::1]:6379",
            ));
        }
        if host.contains(',') {
            return Err(config_error(
                "the url names several servers, which do not share their locks: name one, the master",
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
    let address = match scheme.contains("unix") {
        true => "a Unix socket",
        false => "redis://",
    };
    check_tls(config, address, is_secure)?;
    Ok(is_secure)
}

/// Rejects certificates without TLS, and TLS that is not compiled in.
fn check_tls(config: &RedisConfig, address: &str, is_secure: bool) -> Result<()> {
    if let Some(setting) = config.tls.first_given().filter(|_| !is_secure) {
        return Err(config_error(format!(
            "{setting} is set, and {address} has no TLS: use rediss://, or leave {setting} out"
        )));
    }
    if is_secure && !cfg!(feature = "tls") {
        return Err(config_error(
            "rediss:// needs the cargo feature `tls` of lock-redis, which was turned off: leave its default features on",
        ));
    }
    Ok(())
}

async fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let addresses = tokio::net::lookup_host((host, port)).await?;
    let stream = connect_to_first(addresses, TcpStream::connect).await?;
    // Requests are small, and each is awaited.
    stream.set_nodelay(true)?;
    let keep_alive = TcpKeepalive::new().with_time(KEEP_ALIVE);
    SockRef::from(&stream).set_tcp_keepalive(&keep_alive)?;
    Ok(stream)
}

/// Makes the close of `stream` discard unsent data and reset the connection.
fn discard_unsent(stream: &TcpStream) {
    // Fails only if the connection is broken already.
    let _broken = stream.set_zero_linger();
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The address only, since the rest holds the password.
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
            assert!(error.to_string().contains("needs brackets"), "{error}");
        }
        assert!(Connector::new(&RedisConfig::new("redis://u:p:q@h:1")).is_ok());
    }
}
