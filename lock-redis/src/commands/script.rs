//! The server-side scripts, and how they are called.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock};

use redis::aio::MultiplexedConnection;
use redis::{Cmd, ErrorKind, Pipeline, RedisResult, ServerErrorKind, Value, cmd};

const MINT: &str = include_str!("mint.lua");
const FOREIGN: &str = include_str!("foreign.lua");
const HOLDERS: &str = include_str!("holders.lua");
const TAKE: &str = include_str!("take.lua");
const WAITS: &str = include_str!("waits.lua");

pub(crate) static FLOOR: LazyLock<Script> =
    LazyLock::new(|| Script::new(&[include_str!("floor.lua")]));
pub(crate) static TAKE_EXCLUSIVE: LazyLock<Script> = LazyLock::new(|| {
    let one = include_str!("take_exclusive.lua");
    Script::new(&[MINT, FOREIGN, WAITS, TAKE, one]).in_batches()
});
pub(crate) static TAKE_MANY: LazyLock<Script> =
    LazyLock::new(|| Script::new(&[MINT, FOREIGN, WAITS, HOLDERS, include_str!("take_many.lua")]));
pub(crate) static RENEW_EXCLUSIVE: LazyLock<Script> =
    LazyLock::new(|| Script::new(&[include_str!("renew_exclusive.lua")]));
pub(crate) static RENEW_MANY: LazyLock<Script> =
    LazyLock::new(|| Script::new(&[HOLDERS, include_str!("renew_many.lua")]));
pub(crate) static RELEASE_EXCLUSIVE: LazyLock<Script> = LazyLock::new(|| {
    let one = include_str!("release_exclusive.lua");
    Script::new(&[WAITS, one]).in_batches()
});
pub(crate) static CONVERT: LazyLock<Script> =
    LazyLock::new(|| Script::new(&[MINT, HOLDERS, include_str!("convert.lua")]));
/// Takes and releases of exclusive locks, any number in any order.
pub(crate) static BATCH: LazyLock<Script> = LazyLock::new(|| {
    let many = include_str!("batch.lua");
    Script::new(&[MINT, FOREIGN, WAITS, TAKE, many])
});
pub(crate) static TAKE_TOGETHER: LazyLock<Script> = LazyLock::new(|| {
    let together = include_str!("take_together.lua");
    Script::new(&[MINT, FOREIGN, WAITS, TAKE, together])
});
pub(crate) static RELEASE_MANY: LazyLock<Script> =
    LazyLock::new(|| Script::new(&[WAITS, HOLDERS, include_str!("release_many.lua")]));

pub(crate) static INSPECT: LazyLock<Script> =
    LazyLock::new(|| Script::new(&[FOREIGN, WAITS, include_str!("inspect.lua")]));

/// Maximum number of keys and arguments of a call.
const PARTS_MAX: usize = 10;

/// A script with its source and hash.
pub(crate) struct Script {
    source: String,
    hash: String,
    /// A bit that is unique among the scripts.
    mark: u32,
    /// True if a [`BATCH`] can contain its calls.
    in_batches: bool,
}

/// The scripts whose source was sent over a connection, for which the hash suffices. A script's
/// first call sends the source, so it takes one round trip, too.
#[derive(Clone, Debug, Default)]
struct Known(Arc<AtomicU32>);

/// The connection on which scripts are called.
#[derive(Clone)]
pub(crate) struct Channel {
    pub(crate) redis: MultiplexedConnection,
    known: Known,
}

/// One call of a script, sent by its hash if the server knows it, else with its source. The server
/// does not know it at first, and after a restart, a promotion or `SCRIPT FLUSH`.
#[derive(Clone)]
pub(crate) struct Call {
    script: &'static Script,
    /// Keys, then arguments, concatenated.
    bytes: Vec<u8>,
    /// The end of each part in `bytes`.
    ends: [usize; PARTS_MAX],
    keys: usize,
    parts: usize,
    /// True if the server has to push the next change of the keys that the script reads.
    listens: bool,
    /// True if it must not be in a batch, which has no argument for waiters.
    is_alone: bool,
}

