//! The connections of a client, and the requests that travel on them.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use lock_core::{
    Clock, Deadlines, Error, ErrorKind, HoldId, KeeperRuntime, LockKey, LossReason, Moment,
    PerRuntime, Released, Renewal, Result,
};
use redis::{AsyncConnectionConfig, PushInfo, RedisResult, Value};
use tokio::runtime::Handle;

use crate::RedisConfig;
use crate::calls::Asks;
use crate::connection::Connection;
use crate::error::BACKEND;
use crate::layout::Layout;
use crate::link::{Link, Terms, Tracking};
use crate::script::{self, Call, FLOOR};
use crate::server::{self, ServerClock};
use crate::wake::Hub;
use crate::wire::Wire;

/// How long a request waits for its answer, if nothing shorter applies.
pub(crate) const REPLY_LIMIT: Duration = Duration::from_secs(1);

/// How long a release waits on each of the two connections, so that it ends within a second.
const RELEASE_LIMIT: Duration = Duration::from_millis(450);

#[derive(Debug)]
pub(crate) struct Client {
    /// What it is known by where it stands who waits for a lock.
    name: String,
    layout: Layout,
    /// One link on each runtime that acquires.
    command: PerRuntime<Link>,
    background: PerRuntime<Link>,
    pub(crate) hub: Arc<Hub>,
    server_clock: ServerClock,
    deadlines: Deadlines,
}

/// What a client finds out about its server.
pub(crate) struct Found {
    /// Whether it tells of changes.
    pub(crate) pushes: bool,
    /// Its host and port.
    pub(crate) server: String,
    /// Its version, if it tells.
    pub(crate) version: Option<String>,
}

/// What the server answers to a take.
pub(crate) enum Answer {
    /// The grant's number.
    Granted(u64),
    /// Somebody else holds the key for so long, or until it is given back.
    Busy(Option<Duration>),
}

impl Client {
    /// Opens both connections.
    pub(crate) async fn connect(
        config: &RedisConfig,
        keeper_runtime: &KeeperRuntime,
    ) -> Result<(Self, Found)> {
        let layout = Layout::new(&config.namespace);
        let hub = Arc::new(Hub::new(layout.clone()));
        let deadlines = Deadlines::new(keeper_runtime.clone());
        let wire = Arc::new(Wire::new(config)?);
        let terms = |options, tracking, greeting| Terms {
            wire: Arc::clone(&wire),
            options,
            tracking,
            greeting,
            keeper_runtime: keeper_runtime.clone(),
            deadlines: deadlines.clone(),
        };
        let floor = FLOOR.call().key(&layout.counter());
        let client = Self {
            name: client_name(),
            command: lanes(
                terms(
                    telling(&hub, Hub::waiters_are_told),
                    Tracking::Asked,
                    Some(floor),
                ),
                KeeperRuntime::caller(),
            ),
            background: lanes(
                terms(telling(&hub, Hub::keeper_is_told), Tracking::All, None),
                keeper_runtime.clone(),
            ),
            server_clock: ServerClock::new(Clock::Boot.now()),
            layout,
            hub,
            deadlines,
        };
        let command = client.lane()?.connection().await?;
        let connection = client.background.here()?.connection().await?;
        let looking = server::check_eviction(connection.channel.redis.clone());
        if client
            .deadlines
            .timeout(REPLY_LIMIT, looking)
            .await
            .is_none()
        {
            let error = client.background.here()?.no_answer(REPLY_LIMIT);
            return Err(error.with_operation("connect"));
        }
        let pushes = command.pushes && connection.pushes;
        let found = Found {
            pushes,
            server: wire.server(),
            version: command.version.clone(),
        };
        Ok((client, found))
    }

    /// The server's key of a lock.
    pub(crate) fn lock_key(&self, key: &LockKey) -> Vec<u8> {
        self.layout.lock(key)
    }

    /// The command connection of the caller's runtime.
    pub(crate) fn lane(&self) -> Result<Arc<Link>> {
        self.command.here()
    }

    /// Asks for the key once.
    pub(crate) async fn take(
        &self,
        hold: &HoldId,
        lane: &Arc<Link>,
        connection: &Arc<Connection>,
        asks: Asks,
        limit: Duration,
    ) -> Result<Answer> {
        let call = self.layout.take(hold, &self.name, asks);
        match lane.call(connection, &call, limit).await? {
            Value::Int(grant @ 1..) => Ok(Answer::Granted(grant.unsigned_abs())),
            // See `busy` in the scripts.
            Value::Int(-1) => Ok(Answer::Busy(None)),
            Value::Int(busy) => {
                let left = Duration::from_millis(busy.unsigned_abs().saturating_sub(2));
                Ok(Answer::Busy(Some(left)))
            }
            answer => Err(unexpected(&answer)),
        }
    }

