//! Why the server does not answer, or says that a row is locked.

use std::sync::Arc;
use std::time::Duration;

use lock_core::Result;
use lock_core::backend::ClaimId;

use crate::client::{ClaimOf, Client};
use crate::connection::connection_id::ConnectionId;
use crate::connection::detached_request::DetachedRequest;
use crate::connection::pool::Pool;
use crate::connection::retrying_query::RetryingQuery;
use crate::connection::session::StatementResults;
use crate::error::Failure;

/// The time that the server is given to say what keeps a request that it has not answered.
const SILENCE_LIMIT: Duration = Duration::from_millis(500);

/// Asks for the states of this user's connections: those of other users need a privilege. Every
/// commit takes a moment, except one that waits for a lock.
const STATES: &str = "SELECT STATE FROM information_schema.PROCESSLIST WHERE DB = DATABASE() AND (STATE LIKE 'Waiting for % lock%' OR TIME >= 1)";

impl Client {
    /// Asks on `pool` what could be asked in vain, for `claim`.
    pub(crate) async fn ask_for(
        &self,
        claim: ClaimId,
        pool: &Arc<Pool>,
        statements: String,
        limit: Duration,
    ) -> Result<StatementResults, Failure> {
        let claim = ClaimOf(self, claim);
        let query = RetryingQuery::new(pool, claim, limit, |_| statements.clone());
        Ok(query.run(limit).await?.0)
    }

    /// Asks why the request on `connection` was not answered within `limit`. That has to be done
    /// while the request is under way.
    pub(crate) async fn silence(&self, connection: &ConnectionId, limit: Duration) -> Failure {
        let Some(answer) = self.inquire(connection.state()).await else {
            return Failure::NoAnswer(limit);
        };
        match answer.first_value::<String>() {
            // So servers say it of all locks but those of rows, and of commits that a disk or a
            // replica keeps.
            Ok(Some(state)) if is_blocked(&state) => Failure::Blocked(state),
            Ok(Some(_)) => Failure::Working(limit),
            Ok(None) | Err(_) => Failure::NoAnswer(limit),
        }
    }

    /// Returns what may keep a transaction that has a row locked from committing, in the server's
    /// words: it holds no key yet, or not any more.
    pub(crate) async fn what_blocks_others(&self) -> Option<String> {
        let answer = self.inquire(STATES.to_owned()).await?;
        let states = answer.rows().filter_map(|row| row.value::<String>(0).ok());
        let mut blocked = states.filter(|state| keeps_commits(state));
        blocked.next()
    }

    async fn inquire(&self, statement: String) -> Option<StatementResults> {
        let keeping = &self.background().ok()?.keeping;
        let asking = async {
            let lent = keeping.lend(SILENCE_LIMIT).await?;
            DetachedRequest::new(keeping, lent, statement).await.1
        };
        self.deadlines.timeout(SILENCE_LIMIT, asking).await?.ok()
    }
}

/// Returns true if this is a wait for another lock than that of a row.
fn is_blocked(state: &str) -> bool {
    state.starts_with("Waiting for ") || keeps_commits(state)
}

/// Returns true if this is a wait in which a transaction keeps the rows that it has locked: its
/// statements have locked the tables before.
fn keeps_commits(state: &str) -> bool {
    let state = state.to_ascii_lowercase();
    ["commit", "backup lock", "read lock", " ack"]
        .iter()
        .any(|words| state.contains(words))
}
