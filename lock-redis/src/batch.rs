//! Calls that travel together.
//!
//! What it takes to send a request, to read it and to answer it costs client and server more than what it asks
//! for. So while a call is under way, those that come gather, and go as one script.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use redis::{Cmd, RedisResult, Value};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::script::{BATCH, Call, Channel};

/// How many calls travel together at most: the server does nothing else meanwhile.
const BATCH_MAX: usize = 64;

/// Where the calls of one connection gather.
///
/// They are sent in the order in which they came, which is what lets a clean-up travel behind the take that it
/// cleans up: a call is sent alone only when none is waiting to be sent.
#[derive(Clone)]
pub(crate) struct Batches {
    gathering: mpsc::UnboundedSender<Member>,
    under_way: Arc<AtomicUsize>,
}

/// A call that waits to be sent, or for its answer, whoever may have given it up.
struct Member {
    call: Call,
    answer: oneshot::Sender<Answer>,
    under_way: UnderWay,
}

/// `None` is for whoever had better ask alone.
type Answer = Option<RedisResult<Value>>;

/// Counts a call until it is dropped.
pub(crate) struct UnderWay(Arc<AtomicUsize>);

/// How a call is to be sent.
pub(crate) enum Travels {
    /// By whoever makes it.
    Alone(UnderWay),
    /// It has been taken along. No answer comes from a connection that has ended.
    Together(oneshot::Receiver<Answer>),
}

impl Batches {
    /// Sends on `channel`, from `runtime`.
    pub(crate) fn start(runtime: &Handle, channel: Channel) -> Self {
        let (gathering, gathered) = mpsc::unbounded_channel();
        runtime.spawn(deliver(gathered, channel));
        Self {
            gathering,
            under_way: Arc::default(),
        }
    }

    /// Takes `call` along where others are under way.
    pub(crate) fn join(&self, call: &Call) -> Travels {
        let others = self.under_way.fetch_add(1, Ordering::SeqCst);
        let under_way = UnderWay(Arc::clone(&self.under_way));
        if others == 0 {
            return Travels::Alone(under_way);
        }
        let (answer, answered) = oneshot::channel();
        // It fails together with the connection, and drops what would answer.
        let _ = self.gathering.send(Member {
            call: call.clone(),
            answer,
            under_way,
        });
        Travels::Together(answered)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Sends what gathers, as long as anybody has the connection.
async fn deliver(mut gathered: mpsc::UnboundedReceiver<Member>, channel: Channel) {
    let mut answering = JoinSet::new();
    while let Some(first) = gathered.recv().await {
        // Whoever is ready may have something to ask, too.
        tokio::task::yield_now().await;
        let mut members = vec![first];
        while members.len() < BATCH_MAX
            && let Ok(member) = gathered.try_recv()
        {
            members.push(member);
        }
        let mut asking = Box::pin(ask(members, channel.clone()));
        // The first poll gives the request to the driver, so that none that comes later is before it.
        let asked = poll_fn(|context| Poll::Ready(asking.as_mut().poll(context)));
        if asked.await.is_pending() {
            answering.spawn(asking);
        }
        while answering.try_join_next().is_some() {}
    }
}

/// Asks for all `members` in one request, and tells each its answer.
async fn ask(members: Vec<Member>, mut channel: Channel) {
    let (calls, waiting): (Vec<_>, Vec<_>) = members
        .into_iter()
        .map(|member| (member.call, (member.answer, member.under_way)))
        .unzip();
    let request = match &*calls {
        [call] => call.shortest(&channel),
        calls => combined(calls, &channel),
    };
    let answer = request.query_async(&mut channel.redis).await;
    let answers = match answer {
        Ok(answer) if calls.len() == 1 => vec![Some(Ok(answer))],
        Ok(Value::Array(answers)) if answers.len() == calls.len() => {
            let alone = |answer| (answer != Value::Nil).then_some(Ok(answer));
            answers.into_iter().map(alone).collect()
        }
        // The server knows the script no more, or refuses it because of one of them.
        Ok(_) => vec![None; calls.len()],
        Err(error) if error.code().is_some() => {
            channel.forget(&BATCH);
            vec![None; calls.len()]
        }
        Err(error) => vec![Some(Err(error)); calls.len()],
    };
    for ((member, _under_way), answer) in waiting.into_iter().zip(answers) {
        // Whoever asked may have gone.
        let _ = member.send(answer);
    }
}

/// All `calls` as one.
fn combined(calls: &[Call], channel: &Channel) -> Cmd {
    let mut parts: Vec<&[u8]> = Vec::with_capacity(calls.len() * 3 + 1);
    parts.extend(calls.iter().map(|call| call.part(0)));
    let mut counters = calls.iter().map(|call| call.part(3));
    let counter = counters.find(|counter| !counter.is_empty());
    parts.push(counter.unwrap_or_default());
    for call in calls {
        parts.extend([call.part(1), call.part(2)]);
    }
    BATCH.command(channel, calls.len(), parts.iter().copied())
}
