//! The holds of one client that are kept on one runtime.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::{Handle, Id};

use crate::backend::{HoldId, Moment};
use crate::hold::validity::renewal_due;
use crate::hold::{Hold, HoldKeeper, Part};
use crate::keeper::inner::KeeperInner;
use crate::keeper::releases::OneRelease;
use crate::keeper::renewal::keep;
use crate::keeper::schedule::RenewalSchedule;
use crate::mutex::Mutex;
use crate::{LossReason, Result};

/// The part of a keeper on one runtime, with the schedule of the holds kept there.
pub(crate) struct RuntimeKeeper {
    pub(crate) client: Arc<KeeperInner>,
    schedule: Arc<RenewalSchedule>,
    /// The runtime that renews the holds and releases those without a waiting caller.
    pub(crate) handle: Handle,
}

/// The schedules of a keeper, one per runtime, while they have holds or a task.
///
/// The task of a schedule outlasts the holds, so the next hold needs no new task.
#[derive(Default)]
pub(crate) struct RuntimeKeepers(Mutex<HashMap<Id, Weak<RenewalSchedule>>>);

impl RuntimeKeepers {
    /// Returns the part for holds of `client` that are claimed on the present runtime.
    ///
    /// # Errors
    ///
    /// [`Config`](crate::ErrorKind::Config) outside a runtime, if the keeper is on the caller's
    /// runtime.
    pub(crate) fn current(&self, client: &Arc<KeeperInner>) -> Result<Arc<RuntimeKeeper>> {
        let handle = client.keeper_runtime.handle()?;
        let mut all = self.0.lock();
        let known = all.get(&handle.id()).and_then(Weak::upgrade);
        let schedule = known.unwrap_or_else(|| {
            all.retain(|_, schedule| schedule.strong_count() > 0);
            let schedule = Arc::default();
            all.insert(handle.id(), Arc::downgrade(&schedule));
            schedule
        });
        Ok(Arc::new(RuntimeKeeper {
            client: Arc::clone(client),
            schedule,
            handle: handle.clone(),
        }))
    }
}

impl RuntimeKeeper {
    /// Keeps a hold that was granted for `ttl` to a request sent at `sent`, for at most `max_hold`.
    pub(crate) fn keep(
        &self,
        hold: &Arc<Hold>,
        (sent, ttl): (Moment, Duration),
        max_hold: Option<Duration>,
    ) {
        hold.start(sent, ttl, max_hold);
        self.client.registry.enter(hold);
        hold.notify_early_end();
        let due = renewal_due(sent, ttl);
        let first = self.client.first_renewal.map(|after| sent.plus(after));
        hold.attend_at(first.map_or(due, |first| first.min(due)));
    }
}

impl HoldKeeper for RuntimeKeeper {
    fn attend_at(self: Arc<Self>, hold: &Arc<Hold>, due: Moment) {
        if let Some(attendance) = self.schedule.enter(hold, due) {
            let client = Arc::downgrade(&self.client);
            let schedule = Arc::clone(&self.schedule);
            self.handle
                .spawn(keep(schedule, client, self.client.clock, attendance));
        }
        // The hold may have ended just before it was entered, when its end removed no entry.
        if hold.has_ended() {
            self.schedule.remove(hold);
        }
    }

    fn hold_tries_back(&self, id: &HoldId) -> OneRelease {
        self.client.releases.begin(id)
    }

    fn ended(&self, hold: &Hold, reason: LossReason) {
        self.schedule.remove(hold);
        let closed_until = hold.closed_until();
        // Created before the hold leaves the registry, so that a shutdown always sees the hold or
        // its release.
        let is_free_at_once =
            reason == LossReason::TooLong && closed_until.is_none() && !hold.is_member();
        let releasing = is_free_at_once.then(|| self.client.releasing(hold));
        if let Some(hold) = self.client.registry.leave(hold) {
            // The guard may be stuck or leaked. The store knows no maximum hold, and may not know
            // of the loss.
            match (releasing, closed_until) {
                (Some(releasing), _) => self.release_in_background(&hold, releasing, None::<()>),
                (None, Some(until)) => self.release_after(&hold, until),
                (None, None) => {}
            }
        }
        if matches!(
            reason,
            LossReason::Expired | LossReason::Removed | LossReason::TooLong
        ) {
            tracing::warn!(
                key = %hold.id.key(),
                backend = self.client.capabilities.backend,
                "lock lost: {reason}"
            );
        }
    }

    fn keep_until(&self, part: Part, until: Moment) {
        let clock = self.client.clock;
        self.handle.spawn(async move {
            clock.sleep_until(until).await;
            drop(part);
        });
    }
}

impl fmt::Debug for RuntimeKeeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.client, f)
    }
}
