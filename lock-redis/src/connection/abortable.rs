//! A stream that can be aborted from outside.

use lock_core::backend::Mutex;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream that [`Abort`] closes from any runtime.
pub(crate) struct Abortable<S>(Arc<Mutex<Option<S>>>);

/// Closes a stream at once. Data that was written but has not arrived is never sent.
pub(crate) type Abort = Box<dyn Fn() + Send + Sync>;

impl<S: Send + Unpin + 'static> Abortable<S> {
    /// Wraps `stream`; `discard` has the close drop data that was not sent yet.
    pub(crate) fn new(stream: S, discard: fn(&S)) -> (Self, Abort) {
        let shared = Arc::new(Mutex::new(Some(stream)));
        let aborted = Arc::clone(&shared);
        let abort = move || {
            if let Some(stream) = aborted.lock().take() {
                discard(&stream);
            }
        };
        (Self(shared), Box::new(abort))
    }

    fn poll<T>(
        &self,
        poll: impl FnOnce(Pin<&mut S>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        match &mut *self.0.lock() {
            Some(stream) => poll(Pin::new(stream)),
            None => Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into())),
        }
    }
}

impl<S: AsyncRead + Send + Unpin + 'static> AsyncRead for Abortable<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.poll(|stream| stream.poll_read(context, buffer))
    }
}

impl<S: AsyncWrite + Send + Unpin + 'static> AsyncWrite for Abortable<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll(|stream| stream.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll(|stream| stream.poll_write_vectored(context, bytes))
    }

    fn is_write_vectored(&self) -> bool {
        self.0
            .lock()
            .as_ref()
            .is_some_and(AsyncWrite::is_write_vectored)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(|stream| stream.poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(|stream| stream.poll_shutdown(context))
    }
}
