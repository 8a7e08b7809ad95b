//! Connections that a pool does not open for a while, since the server has refused them.

use std::time::Duration;

use lock_core::backend::{Clock, Moment, Mutex};

use crate::error::RefusedConnection;

/// The pause before a refused connection is tried to be opened again.
pub(crate) const OPEN_AGAIN: Duration = Duration::from_millis(100);

/// The time that a server is taken to allow no further connection after it refused one.
const ALLOWS_AGAIN: Duration = Duration::from_secs(1);

/// The memory of a pool of the connections that the server refused.
#[derive(Default)]
pub(crate) struct HeldBack(Mutex<State>);

#[derive(Default)]
struct State {
    permits: u32,
    /// When the server refused a connection last, and what it said, unless one was closed since.
    refused: Option<Moment>,
    refusal: Option<RefusedConnection>,
}

impl HeldBack {
    /// Notes that the server has refused a connection.
    pub(crate) fn note(&self, refusal: RefusedConnection) {
        let mut state = self.0.lock();
        state.refused = Some(Clock::Boot.now());
        state.refusal = Some(refusal);
    }

    /// Returns what the server has said so lately that it would say it again.
    pub(crate) fn last_refusal(&self) -> Option<RefusedConnection> {
        let state = self.0.lock();
        let age = Clock::Boot.now().since(state.refused?);
        state.refusal.clone().filter(|_| age < OPEN_AGAIN)
    }

    /// Has the next connection asked for, since another one was closed.
    pub(crate) fn forget_refusal(&self) {
        self.0.lock().refusal = None;
    }

    /// Counts one permit as held back, where others of the pool are `opened`; one of its `size` is
    /// left in any case.
    pub(crate) fn hold_back(&self, opened: usize, size: u32) -> bool {
        let mut state = self.0.lock();
        let is_held_back = opened > 0 && state.permits + 1 < size;
        state.permits += u32::from(is_held_back);
        is_held_back
    }

    /// Returns true if one permit is to be given back, since the server has not refused any
    /// connection for a while.
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
