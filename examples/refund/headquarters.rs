//! The part that is the same for every mechanism and every store.
//!
//! It keeps the books, the bank, the requests and the kills.

use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::refund::books::{Books, Entry, Standing};
use crate::refund::clerk::Clerk;
use crate::refund::kills::Kills;
use crate::refund::mechanism::Mechanism;
use crate::refund::protocol::{Answer, Call, Fence, Job, Peer, Reply, Step};
use crate::refund::queues::Queues;
use crate::refund::requests::Refund;
use crate::stage::Transport;
use crate::stage::problem::Problem;

/// Time that the bank takes to pay.
const PAYMENT: Duration = Duration::from_millis(2);

/// One run of one mechanism, as seen by the headquarters.
pub(crate) struct Headquarters {
    job: Job,
    peers: u32,
    // A watch channel, so that every change wakes the calls that wait for the other peers.
    state: watch::Sender<State>,
}

/// The mutable state of a run.
pub(crate) struct State {
    pub(crate) books: Books,
    pub(crate) queues: Queues,
    pub(crate) kills: Kills,
    pub(crate) clerk: Clerk,
    /// The number of times that each peer was killed.
    lives: Vec<u32>,
    ready: u32,
}

impl State {
    fn is_alive(&self, peer: Peer) -> bool {
        self.lives[peer.number as usize] == peer.life
    }
}

impl Headquarters {
    /// Creates the headquarters; `job` holds the arrivals of all peers.
    pub(crate) fn new(
        job: Job,
        peers: u32,
        books: Books,
        queues: Queues,
        kills: Kills,
        clerk: Clerk,
    ) -> Self {
        let (state, _) = watch::channel(State {
            books,
            queues,
            kills,
            clerk,
            lives: vec![0; peers as usize],
            ready: 0,
        });
        Self { job, peers, state }
    }

    /// Passes the state to `look`.
    pub(crate) fn inspect<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.state.borrow())
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut result = None;
        self.state.send_modify(|state| result = Some(change(state)));
        result.expect("send_modify always calls its closure")
    }

    /// Returns the requests that have not reached this peer yet; they arrive after a crash, too.
    fn job_of(&self, peer: u32) -> Job {
        let state = self.state.borrow();
        let since = state.clerk.opened().map(|opened| opened.elapsed());
        let mut job = self.job.clone();
        job.life = state.lives[peer as usize];
        job.arrivals
            .retain(|one| one.peer == peer && !state.clerk.has_arrived(one.id));
        for arrival in &mut job.arrivals {
            arrival.after = arrival.after.saturating_sub(since.unwrap_or_default());
        }
        job
    }

    async fn all_ready(&self) {
        self.change(|state| state.ready += 1);
        let mut changes = self.state.subscribe();
        // The wait fails only after the sender is dropped, and `self` owns the sender.
        drop(changes.wait_for(|state| state.ready >= self.peers).await);
        self.change(|state| state.clerk.open());
    }

    /// Serves a call of a peer, unless the peer was killed after it sent the call.
    fn serve(&self, peer: Peer, serve: impl FnOnce(&mut State) -> Reply) -> Reply {
        self.change(|state| match state.is_alive(peer) {
            true => serve(state),
            false => Reply::Crash,
        })
    }

    fn arrived(&self, from: Peer, arrival: usize) -> Reply {
        let refund = self.job.arrivals[arrival].refund.id;
        self.serve(from, |state| {
            state.clerk.arrive(arrival);
            state.queues.enter(refund, from.number, Instant::now());
            Reply::Done
        })
    }

    fn answered(&self, from: Peer, arrival: usize, answer: Answer) -> Reply {
        let refund = self.job.arrivals[arrival].refund.id;
        self.serve(from, |state| {
            state.clerk.answer(arrival, answer);
            if answer != Answer::Accepted {
                state.queues.leave(refund, from.number);
            }
            Reply::Done
        })
    }

    fn take_up(&self, from: Peer, refund: usize) -> Reply {
        self.serve(from, |state| {
            Reply::Yes(state.queues.take_up(refund, from.number, Instant::now()))
        })
    }

    fn leave(&self, from: Peer, refund: usize) -> Reply {
        self.serve(from, |state| {
            state.queues.leave(refund, from.number);
            if self.job.mechanism == Mechanism::Queue {
                state.queues.lose_place(refund);
            }
            Reply::Done
        })
    }

    fn backlog(&self) -> Option<Vec<Refund>> {
        let state = self.state.borrow();
        (!state.books.are_finished()).then(|| state.queues.left())
    }

    async fn work(&self, from: Peer, refund: Refund, fence: Option<Fence>, step: Step) -> Reply {
        if step == Step::Pay {
            tokio::time::sleep(PAYMENT).await;
        }
        // A step of a peer that was killed in the meantime is performed, too: its request arrives
        // late.
        self.change(|state| {
            let before = state.books.standing(refund.id);
            let entry = state.books.enter(&refund, fence, step);
            if matches!((step, &entry), (Step::Pay | Step::Decline, Entry::Done)) {
                state.queues.serve(refund.id);
            }
            if before == Standing::Open && state.books.standing(refund.id) != Standing::Open {
                state.queues.finish(refund.id);
                state.clerk.finish();
            }
            if !state.is_alive(from) {
                return Reply::Crash;
            }
            state.kills.is_free(refund.bank);
            if state.kills.strikes(&refund) {
                state.queues.crashed(from.number);
                state.lives[from.number as usize] += 1;
                return Reply::Crash;
            }
            match entry {
                Entry::Done => Reply::Done,
                Entry::Yes(yes) => Reply::Yes(yes),
                Entry::Trade(trade) => Reply::Trade(trade),
                Entry::Outdated => Reply::Outdated,
            }
        })
    }
}

#[async_trait]
impl Transport<Call, Reply> for Headquarters {
    async fn exchange(&self, call: Call) -> Result<Reply, Problem> {
        // Simulates the round trip to a database: other peers may run between any two steps.
        tokio::task::yield_now().await;
        Ok(match call {
            Call::Apply { peer } => Reply::Job(self.job_of(peer)),
            Call::Ready => {
                self.all_ready().await;
                Reply::Done
            }
            Call::Arrived { from, arrival } => self.arrived(from, arrival),
            Call::LastReply {
                from,
                arrival,
                answer,
            } => self.answered(from, arrival, answer),
            Call::TakeUp { from, refund } => self.take_up(from, refund),
            Call::Leave { from, refund } => self.leave(from, refund),
            Call::Backlog => Reply::Backlog(self.backlog()),
            Call::Work {
                from,
                refund,
                fence,
                step,
            } => self.work(from, refund, fence, step).await,
        })
    }
}
