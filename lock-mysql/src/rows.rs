//! The row locks that a client holds, and the heartbeats that keep them.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lock_core::{Clock, Moment, OwnerId};
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::identity::Identity;
use crate::pool::Lent;

/// Held row locks by their owners.
#[derive(Default)]
pub(crate) struct Rows(Mutex<HashMap<OwnerId, Row>>);

/// One held row lock: a connection with an open transaction.
struct Row {
    connection: Identity,
    /// Absent while a heartbeat is under way on it, and once it is being released.
    session: Option<Lent>,
    is_released: bool,
    /// The token to be written down at the release, if any.
    record: Option<u64>,
    heard: watch::Sender<Heard>,
}

/// What the last heartbeat came to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Heard {
    /// The server answered to what was sent then.
    At(Moment),
    /// The connection is dead, and the lock with it.
    Dead,
}

/// What has to be done to release a row lock.
pub(crate) struct Releasing {
    pub(crate) connection: Identity,
    /// To end the transaction on, if it is free.
    pub(crate) session: Option<Lent>,
    pub(crate) record: Option<u64>,
}

impl Rows {
    /// Enters a lock whose request was `sent` then.
    pub(crate) fn enter(&self, owner: OwnerId, session: Lent, sent: Moment, record: Option<u64>) {
        let row = Row {
            connection: session.identity.clone(),
            session: Some(session),
            is_released: false,
            record,
            heard: watch::Sender::new(Heard::At(sent)),
        };
        self.lock().insert(owner, row);
    }

    /// Sends a heartbeat on the lock's connection, unless one is under way, and returns where its
    /// outcome is told; `None` when the lock is not held.
    ///
    /// It has a task of its own: an answer that comes late is better than none, and whoever gives up
    /// waiting for it must not take the connection along, which would end the lock.
    pub(crate) fn beat(
        self: &Arc<Self>,
        owner: OwnerId,
        limit: Duration,
        runtime: &Handle,
    ) -> Option<watch::Receiver<Heard>> {
        let mut rows = self.lock();
        let row = rows.get_mut(&owner).filter(|row| !row.is_released)?;
        if let Some(mut session) = row.session.take() {
            let rows = Arc::clone(self);
            runtime.spawn(async move {
                let sent = Clock::Boot.now();
                let answer = tokio::time::timeout(limit, session.ask("DO 0")).await;
                match answer {
                    Ok(Ok(_)) => rows.put_back(owner, session, sent),
                    Ok(Err(_)) | Err(_) => rows.died(owner),
                }
            });
        }
        Some(row.heard.subscribe())
    }

    fn put_back(&self, owner: OwnerId, session: Lent, sent: Moment) {
        // Whoever releases it meanwhile waits for it.
        if let Some(row) = self.lock().get_mut(&owner) {
            row.session = Some(session);
            row.heard.send_replace(Heard::At(sent));
        }
    }

    fn died(&self, owner: OwnerId) {
        if let Some(row) = self.lock().get(&owner) {
            row.heard.send_replace(Heard::Dead);
        }
    }

    /// Ends the heartbeats of a lock and hands out what its release needs; `None` when it is not held.
    /// It stays entered until it is [forgotten](Self::forget), so that a release can be repeated.
    pub(crate) fn release(&self, owner: OwnerId) -> Option<Releasing> {
        let mut rows = self.lock();
        let row = rows.get_mut(&owner)?;
        row.is_released = true;
        Some(Releasing {
            connection: row.connection.clone(),
            session: row.session.take(),
            record: row.record,
        })
    }

    /// Where the outcome of heartbeats is told; `None` when the lock is not held.
    pub(crate) fn heard(&self, owner: OwnerId) -> Option<watch::Receiver<Heard>> {
        Some(self.lock().get(&owner)?.heard.subscribe())
    }

    /// Takes a lock out that has ended.
    pub(crate) fn forget(&self, owner: OwnerId) {
        let row = self.lock().remove(&owner);
        drop(row);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<OwnerId, Row>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows")
            .field("held", &self.lock().len())
            .finish_non_exhaustive()
    }
}
