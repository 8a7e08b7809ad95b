//! Renews holds: confirms each of their sessions once, and looks for their nodes.

use std::sync::Arc;

use futures_util::future::{join, join_all};
use lock_core::backend::{Clock, HoldId, Renewal};
use lock_core::{LossReason, Result};

use crate::claim::registry::ClaimRecord;
use crate::client::Client;
use crate::connection::open::Watcher;
use crate::connection::request_size::REQUEST_MAX;
use crate::error::{DriverResult, is_end_of_session};
use crate::session::node::{Node, WatchedNode};
use crate::session::requests::Session;

/// The number of nodes of a batch that a renewal begins to watch. Each watch takes a request, which
/// costs as much as dozens of nodes that are read together. So of many holds that were granted
/// together, all are watched after some renewals.
const WATCHES_AT_ONCE: usize = 8;

/// The number of nodes that are read together, so that the answer is far from a megabyte.
const READ_AT_ONCE: usize = 500;

/// A hold to renew, and its record, if there is one.
struct Due<'a> {
    hold: &'a HoldId,
    record: Option<ClaimRecord>,
}

/// A node to look for, and the index of its hold in the batch.
#[derive(Clone, Copy)]
struct Sought<'a> {
    number: usize,
    hold: &'a HoldId,
    record: &'a ClaimRecord,
    node: &'a Arc<Node>,
}

impl Due<'_> {
    fn sought(&self, number: usize) -> Option<Sought<'_>> {
        let record = self.record.as_ref()?;
        Some(Sought {
            number,
            hold: self.hold,
            record,
            node: record.node.as_ref()?,
        })
    }
}

impl Client {
    /// Confirms each session once, and looks for the nodes of all holds. A watch is no reason not
    /// to look: a server does not report the deletion of a node that the user may not read.
    pub(crate) async fn renew_holds(&self, holds: &[HoldId]) -> Result<Vec<Renewal>> {
        let limit = holds.iter().map(HoldId::ttl).min().unwrap_or_default() / 4;
        let due = holds.iter().map(|hold| Due {
            hold,
            record: self.registry.get(hold.claim()),
        });
        let due: Vec<Due<'_>> = due.collect();
        let sessions = sessions(due.iter().flat_map(|due| &due.record));
        let sent = Clock::Boot.now();
        let confirming = join_all(sessions.iter().map(|session| session.confirm()));
        let asking = join(confirming, self.find(&due));
        let answers = self.deadlines.timeout(limit, asking).await;
        let (confirmed, found) = answers.ok_or_else(|| self.request_sizes.no_answer(limit))?;
        if confirmed.iter().any(Result::is_ok) {
            self.replies.note(sent);
        }
        let is_confirmed = |record: &ClaimRecord| {
            let mut answers = sessions.iter().zip(&confirmed);
            answers.any(|(session, answer)| Arc::ptr_eq(session, &record.session) && answer.is_ok())
        };
        let renewals: Vec<Renewal> = due
            .iter()
            .zip(&found)
            .map(|(due, found)| match (found, &due.record) {
                (Ok(true), Some(record)) if is_confirmed(record) => Renewal::Held {
                    sent,
                    ttl: record.session.ttl(due.hold.lock_delay()),
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

    /// Finds out whether the node of each hold is there.
    async fn find(&self, due: &[Due<'_>]) -> Vec<DriverResult<bool>> {
        // A hold without a node is not found.
        let mut found: Vec<DriverResult<bool>> = due.iter().map(|_| Ok(false)).collect();
        let numbered = due.iter().enumerate();
        let (watched, mut unwatched): (Vec<Sought<'_>>, Vec<Sought<'_>>) = numbered
            .filter_map(|(number, due)| due.sought(number))
            .partition(|sought| sought.record.is_watched);
        let mut others = unwatched.split_off(unwatched.len().min(WATCHES_AT_ONCE));
        others.extend(watched);
        let (begun, read) = join(self.begin_to_watch(&unwatched), read(&others)).await;
        let mut unread = Vec::new();
        for (sought, answer) in read {
            match answer {
                Some(answer) => found[sought.number] = answer,
                None => unread.push(sought),
            }
        }
        let looked = join_all(unread.into_iter().map(look)).await;
        for (number, answer) in begun.into_iter().chain(looked) {
            found[number] = answer;
        }
        found
    }

    /// Looks for nodes one by one, and watches them from now on.
    async fn begin_to_watch(&self, sought: &[Sought<'_>]) -> Vec<(usize, DriverResult<bool>)> {
        let looking = sought.iter().map(|sought| async move {
            let watcher = sought.record.session.has_and_watches(sought.node).await;
            (sought, watcher)
        });
        let looked = join_all(looking).await.into_iter();
        let told = looked.map(|(sought, watcher)| {
            let begun =
                watcher.map(|watcher| watcher.map(|watcher| self.hand_over(sought, watcher)));
            (sought.number, begun.map(|begun| begun.is_some()))
        });
        told.collect()
    }

    fn hand_over(&self, sought: &Sought<'_>, watcher: Watcher) {
        let (claim, record) = (sought.hold.claim(), sought.record);
        self.registry
            .update(claim, |record| record.is_watched = true);
        record.session.tells(WatchedNode {
            claim,
            loss: record.loss.clone(),
            watcher,
        });
    }
}

/// Reads many nodes at once; `None` for those that the user may not read.
async fn read<'a>(sought: &[Sought<'a>]) -> Vec<(Sought<'a>, Option<DriverResult<bool>>)> {
    let mut reading = Vec::new();
    for session in sessions(sought.iter().map(|sought| sought.record)) {
        let is_there = |sought: &&Sought<'_>| Arc::ptr_eq(&sought.record.session, session);
        let there: Vec<Sought<'a>> = sought.iter().filter(is_there).copied().collect();
        let request_sizes = session.request_sizes();
        let batches = request_sizes.cut(there, READ_AT_ONCE, REQUEST_MAX, |sought| {
            sought.node.path.len()
        });
        reading.extend(batches.map(|batch| async move {
            let nodes: Vec<&Node> = batch.iter().map(|sought| &**sought.node).collect();
            let answers = session.have(&nodes).await;
            batch.into_iter().zip(answers).collect::<Vec<_>>()
        }));
    }
    join_all(reading).await.into_iter().flatten().collect()
}

/// Looks for one node.
async fn look(sought: Sought<'_>) -> (usize, DriverResult<bool>) {
    (sought.number, sought.record.session.has(sought.node).await)
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
