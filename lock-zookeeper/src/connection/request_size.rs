//! The size that requests may have.
//!
//! A server closes the connection of a request that is larger than its `jute.maxbuffer`, and
//! reports that only in its log. The session continues over another connection, which a repetition
//! of the request would end, too. Answers are not limited.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lock_core::backend::Mutex;
use lock_core::{Error, ErrorKind, Result};

use crate::error::{no_answer, too_large};

/// The largest request, in bytes. That is far less than a megabyte, the default limit of servers,
/// and more than the largest batches with short paths.
pub(crate) const REQUEST_MAX: usize = 64 * 1024;

/// The size up to which requests count as harmless, in bytes: they are not made smaller.
const BLAMELESS: usize = 1024;

/// The number of lost connections in a row after which batches are made smaller. A single
/// connection may be lost for any reason.
const TO_HALVE: u32 = 2;

/// The number of lost connections after which a request that cannot be made smaller is given up.
const TO_GIVE_UP: u32 = 3;

/// The bytes of an operation beside its path.
const BESIDE: usize = 32;

/// The largest name of a claim, in bytes.
const CLAIM_NAME: usize = 128;

/// The size of one request.
#[derive(Clone, Copy)]
pub(crate) struct RequestSize {
    bytes: usize,
    operations: usize,
}

impl RequestSize {
    /// Returns the size of a request with operations on `paths`.
    pub(crate) fn of<'a>(paths: impl IntoIterator<Item = &'a str>) -> Self {
        let nothing = Self {
            bytes: 0,
            operations: 0,
        };
        paths.into_iter().fold(nothing, |so_far, path| Self {
            bytes: so_far.bytes + path.len() + BESIDE,
            operations: so_far.operations + 1,
        })
    }
}

/// The size of requests that the servers are known to take.
pub(crate) struct RequestSizes(Mutex<RequestLimits>);

struct RequestLimits {
    most: usize,
    suspect: Option<Suspect>,
}

/// The largest request that was under way when its connection ended.
#[derive(Clone, Copy)]
struct Suspect {
    bytes: usize,
    /// The number of connections that ended in a row, without an answer to a request of that size.
    connections: u32,
}

impl Default for RequestSizes {
    fn default() -> Self {
        Self(Mutex::new(RequestLimits {
            most: REQUEST_MAX,
            suspect: None,
        }))
    }
}

impl RequestSizes {
    /// Splits `items` into requests of at most `most` items and `bytes`. `path` returns the length
    /// of an item's path.
    pub(crate) fn cut<T>(
        &self,
        items: Vec<T>,
        most: usize,
        bytes: usize,
        path: impl Fn(&T) -> usize,
    ) -> impl Iterator<Item = Vec<T>> {
        let limit = self.0.lock().most.min(bytes);
        let mut items = items.into_iter().peekable();
        std::iter::from_fn(move || {
            let (mut part, mut request_size) = (Vec::new(), 0);
            while let Some(next) = items.next_if(|next| {
                request_size += path(next) + BESIDE;
                part.is_empty() || part.len() < most && request_size <= limit
            }) {
                part.push(next);
            }
            (!part.is_empty()).then_some(part)
        })
    }

    /// Notes that a server has taken a request.
    pub(crate) fn answered(&self, request_size: RequestSize) {
        let mut known = self.0.lock();
        known
            .suspect
            .take_if(|suspect| request_size.bytes >= suspect.bytes);
    }

    /// Notes that a connection ended while a request was under way. `is_told` is set once the end
    /// of the connection was counted.
    pub(crate) fn lost(&self, request_size: RequestSize, is_told: &AtomicBool) {
        if request_size.bytes <= BLAMELESS {
            return;
        }
        let mut known = self.0.lock();
        let is_first = !is_told.swap(true, Ordering::SeqCst);
        let suspect = match known.suspect {
            Some(suspect) => Suspect {
                bytes: suspect.bytes.max(request_size.bytes),
                connections: suspect.connections + u32::from(is_first),
            },
            None if is_first => Suspect {
                bytes: request_size.bytes,
                connections: 1,
            },
            // This connection has already made batches smaller.
            None => return,
        };
        known.suspect = Some(suspect);
        if request_size.operations > 1 && suspect.connections >= TO_HALVE {
            known.most = BLAMELESS.max(known.most.min(suspect.bytes) / 2);
            known.suspect = None;
            tracing::info!(
                bytes = known.most,
                "zookeeper: servers close the connection with large requests, sending smaller ones"
            );
        }
    }

