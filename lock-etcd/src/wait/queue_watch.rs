//! Watches a queue for the waiters of a client.

use std::sync::Arc;
use std::time::Duration;

use etcd_client::TxnOpResponse;
use lock_core::Result;
use lock_core::backend::{Backoff, Clock, Moment};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::claim::key::ClaimKey;
use crate::connection::shared_connection::{REPLY_LIMIT, transact};
use crate::keys::{Look, look_at};
use crate::queue::{Blocker, ListedClaim, QueueSnapshot, list_all};
use crate::wait::shared_wait::{KeyLookup, SharedWait, TurnWaiter, WaitStep};
use crate::wait::shared_waits::SharedWaits;
use crate::wait::ticket::Ticket;
use crate::watch::messages::{WatchEvent, WatchedKeys};
use crate::watch::watches::Subscription;

/// The time that a wait relies on its watch before it looks without an event: at first, and at
/// most. Both have jitter.
const LOOK_AGAIN: Duration = Duration::from_secs(2);
const LOOK_AGAIN_MAX: Duration = Duration::from_secs(4);

/// The pauses between looks while no server can be reached.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

impl SharedWaits {
    /// Waits for the turn of the claim with this create revision, until the wait `ends`. `seen` is
    /// the answer to its take.
    pub(crate) fn enter(
        self: &Arc<Self>,
        claim_key: Arc<ClaimKey>,
        created: i64,
        ends: Option<Instant>,
        seen: Option<QueueSnapshot>,
    ) -> Ticket {
        let queue = claim_key.queue.as_str();
        let (tell, told) = oneshot::channel();
        let mut waits = self.by_queue.lock();
        let (wait, is_new) = match waits.get(queue) {
            Some(wait) => (Arc::clone(wait), false),
            None => (SharedWait::new(queue), true),
        };
        let waiter = TurnWaiter {
            key: Arc::clone(&claim_key.key),
            tell,
        };
        wait.enter(created, waiter, seen);
        if is_new {
            waits.insert(queue.to_owned(), Arc::clone(&wait));
            let looking = look_after(Arc::clone(&wait), Arc::clone(self));
            self.connection.runtime().spawn(looking);
        }
        Ticket {
            wait,
            claim_key,
            created,
            told,
            ends,
        }
    }
}

/// Watches the blocker of the first waiter, and wakes waiters that may proceed, until none is left.
async fn look_after(wait: Arc<SharedWait>, waits: Arc<SharedWaits>) {
    let (tell, events) = mpsc::unbounded_channel();
    let mut watching = QueueWatchTask {
        waits,
        wait,
        tell,
        events,
        watch: None,
        pauses: Backoff::new(LOOK_AGAIN, LOOK_AGAIN_MAX),
        look_at: None,
    };
    let mut pauses = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
    loop {
        let outcome = match watching.wait.advance() {
            WaitStep::End if watching.waits.end(&watching.wait) => return,
            WaitStep::End => continue,
            WaitStep::List(own) => watching.list(&own).await,
            WaitStep::Watch(blocking_claim, since) => watching.watch(blocking_claim, since).await,
        };
        match outcome {
            Ok(()) => pauses = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE),
            Err(error) => {
                tracing::debug!(%error, "etcd: queue of a key was not read, trying again");
                watching.wait.fail(&error);
                // Waiters that try again enter during the pause.
                tokio::time::sleep(pauses.next_pause()).await;
            }
        }
    }
}

struct QueueWatchTask {
    wait: Arc<SharedWait>,
    waits: Arc<SharedWaits>,
    tell: mpsc::UnboundedSender<WatchEvent>,
    events: mpsc::UnboundedReceiver<WatchEvent>,
    /// The claim that is watched.
    watch: Option<(Blocker, Subscription)>,
    pauses: Backoff,
    /// When to look without an event.
    look_at: Option<LookAt>,
}

#[derive(Clone, Copy)]
enum LookAt {
    /// When to reserve the time of a look.
    Pause(Moment),
    Reserved(Moment),
}

