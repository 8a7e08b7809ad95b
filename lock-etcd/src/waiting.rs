//! Waiting in the queue for one's turn.

use std::sync::Arc;
use std::time::Duration;

use lock_core::{Attempts, Backoff, Clock, Result};
use tokio::sync::mpsc;

use crate::client::Client;
use crate::place::Place;
use crate::queue::{Blocker, Queue};
use crate::watches::{News, Subscription, Watched};

/// How long a waiter trusts the servers to tell of a change before it looks by itself: soon at first,
/// and jittered.
const LOOK_AGAIN: Duration = Duration::from_secs(2);
const LOOK_AGAIN_MAX: Duration = Duration::from_secs(4);

/// How long before the end of a wait it looks once more: then servers that are slow just at the end are not
/// taken for ones that are gone.
const BEFORE_THE_END: Duration = Duration::from_millis(240);

/// A waiter, and what it knows of those before it.
pub(crate) struct Waiting<'a> {
    client: &'a Client,
    place: &'a Arc<Place>,
    queue: Queue,
}

/// Why a waiter looks up.
enum Woken {
    By(News),
    /// Nothing was told for a while.
    ByNobody,
    /// Its own lease has ended.
    LeaseEnded,
    /// The wait is over.
    Over,
}

impl<'a> Waiting<'a> {
    pub(crate) fn new(client: &'a Client, place: &'a Arc<Place>, queue: Queue) -> Self {
        Self {
            client,
            place,
            queue,
        }
    }

    /// Waits until it may be our turn, by what is told of those before us; `false` when the wait ended
    /// before.
    pub(crate) async fn wait(mut self, attempts: &mut Attempts) -> Result<bool> {
        let Some(blocker) = self.queue.blocker() else {
            return Ok(true);
        };
        let mut looks = Backoff::new(LOOK_AGAIN, LOOK_AGAIN_MAX);
        let (sender, mut inbox) = mpsc::unbounded_channel();
        let _subscription = self.watch(&blocker, sender)?;
        loop {
            match self.next(&mut inbox, looks.next_pause(), attempts).await {
                Woken::By(News::Gone(key)) => {
                    if self.lets_in_without(&key, &blocker) {
                        return Ok(true);
                    }
                }
                Woken::By(News::Missed) | Woken::LeaseEnded => return Ok(true),
                Woken::By(News::Behind) | Woken::ByNobody => {
                    if self.has_changed(&blocker, attempts).await {
                        return Ok(true);
                    }
                }
                Woken::Over => return Ok(false),
            }
        }
    }

    /// Whether it may be our turn when the claim with this key has gone.
    ///
    /// Nobody can come in between, so those before us only go. Who sees all of them go need not ask
    /// each time; of those before the one that we wait for, nobody told us.
    fn lets_in_without(&mut self, key: &[u8], blocker: &Blocker) -> bool {
        self.queue.remove(key);
        match blocker {
            Blocker::One(..) => true,
            Blocker::Any => self.queue.blocker().is_none(),
        }
    }

    async fn next(
        &self,
        inbox: &mut mpsc::UnboundedReceiver<News>,
        pause: Duration,
        attempts: &Attempts,
    ) -> Woken {
        let left = attempts.left();
        let before_the_end = left.checked_sub(BEFORE_THE_END);
        let pause = before_the_end.unwrap_or(left).min(pause);
        // All are cancel safe: what was not received stays for the next turn.
        tokio::select! {
            Some(news) = inbox.recv() => Woken::By(news),
            () = self.place.lease.ended() => Woken::LeaseEnded,
            () = tokio::time::sleep(pause) => {
                if attempts.is_over() { Woken::Over } else { Woken::ByNobody }
            }
        }
    }

    fn watch(
        &self,
        blocker: &Blocker,
        sender: mpsc::UnboundedSender<News>,
    ) -> Result<Subscription> {
        let watched = match blocker {
            Blocker::One(key, _) => Watched::Key(key.clone()),
            Blocker::Any => Watched::Below(self.place.queue.clone()),
        };
        let tell = move |news| {
            // Nobody may be waiting any more.
            let _unheard = sender.send(news);
        };
        let watches = &self.client.background()?.watches;
        watches.watch_since(self.queue.revision, watched, tell)
    }

    /// Looks by itself, in case that something was not told. Where any of many may go, that is what an
    /// attempt is for, as where nobody can look: it knows for how long that is borne.
    async fn has_changed(&self, blocker: &Blocker, attempts: &mut Attempts) -> bool {
        let Blocker::One(key, created) = blocker else {
            return true;
        };
        let sent = Clock::Boot.now();
        match self
            .client
            .has_changed(self.place, (key, *created), attempts)
            .await
        {
            Ok(false) => {
                attempts.refused(sent);
                false
            }
            Ok(true) => true,
            Err(error) => {
                tracing::debug!(%error, "cannot look");
                true
            }
        }
    }
}
