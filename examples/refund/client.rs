//! The peer's view of the headquarters.

use std::sync::Arc;

use crate::refund::protocol::{Answer, Call, Fence, Job, Peer, Reply, Step, Trade};
use crate::refund::requests::Refund;
use crate::stage::Transport;
use crate::stage::crash::Crash;
use crate::stage::problem::Problem;

/// A client of the headquarters, in this process or in another, for one task of a peer.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) peer: Peer,
    pub(crate) transport: Arc<dyn Transport<Call, Reply>>,
    pub(crate) crash: Crash,
}

/// The error of a step that was refused because of a later holder of the lock.
#[derive(Debug)]
pub(crate) struct Outdated;

impl Client {
    pub(crate) async fn ready(&self) -> Result<(), Problem> {
        self.done(Call::Ready).await
    }

    pub(crate) async fn arrived(&self, arrival: usize) -> Result<(), Problem> {
        let from = self.peer;
        self.done(Call::Arrived { from, arrival }).await
    }

    pub(crate) async fn answered(&self, arrival: usize, answer: Answer) -> Result<(), Problem> {
        let from = self.peer;
        let call = Call::LastReply {
            from,
            arrival,
            answer,
        };
        self.done(call).await
    }

    /// Takes up a left refund; returns true unless another peer has taken it up or finished it.
    pub(crate) async fn take_up(&self, refund: &Refund) -> Result<bool, Problem> {
        let (from, refund) = (self.peer, refund.id);
        self.yes(Call::TakeUp { from, refund }).await
    }

    pub(crate) async fn leave(&self, refund: &Refund) -> Result<(), Problem> {
        let (from, refund) = (self.peer, refund.id);
        self.done(Call::Leave { from, refund }).await
    }

    pub(crate) async fn backlog(&self) -> Result<Option<Vec<Refund>>, Problem> {
        match self.exchange(Call::Backlog).await? {
            Reply::Backlog(backlog) => Ok(backlog),
            other => Err(unexpected(&other)),
        }
    }

    pub(crate) async fn read(
        &self,
        refund: &Refund,
        fence: Option<Fence>,
    ) -> Result<Result<Trade, Outdated>, Problem> {
        match self.work(refund, fence, Step::Read).await? {
            Reply::Trade(trade) => Ok(Ok(trade)),
            Reply::Outdated => Ok(Err(Outdated)),
            other => Err(unexpected(&other)),
        }
    }

    pub(crate) async fn was_paid(
        &self,
        refund: &Refund,
        fence: Option<Fence>,
    ) -> Result<Result<bool, Outdated>, Problem> {
        match self.work(refund, fence, Step::WasPaid).await? {
            Reply::Yes(yes) => Ok(Ok(yes)),
            Reply::Outdated => Ok(Err(Outdated)),
            other => Err(unexpected(&other)),
        }
    }

    /// Performs a step that has no result.
    pub(crate) async fn step(
        &self,
        refund: &Refund,
        fence: Option<Fence>,
        step: Step,
    ) -> Result<Result<(), Outdated>, Problem> {
        match self.work(refund, fence, step).await? {
            Reply::Done => Ok(Ok(())),
            Reply::Outdated => Ok(Err(Outdated)),
            other => Err(unexpected(&other)),
        }
    }

    async fn work(
        &self,
        refund: &Refund,
        fence: Option<Fence>,
        step: Step,
    ) -> Result<Reply, Problem> {
        let call = Call::Work {
            from: self.peer,
            refund: *refund,
            fence,
            step,
        };
        self.exchange(call).await
    }

    async fn done(&self, call: Call) -> Result<(), Problem> {
        match self.exchange(call).await? {
            Reply::Done => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    async fn yes(&self, call: Call) -> Result<bool, Problem> {
        match self.exchange(call).await? {
            Reply::Yes(yes) => Ok(yes),
            other => Err(unexpected(&other)),
        }
    }

    async fn exchange(&self, call: Call) -> Result<Reply, Problem> {
        match self.transport.exchange(call).await? {
            Reply::Crash => self.crash.now().await,
            reply => Ok(reply),
        }
    }
}

/// Asks for the job of a peer.
pub(crate) async fn apply(
    peer: u32,
    headquarters: &dyn Transport<Call, Reply>,
) -> Result<Job, Problem> {
    match headquarters.exchange(Call::Apply { peer }).await? {
        Reply::Job(job) => Ok(job),
        other => Err(unexpected(&other)),
    }
}

fn unexpected(reply: &Reply) -> Problem {
    format!("the headquarters gave an answer to another question: {reply:?}").into()
}
