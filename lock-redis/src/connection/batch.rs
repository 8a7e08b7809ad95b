//! Batches of calls.
//!
//! Sending, reading and answering a request costs client and server more than the call itself. So
//! while a call is pending, further calls gather until the ready tasks have run, and travel as one
//! script.

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

/// Maximum number of calls in one batch, which blocks the server while it runs.
pub(crate) const BATCH_MAX: usize = 64;

/// The queue in which the calls of one connection gather.
///
/// Invariant: calls are sent in order of arrival. Why: a clean-up must not overtake the take that
/// it cleans up. Breaks if: a call is sent directly while an earlier one is still queued.
pub(crate) struct Batches {
    gathering: mpsc::UnboundedSender<Member>,
    in_flight: InFlight,
}

/// A call that waits to be sent or answered, even if its caller has given up.
struct Member {
    call: Call,
    answer: oneshot::Sender<BatchReply>,
    in_flight: OneInFlight,
}

/// The answer; `None` if the caller has to send the call alone.
type BatchReply = Option<RedisResult<Value>>;

/// The way in which a call is sent.
pub(crate) enum Route {
    /// The calling task sends it.
    Direct(OneInFlight),
    /// The call is in a batch. The channel closes without an answer if the connection has ended.
    Batched(oneshot::Receiver<BatchReply>),
}

impl Batches {
    /// Starts the task that sends batches on `channel`, on `runtime`.
    pub(crate) fn start(runtime: &Handle, channel: Channel, max: &BatchSize) -> Self {
        let (gathering, gathered) = mpsc::unbounded_channel();
        runtime.spawn(deliver(gathered, channel, max.clone()));
        Self {
            gathering,
            in_flight: InFlight::default(),
        }
    }

    /// Adds `call` to the next batch if other calls are pending.
    pub(crate) fn join(&self, call: &Call) -> Route {
        let (others, in_flight) = self.in_flight.enter();
        if others == 0 {
            return Route::Direct(in_flight);
        }
        let (answer, answered) = oneshot::channel();
        // Fails only if the connection has ended, which closes `answered`, too.
        let _ = self.gathering.send(Member {
            call: call.clone(),
            answer,
            in_flight,
        });
        Route::Batched(answered)
    }
}

/// Sends batches until the connection is dropped.
async fn deliver(mut gathered: mpsc::UnboundedReceiver<Member>, channel: Channel, max: BatchSize) {
    let mut answering = JoinSet::new();
    while let Some(first) = gathered.recv().await {
        // Let other ready tasks add their calls first.
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

/// Polls `request` once, which queues it in the driver before any later request. The driver has
/// room for it (`ROOM`). Tokio's cooperative budget must not postpone this poll.
async fn first_poll<F: Future>(mut request: Pin<&mut F>) -> Poll<F::Output> {
    let poll = poll_fn(|context| Poll::Ready(request.as_mut().poll(context)));
    unconstrained(poll).await
}

/// Sends all `members` in one request, and passes each its answer.
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
        // Each caller has to retry alone: the script may be unknown, or refused because of one
        // member.
        Err(error) if is_unknown_script(&error) => {
            channel.forget(&BATCH);
            vec![None; calls.len()]
        }
        Err(error) if error.code().is_some() && calls.len() > 1 => {
            tracing::debug!(%error, "redis: a batch of calls was refused, sending each alone");
            if refuses_the_batch(&error) {
                max.halve(calls.len());
            }
            vec![None; calls.len()]
        }
        answer => vec![Some(answer); calls.len()],
    };
    for ((member, _in_flight), answer) in waiting.into_iter().zip(answers) {
        // The caller may be gone.
        let _ = member.send(answer);
    }
}

/// Returns true if the batch may be the reason of the refusal: no known error refuses each call
/// alone.
fn refuses_the_batch(error: &RedisError) -> bool {
    translate(error.clone()).kind() == ErrorKind::Backend
}

/// Combines `calls` into one command.
fn combined(calls: &[Call], channel: &Channel) -> Cmd {
    let mut parts: Vec<&[u8]> = Vec::with_capacity(calls.len() * 5 + 2);
    parts.extend(calls.iter().map(Call::lock));
    parts.extend(calls.iter().map(Call::waits));
    parts.extend(calls.iter().find_map(Call::counter));
    let keys = parts.len();
    for call in calls {
        parts.extend([call.mark(), call.ttl(), call.metadata()]);
    }
    // All calls of one connection belong to one client.
    parts.extend(calls.first().map(Call::client));
    BATCH.command(channel, keys, parts.iter().copied())
}
