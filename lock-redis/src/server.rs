//! What is to be known of the server itself: whether its clock is set, and whether it evicts keys.

use std::sync::Mutex;
use std::time::Duration;

use lock_core::Moment;
use redis::RedisResult;
use redis::aio::MultiplexedConnection;

use crate::link::locked;

/// How far two readings of an undisturbed clock may disagree: for the scheduler's delays and a clock
/// that is being slewed.
const TOLERANCE: Duration = Duration::from_millis(50);

/// The server's clock as seen from here, to notice when it is set: leases on Redis are counted on
/// it, so a step forward ends them early, and a step back lets a crashed holder's live on.
#[derive(Debug)]
pub(crate) struct ServerClock {
    origin: Moment,
    last: Mutex<Option<Reading>>,
}

/// How far the server's clock is ahead of ours, which began at some moment; no more is known than
/// that the server read it between a request and its answer.
#[derive(Clone, Copy, Debug)]
struct Reading {
    at: Moment,
    least: i128,
    most: i128,
}

impl ServerClock {
    pub(crate) fn new(origin: Moment) -> Self {
        Self {
            origin,
            last: Mutex::new(None),
        }
    }

    /// Takes what the server answered to `TIME`, and says so in the log when its clock was set since
    /// the last time.
    pub(crate) fn read(&self, time: (u64, u64), sent: Moment, answered: Moment) {
        let reading = self.reading(time, sent, answered);
        let Some(last) = locked(&self.last).replace(reading) else {
            return;
        };
        if let Some((direction, step)) = step(last, reading) {
            tracing::warn!(
                ?step,
                "the redis server's clock was set {direction}: leases end earlier or later by that"
            );
        }
    }

    fn reading(&self, (seconds, micros): (u64, u64), sent: Moment, answered: Moment) -> Reading {
        let theirs = i128::from(seconds) * 1_000_000 + i128::from(micros);
        let ours = |moment: Moment| moment.since(self.origin).as_micros().cast_signed();
        Reading {
            at: answered,
            least: theirs - ours(answered),
            most: theirs - ours(sent),
        }
    }
}

/// By how much the clock must have been set between two readings, if it must.
fn step(last: Reading, reading: Reading) -> Option<(&'static str, Duration)> {
    // Clocks run at rates up to 1 % apart.
    let drift = reading.at.since(last.at) / 100;
    let tolerated = (TOLERANCE + drift).as_micros().cast_signed();
    let (direction, step) = if reading.least > last.most {
        ("forward", reading.least - last.most)
    } else {
        ("back", last.least - reading.most)
    };
    let step = u64::try_from(step).ok()?;
    (i128::from(step) > tolerated).then(|| (direction, Duration::from_micros(step)))
}

/// Warns when the server may throw locks away to make room.
pub(crate) async fn check_eviction(mut connection: MultiplexedConnection) {
    let memory: RedisResult<String> = redis::cmd("INFO")
        .arg("memory")
        .query_async(&mut connection)
        .await;
    let memory = match memory {
        Ok(memory) => memory,
        Err(error) => {
            tracing::debug!(%error, "whether the redis server evicts keys cannot be seen");
            return;
        }
    };
    let policy = memory
        .lines()
        .find_map(|line| line.strip_prefix("maxmemory_policy:"))
        .unwrap_or("noeviction")
        .trim();
    if policy != "noeviction" {
        tracing::warn!(
            policy,
            "the redis server may evict held locks when its memory is full: set maxmemory-policy to noeviction"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lock_core::Clock;

    /// The step between two readings of a clock that is `offsets` seconds ahead of ours.
    fn seen(offsets: [u64; 2], elapsed: Duration, round_trip: Duration) -> Option<&'static str> {
        let origin = Clock::Boot.now();
        let clock = ServerClock::new(origin);
        let [first, second] = [Duration::ZERO, elapsed].map(|after| origin.plus(after));
        let read = |sent: Moment, offset: u64| {
            let answered = sent.plus(round_trip);
            let theirs = Duration::from_secs(offset) + sent.since(origin) + round_trip / 2;
            clock.reading(
                (theirs.as_secs(), theirs.subsec_micros().into()),
                sent,
                answered,
            )
        };
        step(read(first, offsets[0]), read(second, offsets[1])).map(|(direction, _)| direction)
    }

    #[test]
    fn a_clock_that_is_set_is_noticed_and_one_that_runs_is_not() {
        let (minute, quick) = (Duration::from_secs(60), Duration::from_millis(1));
        assert_eq!(seen([1000, 1000], minute, quick), None);
        assert_eq!(seen([1000, 1010], minute, quick), Some("forward"));
        assert_eq!(seen([1000, 990], minute, quick), Some("back"));
        // What a slow answer leaves open is no proof.
        assert_eq!(seen([1000, 1010], minute, Duration::from_secs(11)), None);
    }
}
