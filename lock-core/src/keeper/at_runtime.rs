//! The holds of one client that are kept on one runtime.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::{Handle, Id};

use crate::backend::Moment;
use crate::hold::validity::renewal_due;
use crate::hold::{Hold, HoldKeeper, Part};
use crate::keeper::inner::KeeperInner;
use crate::keeper::renewal::keep;
use crate::keeper::schedule::RenewalSchedule;
use crate::mutex::Mutex;
use crate::{LossReason, Result};

/// The part of a keeper that lives on one runtime, with the schedule of the holds that are kept
/// there.
pub(crate) struct RuntimeKeeper {
    pub(crate) client: Arc<KeeperInner>,
    schedule: Arc<RenewalSchedule>,
    /// Where holds are renewed, and released when no caller waits for that.
    pub(crate) handle: Handle,
}

/// The parts of a keeper, as long as they have holds.
#[derive(Default)]
pub(crate) struct RuntimeKeepers(Mutex<HashMap<Id, Weak<RuntimeKeeper>>>);

impl RuntimeKeepers {
    /// Returns the part for holds of `client` that are claimed here.
    ///
    /// # Errors
    ///
    /// [`Config`](crate::ErrorKind::Config) outside of a runtime, where holds are kept by the
    /// caller.
    pub(crate) fn here(&self, client: &Arc<KeeperInner>) -> Result<Arc<RuntimeKeeper>> {
        let handle = client.keeper_runtime.handle()?;
        let mut all = self.0.lock();
        if let Some(keeper) = all.get(&handle.id()).and_then(Weak::upgrade) {
            return Ok(keeper);
        }
        all.retain(|_, keeper| keeper.strong_count() > 0);
        let keeper = Arc::new(RuntimeKeeper {
            client: Arc::clone(client),
            schedule: Arc::default(),
            handle: handle.clone(),
        });
        all.insert(handle.id(), Arc::downgrade(&keeper));
        Ok(keeper)
    }
}

impl RuntimeKeeper {
    /// Keeps a hold that was granted for `ttl` by a request that was `sent` then, for `max_hold` at
    /// most.
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
        // It may have ended just before it was entered, and its end has taken it out.
        if hold.has_ended() {
            self.schedule.remove(hold);
        }
    }

    fn ended(&self, hold: &Hold, reason: LossReason) {
        self.schedule.remove(hold);
        let closed_until = hold.closed_until();
        // From before it leaves the registry, so that no shutdown finds it neither held nor under
        // way.
        let is_free_at_once =
            reason == LossReason::TooLong && closed_until.is_none() && !hold.is_member();
        let releasing = is_free_at_once.then(|| self.client.releasing(hold));
        if let Some(hold) = self.client.registry.leave(hold) {
            // Its guard may be stuck or leaked, and the store knows of no limit, nor always of the
            // loss.
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
