//! Log lines for long waits, and for waits behind a guard of the same client.

use std::collections::HashMap;
use std::time::Duration;

use crate::LockKey;
use crate::backend::{HumanDuration, Moment};
use crate::mutex::Mutex;

/// Duration after which a wait is logged.
const LONG: Duration = Duration::from_secs(30);

/// Shorter duration for waits behind a guard of the same client, which held the key all the time.
/// The waiting task itself may hold that guard.
const BEHIND_OURSELVES: Duration = Duration::from_secs(5);

/// Minimum time between two log lines about one key.
const PAUSE: Duration = Duration::from_secs(60);

/// The time of the last log line about each key.
#[derive(Debug, Default)]
pub(crate) struct SlowWaits(Mutex<HashMap<LockKey, Moment>>);

impl SlowWaits {
    /// Returns true if a wait for `key` may be logged at `now`, and records that it was.
    fn may_tell(&self, key: &LockKey, now: Moment) -> bool {
        let mut told = self.0.lock();
        let is_recent = |at: &Moment| now.since(*at) < PAUSE;
        if told.get(key).is_some_and(is_recent) {
            return false;
        }
        // Pruned only here, because each waiter of a crowd calls this method twice a second.
        told.retain(|_, at| is_recent(at));
        told.insert(key.clone(), now);
        true
    }

    /// Logs a waiter for `key` that has `waited` too long by `now`.
    ///
    /// `held_for` returns how long a guard of the same client has held the key.
    pub(crate) fn note(
        &self,
        key: &LockKey,
        backend: &'static str,
        (now, waited): (Moment, Duration),
        held_for: impl FnOnce() -> Option<Duration>,
    ) {
        if waited < BEHIND_OURSELVES {
            return;
        }
        let held_for = held_for().filter(|held_for| *held_for >= waited);
        if (held_for.is_none() && waited < LONG) || !self.may_tell(key, now) {
            return;
        }
        let waited = HumanDuration(waited);
        match held_for.map(HumanDuration) {
            Some(held_for) => tracing::warn!(
                %key,
                backend,
                "waiting for {waited} behind a guard of this client, which has held the lock for {held_for}: \
                 does the waiting task hold it, or was the guard forgotten?"
            ),
            None => {
                tracing::warn!(%key, backend, "waiting for {waited}: another client holds the lock");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Clock;

    #[test]
    fn a_key_is_told_of_once_a_minute() {
        let (waits, now) = (SlowWaits::default(), Clock::Boot.now());
        let [one, two] = ["one", "two"].map(|key| LockKey::new(key).unwrap());
        assert!(waits.may_tell(&one, now) && waits.may_tell(&two, now));
        assert!(!waits.may_tell(&one, now.plus(PAUSE / 2)));
        assert!(waits.may_tell(&one, now.plus(PAUSE)));
        assert_eq!(waits.0.lock().len(), 1, "keys are remembered for ever");
    }
}