impl QueueWatchTask {
    /// Watches the blocking claim, and waits until the waiters need another step.
    async fn watch(&mut self, blocking_claim: Blocker, since: i64) -> Result<()> {
        let is_watched = self
            .watch
            .as_ref()
            .is_some_and(|(now, _)| *now == blocking_claim);
        if !is_watched {
            // Drop the old watch first: both may report the same key.
            self.watch = None;
            let watch = self.subscribe(&blocking_claim, since)?;
            self.watch = Some((blocking_claim, watch));
        }
        let look_at = self.look_at.unwrap_or_else(|| {
            let pause = self.pauses.next_pause();
            LookAt::Pause(Clock::Boot.now().plus(pause))
        });
        self.look_at = Some(look_at);
        let (LookAt::Pause(moment) | LookAt::Reserved(moment)) = look_at;
        // All branches are cancel safe: unreceived messages stay for the next iteration.
        tokio::select! {
            Some(event) = self.events.recv() => self.on_event(event).await,
            () = self.wait.changed.notified() => {
                if self.wait.takes_check() { self.look().await } else { Ok(()) }
            }
            () = Clock::Boot.sleep_until(moment) => match look_at {
                LookAt::Pause(_) => {
                    self.look_at = Some(LookAt::Reserved(self.waits.next_look()));
                    Ok(())
                }
                LookAt::Reserved(_) => self.look().await,
            },
        }
    }

    fn subscribe(&self, blocking_claim: &Blocker, since: i64) -> Result<Subscription> {
        let watched = match blocking_claim {
            Blocker::One(key, _) => WatchedKeys::Key(key.clone()),
            Blocker::Any => WatchedKeys::Below(self.wait.queue.clone()),
        };
        let tell = self.tell.clone();
        let tell = move |event| {
            // The task may have ended.
            let _unheard = tell.send(event);
        };
        self.waits.watches.watch_since(since, watched, tell)
    }

    async fn on_event(&mut self, event: WatchEvent) -> Result<()> {
        match event {
            WatchEvent::Deleted(key, revision) => self.wait.note_gone(&key, revision),
            WatchEvent::Written(written) => {
                let claim = ListedClaim::read(&written, self.wait.queue.as_bytes());
                claim.inspect(|claim| self.wait.note_mode(claim));
            }
            // Any claim before the first waiter may be gone.
            WatchEvent::Stale if matches!(self.watch, Some((Blocker::Any, _))) => {
                self.wait.mark_stale()
            }
            WatchEvent::Stale => return self.look().await,
            WatchEvent::Lost => {
                self.watch = None;
                return self.look().await;
            }
        }
        Ok(())
    }

    /// Looks at the keys, in case an event was not reported.
    async fn look(&mut self) -> Result<()> {
        self.look_at = None;
        let looks = self.wait.looks();
        let sent = Clock::Boot.now();
        let queue = self.wait.queue.as_bytes();
        let look = |look: &KeyLookup| look_at(look.key.clone(), look.created, Look::Value);
        let read = |revision, found: &TxnOpResponse| match found {
            TxnOpResponse::Get(found) => {
                let claim = found.kvs().first();
                let claim = claim.and_then(|found| ListedClaim::read(found, queue));
                (revision, claim.map(|claim| claim.mode))
            }
            _ => (revision, None),
        };
        let connection = &self.waits.connection;
        let found = connection
            .ask_for_all(REPLY_LIMIT, &looks, look, read)
            .await?;
        self.wait.note_looks(&looks, &found, sent);
        Ok(())
    }

    /// Lists all claims, `own` among them.
    async fn list(&mut self, own: &str) -> Result<()> {
        self.look_at = None;
        let queue = self.wait.queue.as_str();
        let look = list_all(queue, own);
        let (before, sent) = (self.wait.revision(), Clock::Boot.now());
        let connection = &self.waits.connection;
        let answer = connection.ask(REPLY_LIMIT, |client| transact(client, look.clone()));
        let list = QueueSnapshot::read(&answer.await?, queue, "")?;
        self.wait.note_list(list, before, sent)
    }
}