impl Script {
    fn new(parts: &[&str]) -> Self {
        static SCRIPTS: AtomicU32 = AtomicU32::new(0);

        let source = parts.concat();
        let hash = redis::Script::new(&source).get_hash().to_owned();
        let mark = 1 << SCRIPTS.fetch_add(1, Ordering::Relaxed);
        Self {
            source,
            hash,
            mark,
            in_batches: false,
        }
    }

    fn in_batches(mut self) -> Self {
        self.in_batches = true;
        self
    }

    pub(crate) fn call(&'static self) -> Call {
        Call {
            script: self,
            bytes: Vec::with_capacity(256),
            ends: [0; PARTS_MAX],
            keys: 0,
            parts: 0,
            listens: false,
            is_alone: false,
        }
    }

    /// Returns the command for `parts`, of which the first `keys` are keys.
    pub(crate) fn command<'a>(
        &self,
        channel: &Channel,
        keys: usize,
        parts: impl ExactSizeIterator<Item = &'a [u8]> + Clone,
    ) -> Cmd {
        match channel.known.knows(self) {
            true => command("EVALSHA", &self.hash, keys, parts),
            false => command("EVAL", &self.source, keys, parts),
        }
    }
}

impl Call {
    /// Adds a key. Add all keys before the arguments.
    pub(crate) fn key(mut self, key: &[u8]) -> Self {
        self.keys += 1;
        self.argument(key)
    }

    pub(crate) fn argument(mut self, argument: &[u8]) -> Self {
        self.bytes.extend_from_slice(argument);
        self.ends[self.parts] = self.bytes.len();
        self.parts += 1;
        self
    }

    /// Has the server push the next change of the keys that the script reads.
    pub(crate) fn listening(mut self) -> Self {
        self.listens = true;
        self
    }

    /// Keeps the call out of batches, which do not enter waiters into the queue.
    pub(crate) fn alone(mut self) -> Self {
        self.is_alone = true;
        self
    }

    /// Returns true if the call may be in a batch.
    pub(crate) fn goes_in_batches(&self) -> bool {
        self.script.in_batches && !self.listens && !self.is_alone
    }

    /// Returns the keys, then the arguments.
    fn parts(&self) -> impl ExactSizeIterator<Item = &[u8]> + Clone {
        (0..self.parts).map(|part| self.part(part))
    }

    /// Returns the key or argument at this index; empty if there is none.
    fn part(&self, part: usize) -> &[u8] {
        if part >= self.parts {
            return &[];
        }
        let begin = part.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[begin..self.ends[part]]
    }

    /// Returns the lock's key, for a call that may be in a batch.
    pub(crate) fn lock(&self) -> &[u8] {
        self.part(0)
    }

    pub(crate) fn waits(&self) -> &[u8] {
        self.part(1)
    }

    /// Returns the key of the grant counter, for a take.
    pub(crate) fn counter(&self) -> Option<&[u8]> {
        self.is_take().then(|| self.part(2))
    }

    pub(crate) fn mark(&self) -> &[u8] {
        self.part(self.keys)
    }

    /// Returns the ttl of a take; empty for a release.
    pub(crate) fn ttl(&self) -> &[u8] {
        match self.is_take() {
            true => self.part(self.keys + 1),
            false => &[],
        }
    }

    pub(crate) fn client(&self) -> &[u8] {
        self.part(self.keys + 1 + usize::from(self.is_take()))
    }

    /// Returns the metadata of the holder for a take; empty for a release.
    pub(crate) fn metadata(&self) -> &[u8] {
        match self.is_take() {
            true => self.part(self.keys + 4),
            false => &[],
        }
    }

    fn is_take(&self) -> bool {
        self.keys > 2
    }

    /// Sends the call and waits for its answer.
    pub(crate) async fn send(&self, channel: &Channel) -> RedisResult<Value> {
        match self.send_as(self.shortest(channel), channel).await {
            Err(error) if is_unknown_script(&error) => {
                self.send_as(self.by_source(), channel).await
            }
            answer => answer,
        }
    }

