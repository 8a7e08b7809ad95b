//! The work on one refund, which the mechanisms guard.

use polylock::LockGuard;

use crate::refund::client::{Client, Outdated};
use crate::refund::protocol::{Answer, Fence, Step, Trade};
use crate::refund::requests::{PART, PRICE, Refund};
use crate::stage::problem::Problem;

/// The way to treat a bank that wants a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// A caller waits for the answer, so the refund is left.
    AtOnce,
    /// No caller waits, so the peer sleeps for the pause.
    Paced,
}

/// The locks that protect the work.
#[derive(Debug)]
pub(crate) enum Protection {
    Nothing,
    /// The locks of the trade and of the bank.
    Locks(LockGuard, LockGuard),
    /// The turn in the bank's queue, which all refunds of the bank's trades go through.
    Turn(LockGuard),
}

impl Protection {
    fn fence(&self) -> Option<Fence> {
        let (trade, bank) = match self {
            Self::Nothing => return None,
            Self::Locks(trade, bank) => (trade, bank),
            Self::Turn(turn) => (turn, turn),
        };
        Some(Fence {
            trade: trade.token().value(),
            bank: bank.token().value(),
        })
    }

    fn holds(&self) -> bool {
        match self {
            Self::Nothing => true,
            Self::Locks(trade, bank) => trade.is_held() && bank.is_held(),
            Self::Turn(turn) => turn.is_held(),
        }
    }

    /// Releases the locks. Ignores errors: the refund is done, and the ttl ends the holds at the
    /// latest.
    pub(crate) async fn end(self) {
        match self {
            Self::Nothing => {}
            Self::Locks(trade, bank) => {
                let (_trade, _bank) = tokio::join!(trade.release(), bank.release());
            }
            Self::Turn(turn) => {
                let _turn = turn.release().await;
            }
        }
    }
}

/// Pays a refund and notes the payment, unless the trade's price is already used up.
pub(crate) async fn settle(
    client: &Client,
    refund: &Refund,
    protection: &Protection,
    pace: Pace,
) -> Result<Answer, Problem> {
    match try_to_settle(client, refund, protection, pace).await? {
        Ok(answer) => Ok(answer),
        // The current holder does not know of this refund, so it is left for the compensation run.
        Err(Outdated) => Ok(Answer::Left),
    }
}

async fn try_to_settle(
    client: &Client,
    refund: &Refund,
    protection: &Protection,
    pace: Pace,
) -> Result<Result<Answer, Outdated>, Problem> {
    let fence = protection.fence();
    let trade = match trade_in_order(client, refund, fence).await? {
        Ok(trade) => trade,
        Err(outdated) => return Ok(Err(outdated)),
    };
    if trade.is_finished {
        return Ok(Ok(Answer::AlreadyDone));
    }
    if trade.refunded + PART > PRICE {
        let declined = client.step(refund, fence, Step::Decline).await?;
        return Ok(declined.map(|()| Answer::Declined));
    }
    if !trade.pause.is_zero() {
        match pace {
            Pace::AtOnce => return Ok(Ok(Answer::Left)),
            Pace::Paced => tokio::time::sleep(trade.pause).await,
        }
    }
    let refunded = trade.refunded + PART;
    for step in [Step::Begin, Step::Pay, Step::Finish { refunded }] {
        if step == Step::Pay && !protection.holds() {
            return Ok(Ok(Answer::Left));
        }
        if let Err(outdated) = client.step(refund, fence, step).await? {
            return Ok(Err(outdated));
        }
    }
    Ok(Ok(Answer::Paid))
}

/// Reads the trade, after finishing a payment that another peer has begun and not finished.
///
/// The bank knows whether it has made that payment.
async fn trade_in_order(
    client: &Client,
    refund: &Refund,
    fence: Option<Fence>,
) -> Result<Result<Trade, Outdated>, Problem> {
    loop {
        let trade = match client.read(refund, fence).await? {
            Ok(trade) => trade,
            Err(outdated) => return Ok(Err(outdated)),
        };
        let Some(begun) = trade.begun else {
            return Ok(Ok(trade));
        };
        let step = match client.was_paid(&begun, fence).await? {
            Ok(true) => Step::Finish {
                refunded: trade.refunded + PART,
            },
            Ok(false) => Step::Abandon,
            Err(outdated) => return Ok(Err(outdated)),
        };
        if let Err(outdated) = client.step(&begun, fence, step).await? {
            return Ok(Err(outdated));
        }
    }
}
