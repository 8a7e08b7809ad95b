//! A way to a lock store that takes longer, and knows how often it is gone.

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

/// How much longer a round trip takes while the way is long: half of it there, half of it back.
const ROUND_TRIP: Duration = Duration::from_millis(50);

/// The first times open connections and learn scripts.
const WARM_UP: usize = 4;

const TIMES: usize = 15;

/// Stands between a client and its store, and tells how many round trips a lock costs: those that it waits
/// for, by making the way longer, and those that are made. It ends with this value.
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
    /// The URL of the store by this way, which is short at first; `None` for a URL whose hosts cannot be
    /// replaced, as where their certificates are verified.
    ///
    /// # Errors
    ///
    /// When no port of the loopback interface can be had.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
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

    /// How many round trips `once` waits for, which tells how long it took: by how much longer it takes on a
    /// longer way, in round trips on that way. It counts what is waited for, whatever the protocol packs
    /// together or does in the background. `None` when it never told.
    ///
    /// # Errors
    ///
    /// The first error of `once`.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the call that is under way, and may leave the way long.
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
        // The least, since a busy machine can only make it more.
        let least = long.into_iter().min().zip(short.into_iter().min());
        let longer = least.map(|(long, short)| long.saturating_sub(short));
        Ok(longer.map(|longer| longer.as_secs_f64() / ROUND_TRIP.as_secs_f64()))
    }

    /// How often a client has asked the store something since this began, after it had the answer to what
    /// it had asked before on the same connection. What was packed together counts once.
    pub fn trips(&self) -> u64 {
        self.way.trips.load(Ordering::Relaxed)
    }

    /// From now on each round trip takes [`ROUND_TRIP`] longer, or no longer than without it.
    fn be_long(&self, is_long: bool) {
        self.way.is_long.store(is_long, Ordering::Relaxed);
    }
}

async fn accept(listener: TcpListener, server: String, way: Arc<Way>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let (server, way) = (server.clone(), Arc::clone(&way));
        connections.spawn(async move {
            // Either side learns of the end of the other by the end of its connection.
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

/// Carries bytes one way, in order, each as late as the way is long when it sets out.
async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    way: &Way,
    sets_out: impl Fn(),
) -> io::Result<()> {
    // Bounded by what a client and its store say to each other within a few milliseconds.
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
            // The other end is in this function.
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
