//! The connections and settings of the strategies in one instance.

use std::sync::Arc;
use std::time::Duration;

use polylock::DistributedLock;
use tokio::sync::Mutex;

use crate::coupon::client::Client;
use crate::coupon::commands::{self, Commands};
use crate::coupon::protocol::Job;
use crate::coupon::strategy::Strategy;
use crate::stage::problem::Problem;

/// The connections of one instance, and the one lock key of the run.
pub(crate) struct Tools {
    pub(crate) strategy: Strategy,
    pub(crate) headquarters: Client,
    /// A lock that other instances do not see.
    pub(crate) local_mutex: Mutex<()>,
    pub(crate) commands: Arc<dyn Commands>,
    pub(crate) locks: Arc<dyn DistributedLock>,
    pub(crate) key: String,
    pub(crate) ttl: Duration,
}

impl Tools {
    pub(crate) async fn connect(job: &Job, headquarters: Client) -> Result<Self, Problem> {
        let config = job.store.configuration()?;
        Ok(Self {
            strategy: job.strategy,
            local_mutex: Mutex::new(()),
            commands: commands::connect(&config.url, &headquarters).await?,
            locks: polylock::connect(config).await?,
            headquarters,
            key: job.key.clone(),
            ttl: job.ttl,
        })
    }
}