    async fn send_as(&self, command: Cmd, channel: &Channel) -> RedisResult<Value> {
        let redis = &mut channel.redis.clone();
        if !self.listens {
            return command.query_async(redis).await;
        }
        let mut both = Pipeline::with_capacity(2);
        both.add_command(listening_next()).add_command(command);
        both.ignore_errors();
        let answers: Vec<RedisResult<Value>> = both.query_async(redis).await?;
        let mut last = Value::Nil;
        for answer in answers {
            last = answer?;
        }
        Ok(last)
    }

    /// Returns the command by hash, or with the source if this connection has not sent it.
    pub(crate) fn shortest(&self, channel: &Channel) -> Cmd {
        self.script.command(channel, self.keys, self.parts())
    }

    fn by_source(&self) -> Cmd {
        command("EVAL", &self.script.source, self.keys, self.parts())
    }
}

impl Channel {
    pub(crate) fn new(redis: MultiplexedConnection) -> Self {
        let known = Known::default();
        Self { redis, known }
    }

    /// Has the source of `script` sent again, since the server may have lost it.
    pub(crate) fn forget(&self, script: &Script) {
        self.known.0.fetch_and(!script.mark, Ordering::Relaxed);
    }
}

impl Known {
    /// Returns true if the source of `script` was sent before, and records it as sent.
    fn knows(&self, script: &Script) -> bool {
        self.0.fetch_or(script.mark, Ordering::Relaxed) & script.mark != 0
    }
}

/// Builds a command in a buffer of the right size.
fn command<'a>(
    name: &str,
    script: &str,
    keys: usize,
    parts: impl ExactSizeIterator<Item = &'a [u8]> + Clone,
) -> Cmd {
    let size: usize = parts.clone().map(<[u8]>::len).sum();
    let mut command = Cmd::with_capacity(parts.len() + 3, size + name.len() + script.len() + 8);
    command.arg(name).arg(script).arg(keys);
    for part in parts {
        command.arg(part);
    }
    command
}

/// Returns `CLIENT CACHING YES`. On a connection with `OPTIN`, the server then pushes the next
/// change of the keys that the next command reads.
pub(crate) fn listening_next() -> Cmd {
    cmd("CLIENT").arg("CACHING").arg("YES").take()
}

/// Maximum number and total size of the calls in one pipeline. Servers close a connection whose
/// unread input exceeds `client-query-buffer-limit`, which is 1 MB or more.
const PIPELINE_MAX: usize = 1024;
const PIPELINE_BYTES_MAX: usize = 256 * 1024;

/// Returns how many of the first `calls` to send in one pipeline.
pub(crate) fn pipeline_length(calls: &[Call]) -> usize {
    // Each part is sent with its length, after the name and hash of the script.
    let size = |call: &Call| call.bytes.len() + 100 + 12 * call.parts;
    let mut bytes = 0;
    let fits = calls.iter().take(PIPELINE_MAX).take_while(|call| {
        bytes += size(call);
        bytes <= PIPELINE_BYTES_MAX
    });
    fits.count().max(1)
}

/// Sends calls in one pipeline and returns the answer of each.
pub(crate) async fn send_all(
    calls: &[Call],
    channel: &Channel,
) -> RedisResult<Vec<RedisResult<Value>>> {
    let mut redis = channel.redis.clone();
    let mut pipeline = Pipeline::with_capacity(calls.len());
    pipeline.ignore_errors();
    for call in calls {
        pipeline.add_command(call.shortest(channel));
    }
    let mut answers: Vec<RedisResult<Value>> = pipeline.query_async(&mut redis).await?;
    for (call, answer) in calls.iter().zip(&mut answers) {
        if answer.as_ref().is_err_and(is_unknown_script) {
            *answer = call.by_source().query_async(&mut redis).await;
        }
    }
    Ok(answers)
}

pub(crate) fn is_unknown_script(error: &redis::RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}
