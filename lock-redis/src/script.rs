//! The server-side scripts, and how they are called.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock};

use redis::{Cmd, ErrorKind, Pipeline, RedisResult, ServerErrorKind, Value, cmd};

use crate::link::Connection;

const MINT: &str = include_str!("scripts/mint.lua");
const FOREIGN: &str = include_str!("scripts/foreign.lua");
const HOLDERS: &str = include_str!("scripts/holders.lua");

pub(crate) static FLOOR: LazyLock<Script> =
    LazyLock::new(|| Script::new(&[include_str!("scripts/floor.lua")]));
pub(crate) static TAKE_EXCLUSIVE: LazyLock<Script> =
    LazyLock::new(|| Script::new(&[MINT, FOREIGN, include_str!("scripts/take_exclusive.lua")]));
pub(crate) static TAKE_MANY: LazyLock<Script> = LazyLock::new(|| {
    Script::new(&[
        MINT,
        FOREIGN,
        HOLDERS,
        include_str!("scripts/take_many.lua"),
    ])
});
pub(crate) static RENEW_EXCLUSIVE: LazyLock<Script> =
    LazyLock::new(|| Script::new(&[include_str!("scripts/renew_exclusive.lua")]));
pub(crate) static RENEW_MANY: LazyLock<Script> =
    LazyLock::new(|| Script::new(&[HOLDERS, include_str!("scripts/renew_many.lua")]));
pub(crate) static RELEASE_EXCLUSIVE: LazyLock<Script> =
    LazyLock::new(|| Script::new(&[include_str!("scripts/release_exclusive.lua")]));
pub(crate) static RELEASE_MANY: LazyLock<Script> =
    LazyLock::new(|| Script::new(&[HOLDERS, include_str!("scripts/release_many.lua")]));

/// A script by its source and hash.
pub(crate) struct Script {
    source: String,
    hash: String,
    /// One bit, another one for each script.
    mark: u32,
}

/// Which scripts were sent over a connection with their source: for those the hash will do. So the
/// first call, too, takes one round trip.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known(Arc<AtomicU32>);

/// One call of a script, ready to be sent by its hash, or with its source where the server does not
/// know the hash: at first, and after a restart, a promotion or `SCRIPT FLUSH`.
#[derive(Clone)]
pub(crate) struct Call {
    script: &'static Script,
    keys: Vec<Vec<u8>>,
    arguments: Vec<Vec<u8>>,
    /// Whether the server is to tell the connection of the next change of what is read.
    listens: bool,
}

impl Script {
    fn new(parts: &[&str]) -> Self {
        static SCRIPTS: AtomicU32 = AtomicU32::new(0);

        let source = parts.concat();
        let hash = redis::Script::new(&source).get_hash().to_owned();
        let mark = 1 << SCRIPTS.fetch_add(1, Ordering::Relaxed);
        Self { source, hash, mark }
    }

    pub(crate) fn call(&'static self) -> Call {
        Call {
            script: self,
            keys: Vec::with_capacity(2),
            arguments: Vec::with_capacity(4),
            listens: false,
        }
    }
}

impl Call {
    pub(crate) fn key(mut self, key: Vec<u8>) -> Self {
        self.keys.push(key);
        self
    }

    pub(crate) fn argument(mut self, argument: impl Into<Vec<u8>>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Has the server tell the connection of the next change of what the script reads.
    pub(crate) fn listening(mut self) -> Self {
        self.listens = true;
        self
    }

    /// Sends the call and waits for its answer.
    pub(crate) async fn send(&self, connection: &mut Connection) -> RedisResult<Value> {
        let first = self.shortest(&connection.known);
        match self.send_as(first, connection).await {
            Err(error) if is_unknown_script(&error) => {
                self.send_as(self.by_source(), connection).await
            }
            answer => answer,
        }
    }

    async fn send_as(&self, command: Cmd, connection: &mut Connection) -> RedisResult<Value> {
        if !self.listens {
            return command.query_async(&mut connection.redis).await;
        }
        let mut both = Pipeline::with_capacity(2);
        both.add_command(listening_next()).add_command(command);
        both.ignore_errors();
        let answers: Vec<RedisResult<Value>> = both.query_async(&mut connection.redis).await?;
        let mut last = Value::Nil;
        for answer in answers {
            last = answer?;
        }
        Ok(last)
    }

    /// By the hash where the connection has seen the source.
    fn shortest(&self, known: &Known) -> Cmd {
        let mark = self.script.mark;
        match known.0.fetch_or(mark, Ordering::Relaxed) & mark {
            0 => self.by_source(),
            _ => self.by_hash(),
        }
    }

    fn by_hash(&self) -> Cmd {
        self.command("EVALSHA", &self.script.hash)
    }

    fn by_source(&self) -> Cmd {
        self.command("EVAL", &self.script.source)
    }

    fn command(&self, name: &str, script: &str) -> Cmd {
        let mut command = cmd(name);
        command
            .arg(script)
            .arg(self.keys.len())
            .arg(&self.keys)
            .arg(&self.arguments);
        command
    }
}

/// What has the server tell the connection of the next change of what the next command reads, if that is
/// what the connection is for.
pub(crate) fn listening_next() -> Cmd {
    cmd("CLIENT").arg("CACHING").arg("YES").take()
}

/// Sends many calls in one go and answers for each of them.
pub(crate) async fn send_all(
    calls: &[Call],
    connection: &mut Connection,
) -> RedisResult<Vec<RedisResult<Value>>> {
    let mut pipeline = Pipeline::with_capacity(calls.len());
    pipeline.ignore_errors();
    for call in calls {
        pipeline.add_command(call.shortest(&connection.known));
    }
    let mut answers: Vec<RedisResult<Value>> = pipeline.query_async(&mut connection.redis).await?;
    for (call, answer) in calls.iter().zip(&mut answers) {
        if answer.as_ref().is_err_and(is_unknown_script) {
            *answer = call.by_source().query_async(&mut connection.redis).await;
        }
    }
    Ok(answers)
}

fn is_unknown_script(error: &redis::RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}
