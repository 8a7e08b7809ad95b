//! A look at a queue whose answer several callers share.

use std::sync::Arc;

use lock_core::backend::{Clock, Detached};
use tokio::sync::oneshot;
use zookeeper_client::Error as ZooKeeperError;

use crate::error::DriverResult;
use crate::queue::QueueListing;
use crate::session::looks::ConfirmedListing;
use crate::session::requests::Session;

impl Session {
    /// Looks at the queue of `lock` through the leader, and confirms the session. Callers that ask
    /// while a look is under way share the next look.
    pub(crate) async fn look_together(
        self: &Arc<Self>,
        lock: &Arc<str>,
    ) -> DriverResult<ConfirmedListing> {
        let (answer, mut answered) = oneshot::channel();
        let answer = if self.looks.ask(lock, answer) {
            let looking = look_while_wanted(Arc::clone(self), Arc::clone(lock));
            // Detached: the looks for later callers continue when this caller is dropped.
            let looking = Detached::new(&self.runtime, looking);
            tokio::select! {
                biased;
                () = looking => answered.await,
                answer = &mut answered => answer,
            }
        } else {
            answered.await
        };
        answer.unwrap_or(Err(ZooKeeperError::ConnectionLoss))
    }
}

/// Looks at the queue of `lock` until no caller waits for another look. Each look answers the
/// callers that asked before it was sent.
async fn look_while_wanted(session: Arc<Session>, lock: Arc<str>) {
    loop {
        let _one_of_few = session.looks.limit.acquire().await;
        let Some(callers) = session.looks.begin(&lock) else {
            return;
        };
        let sent = Clock::Boot.now();
        let (confirmed, children) = match session.confirmed_lately() {
            Some(confirmed) => (confirmed, session.list(&lock).await),
            None => (sent, session.look_and_confirm(&lock).await),
        };
        let listing = children.map(|children| (confirmed, Arc::new(QueueListing::new(children))));
        if let Ok(listing) = &listing {
            session.looks.remember(&lock, sent, listing.clone());
        }
        for caller in callers {
            // The caller may be gone.
            let _unheard = caller.send(listing.clone());
        }
    }
}
