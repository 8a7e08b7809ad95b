//! Renewals and releases of holds.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::backend::{
    Claim, Clock, Converted, HoldId, LeaseStore, Moment, Released, Renewal, StoreGrant, TwoRoutes,
};
use lock_core::{Error, FencingToken, KeyInfo, LockKey, LossReason, Result};
use redis::{RedisResult, Value};

use crate::client::{Client, REPLY_LIMIT, unexpected};
use crate::commands::script::{self, Call};
use crate::connection::multiplexed::Connection;
use crate::connection::shared_connection::SharedConnection;

/// Time that a release waits on each of its two connections, so that it ends within a second.
const RELEASE_LIMIT: Duration = Duration::from_millis(450);

#[async_trait]
impl LeaseStore for Client {
    /// Renews the holds on the background connection, up to 1024 in one pipeline.
    async fn renew(&self, holds: &[HoldId]) -> Result<Vec<Renewal>> {
        let limit = holds.iter().map(HoldId::ttl).min().unwrap_or(REPLY_LIMIT) / 4;
        let ends = Clock::Boot.now().plus(limit);
        let background = self.background.current()?;
        match self.renew_over(&background, holds, ends).await {
            // The connection had broken before this call; a renewal may use a new one.
            Err(error)
                if error.is_retryable()
                    && background.current().is_none()
                    && Clock::Boot.now() < ends =>
            {
                self.renew_over(&background, holds, ends).await
            }
            outcome => outcome,
        }
    }

    /// Releases on the connection of the take if a take may still be on its way. There the release
    /// cannot overtake it. A granted hold uses that connection only from its own runtime, which is
    /// being driven now; otherwise it uses the background connection.
    async fn release(&self, hold: &HoldId) -> Result<Released> {
        // The server does not push a connection's own changes to it, so wake the waiter here.
        let _releasing = self.notifications.releasing(self.keys.lock(hold.key()));
        let call = self.keys.release(hold, &self.name);
        let command = match hold.was_granted() && !hold.is_on_its_runtime() {
            true => None,
            false => self.command.of(hold.runtime()),
        };
        let Some((command, connection)) =
            command.and_then(|command| Some((command.clone(), command.current()?)))
        else {
            return self.release_elsewhere(&call).await;
        };
        // Both requests are sent even if the caller is dropped.
        let here = async {
            let delivery = command.deliver(&connection, &call, RELEASE_LIMIT * 2).await;
            released(&delivery?)
        };
        let routes = TwoRoutes {
            deadlines: &self.deadlines,
            runtime: command.runtime(),
            head_start: RELEASE_LIMIT,
            limit: RELEASE_LIMIT,
        };
        let elsewhere = || self.release_elsewhere(&call);
        routes.release(here, Error::is_retryable, elsewhere).await
    }

    async fn shorten(&self, hold: &HoldId, left: Duration) -> Result<Released> {
        self.release_elsewhere(&self.keys.renew(hold, left)).await
    }

    async fn take_together(&self, claims: &mut [Claim]) -> Result<Option<Vec<StoreGrant>>> {
        self.take_all(claims).await
    }

    /// Converts on the connection of the caller's runtime, on which releases of the new claim
    /// follow.
    async fn convert(&self, from: &HoldId, to: &Claim) -> Result<Converted> {
        // The server does not push a connection's own changes to it, so wake the waiters here.
        let _converting = self.notifications.releasing(self.keys.lock(from.key()));
        let command = self.command()?;
        let limit = REPLY_LIMIT;
        let connection = command.connection_within(limit).await?;
        let to = to.id();
        let call = self.keys.convert(from, to);
        match command.call(&connection, &call, limit).await? {
            Value::Int(grant @ 1..) => Ok(Converted::Granted {
                token: FencingToken::from_grant(grant.unsigned_abs())?,
                ttl: to.store_ttl(),
            }),
            Value::Int(0) => Ok(Converted::Lost),
            Value::Int(-1) => Ok(Converted::Refused),
            answer => Err(unexpected(&answer)),
        }
    }

    /// Sends `PING` on the background connection, on which holds are renewed.
    async fn ping(&self) -> Result<()> {
        self.background.current()?.ping(REPLY_LIMIT).await
    }

