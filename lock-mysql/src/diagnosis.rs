//! Diagnosis of requests that the server does not answer, or refuses because of a locked row.

use std::sync::Arc;
use std::time::Duration;

use lock_core::Result;
use lock_core::backend::ClaimId;

use crate::client::{ClaimOf, Client};
use crate::connection::connection_id::ConnectionId;
use crate::connection::pool::Pool;
use crate::connection::request::Request;
use crate::connection::retrying_query::RetryingQuery;
use crate::connection::session::StatementResults;
use crate::error::Failure;

/// Time limit of the question why the server has not answered a request.
const SILENCE_LIMIT: Duration = Duration::from_millis(500);

/// Selects the states of this user's connections; other users' states need a privilege. A commit
/// counts after one second, since every commit takes a moment. A wait for a lock counts at once.
const STATES: &str = "SELECT STATE FROM information_schema.PROCESSLIST WHERE DB = DATABASE() AND (STATE LIKE 'Waiting for % lock%' OR TIME >= 1)";

impl Client {
    /// Sends `statements` for `claim`, and asks for the reason if the server does not answer.
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

    /// Asks why the request on `connection` was not answered within `limit`. The request has to be
    /// under way.
    pub(crate) async fn silence(&self, connection: &ConnectionId, limit: Duration) -> Failure {
        let Some(answer) = self.inquire(connection.state()).await else {
            return Failure::NoAnswer(limit);
        };
        match answer.first_value::<String>() {
            // Servers report such a state for all locks except row locks. They also report it for
            // commits that wait for a disk or a replica.
            Ok(Some(state)) if is_blocked(&state) => Failure::Blocked(state),
            Ok(Some(_)) => Failure::Working(limit),
            Ok(None) | Err(_) => Failure::NoAnswer(limit),
        }
    }

    /// Returns the state of a transaction that cannot commit, if there is one.
    ///
    /// Such a transaction may keep a row locked, although it holds no key yet, or no key any more.
    ///
    /// # Errors
    ///
    /// [`Failure::Unexplained`] if the question fails.
    pub(crate) async fn blocking_state(&self) -> Result<Option<String>, Failure> {
        let answer = self.inquire(STATES.to_owned()).await;
        let answer = answer.ok_or(Failure::Unexplained)?;
        let states = answer.rows().filter_map(|row| row.value::<String>(0).ok());
        let mut blocked = states.filter(|state| keeps_commits(state));
        Ok(blocked.next())
    }

    async fn inquire(&self, statement: String) -> Option<StatementResults> {
        let keeping = &self.background().ok()?.keeping;
        let asking = async {
            let lent = keeping.lend(SILENCE_LIMIT).await?;
            Request::new(keeping, lent, statement).send().await.1
        };
        self.deadlines.timeout(SILENCE_LIMIT, asking).await?.ok()
    }
}

/// Returns true if `state` is a wait for a lock other than a row lock.
fn is_blocked(state: &str) -> bool {
    state.starts_with("Waiting for ") || keeps_commits(state)
}

/// Returns true if a transaction in `state` keeps its rows locked.
///
/// Table locks do not count: a statement locks its tables before its rows.
fn keeps_commits(state: &str) -> bool {
    let state = state.to_ascii_lowercase();
    ["commit", "backup lock", "read lock", " ack"]
        .iter()
        .any(|words| state.contains(words))
}
