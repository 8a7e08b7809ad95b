//! Connects to a member over TCP or TLS, and waits for its first answer.

use std::io;
use std::time::Duration;

use etcd_client::{Channel, Client, ConnectOptions, Error as EtcdError, GetOptions};
use hyper_util::rt::TokioIo;
use lock_core::backend::{Clock, connect_to_first};
use lock_core::{Error, ErrorKind, Result};
#[cfg(feature = "tls")]
use lock_tls::Security;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tonic::transport::{Endpoint, Uri};
use tower::service_fn;

use crate::EtcdConfig;
use crate::connection::tls_error::ErrorKeeper;
use crate::connection::url::{Host, Location, config_error};
use crate::error::{BACKEND, advise, is_answer, rejects_user, translate};
use crate::keys::Keys;

/// The time that a server has to send its first bytes over TLS. Servers that send before they are
/// asked do so at once.
#[cfg(feature = "tls")]
const FIRST_WORD_LIMIT: Duration = Duration::from_millis(300);

/// The connector of a client, which opens connections to the members of one cluster.
pub(crate) struct Connector {
    location: Location,
    /// The key that is read first.
    probe: String,
    #[cfg(feature = "tls")]
    security: Option<Security>,
}

impl Connector {
    /// Parses the URL, and checks the other settings against it. Opens no connection.
    pub(crate) fn new(config: &EtcdConfig, keys: &Keys) -> Result<Self> {
        let location = Location::parse(&config.url)?;
        check(config, &location)?;
        Ok(Self {
            probe: keys.probe().to_owned(),
            #[cfg(feature = "tls")]
            security: location
                .is_secure
                .then(|| Security::new(config.tls.clone()).speaking("h2")),
            location,
        })
    }

    /// Returns the number of members.
    pub(crate) fn members(&self) -> usize {
        self.location.hosts.len()
    }

    /// Returns true if the client logs in with a user and a password.
    pub(crate) fn logs_in(&self) -> bool {
        self.location.user.is_some()
    }

    /// Returns the host and port of a member.
    pub(crate) fn server(&self, member: usize) -> String {
        self.host(member).to_string()
    }

    /// Returns host and port of all members.
    pub(crate) fn servers(&self) -> String {
        let hosts: Vec<String> = self.location.hosts.iter().map(Host::to_string).collect();
        hosts.join(",")
    }

    fn host(&self, member: usize) -> &Host {
        &self.location.hosts[member % self.members()]
    }

    /// Opens a connection to a member on the runtime of the caller, which has to outlive it.
    /// Returns once the member has answered.
    pub(crate) async fn open(&self, member: usize) -> Result<Client> {
        let host = self.host(member);
        #[cfg(feature = "tls")]
        if let Some(security) = &self.security {
            return self.open_secure(host, security).await;
        }
        let stream = open_stream(host).await.map_err(broken)?;
        let (stream, record) = ErrorKeeper::of(stream);
        let greeting = self.greet(host, stream).await;
        greeting.map_err(|error| explain_plain(error, &record.lock().beginning))
    }

    #[cfg(feature = "tls")]
    async fn open_secure(&self, host: &Host, security: &Security) -> Result<Client> {
        let ready = security.prepare(&host.name).await;
        let handshake = ready.map_err(|error| error.with_backend(BACKEND))?;
        let stream = open_stream(host).await.map_err(broken)?;
        let stream = handshake.over(stream).await.map_err(explain)?;
        let (mut stream, record) = ErrorKeeper::of(stream);
        let limit = Clock::Boot.now().plus(FIRST_WORD_LIMIT);
        let first_word = tokio::select! {
            first_word = stream.listen() => first_word,
            () = Clock::Boot.sleep_until(limit) => Ok(()),
        };
        first_word.map_err(|error| explain(record.lock().failure.take().unwrap_or(error)))?;
        let greeting = self.greet(host, stream).await;
        greeting.map_err(|error| match record.lock().failure.take() {
            Some(failure) => explain(failure),
            None => translate(error),
        })
    }

    /// Logs in, and reads a key. A connection to a stopped member can be opened, so only an answer
    /// shows that the member serves requests.
    async fn greet<S>(&self, host: &Host, stream: S) -> std::result::Result<Client, EtcdError>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let channel = channel(host, stream, self.location.is_secure).await?;
        // Members without a leader then refuse requests at once, and end the streams that need a
        // leader.
        let mut options = ConnectOptions::new()
            .with_require_leader(true)
            .with_auto_token_refresh(true);
        if let Some((name, password)) = &self.location.user {
            options = options.with_user(name, password);
        }
        let client = Client::from_channel(Channel::Tonic(channel), Some(options)).await?;
        let look = GetOptions::new().with_serializable().with_count_only();
        let first = client
            .kv_client()
            .get(self.probe.as_str(), Some(look))
            .await;
        match first {
            // Any other answer shows that the member serves requests.
            Err(error) if !is_answer(&error) || rejects_user(&error) => Err(error),
            Ok(_) | Err(_) => Ok(client),
        }
    }
}