    /// Renews the holds on the background connection, some hundred in one go.
    pub(crate) async fn renew(&self, holds: &[HoldId]) -> Result<Vec<Renewal>> {
        let limit = holds.iter().map(HoldId::ttl).min().unwrap_or(REPLY_LIMIT) / 4;
        let ends = Clock::Boot.now().plus(limit);
        let background = self.background.here()?;
        match self.renew_over(&background, holds, ends).await {
            // It had broken before; on a new connection it is just as good.
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

    async fn renew_over(
        &self,
        background: &Arc<Link>,
        holds: &[HoldId],
        ends: Moment,
    ) -> Result<Vec<Renewal>> {
        let connection = background.connection().await?;
        let calls: Vec<Call> = holds.iter().map(|hold| self.layout.renew(hold)).collect();
        let mut renewals = Vec::with_capacity(holds.len());
        while let left @ [_, ..] = &calls[renewals.len()..] {
            let go = &left[..script::one_go(left)];
            let sent = Clock::Boot.now();
            let answers = match self
                .renew_in_one_go(go, background, &connection, ends)
                .await
            {
                Ok(answers) => answers,
                Err(error) if renewals.is_empty() => return Err(error),
                Err(error) => {
                    // What has been confirmed counts.
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
                // One hold's trouble, such as a permission that was withdrawn, is not the others'.
                Ok(answer) => unclear(unexpected(&answer)),
                Err(error) => unclear(background.failed(&connection, error)),
            }));
        }
        Ok(renewals)
    }

    async fn renew_in_one_go(
        &self,
        calls: &[Call],
        background: &Link,
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
                // Nothing has to travel behind a renewal, so the next one tries a new connection.
                background.give_up(connection);
                self.hub.keeper_is_deaf();
                Err(background.no_answer(ends.since(sent)))
            }
        }
    }

    fn note_time(&self, time: RedisResult<(u64, u64)>, sent: Moment) {
        match time {
            Ok(time) => self.server_clock.read(time, sent, Clock::Boot.now()),
            Err(error) => tracing::debug!(%error, "the redis server's clock cannot be read"),
        }
    }

    /// Releases over what is alive: what may still have a take on its way goes on the connection of the take, where it
    /// cannot overtake it. A granted hold goes there only from its own runtime, which is driven then.
    pub(crate) async fn release(&self, hold: &HoldId) -> Result<Released> {
        // The server tells a connection of what others do.
        let _releasing = self.hub.releasing(self.layout.lock(hold.key()));
        let call = self.layout.release(hold, &self.name);
        let is_at_home = Handle::try_current().is_ok_and(|here| here.id() == hold.runtime());
        let lane = match hold.was_granted() && !is_at_home {
            true => None,
            false => self.command.of(hold.runtime()),
        };
        let Some((lane, connection)) = lane.and_then(|lane| Some((lane.clone(), lane.current()?)))
        else {
            return self.release_elsewhere(&call).await;
        };
        let mut asking = pin!(lane.deliver(&connection, &call, RELEASE_LIMIT * 2));
        match self.deadlines.timeout(RELEASE_LIMIT, asking.as_mut()).await {
            Some(Ok(answer)) => return released(&answer),
            Some(Err(error)) if error.is_retryable() => return self.release_elsewhere(&call).await,
            Some(Err(error)) => return Err(error),
            None => {}
        }
        // It may be slow only. Both are sent whoever has gone, and who finds nothing may have come second.
        let mut elsewhere = pin!(self.release_elsewhere(&call));
        tokio::select! {
            answer = asking.as_mut() => match answer {
                Ok(Value::Int(0)) | Err(_) => elsewhere.await,
                Ok(answer) => released(&answer),
            },
            outcome = elsewhere.as_mut() => match outcome {
                Ok(Released::AlreadyLost) => match self.deadlines.timeout(RELEASE_LIMIT / 9, asking).await {
                    Some(Ok(answer)) => released(&answer),
                    Some(Err(_)) | None => outcome,
                },
                outcome => outcome,
            },
        }
    }

    async fn release_elsewhere(&self, call: &Call) -> Result<Released> {
        let background = self.background.here()?;
        let releasing = async {
            match release_over(&background, call).await {
                // It had been closed while it was idle; on a new connection it is just as good.
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

/// Random, so that hardly ever two clients have the same; those would share one place among those who wait.
fn client_name() -> String {
    format!("{:016x}", RandomState::new().build_hasher().finish())
}

fn lanes(terms: Terms, keeper_runtime: KeeperRuntime) -> PerRuntime<Link> {
    PerRuntime::new(keeper_runtime, move |runtime| {
        Link::new(terms.clone(), runtime.clone())
    })
}

/// Has `hear` listen to what the server says unasked.
fn telling(hub: &Arc<Hub>, hear: fn(&Hub, &PushInfo)) -> AsyncConnectionConfig {
    let hub = Arc::clone(hub);
    AsyncConnectionConfig::new().set_push_sender(move |push| {
        hear(&hub, &push);
        Ok::<(), std::convert::Infallible>(())
    })
}

async fn release_over(link: &Arc<Link>, call: &Call) -> Result<Value> {
    let connection = link.connection().await?;
    link.deliver(&connection, call, RELEASE_LIMIT).await
}

fn unclear(error: Error) -> Renewal {
    tracing::debug!(%error, "a hold was not renewed; trying again");
    Renewal::Unknown
}

fn released(answer: &Value) -> Result<Released> {
    match answer {
        Value::Int(1) => Ok(Released::Released),
        Value::Int(0) => Ok(Released::AlreadyLost),
        answer => Err(unexpected(answer)),
    }
}

fn unexpected(answer: &Value) -> Error {
    Error::new(
        ErrorKind::Backend,
        format!("unexpected answer {answer:?}: is this really a Redis server?"),
    )
    .with_backend(BACKEND)
}
