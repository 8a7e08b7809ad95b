//! Takes and renewals of leases. A key's row stores the holder and the end of the lease.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join, join_all};
use lock_core::backend::{ClaimId, Clock, HoldId, Moment, Renewal};
use lock_core::{LossReason, Mode, Result};

use crate::client::{ClaimOf, Client, NumberedGrant};
use crate::connection::pool::{Lent, Pool};
use crate::connection::request::Request;
use crate::connection::retrying_query::RetryingQuery;
use crate::connection::session::{Fields, StatementResults};
use crate::error::Failure;
use crate::lease::statements::{IN_DOUBT, TAKE, TAKE_MANY_GRANT, TAKE_MANY_LOOK, TAKE_NEW};
use crate::schema::literals::digits;
use crate::server_checks::MAY_WRITE;

/// Maximum time that a take waits for a connection, however long its wait for the key is.
const QUEUE_LIMIT: Duration = Duration::from_secs(30);

/// The outcome of a take.
enum LeaseTake {
    Granted(NumberedGrant),
    Held,
    /// The key's row says that all holders have expired, but a holder may still be valid.
    Doubtful,
    /// The table has no row for the key.
    New,
}

impl Client {
    /// Asks for the key once. Returns the grant, or `None` while the key is held.
    ///
    /// Waits up to `wait` for a connection, and up to `patience` for the answer.
    pub(crate) async fn take_lease(
        &self,
        hold: &HoldId,
        wait: Duration,
        patience: Duration,
    ) -> Result<Option<NumberedGrant>, Failure> {
        self.settled(hold.claim(), patience).await?;
        let mut taken = self.ask_for_lease(hold, false, wait, patience).await?;
        if matches!(taken, LeaseTake::Doubtful) {
            let command = self.command()?;
            let settle = format!("{MAY_WRITE};{}", self.names.settle(hold.key()));
            let settling = self.ask_for(hold.claim(), &command.releasing, settle, patience);
            match Box::pin(settling).await {
                Ok(_) => taken = self.ask_for_lease(hold, false, wait, patience).await?,
                Err(Failure::Locked) => {}
                Err(failure) => return Err(failure),
            }
        }
        if matches!(taken, LeaseTake::New) {
            taken = self.ask_for_lease(hold, true, wait, patience).await?;
        }
        match taken {
            LeaseTake::Granted(won) => Ok(Some(won)),
            // A row that is purged right after its creation counts as held: the caller asks again.
            LeaseTake::Held | LeaseTake::Doubtful | LeaseTake::New => Ok(None),
        }
    }

    async fn ask_for_lease(
        &self,
        hold: &HoldId,
        new: bool,
        wait: Duration,
        patience: Duration,
    ) -> Result<LeaseTake, Failure> {
        let command = self.command()?;
        let owner = ClaimOf(self, hold.claim());
        let take = |_: &Lent| format!("{MAY_WRITE};{}", self.names.take(hold, new));
        let query = RetryingQuery::new(&command.taking, owner, wait.min(QUEUE_LIMIT), take);
        match query.run(patience).await {
            Ok((answer, sent)) => Ok(taken(hold, new, &answer, sent)?),
            // Without a reason the row counts as held, mostly by a row lock.
            Err(Failure::Locked) => match self.blocking_state().await? {
                Some(state) => Err(Failure::Blocked(state)),
                None => Ok(LeaseTake::Held),
            },
            Err(Failure::NoTable(missing)) if !new => {
                Box::pin(self.restore_tables(missing)).await?;
                Ok(LeaseTake::New)
            }
            // A client of an earlier version created the table again.
            Err(Failure::NoColumn(_)) if self.names.has_latest_columns() => {
                self.names.set_latest_columns(false);
                Box::pin(self.ask_for_lease(hold, new, wait, patience)).await
            }
            Err(failure) => Err(failure),
        }
    }

    /// Renews all holds together, except holds whose rows another transaction has locked.
    pub(crate) async fn renew_leases(&self, holds: &[HoldId]) -> Result<Vec<Renewal>> {
        let batches = join_all(
            holds
                .chunks(self.renewal_batch.get())
                .map(|batch| self.renew_batch(batch)),
        )
        .await;
        Ok(batches.into_iter().flatten().collect())
    }

    async fn renew_batch(&self, batch: &[HoldId]) -> Vec<Renewal> {
        let limit = batch.iter().map(HoldId::ttl).min().unwrap_or_default() / 8;
        let is_stalled = {
            let stalled = self.stalled.lock();
            batch.iter().any(|hold| stalled.contains(&hold.claim()))
        };
        let mut renewals = self.renew_once(batch, is_stalled, limit).await;
        if let Err(Failure::NoTable(missing)) = renewals {
            // The new table has no rows, so the holds of the dropped table turn out to be lost.
            renewals = match self.restore_tables(missing).await {
                Ok(()) => self.renew_once(batch, is_stalled, limit).await,
                Err(error) => Err(error.into()),
            };
        }
        match renewals {
            Ok(renewals) => renewals,
            Err(Failure::TooLarge(_)) if self.renewal_batch.halve(batch.len()) => {
                let (first, second) = batch.split_at(batch.len() / 2);
                let halves = join(
                    Box::pin(self.renew_batch(first)),
                    Box::pin(self.renew_batch(second)),
                );
                let (first, second) = halves.await;
                [first, second].concat()
            }
            Err(failure) => {
                let error = failure.into_error();
                tracing::debug!(%error, "mysql: renewal failed, trying again");
                vec![Renewal::Unknown; batch.len()]
            }
        }
    }

