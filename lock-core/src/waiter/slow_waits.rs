//! Tells the log of waits that take long, and of those that one of our own guards is in the way of.

use std::collections::HashMap;
use std::time::Duration;

use crate::LockKey;
use crate::backend::{HumanDuration, Moment};
use crate::mutex::Mutex;

/// After which time a wait is told of.
const LONG: Duration = Duration::from_secs(30);

/// The shorter limit where one guard of the same client has held the key for the whole of the wait:
/// perhaps it belongs to the task that waits.
const BEHIND_OURSELVES: Duration = Duration::from_secs(5);

/// The shortest time between two log lines about one key.
const PAUSE: Duration = Duration::from_secs(60);

/// When the waits for a key were told of last.
#[derive(Debug, Default)]
pub(crate) struct SlowWaits(Mutex<HashMap<LockKey, Moment>>);

impl SlowWaits {
    /// Returns true if the waits for `key` may be told of `now`; then they may not for a while.
    fn may_tell(&self, key: &LockKey, now: Moment) -> bool {
        let mut told = self.0.lock();
        let is_recent = |at: &Moment| now.since(*at) < PAUSE;
        if told.get(key).is_some_and(is_recent) {
            return false;
        }
        // Only then, since a crowd of waiters asks twice a second each.
        told.retain(|_, at| is_recent(at));
        told.insert(key.clone(), now);
        true
    }

    /// Tells the log of a waiter for `key` that has `waited` so long by `now`, if that is too long.
    /// `held_for` returns for how long a guard of the same client has held the key.
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
                tracing::warn!(%key, backend, "waiting for {waited}: the lock is held by others");
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
