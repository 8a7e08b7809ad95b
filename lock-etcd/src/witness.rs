//! A stream that remembers why it broke, which the driver does not pass on.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Why a stream broke, if it did.
#[derive(Clone, Default)]
pub(crate) struct Failure(Arc<Mutex<Option<io::Error>>>);

impl Failure {
    pub(crate) fn take(&self) -> Option<io::Error> {
        self.lock().take()
    }

    fn lock(&self) -> MutexGuard<'_, Option<io::Error>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes down the first error in reading, which is where the other end says why.
pub(crate) struct Witness<S> {
    stream: S,
    failure: Failure,
    /// What was read before the driver asked for it.
    heard: Vec<u8>,
}

impl<S: AsyncRead + Unpin> Witness<S> {
    /// A witness of `stream`, and where it writes down why that broke.
    pub(crate) fn of(stream: S) -> (Self, Failure) {
        let failure = Failure::default();
        let witness = Self {
            stream,
            failure: failure.clone(),
            heard: Vec::new(),
        };
        (witness, failure)
    }

    /// Waits for the other end's first word. Over TLS that comes unasked, or why there is none: a server
    /// that does not trust us says so after our side of the handshake is over, and what it says is lost
    /// if something is sent to it meanwhile.
    pub(crate) async fn listen(&mut self) -> io::Result<()> {
        let mut word = [0; 1024];
        let mut buffer = ReadBuf::new(&mut word);
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_read(context, &mut buffer))
            .await?;
        self.heard.extend_from_slice(buffer.filled());
        Ok(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Witness<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.heard.is_empty() {
            let fits = buffer.remaining().min(self.heard.len());
            buffer.put_slice(&self.heard[..fits]);
            self.heard.drain(..fits);
            return Poll::Ready(Ok(()));
        }
        let Err(error) = ready!(Pin::new(&mut self.stream).poll_read(context, buffer)) else {
            return Poll::Ready(Ok(()));
        };
        let kind = error.kind();
        self.failure.lock().get_or_insert(error);
        Poll::Ready(Err(kind.into()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Witness<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
