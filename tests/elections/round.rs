//! One round: a leader in trouble, and the candidate after it.

use std::sync::Arc;
use std::time::Duration;

use lock_testkit::faults::Proxy;
use lock_testkit::{assert_excluded, eventually};
use polylock::{Election, connect};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::leader::{Candidate, Leader};

/// The number of rounds at the same time.
const SIDE_BY_SIDE: usize = 8;

/// Far more than a term and a few round trips take on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// The reason for which a leader does not renew its term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The requests of its process get no answer.
    HungRenewal,
    /// The connections of its process are reset, and new ones refused.
    CutNetwork,
    /// No answer, and another task blocks the only worker of its runtime.
    BlockedWorker,
    /// No answer, and its work blocks the thread.
    BlockingWork,
}

/// A store on one server.
#[derive(Clone)]
pub(crate) struct Store {
    pub(crate) url: String,
    pub(crate) port: u16,
}

impl Store {
    /// Runs all rounds, some side by side.
    pub(crate) async fn elects(&self, kind: &str) {
        let rounds = std::env::var("ELECTION_ROUNDS");
        let rounds = rounds.map_or(4, |rounds| rounds.parse().expect("a number of rounds"));
        for trouble in [
            Trouble::HungRenewal,
            Trouble::CutNetwork,
            Trouble::BlockedWorker,
            Trouble::BlockingWork,
        ] {
            let mut running = JoinSet::new();
            for number in 0..rounds {
                if running.len() == SIDE_BY_SIDE {
                    running.join_next().await.expect("some run").expect("ends");
                }
                let store = self.clone();
                running.spawn(async move { store.round(trouble, number).await });
            }
            while let Some(ended) = running.join_next().await {
                ended.expect("it ends");
            }
            println!("{kind}, {trouble:?}: the work was over in {rounds} of {rounds} rounds");
        }
    }

    async fn round(&self, trouble: Trouble, number: usize) {
        let proxy = Proxy::before(self.port);
        let locks = connect(&*self.url).await.expect("the server runs");
        let candidate = Candidate {
            url: self
                .url
                .replace(&self.port.to_string(), &proxy.port().to_string()),
            name: format!("{trouble:?}/{number}"),
            ttl: Duration::from_secs(1).max(*locks.capabilities().ttl.start()),
            trouble,
        };
        let mut leader = Leader::start(candidate.clone());
        let term = timeout(LIMIT, leader.terms.recv()).await;
        let (held, work) = term.expect("it leads").expect("its thread runs");
        let mut campaigns = JoinSet::new();
        let watched = (held.clone(), Arc::clone(&work));
        campaigns.spawn(async move {
            let election = Election::new(Arc::clone(&locks), &candidate.name);
            let election = election.expect("a valid name").with_ttl(candidate.ttl);
            let term = election.campaign().await.expect("the server runs");
            let (held, work) = watched;
            (term, held.is_held(), work.is_dropped(), work.polls())
        });
        eventually(LIMIT, "work", async || work.polls() > 2).await;
        if matches!(trouble, Trouble::BlockedWorker | Trouble::BlockingWork) {
            work.begin_to_block();
            eventually(LIMIT, "a blocked thread", async || work.is_blocked()).await;
        }
        if trouble == Trouble::CutNetwork {
            proxy.refuse();
            proxy.all().reset();
        } else {
            proxy.all().hold();
        }
        let next = timeout(LIMIT, campaigns.join_next()).await;
        let next = next.expect("the next one leads").expect("it campaigns");
        let (term, still_held, was_dropped, polls) = next.expect("no panic");
        assert_excluded!(!still_held, "{trouble:?}: two leaders");
        assert_excluded!(
            was_dropped || trouble == Trouble::BlockingWork,
            "{trouble:?}: the work of a leader still exists while the next one leads"
        );
        assert!(
            !was_dropped || work.left() > Duration::ZERO,
            "{trouble:?}: dropped without a margin"
        );
        assert!(term.number() > held.token().value());
        leader.unblock();
        eventually(LIMIT, "the end of the work", async || work.is_dropped()).await;
        assert_excluded!(work.polls() == polls, "{trouble:?}: polled after its term");
        proxy.all().pass();
        term.resign().await.expect("the server runs");
        leader.end().await;
    }
}
