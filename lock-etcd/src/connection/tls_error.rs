//! A stream that keeps its first bytes and its first error, which the driver does not report.

use lock_core::backend::Mutex;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The number of bytes that are kept from the beginning of the stream.
const BEGINNING: usize = 256;

/// The record of a stream.
#[derive(Default)]
pub(crate) struct StreamRecord {
    /// The first bytes that the server sent.
    pub(crate) beginning: Vec<u8>,
    /// The error that broke the stream, if it is broken.
    pub(crate) failure: Option<io::Error>,
}

/// A stream that records its first bytes and its first read error, which has the server's reason.
pub(crate) struct ErrorKeeper<S> {
    stream: S,
    record: Arc<Mutex<StreamRecord>>,
    /// Bytes that were read before the driver asked for them.
    read_ahead: Vec<u8>,
}

impl<S: AsyncRead + Unpin> ErrorKeeper<S> {
    /// Wraps `stream`; returns the wrapper and its record.
    pub(crate) fn of(stream: S) -> (Self, Arc<Mutex<StreamRecord>>) {
        let record = Arc::<Mutex<StreamRecord>>::default();
        let keeper = Self {
            stream,
            record: Arc::clone(&record),
            read_ahead: Vec::new(),
        };
        (keeper, record)
    }

    /// Waits for the first bytes of the server, which come unasked with TLS.
    ///
    /// A server that does not trust the client sends an alert after the client's handshake has
    /// ended. The client loses the alert if it sends anything before it has read the alert.
    #[cfg(feature = "tls")]
    pub(crate) async fn listen(&mut self) -> io::Result<()> {
        let mut word = [0; 1024];
        let mut buffer = ReadBuf::new(&mut word);
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_read(context, &mut buffer))
            .await?;
        self.read_ahead.extend_from_slice(buffer.filled());
        Ok(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ErrorKeeper<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.read_ahead.is_empty() {
            let fits = buffer.remaining().min(self.read_ahead.len());
            buffer.put_slice(&self.read_ahead[..fits]);
            self.read_ahead.drain(..fits);
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        let outcome = ready!(Pin::new(&mut self.stream).poll_read(context, buffer));
        Poll::Ready(match outcome {
            Ok(()) => {
                let read = &buffer.filled()[before..];
                let beginning = &mut self.record.lock().beginning;
                let left = BEGINNING.saturating_sub(beginning.len());
                beginning.extend_from_slice(&read[..read.len().min(left)]);
                Ok(())
            }
            Err(error) => {
                let kind = error.kind();
                self.record.lock().failure.get_or_insert(error);
                Err(kind.into())
            }
        })
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ErrorKeeper<S> {
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

    /// Returns false, so that the driver's HTTP/2 library sends a take with one write.
    ///
    /// The library then copies messages of up to a kilobyte between their frames, and writes all of
    /// it at once. With vectored writes it copies up to 256 bytes, and a take is larger. The last
    /// frame of the take would then leave with a second write, some thread switches later.
    fn is_write_vectored(&self) -> bool {
        false
    }
}
