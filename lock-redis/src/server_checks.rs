//! Checks of the server: whether it can hold locks, whether its clock is set, whether it evicts
//! keys.

use std::time::Duration;

use lock_core::backend::{Moment, Mutex};
use lock_core::{Error, ErrorKind, Result};
use redis::aio::MultiplexedConnection;
use redis::{Pipeline, RedisError, RedisResult, Value};

use crate::error::{BACKEND, NO_CLUSTER, translate};

/// Maximum disagreement of two readings of an undisturbed clock, due to scheduling delays and
/// slewing.
const TOLERANCE: Duration = Duration::from_millis(50);

/// The server's clock relative to this client's, to detect when it is set.
///
/// Redis counts leases on its own clock: a step forward ends them early, and a step back keeps
/// those of a crashed holder.
#[derive(Debug)]
pub(crate) struct ServerClock {
    origin: Moment,
    last: Mutex<Option<Reading>>,
}

/// Bounds of the server's lead over this client's clock. The server read its clock at an unknown
/// moment between a request and its answer.
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

    /// Evaluates the server's answer to `TIME`, and logs a warning if its clock was set since the
    /// last one.
    pub(crate) fn read(&self, time: (u64, u64), sent: Moment, answered: Moment) {
        let reading = self.reading(time, sent, answered);
        let Some(last) = self.last.lock().replace(reading) else {
            return;
        };
        if let Some((direction, step)) = step(last, reading) {
            tracing::warn!(
                ?step,
                "redis: the server's clock was set {direction}, leases end earlier or later by that much"
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

/// Returns direction and minimum size of the step between two readings, if there was one.
fn step(last: Reading, reading: Reading) -> Option<(&'static str, Duration)> {
    // Clock rates may differ by up to 1 %.
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

/// The commands that the scripts need. Operators may disable them with rename-command.
const COMMANDS: [&str; 21] = [
    "GET",
    "SET",
    "MGET",
    "DEL",
    "INCRBY",
    "PEXPIRE",
    "PEXPIREAT",
    "PERSIST",
    "PTTL",
    "TYPE",
    "TIME",
    "ZADD",
    "ZREM",
    "ZRANGE",
    "ZRANGEBYSCORE",
    "ZSCORE",
    "ZCARD",
    "HSET",
    "HGET",
    "HGETALL",
    "HDEL",
];

const MISSING: &str = include_str!("commands/missing.lua");

/// A script that needs no key. The answers of `EVAL` without one may contain bytes that the driver
/// cannot read.
const NOTHING: &str = "return 1";

/// Rejects a server that cannot hold locks or run scripts; returns its version if it reports one.
pub(crate) async fn check(mut connection: MultiplexedConnection) -> Result<Option<String>> {
    let hash = redis::Script::new(NOTHING).get_hash().to_owned();
    let mut requests = Pipeline::new();
    requests.ignore_errors();
    requests.cmd("HELLO");
    requests.cmd("EVAL").arg(NOTHING).arg(0);
    requests.cmd("EVALSHA").arg(hash).arg(0);
    requests.cmd("EVAL").arg(MISSING).arg(0).arg(&COMMANDS);
    let answers: RedisResult<[RedisResult<Value>; 4]> = requests.query_async(&mut connection).await;
    let [hello, eval, evalsha, missing] = answers.map_err(translate)?;
    // A server without `HELLO` is recognized by its answers to the other requests.
    let hello = hello.unwrap_or(Value::Nil);
    check_mode(&hello)?;
    for (name, answer) in [("EVAL", eval), ("EVALSHA", evalsha)] {
        answer.map_err(|error| without_scripts(name, error))?;
    }
    let missing: Vec<String> = missing
        .and_then(|answer| Ok(redis::from_redis_value(answer)?))
        .unwrap_or_default();
    if !missing.is_empty() {
        return Err(unsupported(format!(
            "the server does not have {}, which locks need: look for rename-command in its configuration",
            missing.join(", ")
        )));
    }
    Ok(field(&hello, "version"))
}

/// Rejects a server whose answer to `HELLO` says that it is a cluster node or a Sentinel.
fn check_mode(hello: &Value) -> Result<()> {
    match field(hello, "mode").as_deref() {
        Some("cluster") => Err(unsupported(NO_CLUSTER)),
        Some("sentinel") => Err(unsupported(
            "this is a Redis Sentinel, which keeps no keys and is not supported yet: give the address of the master",
        )),
        _ => Ok(()),
    }
}

/// Returns a field of the answer to `HELLO`.
fn field(hello: &Value, name: &str) -> Option<String> {
    let Value::Map(fields) = hello else {
        return None;
    };
    let text = |value: &Value| match value {
        Value::BulkString(text) => Some(String::from_utf8_lossy(text).into_owned()),
        Value::SimpleString(text) => Some(text.clone()),
        _ => None,
    };
    let mut fields = fields.iter();
    let found = fields.find(|(of, _)| text(of).as_deref() == Some(name));
    found.and_then(|(_, value)| text(value))
}

/// Translates the refusal of a script that was sent as the command `name`.
fn without_scripts(name: &str, error: RedisError) -> Error {
    let said = error.to_string().to_lowercase();
    let is_refused = [
        "unknown command",
        "unsupported command",
        "'eval",
        "disabled",
    ]
    .iter()
    .any(|words| said.contains(words));
    if !is_refused {
        return translate(error);
    }
    unsupported(format!(
        "the server does not run {name}, which every lock needs ({error}): allow EVAL and EVALSHA, or use another server"
    ))
}

fn unsupported(message: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::Unsupported, message).with_backend(BACKEND)
}

/// Warns if the server may evict locks when its memory is full.
pub(crate) async fn check_eviction(mut connection: MultiplexedConnection) {
    let memory: RedisResult<String> = redis::cmd("INFO")
        .arg("memory")
        .query_async(&mut connection)
        .await;
    let memory = match memory {
        Ok(memory) => memory,
        Err(error) => {
            tracing::debug!(%error, "redis: reading maxmemory-policy failed, eviction is not checked");
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
            "redis: the server may evict held locks when its memory is full: set maxmemory-policy to noeviction"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lock_core::backend::Clock;

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
