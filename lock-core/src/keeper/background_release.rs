//! Releases that no caller waits for.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use tokio::runtime::Handle;

use crate::backend::{Backoff, Moment};
use crate::hold::Hold;
use crate::keeper::at_runtime::RuntimeKeeper;
use crate::keeper::inner::KeeperInner;
use crate::keeper::shutdown_gate::ReleaseGuard;

impl KeeperInner {
    /// Notes that a release is under way: the store ends the hold after one ttl of its own without
    /// it.
    pub(crate) fn releasing(&self, hold: &Hold) -> ReleaseGuard {
        let now = self.clock.now();
        let of_key = self.releases.begin(&hold.id);
        self.gate.release(of_key, now, now.plus(hold.store_ttl()))
    }

    /// Releases from `runtime`.
    pub(crate) fn release_from(self: &Arc<Self>, runtime: &Handle, hold: &Arc<Hold>) {
        let (keeper, hold, releasing) = (Arc::clone(self), Arc::clone(hold), self.releasing(hold));
        runtime.spawn(keeper.release_until_confirmed(hold, None::<()>, releasing));
    }

    /// Repeats the release until the store has answered, at most for one ttl of the store: by then
    /// it has ended the hold by itself. Drops `place` after that.
    async fn release_until_confirmed<P: Send>(
        self: Arc<Self>,
        hold: Arc<Hold>,
        mut place: Option<P>,
        releasing: ReleaseGuard,
    ) {
        let end = self.clock.now().plus(hold.store_ttl());
        let mut backoff = Backoff::new(Duration::from_millis(5), Duration::from_secs(1));
        while let Err(error) = self.release(&hold.id).await {
            let left = end.since(self.clock.now());
            if left.is_zero() {
                tracing::warn!(key = %hold.id.key(), %error, "release not confirmed; the ttl ends the hold");
                return;
            }
            let pause = backoff.next_pause().min(left);
            if !error.is_retryable() {
                // The next waiter gets the error of the store now instead of after a ttl.
                place = None;
            }
            tokio::time::sleep(pause).await;
        }
        releasing.confirmed();
        drop(place);
    }
}

impl RuntimeKeeper {
    /// Releases when the lock delay of a hold is over, `until` then. A store that has ended the
    /// hold by itself is asked in vain; one whose holds share a lease may not have. Until then
    /// nothing is under way that a shutdown would wait for.
    pub(crate) fn release_after(&self, hold: &Arc<Hold>, until: Moment) {
        let (keeper, hold) = (Arc::clone(&self.client), Arc::clone(hold));
        self.handle.spawn(async move {
            keeper.clock.sleep_until(until).await;
            let releasing = keeper.releasing(&hold);
            keeper
                .release_until_confirmed(hold, None::<()>, releasing)
                .await;
        });
    }

    /// Releases from any thread, also in `Drop`. Only when that is confirmed `place` is dropped,
    /// which lets the next waiter of this process claim.
    pub(crate) fn release_in_background<P: Send + 'static>(
        &self,
        hold: &Arc<Hold>,
        releasing: ReleaseGuard,
        place: Option<P>,
    ) {
        let (keeper, hold) = (Arc::clone(&self.client), Arc::clone(hold));
        let mut release = Box::pin(keeper.release_until_confirmed(hold, place, releasing));
        if self.client.keeper_runtime.outlives_callers() {
            self.handle.spawn(release);
            return;
        }
        // The caller's runtime may be shutting down, and would drop a new task silently. A backend
        // without I/O is done at the first poll.
        let _runtime = self.handle.enter();
        // A release that needs a timer or a socket of a runtime that is gone panics, and a panic in
        // `Drop` may end the process: then the ttl ends the hold.
        let first_poll = AssertUnwindSafe(|| {
            Pin::new(&mut release).poll(&mut Context::from_waker(Waker::noop()))
        });
        if catch_unwind(first_poll).is_ok_and(|finished| finished.is_pending()) {
            self.handle.spawn(release);
        }
    }
}
