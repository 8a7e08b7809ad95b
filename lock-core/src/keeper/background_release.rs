//! Releases that no caller waits for.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use tokio::runtime::Handle;

use crate::LossReason;
use crate::backend::{Backoff, Moment};
use crate::hold::Hold;
use crate::keeper::at_runtime::RuntimeKeeper;
use crate::keeper::inner::KeeperInner;
use crate::keeper::shutdown_gate::ReleaseGuard;

/// The time before its end from which on a minimum hold or a lock delay is awaited precisely.
const PRECISE: Duration = Duration::from_secs(1);

impl KeeperInner {
    /// Registers a release in progress. Without it, the store ends the hold after the store's ttl.
    pub(crate) fn releasing(&self, hold: &Hold) -> ReleaseGuard {
        let now = self.clock.now();
        let of_key = self.releases.begin(&hold.id);
        self.gate.release(of_key, now, now.plus(hold.store_ttl()))
    }

    /// Releases `hold` in a task on `runtime`.
    pub(crate) fn release_from(self: &Arc<Self>, runtime: &Handle, hold: &Arc<Hold>) {
        let (keeper, hold, releasing) = (Arc::clone(self), Arc::clone(hold), self.releasing(hold));
        runtime.spawn(keeper.release_until_confirmed(hold, None::<()>, releasing));
    }

    /// Repeats the release until the store confirms it, at most for the store's ttl. After that the
    /// store itself has ended the hold. Drops `place` afterwards.
    async fn release_until_confirmed<P: Send>(
        self: Arc<Self>,
        hold: Arc<Hold>,
        mut place: Option<P>,
        releasing: ReleaseGuard,
    ) {
        let end = self.clock.now().plus(hold.store_ttl());
        let mut backoff = Backoff::new(Duration::from_millis(5), Duration::from_secs(1));
        while let Err(error) = self.release(&hold).await {
            let left = end.since(self.clock.now());
            if left.is_zero() {
                tracing::warn!(key = %hold.id.key(), %error, "release not confirmed; the ttl ends the hold");
                return;
            }
            let pause = backoff.next_pause().min(left);
            if !error.is_retryable() {
                // Let the next waiter get the store's error now instead of after a ttl.
                place = None;
            }
            tokio::time::sleep(pause).await;
        }
        releasing.confirmed();
        drop(place);
    }
}

impl RuntimeKeeper {
    /// Releases a hold at `until`, when its lock delay and its minimum hold are over.
    ///
    /// Most stores have ended the hold by then, but a store whose holds share a lease may not have.
    /// Until then no release is registered, so a shutdown does not wait for it.
    pub(crate) fn release_after(&self, hold: &Arc<Hold>, until: Moment) {
        let (keeper, hold) = (Arc::clone(&self.client), Arc::clone(hold));
        self.handle.spawn(async move {
            // A minimum hold may last for hours, and a precise sleep wakes up often.
            loop {
                let left = until.since(keeper.clock.now());
                if left <= PRECISE {
                    break;
                }
                tokio::time::sleep(left / 2).await;
            }
            keeper.clock.sleep_until(until).await;
            let releasing = keeper.releasing(&hold);
            keeper
                .release_until_confirmed(hold, None::<()>, releasing)
                .await;
        });
    }

    /// Releases a hold from any thread, also in `Drop`. Drops `place` after the confirmation, so
    /// that the next waiter of this process claims only then.
    pub(crate) fn release_in_background<P: Send + 'static>(
        &self,
        hold: &Arc<Hold>,
        releasing: ReleaseGuard,
        place: Option<P>,
    ) {
        let (keeper, hold) = (Arc::clone(&self.client), Arc::clone(hold));
        self.run_release(keeper.release_until_confirmed(hold, place, releasing));
    }

    /// Ends a hold with `reason` whose conversion to the claim `to` has an unknown outcome, and
    /// releases both in the background, when lock delay and minimum hold are over.
    pub(crate) fn give_up_conversion(&self, hold: &Arc<Hold>, to: &Arc<Hold>, reason: LossReason) {
        let keeper = Arc::clone(&self.client);
        // Created before the hold ends, so that a shutdown always sees the hold or its release.
        let [of_hold, of_claim] = [hold, to].map(|hold| keeper.releasing(hold));
        hold.end(reason);
        if let Some(until) = hold.closed_until() {
            // The task that handles the end of the hold releases it.
            of_hold.confirmed();
            of_claim.confirmed();
            self.release_after(to, until);
            return;
        }
        let (hold, to) = (Arc::clone(hold), Arc::clone(to));
        self.run_release(async move {
            // The hold comes first, so that a conversion that arrives late finds nothing.
            let releasing = Arc::clone(&keeper).release_until_confirmed(hold, None::<()>, of_hold);
            releasing.await;
            let releasing = keeper.release_until_confirmed(to, None::<()>, of_claim);
            releasing.await;
        });
    }

    /// Runs a release from any thread, also in `Drop`.
    fn run_release(&self, release: impl Future<Output = ()> + Send + 'static) {
        let mut release = Box::pin(release);
        if self.client.keeper_runtime.outlives_callers() {
            self.handle.spawn(release);
            return;
        }
        // The caller's runtime may be shutting down, and would drop a new task silently. The
        // release of a backend without I/O completes at the first poll.
        let _runtime = self.handle.enter();
        // A release that needs a timer or socket of a runtime that is gone panics, and a panic in
        // `Drop` may abort the process. Catch it; the ttl then ends the hold.
        let first_poll = AssertUnwindSafe(|| {
            Pin::new(&mut release).poll(&mut Context::from_waker(Waker::noop()))
        });
        if catch_unwind(first_poll).is_ok_and(|finished| finished.is_pending()) {
            self.handle.spawn(release);
        }
    }
}
