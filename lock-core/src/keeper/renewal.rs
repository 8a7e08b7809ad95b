//! The keeper task: renews the holds of one runtime and declares their loss.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::task::JoinSet;

use crate::backend::{Attendance, Clock, HoldId, Renewal};
use crate::hold::Hold;
use crate::keeper::inner::KeeperInner;
use crate::keeper::schedule::{NextWakeUp, RenewalSchedule};

/// Attends to the holds of a schedule until none is left. It does not keep the client alive, which
/// ends with its last hold, even while this task sleeps.
pub(crate) async fn keep(
    schedule: Arc<RenewalSchedule>,
    keeper: Weak<KeeperInner>,
    clock: Clock,
    _attendance: Attendance,
) {
    let mut renewals = JoinSet::new();
    loop {
        let batch = attend(&schedule, clock);
        // A hold keeps its client alive, so this upgrade succeeds.
        if !batch.is_empty()
            && let Some(keeper) = keeper.upgrade()
        {
            renewals.spawn(renew(keeper, batch));
        }
        let appointment = match schedule.plan(!renewals.is_empty()) {
            NextWakeUp::SleepUntil(due) => Some(due),
            NextWakeUp::FinishWork => None,
            NextWakeUp::Stop => return,
        };
        // All branches are cancel safe: an unconsumed notification stays, and the next iteration
        // checks timer and renewals again.
        tokio::select! {
            () = schedule.changed() => {}
            () = clock.sleep_until(appointment.unwrap_or(clock.now())), if appointment.is_some() => {}
            Some(_) = renewals.join_next(), if !renewals.is_empty() => {}
        }
    }
}

/// Ends expired holds and returns the holds to renew now.
fn attend(schedule: &RenewalSchedule, clock: Clock) -> Vec<Arc<Hold>> {
    let mut batch = Vec::new();
    for hold in schedule.take_due(clock.now()) {
        let Ok(deadline) = hold.expire_if_due() else {
            continue;
        };
        // This task is running, so the entry starts no other.
        let is_due = hold.begin_renewal();
        let _running = schedule.enter(&hold, deadline);
        if is_due {
            batch.push(hold);
        }
    }
    batch
}

/// Renews several holds at once, within half the shortest remaining time. The other half is for
/// another attempt.
async fn renew(keeper: Arc<KeeperInner>, holds: Vec<Arc<Hold>>) {
    let ids: Vec<HoldId> = holds.iter().map(|hold| hold.renewing()).collect();
    let left = holds.iter().map(|hold| hold.remaining()).min();
    let limit = (left.unwrap_or_default() / 2).max(Duration::from_millis(1));
    let outcome = tokio::time::timeout(limit, keeper.renew(&ids)).await;
    match outcome {
        Ok(Ok(renewals)) if renewals.len() == holds.len() => {
            for ((hold, asked), renewal) in holds.iter().zip(&ids).zip(renewals) {
                apply(hold, asked, renewal, keeper.clock);
            }
            return;
        }
        Ok(Ok(renewals)) => tracing::error!(
            "the backend answered {} renewals for {} holds",
            renewals.len(),
            holds.len()
        ),
        Ok(Err(error)) => tracing::debug!(%error, "renewal failed, trying again"),
        Err(_) => tracing::debug!(?limit, "renewal timed out, trying again"),
    }
    for hold in &holds {
        renew_again(hold, keeper.clock);
    }
}

fn apply(hold: &Arc<Hold>, asked: &HoldId, renewal: Renewal, clock: Clock) {
    match renewal {
        Renewal::Held { sent, ttl } => match hold.renewed(sent, hold.usable(asked, ttl)) {
            Some(confirmed) if confirmed.is_news => {
                hold.attend_at(confirmed.renewal_due);
                // Check only after the hold is back in the schedule, so that no change in between
                // is missed.
                hold.recheck_if_needed();
            }
            Some(_) => renew_again(hold, clock),
            None => {}
        },
        Renewal::Lost(reason) => {
            hold.end_as_gone(reason);
            renew_again(hold, clock);
        }
        Renewal::Unknown => renew_again(hold, clock),
    }
}

/// Schedules another renewal after a pause, at the latest at the hold's deadline.
fn renew_again(hold: &Arc<Hold>, clock: Clock) {
    hold.renewal_failed();
    let Ok(deadline) = hold.expire_if_due() else {
        return;
    };
    let pause = (hold.remaining() / 8).clamp(Duration::from_millis(5), Duration::from_secs(1));
    hold.attend_at(clock.now().plus(pause).min(deadline));
}
