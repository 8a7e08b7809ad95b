//! Takes of row locks: transactions that stay open.

use std::future::pending;
use std::time::Duration;

use lock_core::backend::{Backoff, Claim, Clock, HoldId, Moment};
use lock_core::{Mode, Result};

use crate::client::{Client, NumberedGrant};
use crate::connection::pool::Lent;
use crate::connection::request::Request;
use crate::connection::session::StatementResults;
use crate::error::{Failure, blocked, no_answer, takes_no_writes, unexpected};
use crate::schema::grant_clock::grant_number;
use crate::server_checks::MAY_WRITE;

/// First and longest time that InnoDB waits for a row before the client asks again.
const SLICE: Duration = Duration::from_secs(1);
const SLICE_MAX: Duration = Duration::from_secs(8);

/// Time for which a take asks again for a row that was just created.
///
/// The transaction that created the row may have locked the row only to create it, or may hold it in
/// a mode that this take can share.
const FRESH_LIMIT: Duration = Duration::from_millis(50);

/// The limits of a wait for a row.
#[derive(Clone, Copy)]
pub(crate) struct RowWait {
    /// The remaining time of the whole wait.
    pub(crate) left: Duration,
    slice: Duration,
}

impl RowWait {
    /// Returns the first slice of a wait: a second.
    pub(crate) fn begin() -> Self {
        Self {
            left: Duration::MAX,
            slice: SLICE,
        }
    }

    /// Returns the next slice of a wait: twice as long, and no longer than `ttl`.
    ///
    /// A claim that asks again is queued behind readers that came meanwhile. If these hold the row
    /// for longer than a slice, the claim would never get the row.
    pub(crate) fn next(self, ttl: Duration) -> Self {
        Self {
            slice: (self.slice * 2).min(SLICE_MAX).min(ttl).max(SLICE),
            ..self
        }
    }
}

/// The server's answer about a row.
enum RowTake {
    Granted {
        won: NumberedGrant,
        recorded: u64,
    },
    Held,
    /// The take has locked the row, but a lease on it has not expired.
    Leased,
    /// The row says that the holders of a lease have expired, but a holder may still be valid.
    Doubtful,
    /// The table has no row for the key.
    New,
    /// The row was locked, perhaps only by the transaction that created it.
    Fresh,
    /// The server may not grant at the moment, because of this setting.
    Refused(String),
}

