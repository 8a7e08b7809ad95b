//! Calls that travel together.
//!
//! Sending a request, reading it and answering it costs client and server more than what it asks
//! for. So while a call is under way, those that come gather until the tasks that are ready have
//! had a turn, and go as one script.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use lock_core::ErrorKind;
use lock_core::backend::{BatchSize, InFlight, OneInFlight};
use redis::{Cmd, RedisError, RedisResult, Value};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::task::coop::unconstrained;

use crate::commands::script::{BATCH, Call, Channel, is_unknown_script};
use crate::error::translate;

/// The number of calls that travel together at most: the server does nothing else meanwhile.
pub(crate) const BATCH_MAX: usize = 64;

/// Where the calls of one connection gather.
///
/// They are sent in the order in which they came, which is what lets a clean-up travel behind the
/// take that it cleans up: a call is sent alone only when none that came before it is waiting to be
/// sent.
pub(crate) struct Batches {
    gathering: mpsc::UnboundedSender<Member>,
    in_flight: InFlight,
}

/// A call that waits to be sent, or for its answer, also after its caller has given it up.
struct Member {
    call: Call,
    answer: oneshot::Sender<BatchReply>,
    in_flight: OneInFlight,
}

/// `None` is for a caller that had better ask alone.
type BatchReply = Option<RedisResult<Value>>;

/// The way in which a call is to be sent.
pub(crate) enum Route {
    /// By the task that makes it.
    Direct(OneInFlight),
    /// It has been taken along. No answer comes from a connection that has ended.
    Batched(oneshot::Receiver<BatchReply>),
}

impl Batches {
    /// Sends on `channel`, from `runtime`.
    pub(crate) fn start(runtime: &Handle, channel: Channel, max: &BatchSize) -> Self {
        let (gathering, gathered) = mpsc::unbounded_channel();
        runtime.spawn(deliver(gathered, channel, max.clone()));
        Self {
            gathering,
            in_flight: InFlight::default(),
        }
    }

    /// Takes `call` along where others are under way.
    pub(crate) fn join(&self, call: &Call) -> Route {
        let (others, in_flight) = self.in_flight.enter();
        if others == 0 {
            return Route::Direct(in_flight);
        }
        let (answer, answered) = oneshot::channel();
        // It fails together with the connection, and drops what would answer.
        let _ = self.gathering.send(Member {
            call: call.clone(),
            answer,
            in_flight,
        });
        Route::Batched(answered)
    }
}

/// Sends what gathers, as long as the connection is in use.
async fn deliver(mut gathered: mpsc::UnboundedReceiver<Member>, channel: Channel, max: BatchSize) {
    let mut answering = JoinSet::new();
    while let Some(first) = gathered.recv().await {
        // Other tasks that are ready may have something to ask, too.
        tokio::task::yield_now().await;
        let mut members = vec![first];
        while members.len() < max.get()
            && let Ok(member) = gathered.try_recv()
        {
            members.push(member);
        }
        let mut asking = Box::pin(ask(members, channel.clone(), max.clone()));
        if first_poll(asking.as_mut()).await.is_pending() {
            answering.spawn(asking);
        }
        while answering.try_join_next().is_some() {}
    }
}

/// Polls `request` once, which gives it to the driver. That has room for it (`ROOM`), so that none
/// that comes later is before it. Tokio's budget for a task must not put it off.
async fn first_poll<F: Future>(mut request: Pin<&mut F>) -> Poll<F::Output> {
    let poll = poll_fn(|context| Poll::Ready(request.as_mut().poll(context)));
    unconstrained(poll).await
}

/// Asks for all `members` in one request, and tells each its answer.
async fn ask(members: Vec<Member>, mut channel: Channel, max: BatchSize) {
    let (calls, waiting): (Vec<_>, Vec<_>) = members
        .into_iter()
        .map(|member| (member.call, (member.answer, member.in_flight)))
        .unzip();
    let request = match &*calls {
        [call] => call.shortest(&channel),
        calls => combined(calls, &channel),
    };
    let answer = request.query_async(&mut channel.redis).await;
    let answers = match answer {
        Ok(Value::Array(answers)) if answers.len() == calls.len() && calls.len() > 1 => {
            let alone = |answer| (answer != Value::Nil).then_some(Ok(answer));
            answers.into_iter().map(alone).collect()
        }
        // Each has to find out by itself: the script may be unknown, or refused because of one of
        // them.
        Err(error) if is_unknown_script(&error) => {
            channel.forget(&BATCH);
            vec![None; calls.len()]
        }
        Err(error) if error.code().is_some() && calls.len() > 1 => {
            tracing::debug!(%error, "redis refuses calls that travel together");
            if refuses_the_batch(&error) {
                max.halve(calls.len());
            }
            vec![None; calls.len()]
        }
        answer => vec![Some(answer); calls.len()],
    };
    for ((member, _in_flight), answer) in waiting.into_iter().zip(answers) {
        // The caller may have gone.
        let _ = member.send(answer);
    }
}

/// Returns true if it may be that calls are refused because they travel together: nothing is known
/// that would refuse each of them.
fn refuses_the_batch(error: &RedisError) -> bool {
    translate(error.clone()).kind() == ErrorKind::Backend
}

/// All `calls` as one.
fn combined(calls: &[Call], channel: &Channel) -> Cmd {
    let mut parts: Vec<&[u8]> = Vec::with_capacity(calls.len() * 4 + 2);
    parts.extend(calls.iter().map(Call::lock));
    parts.extend(calls.iter().map(Call::waits));
    parts.extend(calls.iter().find_map(Call::counter));
    let keys = parts.len();
    for call in calls {
        parts.extend([call.mark(), call.ttl()]);
    }
    // All of one connection are of one client.
    parts.extend(calls.first().map(Call::client));
    BATCH.command(channel, keys, parts.iter().copied())
}