/// Opens a channel of the driver over `stream`. The driver does not replace a broken channel: the
/// client then connects to another member.
async fn channel<S>(
    host: &Host,
    stream: S,
    is_secure: bool,
) -> std::result::Result<tonic::transport::Channel, EtcdError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let scheme = if is_secure { "https" } else { "http" };
    let at = |scheme: &str| format!("{scheme}://{host}").parse::<Uri>();
    let endpoint = Endpoint::from(at("http")?).origin(at(scheme)?);
    let mut stream = Some(TokioIo::new(stream));
    let connector = service_fn(move |_: Uri| {
        let stream = stream.take();
        std::future::ready(stream.ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected)))
    });
    Ok(endpoint.connect_with_connector(connector).await?)
}

/// Checks the settings against the URL.
fn check(config: &EtcdConfig, location: &Location) -> Result<()> {
    config.tls.check()?;
    if let Some(setting) = config.tls.first_given().filter(|_| !location.is_secure) {
        return Err(config_error(format!(
            "{setting} is set, and etcd:// has no TLS: use etcds://, or leave {setting} out"
        )));
    }
    if location.is_secure && !cfg!(feature = "tls") {
        return Err(config_error(
            "etcds:// needs the cargo feature `tls` of lock-etcd, which was turned off: leave its default features on",
        ));
    }
    Ok(())
}

async fn open_stream(host: &Host) -> io::Result<TcpStream> {
    let addresses = tokio::net::lookup_host((host.name.as_str(), host.port)).await?;
    let stream = connect_to_first(addresses, TcpStream::connect).await?;
    // Requests are small, and the client waits for each answer.
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Explains a failure of the connection or of its TLS.
#[cfg(feature = "tls")]
fn explain(error: io::Error) -> Error {
    let error = match lock_tls::explain(error) {
        Ok(told) => return told.with_backend(BACKEND),
        Err(error) => error,
    };
    if is_closed(error.kind()) {
        let told = "the server closes the connection before TLS is agreed on: use its TLS port, or \
             etcd:// if it has none";
        return Error::new(ErrorKind::Unavailable, told)
            .with_backend(BACKEND)
            .with_source(error);
    }
    broken(error)
}

#[cfg(feature = "tls")]
fn is_closed(kind: io::ErrorKind) -> bool {
    matches!(
        kind,
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
    )
}

/// Explains why the first request failed without TLS, by the first bytes of the server.
fn explain_plain(error: EtcdError, beginning: &[u8]) -> Error {
    const SECURE: &str =
        "the server speaks TLS there: use etcds:// (with tls_ca), or its port without TLS";
    let (kind, advice) = match beginning {
        _ if is_answer(&error) => return translate(error),
        // An alert, or a handshake.
        [0x15 | 0x16, 3, ..] => (ErrorKind::Unavailable, SECURE),
        [b'H', b'T', b'T', b'P', b'/', b'1', ..] => (
            ErrorKind::Unavailable,
            "a server of HTTP/1 answers there: use the port where etcd serves its clients, 2379 by \
             default, and etcds:// if that speaks TLS",
        ),
        [b'-', b'A'..=b'Z', ..] => (
            ErrorKind::Config,
            "a Redis server answers there: use redis://, or the port of etcd, 2379 by default",
        ),
        [_, _, _, 0, 0x0a | 0xff, ..] => (
            ErrorKind::Config,
            "a MySQL server answers there: use mysql://, or the port of etcd, 2379 by default",
        ),
        // Servers that expect a TLS handshake close the connection without an answer.
        [] => (
            ErrorKind::Unavailable,
            "the server closes the connection: if it speaks TLS use etcds:// (with tls_ca), else check \
             that it is an etcd server and runs",
        ),
        // The SETTINGS frame of HTTP/2.
        [_, _, _, 4, ..] => return translate(error),
        _ => (
            ErrorKind::Unavailable,
            "no etcd server answers there: use the port of etcd, 2379 by default",
        ),
    };
    advise(error, kind, advice)
}

/// Creates the error for a failed connection.
pub(crate) fn broken(error: io::Error) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!("{error}: check that the servers run and are reachable"),
    )
    .with_backend(BACKEND)
    .with_source(error)
}
