//! A connection through the proxy, as far as a test can observe it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::rules::Way;

/// Number of bytes kept from the start of the client's stream, to identify the connection.
const OPENING: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// In order (FIN).
    Cut,
    /// As by a host that does not know the connection any more (RST).
    Reset,
}

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) number: usize,
    opening: Mutex<Vec<u8>>,
    to_server: AtomicUsize,
    to_client: AtomicUsize,
    /// Set once the connection is to be closed.
    end: Mutex<Option<End>>,
    /// True once the stream to the server, or to the client, has to end.
    ended: [AtomicBool; 2],
    closed: AtomicBool,
}

impl Connection {
    pub(super) fn new(number: usize) -> Self {
        Self {
            number,
            opening: Mutex::default(),
            to_server: AtomicUsize::new(0),
            to_client: AtomicUsize::new(0),
            end: Mutex::default(),
            ended: [AtomicBool::new(false), AtomicBool::new(false)],
            closed: AtomicBool::new(false),
        }
    }

    /// Notes bytes that were received, whether or not they are forwarded.
    pub(super) fn came(&self, way: Way, bytes: &[u8]) {
        self.counter(way).fetch_add(bytes.len(), Ordering::Relaxed);
        if way == Way::ToServer {
            let mut opening = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
            let missing = OPENING.saturating_sub(opening.len()).min(bytes.len());
            opening.extend_from_slice(&bytes[..missing]);
        }
    }

    pub(super) fn bytes(&self, way: Way) -> usize {
        self.counter(way).load(Ordering::Relaxed)
    }

    fn counter(&self, way: Way) -> &AtomicUsize {
        match way {
            Way::ToServer => &self.to_server,
            Way::ToClient => &self.to_client,
        }
    }

    /// Returns true if `mark` is among the first bytes that the client sent.
    pub(super) fn opened_with(&self, mark: &[u8]) -> bool {
        let opening = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        opening.windows(mark.len().max(1)).any(|part| part == mark)
    }

    /// Notes how the connection is to be closed; only the first call counts.
    pub(super) fn end_by(&self, end: End) {
        self.end
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert(end);
    }

    pub(super) fn end(&self) -> Option<End> {
        *self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the stream in this direction ends, so that its receiver sees the end.
    pub(super) fn end_one_way(&self, way: Way) {
        self.ended[way as usize].store(true, Ordering::Relaxed);
    }

    pub(super) fn has_ended(&self, way: Way) -> bool {
        self.ended[way as usize].load(Ordering::Relaxed)
    }

    pub(super) fn has_closed(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_open(&self) -> bool {
        !self.closed.load(Ordering::Relaxed)
    }
}
