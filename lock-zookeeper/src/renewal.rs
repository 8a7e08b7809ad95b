//! Renews holds: confirms each of their sessions once, and looks for their nodes.

use std::ptr;
use std::sync::Arc;

use futures_util::future::{join, join_all};
use lock_core::backend::{Clock, HoldId, Renewal};
use lock_core::{LossReason, Result};

use crate::claim::registry::ClaimRecord;
use crate::client::Client;
use crate::connection::request_size::REQUEST_MAX;
use crate::error::{DriverResult, is_end_of_session};
use crate::session::loss_watch::WatchedNode;
use crate::session::node::Node;
use crate::session::requests::Session;

/// The largest number of nodes that one renewal begins to watch. A watch takes a request of its
/// own, which costs as much as dozens of nodes that are read together. Later renewals begin to
/// watch the remaining nodes.
const WATCHES_AT_ONCE: usize = 8;

/// The largest number of nodes that are read together, so that the answer stays far below a
/// megabyte.
const READ_AT_ONCE: usize = 500;

/// A node to look for, and the index of its hold in the batch.
#[derive(Clone, Copy)]
struct Sought<'a> {
    index: usize,
    hold: &'a HoldId,
    record: &'a ClaimRecord,
    node: &'a Node,
}

impl Client {
    /// Confirms each session once, and looks for the nodes of all holds.
    ///
    /// Holds of a session that answers in time are renewed even if another session is silent.
    /// Watched nodes are looked for, too: a server does not report the deletion of a node that the
    /// user may not read.
    pub(crate) async fn renew_holds(&self, holds: &[HoldId]) -> Result<Vec<Renewal>> {
        let records: Vec<Option<ClaimRecord>> = holds
            .iter()
            .map(|hold| self.registry.get(hold.claim()))
            .collect();
        // A hold without a known node counts as not found.
        let mut renewals = vec![Renewal::Lost(LossReason::Removed); holds.len()];
        let mut sessions: Vec<(&Session, Vec<Sought<'_>>)> = Vec::new();
        for (index, (hold, record)) in holds.iter().zip(&records).enumerate() {
            let Some(record) = record else { continue };
            let Some(node) = &record.node else { continue };
            renewals[index] = Renewal::Unknown;
            let sought = Sought {
                index,
                hold,
                record,
                node,
            };
            let session = &*record.session;
            match sessions.iter_mut().find(|(it, _)| ptr::eq(*it, session)) {
                Some((_, those)) => those.push(sought),
                None => sessions.push((session, vec![sought])),
            }
        }
        // Holds of a session that answers wait for the others, so several sessions get less time.
        let part = if sessions.len() > 1 { 6 } else { 4 };
        let limit = holds.iter().map(HoldId::ttl).min().unwrap_or_default() / part;
        let renewing = sessions.into_iter().map(|(session, sought)| {
            self.deadlines
                .timeout(limit, self.renew_in(session, sought))
        });
        let answers = join_all(renewing).await;
        if !answers.is_empty() && answers.iter().all(Option::is_none) {
            return Err(self.request_sizes.no_answer(limit));
        }
        for (sought, renewal) in answers.into_iter().flatten().flatten() {
            renewals[sought.index] = renewal;
        }
        Ok(renewals)
    }

    /// Renews the holds of one session.
    async fn renew_in<'a>(
        &self,
        session: &Session,
        sought: Vec<Sought<'a>>,
    ) -> Vec<(Sought<'a>, Renewal)> {
        let (watched, mut unwatched): (Vec<Sought<'_>>, Vec<Sought<'_>>) = sought
            .into_iter()
            .partition(|sought| sought.record.is_watched);
        let mut others = unwatched.split_off(unwatched.len().min(WATCHES_AT_ONCE));
        others.extend(watched);
        let beginning = unwatched.into_iter().map(|it| self.begin_to_watch(it));
        let finding = join(join_all(beginning), read(session, others));
        let sent = Clock::Boot.now();
        let (confirmed, (begun, read)) = join(session.confirm(), finding).await;
        if confirmed.is_ok() {
            self.replies.note(sent);
        }
        let renewals = begun.into_iter().chain(read).map(|(sought, found)| {
            let reserve = sought.hold.reserve();
            let held = || Renewal::Held {
                sent: session.link.counts_from(sent, reserve),
                ttl: session.ttl(reserve),
            };
            let renewal = match found {
                Ok(true) if confirmed.is_ok() => held(),
                Ok(false) => Renewal::Lost(LossReason::Removed),
                Err(error) if is_end_of_session(&error) => Renewal::Lost(LossReason::Removed),
                Ok(true) | Err(_) => Renewal::Unknown,
            };
            (sought, renewal)
        });
        let renewals: Vec<(Sought<'a>, Renewal)> = renewals.collect();
        let held = renewals.iter().filter_map(|(sought, renewal)| {
            matches!(renewal, Renewal::Held { .. }).then_some(sought.hold)
        });
        self.registry.renewed(sent, held);
        renewals
    }

    /// Looks for a node, and watches it from now on.
    async fn begin_to_watch<'a>(&self, sought: Sought<'a>) -> (Sought<'a>, DriverResult<bool>) {
        let (claim, session) = (sought.hold.claim(), &sought.record.session);
        let watcher = session.has_and_watches(sought.node).await;
        let is_there = watcher.map(|watcher| match watcher {
            Some(watcher) => {
                self.registry
                    .update(claim, |record| record.is_watched = true);
                let watched = WatchedNode {
                    claim,
                    loss: sought.record.loss.clone(),
                    watcher,
                };
                session.spawn_report(watched.report_removal(Arc::downgrade(&self.registry)));
                true
            }
            None => false,
        });
        (sought, is_there)
    }
}

/// Reads nodes in batches, and returns for each whether it is there.
async fn read<'a>(
    session: &Session,
    sought: Vec<Sought<'a>>,
) -> Vec<(Sought<'a>, DriverResult<bool>)> {
    let request_sizes = &session.link.request_sizes;
    let batches = request_sizes.cut(sought, READ_AT_ONCE, REQUEST_MAX, |sought| {
        sought.node.path.len()
    });
    let reading = batches.map(|batch| async move {
        let nodes: Vec<&Node> = batch.iter().map(|sought| sought.node).collect();
        let answers = session.have(&nodes).await;
        batch.into_iter().zip(answers).collect::<Vec<_>>()
    });
    join_all(reading).await.into_iter().flatten().collect()
}