impl Client {
    /// Asks for the row once. Returns the grant, or `None` while the row is locked.
    ///
    /// With `wait`, InnoDB waits for the row.
    pub(crate) async fn take_row(
        &self,
        claim: &Claim,
        wait: Option<RowWait>,
        patience: Duration,
    ) -> Result<Option<NumberedGrant>, Failure> {
        let hold = claim.id();
        let ends = Clock::Boot.now().plus(patience);
        self.settled(hold.claim(), patience).await?;
        let mut taken = self.ask_for_row(claim, wait, patience).await?;
        if matches!(taken, RowTake::New | RowTake::Doubtful) {
            let statements = match taken {
                RowTake::Doubtful => self.names.settle(hold.key()),
                // Another transaction may take long to create the row, so `try_row` fails if the
                // row is locked.
                _ => self.names.try_row(hold.key()) + ";" + &self.names.create(hold.key()),
            };
            // Committed at once, so that other transactions can lock the row, too.
            let (command, statements) = (self.command()?, format!("{MAY_WRITE};{statements}"));
            let writing = self.ask_for(hold.claim(), &command.releasing, statements, patience);
            taken = match Box::pin(writing).await {
                // The transaction that has locked the row may have created it meanwhile, and may
                // share it.
                Ok(_) | Err(Failure::Locked) => self.ask_for_row(claim, wait, patience).await?,
                Err(Failure::NoAnswer(_) | Failure::Working(_))
                    if self.is_locked(hold.key(), patience).await =>
                {
                    self.ask_for_row(claim, wait, patience).await?
                }
                Err(failure) => return Err(failure),
            };
        }
        let mut backoff = Backoff::new(Duration::from_millis(5), Duration::from_millis(200));
        while matches!(taken, RowTake::New) && Clock::Boot.now() < ends {
            // Another transaction is creating the row. That takes a moment, unless the transaction
            // is blocked.
            let pause = backoff.next_pause();
            self.deadlines.timeout(pause, pending::<()>()).await;
            if let Some(state) = self.blocking_state().await? {
                return Err(Failure::Blocked(state));
            }
            taken = self.ask_for_row(claim, wait, patience).await?;
        }
        let mut backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(50));
        let ends = ends.min(Clock::Boot.now().plus(FRESH_LIMIT));
        while matches!(taken, RowTake::Fresh) && Clock::Boot.now() < ends {
            let pause = backoff.next_pause();
            self.deadlines.timeout(pause, pending::<()>()).await;
            taken = self.ask_for_row(claim, wait, patience).await?;
        }
        Ok(match taken {
            RowTake::Granted { won, .. } => Some(won),
            // A row that is purged right after its creation counts as held: the caller asks again.
            // So does a row that the open transaction of another program creates.
            RowTake::New | RowTake::Fresh => None,
            RowTake::Held | RowTake::Leased | RowTake::Doubtful => None,
            RowTake::Refused(setting) => return Err(Failure::ReadOnly(takes_no_writes(&setting))),
        })
    }

    async fn ask_for_row(
        &self,
        claim: &Claim,
        wait: Option<RowWait>,
        patience: Duration,
    ) -> Result<RowTake> {
        let (hold, command) = (claim.id(), self.command()?);
        let Some((mut lent, answer, mut sent)) = self.lock_row(hold, wait, patience).await? else {
            return Ok(RowTake::Held);
        };
        let mut taken = taken(&answer, lent.sysdate_moves, sent)?;
        if let RowTake::Granted { won, recorded } = &mut taken {
            let behind = won.grant <= *recorded;
            if behind {
                won.grant = Box::pin(self.number(hold, *recorded, patience)).await?;
            }
            if Clock::Boot.now().since(sent) > hold.ttl() / 6 {
                // The server counts `wait_timeout` from the last statement. So the hold counts from
                // a new statement.
                sent = Clock::Boot.now();
                let heartbeat = self.ask_in(hold, lent, "DO 0".to_owned(), patience);
                lent = heartbeat.await.map_err(Failure::into_error)?.0;
                won.sent = sent;
            }
            let is_old = behind || won.grant.saturating_sub(*recorded) > self.token_age_max;
            let record = (is_old && hold.mode() == Mode::Exclusive).then_some(won.grant);
            self.rows.enter(hold, lent, sent, record, claim.loss());
            command.heartbeats.enter(hold.claim());
        } else if matches!(taken, RowTake::New) && wait.is_none() {
            let looking = self.names.look_for_row(hold.key());
            let looking = Request::new(&command.taking, lent, looking).send();
            let Some((_, looked)) = self.deadlines.timeout(patience, looking).await else {
                return Err(no_answer(patience));
            };
            let looked = looked.map_err(Failure::into_error)?;
            if let Some(is_fresh) = looked.first_value()? {
                return Ok(if is_fresh {
                    RowTake::Fresh
                } else {
                    RowTake::Held
                });
            }
        } else {
            let ending = Request::new(&command.taking, lent, "ROLLBACK".to_owned()).send();
            // The rollback continues in the background if it takes longer.
            let ended = self.deadlines.timeout(patience, ending).await;
            if let (RowTake::Refused(_), Some((mut lent, _))) = (&taken, ended)
                && lent.used
            {
                lent.demoted();
            }
        }
        Ok(taken)
    }

    /// Returns a grant's number while the server's clock is behind the token stored in the row.
    ///
    /// The number is committed before a holder sees it.
    async fn number(&self, hold: &HoldId, recorded: u64, limit: Duration) -> Result<u64> {
        let pool = &self.command()?.releasing;
        let count = self.names.count(hold.key(), recorded);
        let counted = self.ask_for(hold.claim(), pool, count, limit).await;
        let counted = counted.map_err(Failure::into_error)?;
        let number = counted.first_value()?;
        number.ok_or_else(|| unexpected("without a number"))
    }

    /// Locks the row if it is available. Returns also when the take was sent.
    ///
    /// A connection that the server closed while it was idle fails when it is used. The take is
    /// then sent again on a new connection.
    async fn lock_row(
        &self,
        hold: &HoldId,
        wait: Option<RowWait>,
        patience: Duration,
    ) -> Result<Option<(Lent, StatementResults, Moment)>> {
        let command = self.command()?;
        let (limit, cut_off) = match wait {
            // The wait ends before the server answers, which is no failure of the server.
            Some(wait) if wait.left < wait.slice => (wait.left, true),
            Some(wait) => (wait.slice + patience, false),
            None => (patience, false),
        };
        let ends = Clock::Boot.now().plus(limit + patience);
        loop {
            let left = ends.since(Clock::Boot.now());
            let lending = command
                .taking
                .lend(wait.map_or(Duration::ZERO, |wait| wait.left));
            let Some(lent) = self.deadlines.timeout(left, lending).await else {
                return Err(no_answer(limit + patience));
            };
            let mut lent = lent?;
            let (used, sent) = (lent.used, Clock::Boot.now());
            let slice = wait.map(|wait| wait.slice);
            let statements = self.names.take_row(hold, &mut lent, slice);
            return match self.ask_in(hold, lent, statements, limit).await {
                Ok((lent, answer)) => Ok(Some((lent, answer, sent))),
                Err(Failure::Failed(error))
                    if used && error.is_retryable() && Clock::Boot.now() < ends =>
                {
                    command.taking.idle.close_all();
                    continue;
                }
                Err(Failure::NoTable(missing)) if Clock::Boot.now() < ends => {
                    Box::pin(self.restore_tables(missing)).await?;
                    continue;
                }
                Err(Failure::Working(_)) if cut_off => Ok(None),
                // `SKIP LOCKED` leaves out locked rows, so this error means a blocked table.
                Err(Failure::Locked) if wait.is_none() => {
                    Err(blocked("Lock wait timeout exceeded"))
                }
                Err(Failure::Locked | Failure::Deadlock) => Ok(None),
                Err(failure) => Err(failure.into_error()),
            };
        }
    }

    /// Sends statements in a transaction that stays open.
    ///
    /// If the caller gives up, the connection is ended on the server. The request would stay in the
    /// row's queue otherwise.
    async fn ask_in(
        &self,
        hold: &HoldId,
        lent: Lent,
        statements: String,
        limit: Duration,
    ) -> Result<(Lent, StatementResults), Failure> {
        let pool = &self.command()?.taking;
        let kill = self.kill(&lent.connection_id)?;
        let connection = lent.connection_id.clone();
        let mut request = Request::leaving_open(pool, lent, statements)
            .of(hold.claim(), &self.in_flight)
            .interrupted_after(Duration::ZERO, kill.until_done())
            .send();
        match self.deadlines.timeout(limit, &mut request).await {
            Some((lent, answer)) => Ok((lent, answer?)),
            None => Err(Box::pin(self.silence(&connection, limit)).await),
        }
    }
}

/// Reads the answer: the row, and the clock in the row or in the result after it.
fn taken(answer: &StatementResults, clock_in_row: bool, sent: Moment) -> Result<RowTake> {
    let Some(row) = answer.nth_back(usize::from(!clock_in_row))?.first() else {
        return Ok(RowTake::New);
    };
    let (recorded, leased) = (row.value(0)?, row.value::<i64>(1)?);
    if let Some(setting) = row.value(2)? {
        return Ok(RowTake::Refused(setting));
    }
    match leased {
        0 => {}
        1 => return Ok(RowTake::Leased),
        _ => return Ok(RowTake::Doubtful),
    }
    let clock: i64 = if clock_in_row {
        row.value(3)?
    } else {
        let clock = answer.nth_back(0)?.first();
        clock
            .ok_or_else(|| unexpected("without a time"))?
            .value(0)?
    };
    let won = NumberedGrant {
        grant: grant_number(clock),
        slot: None,
        sent,
    };
    Ok(RowTake::Granted { won, recorded })
}
