//! Connections that a pool does not open for a while, since the server has refused a connection.

use std::time::Duration;

use lock_core::backend::{Clock, Moment, Mutex};

use crate::error::RefusedConnection;

/// Pause before the client tries again to open a refused connection.
pub(crate) const OPEN_AGAIN: Duration = Duration::from_millis(100);

/// Time after a refusal during which the server is assumed to allow no further connection.
const ALLOWS_AGAIN: Duration = Duration::from_secs(1);

/// The permits that a pool holds back, and the server's last refusal.
#[derive(Default)]
pub(crate) struct HeldBack(Mutex<State>);

#[derive(Default)]
struct State {
    permits: u32,
    /// When the server last refused a connection, or a permit was last given back.
    refused: Option<Moment>,
    /// The last refusal, unless a connection was closed since.
    refusal: Option<RefusedConnection>,
}

impl HeldBack {
    /// Stores that the server has refused a connection.
    pub(crate) fn note(&self, refusal: RefusedConnection) {
        let mut state = self.0.lock();
        state.refused = Some(Clock::Boot.now());
        state.refusal = Some(refusal);
    }

    /// Returns the last refusal, if it is so recent that the server would repeat it.
    pub(crate) fn last_refusal(&self) -> Option<RefusedConnection> {
        let state = self.0.lock();
        let age = Clock::Boot.now().since(state.refused?);
        state.refusal.clone().filter(|_| age < OPEN_AGAIN)
    }

    /// Forgets the last refusal, so that the pool asks the server again: a connection was closed.
    pub(crate) fn forget_refusal(&self) {
        self.0.lock().refusal = None;
    }

    /// Holds back one permit, unless no connection is `opened` or no permit of `size` would be
    /// left.
    ///
    /// Returns true if it has held back a permit.
    pub(crate) fn hold_back(&self, opened: usize, size: u32) -> bool {
        let mut state = self.0.lock();
        let is_held_back = opened > 0 && state.permits + 1 < size;
        state.permits += u32::from(is_held_back);
        is_held_back
    }

    /// Returns true if a permit has to be given back: the server has refused no connection for a
    /// while.
    pub(crate) fn give_back(&self) -> bool {
        let mut state = self.0.lock();
        let now = Clock::Boot.now();
        let is_over = |refused: Moment| now.since(refused) > ALLOWS_AGAIN;
        let is_given = state.permits > 0 && state.refused.is_none_or(is_over);
        if is_given {
            state.permits -= 1;
            state.refused = Some(now);
        }
        is_given
    }
}
