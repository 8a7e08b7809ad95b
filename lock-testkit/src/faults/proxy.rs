//! The proxy: its listener and its thread.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::board::Board;
use super::connection::Connection;
use super::connections::Connections;
use super::pump::carry;
use super::rules::Which;
use crate::servers::free_port;

/// Maximum number of ports tried, since another process may take a port first.
const ATTEMPTS: u32 = 5;

/// Maximum time for which another process may use the port of a proxy that listens again.
const LISTEN_LIMIT: Duration = Duration::from_secs(5);

/// A TCP proxy on the loopback interface in front of a server.
///
/// It forwards all bytes until a test sets a fault; the [module](crate::faults) has an example. Any
/// thread can use it, inside or outside of a runtime. Dropping it closes all connections.
#[derive(Debug)]
pub struct Proxy {
    board: Arc<Board>,
    port: u16,
    /// Dropping the sender ends the thread.
    orders: Option<UnboundedSender<Order>>,
    thread: Option<JoinHandle<()>>,
}

/// An instruction for the thread, with the channel on which the thread confirms it.
type Order = (What, std::sync::mpsc::Sender<()>);

#[derive(Debug)]
enum What {
    Refuse,
    Accept,
    /// Leads new connections to this server.
    LeadTo(String),
}

impl Proxy {
    /// Starts a proxy in front of the server on `port` of the loopback interface.
    ///
    /// The server does not have to run yet.
    ///
    /// # Panics
    ///
    /// If the operating system gives no port or no thread.
    pub fn before(port: u16) -> Self {
        Self::before_server(on_loopback(port))
    }

    /// Starts a proxy in front of a server on any host, `host:port`.
    ///
    /// The server does not have to run yet.
    ///
    /// # Panics
    ///
    /// If the operating system gives no port or no thread.
    pub fn before_server(server: impl Into<String>) -> Self {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime for the proxy");
        let (own_port, listener) = listen_anywhere();
        let board = Arc::new(Board::default());
        let (orders, inbox) = unbounded_channel();
        let running = run(Arc::clone(&board), server.into(), listener, inbox);
        let thread = std::thread::Builder::new()
            .name("lock-testkit-proxy".into())
            .spawn(move || runtime.block_on(running))
            .expect("a thread for the proxy");
        Self {
            board,
            port: own_port,
            orders: Some(orders),
            thread: Some(thread),
        }
    }

    /// Returns the port of the proxy on the loopback interface, for the client under test.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Chooses all connections.
    pub fn all(&self) -> Connections<'_> {
        Connections::new(&self.board, Which::All)
    }

    /// Chooses one connection by its number in the order of connecting, from 0.
    pub fn nth(&self, number: usize) -> Connections<'_> {
        Connections::new(&self.board, Which::Nth(number))
    }

    /// Chooses the connections whose client sent `mark` among its first 4096 bytes.
    ///
    /// Use it to choose one of several connections of a client.
    pub fn opened_with(&self, mark: impl Into<Vec<u8>>) -> Connections<'_> {
        Connections::new(&self.board, Which::OpenedWith(mark.into()))
    }

    /// Refuses new connections, as a host without a server does; open connections stay.
    ///
    /// Returns once new connections are refused.
    ///
    /// # Panics
    ///
    /// If the proxy has failed before.
    pub fn refuse(&self) {
        self.order(What::Refuse);
    }

    /// Accepts new connections again. Returns once they are accepted.
    ///
    /// # Panics
    ///
    /// If another process uses the port for more than 5 seconds.
    pub fn accept(&self) {
        self.order(What::Accept);
    }

    /// Leads new connections to the server on `port`, like a switchover behind a proxy or a name.
    ///
    /// Open connections stay with their server. Returns once new connections lead to `port`.
    ///
    /// # Panics
    ///
    /// If the proxy has failed before.
    pub fn lead_to(&self, port: u16) {
        self.order(What::LeadTo(on_loopback(port)));
    }

    fn order(&self, what: What) {
        let (done, outcome) = std::sync::mpsc::channel();
        if let Some(orders) = &self.orders {
            // A thread that has ended does not answer, so `recv` below fails.
            let _ended = orders.send((what, done));
        }
        outcome.recv().expect("the proxy listens on its port");
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            eprintln!("the proxy on port {} has panicked", self.port);
        }
    }
}

fn on_loopback(port: u16) -> String {
    format!("{}:{port}", Ipv4Addr::LOCALHOST)
}

/// Binds the listener without a runtime, since the caller may already be inside a runtime.
fn listen_anywhere() -> (u16, StdListener) {
    let listen = |_| {
        let port = free_port();
        let listener = StdListener::bind((Ipv4Addr::LOCALHOST, port)).ok()?;
        listener.set_nonblocking(true).ok()?;
        Some((port, listener))
    };
    (0..ATTEMPTS)
        .find_map(listen)
        .expect("a port for the proxy")
}

/// Listens on the same port again. A process that looks for a free port may have it for a moment.
async fn listen_again(own: SocketAddr) -> TcpListener {
    let end = Instant::now() + LISTEN_LIMIT;
    loop {
        match TcpListener::bind(own).await {
            Ok(listener) => return listener,
            Err(error) => assert!(Instant::now() < end, "its own port is taken: {error}"),
        }
        sleep(Duration::from_millis(5)).await;
    }
}

async fn run(
    board: Arc<Board>,
    mut server: String,
    listener: StdListener,
    mut orders: UnboundedReceiver<Order>,
) {
    let own = listener.local_addr().expect("a bound socket");
    let mut listener = Some(TcpListener::from_std(listener).expect("in a runtime"));
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            order = orders.recv() => {
                let Some((what, done)) = order else { return };
                match what {
                    What::Refuse => listener = None,
                    What::Accept if listener.is_some() => {}
                    What::Accept => listener = Some(listen_again(own).await),
                    What::LeadTo(other) => server = other,
                }
                // The sender of the order waits for the answer.
                let _told = done.send(());
            }
            accepted = accept(listener.as_ref()) => {
                let Ok(client) = accepted else { continue };
                connections.spawn(serve(Arc::clone(&board), board.accepted(), client, server.clone()));
            }
            Some(_ended) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
}

async fn accept(listener: Option<&TcpListener>) -> io::Result<TcpStream> {
    match listener {
        Some(listener) => Ok(listener.accept().await?.0),
        None => std::future::pending().await,
    }
}

async fn serve(board: Arc<Board>, connection: Arc<Connection>, client: TcpStream, server: String) {
    let connected = async {
        let server = TcpStream::connect(server).await?;
        server.set_nodelay(true)?;
        client.set_nodelay(true)?;
        Ok::<_, io::Error>(server)
    };
    match connected.await {
        Ok(server) => carry(&board, &connection, client, server).await,
        // No server accepts the connection, so reset the client's connection, too.
        Err(_) => drop(client.set_zero_linger()),
    }
    connection.has_closed();
}
