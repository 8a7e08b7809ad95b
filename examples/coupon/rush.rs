//! Runs the strategies, one after the other, through the same rush.

use std::sync::Arc;
use std::time::Duration;

use polylock::{DistributedLock, DistributedLockExt, LockRequest};

use crate::coupon::arguments::Arguments;
use crate::coupon::client::Client;
use crate::coupon::commands::{self, TimeToLive};
use crate::coupon::figures::Figures;
use crate::coupon::headquarters::Headquarters;
use crate::coupon::instance::CouponShop;
use crate::coupon::protocol::Job;
use crate::coupon::register::Register;
use crate::coupon::strategy::Strategy;
use crate::coupon::submissions::submissions;
use crate::stage::problem::Problem;
use crate::stage::{progress, run_instances};

/// The ttl, short so that the lock of a crashed holder is soon free; some stores have a longer
/// minimum.
const TTL: Duration = Duration::from_secs(1);

/// Time limit of a run, far more than any strategy takes.
const TIME_LIMIT: Duration = Duration::from_secs(90);

/// The rush that every strategy goes through.
pub(crate) struct Rush<'a> {
    arguments: &'a Arguments,
    locks: Arc<dyn DistributedLock>,
    ttl: Duration,
    run: String,
}

impl<'a> Rush<'a> {
    /// Connects to the lock store, so that an unreachable store is reported at once.
    pub(crate) async fn prepare(arguments: &'a Arguments) -> Result<Self, Problem> {
        let locks = polylock::connect(arguments.store.configuration()?).await?;
        let ttl = TTL.max(*locks.capabilities().ttl.start());
        // No other run on the same store has these keys.
        let run = format!("{:016x}-{:x}", fastrand::u64(..), std::process::id());
        Ok(Self {
            arguments,
            locks,
            ttl,
            run,
        })
    }

    /// Runs one strategy through the rush and measures it.
    pub(crate) async fn run(&self, strategy: Strategy) -> Result<Figures, Problem> {
        let headquarters = Arc::new(self.headquarters(strategy)?);
        let client = Client::over(headquarters.clone());
        let commands =
            commands::connect(&self.arguments.store.configuration()?.url, &client).await?;
        let key = self.key(strategy);
        let figures = tokio::select! {
            figures = self.measure(strategy, &headquarters, &*commands) => figures,
            _ = tokio::signal::ctrl_c() => Err("interrupted".into()),
        };
        if strategy.uses_commands() {
            // A stuck lock would stay on the store for ever.
            let cleaned_up = commands.del(&key).await;
            // The earlier error explains more.
            return figures.and_then(|figures| cleaned_up.map(|_| figures));
        }
        figures
    }

    async fn measure(
        &self,
        strategy: Strategy,
        headquarters: &Arc<Headquarters>,
        commands: &dyn commands::Commands,
    ) -> Result<Figures, Problem> {
        let rush = run_instances::<CouponShop>(
            self.arguments.instances,
            self.arguments.separate_processes()?,
            headquarters.clone(),
        );
        let in_time = tokio::time::timeout(TIME_LIMIT, rush).await;
        in_time.map_err(|_| format!("{} did not end in {TIME_LIMIT:?}", strategy.name()))??;
        let unanswered = headquarters.inspect(|_, register| register.unanswered());
        if unanswered > 0 {
            return Err(format!("{}: {unanswered} got no answer", strategy.name()).into());
        }
        let key = self.key(strategy);
        let stuck = match strategy {
            _ if strategy.uses_polylock() => self.cannot_be_locked(&key).await?,
            _ => commands.ttl(&key).await? == TimeToLive::ForEver,
        };
        Ok(Figures::of(strategy, headquarters, stuck))
    }

    /// Returns true if the lock cannot be taken although it has no living holder.
    async fn cannot_be_locked(&self, key: &str) -> Result<bool, Problem> {
        let request = LockRequest::exclusive(key)?
            .with_ttl(self.ttl)
            .waiting_at_most(self.ttl + Duration::from_secs(1));
        let taken = self.locks.with_lock(request, async |_held| ()).await?;
        Ok(taken.is_none())
    }

    fn headquarters(&self, strategy: Strategy) -> Result<Headquarters, Problem> {
        let Arguments {
            stock,
            buyers,
            instances,
            ..
        } = *self.arguments;
        let job = Job {
            strategy,
            store: self.arguments.store.clone(),
            key: self.key(strategy),
            ttl: self.ttl,
            submissions: submissions(buyers, instances),
        };
        let count = job.submissions.len();
        let register = Register::new(count, progress::bar(strategy.name(), count, "answered")?)?;
        Ok(Headquarters::new(job, stock, instances, register))
    }

    fn key(&self, strategy: Strategy) -> String {
        format!("coupon/voucher-1/{}/{}", self.run, strategy.name())
    }
}
