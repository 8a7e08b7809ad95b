//! The headquarters' end of the wire.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::tcp::OwnedWriteHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::Numbered;
use crate::stage::problem::Problem;
use crate::stage::{Message, Transport};

/// Answers calls for a headquarters; it ends with this value.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    _listening: JoinSet<()>,
}

impl Server {
    /// Listens on a free port that only this machine can reach.
    pub(crate) async fn start<C: Message, R: Message>(
        headquarters: Arc<dyn Transport<C, R>>,
    ) -> Result<Self, Problem> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let mut listening = JoinSet::new();
        listening.spawn(accept(listener, headquarters));
        Ok(Self {
            address,
            _listening: listening,
        })
    }
}

async fn accept<C: Message, R: Message>(
    listener: TcpListener,
    headquarters: Arc<dyn Transport<C, R>>,
) {
    let mut connections = JoinSet::new();
    // An instance that is not accepted fails by itself, and `run_instances` notices its end.
    while let Ok((stream, _)) = listener.accept().await {
        let headquarters = Arc::clone(&headquarters);
        connections.spawn(async move {
            // An instance that crashes breaks its connection, which is expected.
            let _end = attend(stream, headquarters).await;
        });
    }
}

async fn attend<C: Message, R: Message>(
    stream: TcpStream,
    headquarters: Arc<dyn Transport<C, R>>,
) -> Result<(), Problem> {
    stream.set_nodelay(true)?;
    let (reader, writer) = stream.into_split();
    let (outbox, lines_out) = mpsc::unbounded_channel();
    let mut work = JoinSet::new();
    work.spawn(write_lines(writer, lines_out));
    let mut lines = BufReader::new(reader).lines();
    while let Some(line) = lines.next_line().await? {
        let Numbered { number, content } = Numbered::<C>::from_line(&line)?;
        let (headquarters, outbox) = (Arc::clone(&headquarters), outbox.clone());
        work.spawn(async move {
            let content = headquarters.exchange(content).await?;
            let line = Numbered { number, content }.to_line()?;
            // The instance may be gone.
            let _unheard = outbox.send(line);
            Ok(())
        });
        while work.try_join_next().is_some() {}
    }
    Ok(())
}

async fn write_lines(
    mut writer: OwnedWriteHalf,
    mut lines: mpsc::UnboundedReceiver<String>,
) -> Result<(), Problem> {
    while let Some(line) = lines.recv().await {
        writer.write_all(line.as_bytes()).await?;
    }
    Ok(())
}
