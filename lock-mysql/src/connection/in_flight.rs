//! The count of a claim's requests that continue in the background.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use lock_core::backend::{ClaimId, Mutex};
use tokio::sync::watch;

/// The number of requests that continue in the background, by claim.
///
/// Invariant: no other request is sent for a claim meanwhile. Why: a clean-up would overtake the
/// take that it cleans up. Breaks if: a request for the claim does not wait for
/// [`settled`](Self::settled).
#[derive(Debug, Default)]
pub(crate) struct InFlightByClaim(Mutex<HashMap<ClaimId, watch::Sender<usize>>>);

/// A background request of a claim, which is counted until this is dropped.
pub(crate) struct InFlightGuard {
    claim: ClaimId,
    in_flight: Arc<InFlightByClaim>,
}

impl InFlightByClaim {
    pub(crate) fn enter(self: &Arc<Self>, claim: ClaimId) -> InFlightGuard {
        let mut in_flight = self.0.lock();
        let count = in_flight.entry(claim).or_default();
        count.send_modify(|count| *count += 1);
        InFlightGuard {
            claim,
            in_flight: Arc::clone(self),
        }
    }

    /// Returns a future that waits until `claim` has no background requests; `None` if it has none.
    pub(crate) fn settled(&self, claim: ClaimId) -> Option<impl Future<Output = ()> + use<>> {
        let mut count = self.0.lock().get(&claim)?.subscribe();
        Some(async move {
            // An error means that the entry was removed, which happens with the last request.
            let _settled = count.wait_for(|count| *count == 0).await;
        })
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        let mut in_flight = self.in_flight.0.lock();
        if let Entry::Occupied(entry) = in_flight.entry(self.claim) {
            entry.get().send_modify(|count| *count -= 1);
            if *entry.get().borrow() == 0 {
                entry.remove();
            }
        }
    }
}
