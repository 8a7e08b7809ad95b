//! A proxy that makes the way to a lock store longer and counts round trips.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::location::{servers, with_servers};

/// The added time of a round trip while the way is long: half in each direction.
const ROUND_TRIP: Duration = Duration::from_millis(50);

/// Number of first calls, which open connections and load scripts.
const WARM_UP: usize = 4;

const TIMES: usize = 15;

/// A proxy in front of a store that finds out how many round trips a lock costs.
///
/// It measures the round trips that a lock waits for, by making the way longer. It counts the round
/// trips that are made. Dropping the value ends the proxy.
///
/// ```no_run
/// use lock_testkit::measure::Detour;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// if let Some((url, detour)) = Detour::to("redis://127.0.0.1").await? {
///     println!("connect to {url}");
///     println!("{} round trips so far", detour.trips());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Detour {
    way: Arc<Way>,
    _carrying: JoinSet<()>,
}

#[derive(Debug, Default)]
struct Way {
    is_long: AtomicBool,
    trips: AtomicU64,
}

impl Detour {
    /// Starts a proxy for the store at `url`, and returns the URL by which clients reach the proxy.
    ///
    /// The way is short at first. Returns `None` if the servers of the URL cannot be replaced, for
    /// example if their certificates are verified.
    ///
    /// # Errors
    ///
    /// If the loopback interface has no free port.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future leaves nothing behind.
    pub async fn to(url: &str) -> io::Result<Option<(String, Self)>> {
        let way = Arc::<Way>::default();
        let (mut carrying, mut stops) = (JoinSet::new(), Vec::new());
        let Some(servers) = servers(url) else {
            return Ok(None);
        };
        for server in servers {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
            stops.push(listener.local_addr()?.to_string());
            carrying.spawn(accept(listener, server, Arc::clone(&way)));
        }
        let url = with_servers(url, &stops);
        let detour = Self {
            way,
            _carrying: carrying,
        };
        Ok(Some((url, detour)))
    }

    /// Measures how many round trips `once` waits for; `once` returns the time that it took.
    ///
    /// The result is the additional time on a longer way, in round trips on that way. It includes
    /// only round trips that `once` waits for, whatever the protocol batches or does in the
    /// background. `None` if `once` never returns a time.
    ///
    /// # Errors
    ///
    /// The first error of `once`.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the current call of `once`, and may leave the way long.
    pub async fn round_trips<E>(
        &self,
        mut once: impl AsyncFnMut() -> Result<Option<Duration>, E>,
    ) -> Result<Option<f64>, E> {
        for _ in 0..WARM_UP {
            once().await?;
        }
        let (mut short, mut long) = (Vec::new(), Vec::new());
        for _ in 0..TIMES {
            short.extend(once().await?);
            self.be_long(true);
            long.extend(once().await?);
            self.be_long(false);
        }
        // Take the minimum, since a busy machine can only add time.
        let least = long.into_iter().min().zip(short.into_iter().min());
        let longer = least.map(|(long, short)| long.saturating_sub(short));
        Ok(longer.map(|longer| longer.as_secs_f64() / ROUND_TRIP.as_secs_f64()))
    }

    /// Returns the number of round trips that were made so far, over all connections.
    ///
    /// A request counts if the client sends it after the answer to the request before on the same
    /// connection. Requests that are sent together count once.
    pub fn trips(&self) -> u64 {
        self.way.trips.load(Ordering::Relaxed)
    }

    /// Adds [`ROUND_TRIP`] to each round trip from now on, or stops that.
    fn be_long(&self, is_long: bool) {
        self.way.is_long.store(is_long, Ordering::Relaxed);
    }
}

async fn accept(listener: TcpListener, server: String, way: Arc<Way>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let (server, way) = (server.clone(), Arc::clone(&way));
        connections.spawn(async move {
            // Each side notices the end of the other side by its closed connection.
            let _end = carry(client, &server, &way).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn carry(client: TcpStream, server: &str, way: &Way) -> io::Result<()> {
    let server = TcpStream::connect(server).await?;
    for stream in [&client, &server] {
        stream.set_nodelay(true)?;
    }
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let is_answered = AtomicBool::new(true);
    let asks = || {
        if is_answered.swap(false, Ordering::Relaxed) {
            way.trips.fetch_add(1, Ordering::Relaxed);
        }
    };
    let answers = || is_answered.store(true, Ordering::Relaxed);
    tokio::select! {
        end = copy(from_client, to_server, way, asks) => end,
        end = copy(from_server, to_client, way, answers) => end,
    }
}

/// Copies bytes in one direction, in order, each delayed by the length of the way at its start.
async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    way: &Way,
    sets_out: impl Fn(),
) -> io::Result<()> {
    // Bounded by the bytes that a client and its store exchange within a few milliseconds.
    let (on_the_way, mut arriving) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    let set_out = async {
        let mut bytes = vec![0; 16 * 1024];
        loop {
            let count = from.read(&mut bytes).await?;
            if count == 0 {
                return Ok(());
            }
            sets_out();
            let is_long = way.is_long.load(Ordering::Relaxed);
            let lasting = if is_long {
                ROUND_TRIP / 2
            } else {
                Duration::ZERO
            };
            // The receiver lives as long as this function.
            let _sent = on_the_way.send((Instant::now() + lasting, bytes[..count].to_vec()));
        }
    };
    let arrive = async {
        while let Some((arrives, bytes)) = arriving.recv().await {
            sleep_until(arrives).await;
            to.write_all(&bytes).await?;
        }
        Ok(())
    };
    tokio::select! {
        end = set_out => end,
        end = arrive => end,
    }
}
