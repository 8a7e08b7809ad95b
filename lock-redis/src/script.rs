//! The server-side scripts, and how they are called.

use std::sync::LazyLock;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, ErrorKind, Pipeline, RedisResult, ServerErrorKind, Value, cmd};

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
}

/// One call of a script, ready to be sent by its hash, or with its source where the server does not
/// know the hash: after a restart, a promotion or `SCRIPT FLUSH`.
#[derive(Clone)]
pub(crate) struct Call {
    script: &'static Script,
    keys: Vec<Vec<u8>>,
    arguments: Vec<Vec<u8>>,
}

impl Script {
    fn new(parts: &[&str]) -> Self {
        let source = parts.concat();
        let hash = redis::Script::new(&source).get_hash().to_owned();
        Self { source, hash }
    }

    pub(crate) fn call(&'static self) -> Call {
        Call {
            script: self,
            keys: Vec::with_capacity(2),
            arguments: Vec::with_capacity(4),
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

    /// Sends the call and waits for its answer.
    pub(crate) async fn send(&self, connection: &mut MultiplexedConnection) -> RedisResult<Value> {
        match self.by_hash().query_async(connection).await {
            Err(error) if is_unknown_script(&error) => {
                self.by_source().query_async(connection).await
            }
            answer => answer,
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

/// Sends many calls in one go and answers for each of them.
pub(crate) async fn send_all(
    calls: &[Call],
    connection: &mut MultiplexedConnection,
) -> RedisResult<Vec<RedisResult<Value>>> {
    let mut pipeline = Pipeline::with_capacity(calls.len());
    pipeline.ignore_errors();
    for call in calls {
        pipeline.add_command(call.by_hash());
    }
    let mut answers: Vec<RedisResult<Value>> = pipeline.query_async(connection).await?;
    for (call, answer) in calls.iter().zip(&mut answers) {
        if answer.as_ref().is_err_and(is_unknown_script) {
            *answer = call.by_source().query_async(connection).await;
        }
    }
    Ok(answers)
}

fn is_unknown_script(error: &redis::RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}
