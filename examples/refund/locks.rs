//! Acquires the locks that a mechanism needs.

use std::sync::Arc;
use std::time::Duration;

use polylock::{Config, DistributedLock, LockGuard, LockRequest};

use crate::refund::mechanism::Mechanism;
use crate::refund::protocol::Job;
use crate::refund::requests::Refund;
use crate::refund::settle::Protection;
use crate::stage::problem::Problem;

/// The lock store of one peer, and the prefix of the run's keys.
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

    /// Connects to the store that `config` names.
    pub(crate) async fn over(config: Config, job: &Job) -> Result<Self, Problem> {
        Ok(Self {
            mechanism: job.mechanism,
            store: connect(config, job.mechanism).await?,
            keys: job.keys.clone(),
            ttl: job.ttl,
        })
    }

    /// Acquires the protection for `refund`; `None` if it is taken and the mechanism does not wait.
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

    /// Takes both locks without waiting, always in the same order.
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
                // The release runs in the background, so this peer does not wait for the store's
                // answer.
                drop(trade);
                Ok(None)
            }
        }
    }

    /// Acquires a lock. An unreachable store counts as a refusal, so the refund is left, too.
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
        let request = LockRequest::exclusive(format!("{}/{key}", self.keys))?;
        Ok(request.with_ttl(self.ttl))
    }
}

/// Connects to the store with the settings that the mechanism needs.
///
/// A queue disables hand-off, which would let later waiters of one process overtake those of
/// others.
pub(crate) async fn connect(
    mut config: Config,
    mechanism: Mechanism,
) -> Result<Arc<dyn DistributedLock>, Problem> {
    if mechanism == Mechanism::Queue {
        config.hand_off = Some(Duration::ZERO);
    }
    Ok(polylock::connect(config).await?)
}
