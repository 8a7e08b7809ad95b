//! A proxy that inspects each request of a client.

use std::pin::Pin;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// The types of requests in the protocol.
pub(crate) const DELETE: u32 = 2;
pub(crate) const MULTI: u32 = 14;
pub(crate) const CREATE_CONTAINER: u32 = 19;

/// The decision on a request: true passes it on. It may be pending for a while.
pub(crate) type Decision = Pin<Box<dyn Future<Output = bool> + Send>>;

/// A function that decides on a request, given its type and its bytes.
pub(crate) type Judge = Arc<dyn Fn(u32, Vec<u8>) -> Decision + Send + Sync>;

pub(crate) struct Requests {
    pub(crate) port: u16,
    cut: watch::Sender<()>,
    _accepting: JoinSet<()>,
}

impl Requests {
    pub(crate) async fn before(server: u16, judge: Judge) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let (cut, cuts) = watch::channel(());
        let mut accepting = JoinSet::new();
        accepting.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let (judge, mut cuts) = (Arc::clone(&judge), cuts.clone());
                connections.spawn(async move {
                    let server = TcpStream::connect(("127.0.0.1", server)).await;
                    let Ok(server) = server else { return };
                    let (from_client, mut to_client) = client.into_split();
                    let (mut from_server, to_server) = server.into_split();
                    cuts.mark_unchanged();
                    tokio::select! {
                        _ = pass_on(from_client, to_server, &judge) => {}
                        _ = copy(&mut from_server, &mut to_client) => {}
                        _ = cuts.changed() => {}
                    }
                });
            }
        });
        Self {
            port,
            cut,
            _accepting: accepting,
        }
    }

    pub(crate) fn cut(&self) {
        self.cut.send_replace(());
    }
}

async fn pass_on(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    judge: &Judge,
) -> std::io::Result<()> {
    let mut is_greeting = true;
    loop {
        let length = from.read_u32().await?;
        let mut request = vec![0; length as usize];
        from.read_exact(&mut request).await?;
        let kind = request.get(4..8).and_then(|kind| kind.try_into().ok());
        let kind = kind.map_or(0, u32::from_be_bytes);
        if is_greeting || judge(kind, request.clone()).await {
            to.write_u32(length).await?;
            to.write_all(&request).await?;
        }
        is_greeting = false;
    }
}