    /// Returns the size of a request that cannot be made smaller, and that ends its connections.
    fn refused(&self) -> Option<usize> {
        let suspect = self.0.lock().suspect;
        let refused = suspect.filter(|suspect| suspect.connections >= TO_GIVE_UP);
        refused.map(|suspect| suspect.bytes)
    }

    /// Fails if a claim in the queue of `lock` is too large to be sent again.
    pub(crate) fn check(&self, lock: &str) -> Result<()> {
        let own = lock.len() + CLAIM_NAME + BESIDE;
        let refused = self.refused().filter(|bytes| *bytes <= own);
        refused.map_or(Ok(()), |bytes| Err(too_large(ErrorKind::Backend, bytes)))
    }

    /// Creates the error for no answer within `limit`, with its likely reason.
    pub(crate) fn no_answer(&self, limit: Duration) -> Error {
        match self.refused() {
            // The large request may belong to another caller, while this caller waits for a
            // connection.
            Some(bytes) => too_large(ErrorKind::Unavailable, bytes),
            None => no_answer(limit),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(request_sizes: &RequestSizes, items: Vec<usize>, most: usize) -> Vec<usize> {
        let parts = request_sizes.cut(items, most, REQUEST_MAX, |item| *item);
        parts.map(|part| part.len()).collect()
    }

    fn batch(bytes: usize) -> RequestSize {
        RequestSize {
            bytes,
            operations: 500,
        }
    }

    fn single(bytes: usize) -> RequestSize {
        RequestSize {
            bytes,
            operations: 1,
        }
    }

    #[test]
    fn parts_are_cut_by_number_and_by_weight_and_nothing_is_lost() {
        let request_sizes = RequestSizes::default();
        assert_eq!(sizes(&request_sizes, vec![10; 7], 3), [3, 3, 1]);
        assert_eq!(
            sizes(&request_sizes, vec![8192 - BESIDE; 20], 500),
            [8, 8, 4]
        );
        // An item that is too large is sent alone, and the server may refuse it.
        assert_eq!(sizes(&request_sizes, vec![10, 100_000, 10], 500), [1, 1, 1]);
        assert_eq!(sizes(&request_sizes, Vec::new(), 500), [0; 0]);
        // Claims of ordinary names are read by 500 and removed by 256.
        assert_eq!(sizes(&request_sizes, vec![95; 1_000], 500), [500, 500]);
        assert_eq!(sizes(&request_sizes, vec![200; 512], 256), [256, 256]);
    }

    #[test]
    fn batches_are_halved_when_two_connections_in_a_row_end_with_them() {
        let request_sizes = RequestSizes::default();
        let mut limits = Vec::new();
        for _ in 0..8 {
            let limit = request_sizes.0.lock().most;
            limits.push(limit);
            // All requests that are under way on a connection end with it, in any order.
            for _ in 0..2 {
                let is_told = AtomicBool::new(false);
                request_sizes.lost(batch(limit / 4), &is_told);
                request_sizes.lost(batch(limit), &is_told);
            }
        }
        assert_eq!(limits[..7], [65536, 32768, 16384, 8192, 4096, 2048, 1024]);
        assert_eq!(limits[7], BLAMELESS);
        assert_eq!(request_sizes.refused(), None);
    }

    #[test]
    fn a_connection_that_ends_for_another_reason_halves_nothing() {
        let request_sizes = RequestSizes::default();
        for _ in 0..10 {
            request_sizes.lost(batch(50_000), &AtomicBool::new(false));
            request_sizes.answered(batch(50_000));
            request_sizes.lost(batch(BLAMELESS), &AtomicBool::new(false));
            request_sizes.lost(single(100), &AtomicBool::new(false));
        }
        assert_eq!(request_sizes.0.lock().most, REQUEST_MAX);
        assert_eq!(request_sizes.refused(), None);
    }

    #[test]
    fn one_that_cannot_be_halved_is_given_up_until_one_like_it_is_answered() {
        let request_sizes = RequestSizes::default();
        let lock = "x".repeat(2_000);
        for is_refused in [false, false, true, true] {
            request_sizes.lost(single(2_100), &AtomicBool::new(false));
            request_sizes.answered(single(200));
            assert_eq!(request_sizes.check(&lock).is_err(), is_refused);
            assert!(request_sizes.check("/short").is_ok(), "it is not to blame");
            let told = request_sizes.no_answer(Duration::from_secs(2)).to_string();
            assert_eq!(told.contains("jute.maxbuffer"), is_refused, "{told}");
        }
        assert_eq!(request_sizes.0.lock().most, REQUEST_MAX);
        request_sizes.answered(batch(4_000));
        assert!(request_sizes.check(&lock).is_ok());
    }
}