    async fn inspect(&self, key: &LockKey) -> Result<KeyInfo> {
        self.inspect_key(key).await
    }
}

impl Client {
    async fn renew_over(
        &self,
        background: &Arc<SharedConnection>,
        holds: &[HoldId],
        ends: Moment,
    ) -> Result<Vec<Renewal>> {
        let connection = background.connection().await?;
        let renew = |hold: &HoldId| self.keys.renew(hold, hold.store_ttl());
        let calls: Vec<Call> = holds.iter().map(renew).collect();
        let mut renewals = Vec::with_capacity(holds.len());
        while let left @ [_, ..] = &calls[renewals.len()..] {
            let go = &left[..script::pipeline_length(left)];
            let sent = Clock::Boot.now();
            let answers = match self
                .renew_in_one_pipeline(go, background, &connection, ends)
                .await
            {
                Ok(answers) => answers,
                Err(error) if renewals.is_empty() => return Err(error),
                Err(error) => {
                    // Renewals confirmed so far count.
                    renewals.resize(holds.len(), unclear(error));
                    break;
                }
            };
            let answered = holds[renewals.len()..].iter().zip(answers);
            renewals.extend(answered.map(|(hold, answer)| match answer {
                Ok(Value::Int(1)) => Renewal::Held {
                    sent,
                    ttl: hold.store_ttl(),
                },
                Ok(Value::Int(0)) => Renewal::Lost(LossReason::Removed),
                // An error for one hold, such as a withdrawn permission, says nothing about the
                // others.
                Ok(answer) => unclear(unexpected(&answer)),
                Err(error) => unclear(background.failed(&connection, error)),
            }));
        }
        Ok(renewals)
    }

    async fn renew_in_one_pipeline(
        &self,
        calls: &[Call],
        background: &SharedConnection,
        connection: &Arc<Connection>,
        ends: Moment,
    ) -> Result<Vec<RedisResult<Value>>> {
        let sent = Clock::Boot.now();
        let (time, mut beside) = (redis::cmd("TIME"), connection.channel.redis.clone());
        let sending = async {
            tokio::join!(
                script::send_all(calls, &connection.channel),
                time.query_async::<(u64, u64)>(&mut beside),
            )
        };
        match self.deadlines.timeout(ends.since(sent), sending).await {
            Some((Ok(answers), time)) => {
                self.note_time(time, sent);
                Ok(answers)
            }
            Some((Err(error), _)) => Err(background.failed(connection, error)),
            None => {
                // No later request depends on the order with a renewal, so the next one may use a
                // new connection.
                background.give_up(connection);
                self.notifications.on_background_lost();
                Err(background.no_answer(ends.since(sent)))
            }
        }
    }

    fn note_time(&self, time: RedisResult<(u64, u64)>, sent: Moment) {
        match time {
            Ok(time) => self.server_clock.read(time, sent, Clock::Boot.now()),
            Err(error) => tracing::debug!(%error, "redis: reading the server's clock failed"),
        }
    }

    async fn release_elsewhere(&self, call: &Call) -> Result<Released> {
        let background = self.background.current()?;
        let releasing = async {
            match release_over(&background, call).await {
                // The connection was closed while it was idle; the release may use a new one.
                Err(error) if error.is_retryable() && background.current().is_none() => {
                    release_over(&background, call).await
                }
                answer => answer,
            }
        };
        match self.deadlines.timeout(RELEASE_LIMIT, releasing).await {
            Some(answer) => released(&answer?),
            None => {
                if let Some(connection) = background.current() {
                    background.probe(connection);
                }
                Err(background.no_answer(RELEASE_LIMIT * 2))
            }
        }
    }
}

async fn release_over(link: &Arc<SharedConnection>, call: &Call) -> Result<Value> {
    let connection = link.connection().await?;
    link.deliver(&connection, call, RELEASE_LIMIT).await
}

fn unclear(error: Error) -> Renewal {
    tracing::debug!(%error, "redis: renewal failed, trying again");
    Renewal::Unknown
}

fn released(answer: &Value) -> Result<Released> {
    match answer {
        Value::Int(1) => Ok(Released::Released),
        Value::Int(0) => Ok(Released::AlreadyLost),
        answer => Err(unexpected(answer)),
    }
}
