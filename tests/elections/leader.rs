//! A leader on a thread and runtime of its own, whose work or worker can be blocked.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use polylock::{Election, HoldWatch, connect};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinSet;

use crate::round::Trouble;

/// Where a leader runs, and with which trouble.
#[derive(Clone)]
pub(crate) struct Candidate {
    pub(crate) url: String,
    pub(crate) name: String,
    pub(crate) ttl: Duration,
    pub(crate) trouble: Trouble,
}

/// The state of a leader's work, for the test.
#[derive(Default)]
pub(crate) struct Work {
    polls: AtomicUsize,
    is_dropped: AtomicBool,
    /// The part of the term that was left when the work was dropped, in milliseconds.
    left: AtomicU64,
    begin_to_block: Notify,
    is_blocked: AtomicBool,
}

impl Work {
    pub(crate) fn polls(&self) -> usize {
        self.polls.load(Ordering::SeqCst)
    }

    pub(crate) fn is_dropped(&self) -> bool {
        self.is_dropped.load(Ordering::SeqCst)
    }

    pub(crate) fn left(&self) -> Duration {
        Duration::from_millis(self.left.load(Ordering::SeqCst))
    }

    pub(crate) fn begin_to_block(&self) {
        self.begin_to_block.notify_one();
    }

    pub(crate) fn is_blocked(&self) -> bool {
        self.is_blocked.load(Ordering::SeqCst)
    }

    /// Blocks the thread, once the test asks for it, until the other end of `block` is dropped.
    async fn block(&self, block: &Mutex<Receiver<()>>) {
        self.begin_to_block.notified().await;
        let block = block.lock().expect("one blocks at a time");
        self.is_blocked.store(true, Ordering::SeqCst);
        let _unblocked = block.recv();
    }
}

/// The future of a leader's work, which counts its polls.
struct Counted<F> {
    work: Arc<Work>,
    term: HoldWatch,
    future: Pin<Box<F>>,
}

impl<F: Future> Future for Counted<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        self.work.polls.fetch_add(1, Ordering::SeqCst);
        self.future.as_mut().poll(context)
    }
}

impl<F> Drop for Counted<F> {
    fn drop(&mut self) {
        let left = self.term.remaining().as_millis();
        let left = u64::try_from(left).expect("a term is short");
        self.work.left.store(left, Ordering::SeqCst);
        self.work.is_dropped.store(true, Ordering::SeqCst);
    }
}

/// A leader that runs until it is ended.
pub(crate) struct Leader {
    pub(crate) terms: UnboundedReceiver<(HoldWatch, Arc<Work>)>,
    block: Sender<()>,
    end: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Leader {
    pub(crate) fn start(candidate: Candidate) -> Self {
        let (told, terms) = unbounded_channel();
        let (block, blocked) = channel();
        let (end, ended) = oneshot::channel();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime for the leader");
            runtime.block_on(async {
                tokio::select! {
                    () = lead(&candidate, told, Arc::new(Mutex::new(blocked))) => {}
                    _ended = ended => {}
                }
            });
        });
        Self {
            terms,
            block,
            end,
            thread,
        }
    }

    /// Ends what blocks the leader.
    pub(crate) fn unblock(&mut self) {
        let (unblocked, _) = channel();
        self.block = unblocked;
    }

    /// Ends the leader, which is not blocked.
    pub(crate) async fn end(self) {
        // The leader may have ended by itself.
        let _sent = self.end.send(());
        let joined = tokio::task::spawn_blocking(|| self.thread.join()).await;
        joined.expect("no panic").expect("the leader's thread");
    }
}

async fn lead(
    candidate: &Candidate,
    told: UnboundedSender<(HoldWatch, Arc<Work>)>,
    block: Arc<Mutex<Receiver<()>>>,
) {
    let locks = connect(&*candidate.url).await.expect("the server runs");
    let election = Election::new(locks, &candidate.name).expect("a valid name");
    let election = election
        .with_ttl(candidate.ttl)
        .with_step_down_margin(candidate.ttl / 4);
    let trouble = candidate.trouble;
    let mut others = JoinSet::new();
    let leading = election.lead(move |term: HoldWatch| {
        let work = Arc::<Work>::default();
        let (of_work, block) = (Arc::clone(&work), Arc::clone(&block));
        if trouble == Trouble::BlockedWorker {
            let (work, block) = (Arc::clone(&work), Arc::clone(&block));
            others.spawn(async move { work.block(&block).await });
        }
        told.send((term.clone(), Arc::clone(&work)))
            .expect("the test listens");
        let future = Box::pin(async move {
            let busy = async {
                loop {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            };
            tokio::select! {
                () = busy => {}
                () = of_work.block(&block), if trouble == Trouble::BlockingWork => {}
            }
            std::future::pending::<()>().await;
        });
        Counted { work, term, future }
    });
    leading.await.expect("a candidate campaigns again");
}
