//! Renews holds: confirms each of their sessions once, and looks for their nodes.

use std::sync::Arc;

use futures_util::future::{join, join_all};
use lock_core::backend::{ClaimId, Clock, HoldId, Renewal};
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
    claim: ClaimId,
    record: &'a ClaimRecord,
    node: &'a Node,
}

impl Client {
    /// Confirms each session once, and looks for the nodes of all holds.
    ///
    /// Watched nodes are looked for, too: a server does not report the deletion of a node that the
    /// user may not read.
    pub(crate) async fn renew_holds(&self, holds: &[HoldId]) -> Result<Vec<Renewal>> {
        let limit = holds.iter().map(HoldId::ttl).min().unwrap_or_default() / 4;
        let records: Vec<Option<ClaimRecord>> = holds
            .iter()
            .map(|hold| self.registry.get(hold.claim()))
            .collect();
        let sessions = sessions(records.iter().flatten());
        let sent = Clock::Boot.now();
        let confirming = join_all(sessions.iter().map(|session| session.confirm()));
        let asking = join(confirming, self.find(holds, &records));
        let answers = self.deadlines.timeout(limit, asking).await;
        let (confirmed, found) = answers.ok_or_else(|| self.request_sizes.no_answer(limit))?;
        if confirmed.iter().any(Result::is_ok) {
            self.replies.note(sent);
        }
        let is_confirmed = |record: &ClaimRecord| {
            let mut answers = sessions.iter().zip(&confirmed);
            answers.any(|(session, answer)| Arc::ptr_eq(session, &record.session) && answer.is_ok())
        };
        let renewals: Vec<Renewal> = found
            .iter()
            .zip(holds.iter().zip(&records))
            .map(|(found, (hold, record))| match (found, record) {
                (Ok(true), Some(record)) if is_confirmed(record) => Renewal::Held {
                    sent,
                    ttl: record.session.ttl(hold.lock_delay()),
                },
                (Ok(false), _) => Renewal::Lost(LossReason::Removed),
                (Err(error), _) if is_end_of_session(error) => Renewal::Lost(LossReason::Removed),
                (Ok(true) | Err(_), _) => Renewal::Unknown,
            })
            .collect();
        let answered = holds.iter().zip(&renewals);
        let held = answered.filter(|(_, renewal)| matches!(renewal, Renewal::Held { .. }));
        self.registry.renewed(sent, held.map(|(hold, _)| hold));
        Ok(renewals)
    }

    /// Returns for each hold whether its node is there.
    async fn find(
        &self,
        holds: &[HoldId],
        records: &[Option<ClaimRecord>],
    ) -> Vec<DriverResult<bool>> {
        let sought = holds.iter().zip(records).enumerate();
        let sought = sought.filter_map(|(index, (hold, record))| {
            let record = record.as_ref()?;
            Some(Sought {
                index,
                claim: hold.claim(),
                record,
                node: record.node.as_ref()?,
            })
        });
        let (watched, mut unwatched): (Vec<Sought<'_>>, Vec<Sought<'_>>) =
            sought.partition(|sought| sought.record.is_watched);
        let mut others = unwatched.split_off(unwatched.len().min(WATCHES_AT_ONCE));
        others.extend(watched);
        let beginning = unwatched.iter().map(|sought| self.begin_to_watch(sought));
        let (begun, read) = join(join_all(beginning), read(&others)).await;
        // A hold without a known node counts as not found.
        let mut found = vec![Ok(false); holds.len()];
        for (index, answer) in begun.into_iter().chain(read) {
            found[index] = answer;
        }
        found
    }

    /// Looks for a node, and watches it from now on.
    async fn begin_to_watch(&self, sought: &Sought<'_>) -> (usize, DriverResult<bool>) {
        let (claim, session) = (sought.claim, &sought.record.session);
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
        (sought.index, is_there)
    }
}

/// Reads nodes in batches, and returns for each index whether the node is there.
async fn read(sought: &[Sought<'_>]) -> Vec<(usize, DriverResult<bool>)> {
    let mut reading = Vec::new();
    for session in sessions(sought.iter().map(|sought| sought.record)) {
        let is_there = |sought: &&Sought<'_>| Arc::ptr_eq(&sought.record.session, session);
        let there: Vec<Sought<'_>> = sought.iter().filter(is_there).copied().collect();
        let request_sizes = &session.link.request_sizes;
        let batches = request_sizes.cut(there, READ_AT_ONCE, REQUEST_MAX, |sought| {
            sought.node.path.len()
        });
        reading.extend(batches.map(|batch| async move {
            let nodes: Vec<&Node> = batch.iter().map(|sought| sought.node).collect();
            let answers = session.have(&nodes).await;
            let indices = batch.iter().map(|sought| sought.index);
            indices.zip(answers).collect::<Vec<_>>()
        }));
    }
    join_all(reading).await.into_iter().flatten().collect()
}

/// Returns the sessions of `records`, each once.
fn sessions<'a>(registry: impl Iterator<Item = &'a ClaimRecord>) -> Vec<&'a Arc<Session>> {
    let mut sessions: Vec<&Arc<Session>> = Vec::new();
    for ClaimRecord { session, .. } in registry {
        if !sessions.iter().any(|known| Arc::ptr_eq(known, session)) {
            sessions.push(session);
        }
    }
    sessions
}