    async fn renew_once(
        &self,
        batch: &[HoldId],
        is_stalled: bool,
        limit: Duration,
    ) -> Result<Vec<Renewal>, Failure> {
        let background = self.background()?;
        if is_stalled {
            return self.renew_free(batch, limit).await;
        }
        // This request waits for locked rows. Most rows are locked for a moment only.
        match self
            .renew_together(batch, &background.renewing, limit)
            .await
        {
            Err(failure @ (Failure::NoTable(_) | Failure::TooLarge(_))) => Err(failure),
            Err(failure) => {
                let error = failure.into_error();
                match error.is_retryable() {
                    true => self.renew_free(batch, limit).await,
                    false => Err(error.into()),
                }
            }
            renewals => renewals,
        }
    }

    /// Renews the holds whose rows are not locked, without waiting for locked rows.
    async fn renew_free(&self, holds: &[HoldId], limit: Duration) -> Result<Vec<Renewal>, Failure> {
        let background = self.background()?;
        let keeping = &background.keeping;
        let answer = keeping.ask(self.names.find_locked(holds), limit).await?;
        let keys = |part: usize| -> Result<HashSet<Vec<u8>>> {
            answer
                .nth_back(part)?
                .rows()
                .map(|row| row.value(0))
                .collect()
        };
        let (there, free) = (keys(1)?, keys(0)?);
        let is_locked = |hold: &HoldId| {
            let key = self.names.row(hold.key());
            there.contains(&key) && !free.contains(&key)
        };
        let (locked, free): (Vec<HoldId>, Vec<HoldId>) = holds.iter().cloned().partition(is_locked);
        (self.stalled.lock()).extend(locked.iter().map(HoldId::claim));
        let renewals = match free.is_empty() {
            true => Vec::new(),
            false => self.renew_together(&free, keeping, limit).await?,
        };
        let renewals: HashMap<ClaimId, Renewal> =
            free.iter().map(HoldId::claim).zip(renewals).collect();
        (self.stalled.lock()).retain(|claim| !renewals.contains_key(claim));
        let renewed = |hold: &HoldId| renewals.get(&hold.claim()).copied();
        Ok(holds
            .iter()
            .map(|hold| renewed(hold).unwrap_or(Renewal::Unknown))
            .collect())
    }

    async fn renew_together(
        &self,
        holds: &[HoldId],
        pool: &Arc<Pool>,
        limit: Duration,
    ) -> Result<Vec<Renewal>, Failure> {
        let sent = Clock::Boot.now();
        let renewing = async {
            let lent = pool.lend(limit).await?;
            let kill = self.kill(&lent.connection_id)?;
            let statements = format!("{MAY_WRITE};{}", self.names.renew(holds));
            // Interrupted at once: while the request waits for a row, it keeps other rows locked.
            let request = Request::new(pool, lent, statements)
                .interrupted_after(Duration::ZERO, kill.until_done());
            request.send().await.1
        };
        let Some(answer) = self.deadlines.timeout(limit, renewing).await else {
            return Err(Failure::NoAnswer(limit));
        };
        let held = owners(&answer?)?;
        let renewal = |hold: &HoldId| {
            if held.contains(&hold.claim().to_string()) {
                Renewal::Held {
                    sent,
                    ttl: hold.store_ttl(),
                }
            } else {
                Renewal::Lost(LossReason::Removed)
            }
        };
        Ok(holds.iter().map(renewal).collect())
    }
}

fn taken(hold: &HoldId, new: bool, answer: &StatementResults, sent: Moment) -> Result<LeaseTake> {
    let granted = |grant, slot| LeaseTake::Granted(NumberedGrant { grant, slot, sent });
    if hold.mode() == Mode::Exclusive {
        let take = answer.nth_back(if new { TAKE_NEW } else { TAKE })?;
        return Ok(match (take.found, take.inserted) {
            (0, 0) => LeaseTake::New,
            (0, IN_DOUBT) => LeaseTake::Doubtful,
            (0, _) => LeaseTake::Held,
            (_, grant) => granted(grant, None),
        });
    }
    let Some(look) = answer.nth_back(TAKE_MANY_LOOK)?.first() else {
        return Ok(LeaseTake::New);
    };
    let grant = answer.nth_back(TAKE_MANY_GRANT)?.first();
    Ok(match grant {
        Some(grant) => granted(grant.value(0)?, grant.value(1)?),
        None if look.value(0)? => LeaseTake::Doubtful,
        None => LeaseTake::Held,
    })
}

/// Returns the owners in the answer, in the form of displayed claim ids.
fn owners(answer: &StatementResults) -> Result<HashSet<String>> {
    let owner = |row: Fields<'_>| row.value::<&[u8]>(0).map(digits);
    answer.rows().map(owner).collect()
}
