//! How a peer gets the protection of its mechanism.

use std::sync::Arc;
use std::time::Duration;

use polylock::{Config, DistributedLock, LockGuard, LockRequest};

use crate::refund::mechanism::Mechanism;
use crate::refund::protocol::Job;
use crate::refund::requests::Refund;
use crate::refund::settle::Protection;
use crate::stage::problem::Problem;

/// The lock store of one peer, and the keys of the run.
pub(crate) struct Locks {
    mechanism: Mechanism,
    store: Arc<dyn DistributedLock>,
    keys: String,
    ttl: Duration,
}

impl Locks {
    pub(crate) async fn connect(job: &Job) -> Result<Self, Problem> {
        Self::over(job.store.configuration()?, job).await
    }

    /// With the store that `config` leads to.
    pub(crate) async fn over(config: Config, job: &Job) -> Result<Self, Problem> {
        Ok(Self {
            mechanism: job.mechanism,
            store: connect(config, job.mechanism).await?,
            keys: job.keys.clone(),
            ttl: job.ttl,
        })
    }

    /// Protects the work on `refund`; `None` when somebody else is at it and nobody waits for that.
    pub(crate) async fn protect(&self, refund: &Refund) -> Result<Option<Protection>, Problem> {
        match self.mechanism {
            Mechanism::None => Ok(Some(Protection::Nothing)),
            Mechanism::Lock => self.locks(refund).await,
            Mechanism::Queue => {
                let turn = self.acquire(self.bank(refund)?).await?;
                Ok(turn.map(Protection::Turn))
            }
        }
    }

    /// Both locks without waiting, always in the same order.
    async fn locks(&self, refund: &Refund) -> Result<Option<Protection>, Problem> {
        let trade = self
            .request(&format!("trade/{}", refund.trade))?
            .without_waiting();
        let Some(trade) = self.acquire(trade).await? else {
            return Ok(None);
        };
        let bank = self.bank(refund)?.without_waiting();
        match self.acquire(bank).await? {
            Some(bank) => Ok(Some(Protection::Locks(trade, bank))),
            None => {
                // Nobody has to wait for the store's answer.
                drop(trade);
                Ok(None)
            }
        }
    }

    /// A store that could not be asked just now has granted nothing: the refund is left, too.
    async fn acquire(&self, request: LockRequest) -> Result<Option<LockGuard>, Problem> {
        match self.store.acquire(request).await {
            Ok(guard) => Ok(guard),
            Err(error) if error.is_retryable() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn bank(&self, refund: &Refund) -> Result<LockRequest, Problem> {
        self.request(&format!("bank/{}", refund.bank))
    }

    fn request(&self, key: &str) -> Result<LockRequest, Problem> {
        let request = LockRequest::exclusive(&format!("{}/{key}", self.keys))?;
        Ok(request.with_ttl(self.ttl))
    }
}

/// The store as the mechanism needs it: a queue that hands nothing on inside a process, which would let
/// latecomers overtake the waiters of others.
pub(crate) async fn connect(
    mut config: Config,
    mechanism: Mechanism,
) -> Result<Arc<dyn DistributedLock>, Problem> {
    if mechanism == Mechanism::Queue {
        config.hand_off = Some(Duration::ZERO);
    }
    Ok(polylock::connect(config).await?)
}
