//! The instance's end of the wire.

use std::collections::HashMap;
use std::net::SocketAddr;

use async_trait::async_trait;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::Numbered;
use crate::stage::problem::Problem;
use crate::stage::{Message, Transport};

type Pending<C, R> = (C, oneshot::Sender<R>);

/// A connection to the headquarters; it ends with this value.
pub(crate) struct Connection<C, R> {
    calls: mpsc::UnboundedSender<Pending<C, R>>,
    _carrier: JoinSet<()>,
}

impl<C: Message, R: Message> Connection<C, R> {
    pub(crate) async fn open(headquarters: SocketAddr) -> Result<Self, Problem> {
        let stream = TcpStream::connect(headquarters).await?;
        stream.set_nodelay(true)?;
        // The number of tasks bounds the channel: each task has at most one call under way.
        let (calls, outbox) = mpsc::unbounded_channel();
        let mut carrier = JoinSet::new();
        carrier.spawn(async move {
            if let Err(problem) = carry(stream, outbox).await {
                eprintln!("the connection to the headquarters broke: {problem}");
            }
        });
        Ok(Self {
            calls,
            _carrier: carrier,
        })
    }
}

#[async_trait]
impl<C: Message, R: Message> Transport<C, R> for Connection<C, R> {
    async fn exchange(&self, call: C) -> Result<R, Problem> {
        let (sender, reply) = oneshot::channel();
        self.calls
            .send((call, sender))
            .map_err(|_| "the headquarters hung up")?;
        Ok(reply.await.map_err(|_| "the headquarters hung up")?)
    }
}

/// Sends calls and receives replies until either side closes the connection.
async fn carry<C: Message, R: Message>(
    mut stream: TcpStream,
    mut outbox: mpsc::UnboundedReceiver<Pending<C, R>>,
) -> Result<(), Problem> {
    let (reader, mut writer) = stream.split();
    let mut lines = BufReader::new(reader).lines();
    let mut waiting: HashMap<u64, oneshot::Sender<R>> = HashMap::new();
    let mut number = 0;
    loop {
        // Both arms are cancel safe: a message or line that is not taken stays where it is.
        tokio::select! {
            pending = outbox.recv() => {
                let Some((content, sender)) = pending else { return Ok(()) };
                number += 1;
                waiting.insert(number, sender);
                let line = Numbered { number, content }.to_line()?;
                writer.write_all(line.as_bytes()).await?;
            }
            line = lines.next_line() => {
                let Some(line) = line? else { return Ok(()) };
                let Numbered { number, content } = Numbered::<R>::from_line(&line)?;
                if let Some(sender) = waiting.remove(&number) {
                    // The calling task may be gone.
                    let _unheard = sender.send(content);
                }
            }
        }
    }
}
