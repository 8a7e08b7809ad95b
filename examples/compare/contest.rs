//! Measures the stores, one after the other.

use std::sync::Arc;
use std::time::Duration;

use lock_testkit::measure;
use polylock::{Capabilities, Config, DistributedLock};

use crate::arguments::Arguments;
use crate::colleagues::{Coupons, Refunds, pay_refunds, sell_coupons};
use crate::conditions::Conditions;
use crate::contender::{Contender, Kind, Running};
use crate::figures::{Comparison, Figures, Recovery, ServerFigures, milliseconds};
use crate::plan::{Plan, TTL};
use crate::progress::Progress;
use crate::protocol::Wanted;
use crate::servers::Server;
use crate::stage::problem::{Problem, in_full};
use crate::{free, hot, recovery, round_trips};

/// Number of steps of a store in the progress bar.
const STEPS: usize = 6;

pub(crate) async fn run(arguments: &Arguments) -> Result<Comparison, Problem> {
    let contenders = Contender::chosen(&arguments.lock)?;
    // Report an unreachable store before minutes are spent on the other stores.
    for contender in contenders.iter().filter(|one| one.is_given()) {
        let url = contender.run().await?.url;
        let connected = polylock::connect(url.as_str()).await;
        connected.map_err(|error| format!("{}: {}", contender.name, in_full(&error)))?;
    }
    let progress = Progress::new(contenders.len() * STEPS)?;
    let missing = Contender::missing(&arguments.lock);
    for one in &missing {
        progress.say(&format!("without {one}"));
    }
    let plan = arguments.plan();
    let (mut stores, mut failed) = (Vec::new(), Vec::new());
    for contender in &contenders {
        let contest = Contest::begin(contender, &plan, &progress).await;
        let measured = match contest {
            Ok(contest) => contest.measure().await,
            Err(problem) => Err(problem),
        };
        match measured {
            Ok(figures) => stores.push(figures),
            // The figures of the other stores are still worth their minutes.
            Err(problem) => {
                progress.say(&format!("{}: {}", contender.name, in_full(&*problem)));
                failed.push(contender.name.clone());
            }
        }
    }
    Ok(Comparison {
        conditions: Conditions::now(plan)?,
        stores,
        failed,
        missing,
    })
}

/// The measurement of one store.
struct Contest<'a> {
    contender: &'a Contender,
    plan: &'a Plan,
    progress: &'a Progress,
    running: Running,
    locks: Arc<dyn DistributedLock>,
    capabilities: Capabilities,
    keys: String,
}

impl<'a> Contest<'a> {
    async fn begin(
        contender: &'a Contender,
        plan: &'a Plan,
        progress: &'a Progress,
    ) -> Result<Self, Problem> {
        progress.step(&contender.name, "starting");
        let running = contender.run().await?;
        let locks = polylock::connect(running.url.as_str()).await?;
        // Hand-off would let later waiters of a process overtake, so `fair` is read without it.
        let strict = polylock::connect(Config {
            hand_off: Some(Duration::ZERO),
            ..Config::new(running.url.clone())
        });
        Ok(Self {
            contender,
            plan,
            progress,
            capabilities: strict.await?.capabilities(),
            running,
            locks,
            // No other run on the same store has these keys.
            keys: format!(
                "compare/{:016x}-{:x}",
                fastrand::u64(..),
                std::process::id()
            ),
        })
    }

    async fn measure(self) -> Result<Figures, Problem> {
        let in_processes = self.contender.kind != Kind::Memory;
        self.step("free locks");
        let processor_before = self.processor_time();
        let free = free::measure(&self.locks, &self.keys, self.plan.free).await?;
        let processor = self.processor_time().zip(processor_before);
        let taken = free.take.n + free.together_n;
        let round_trips = round_trips::measure(&self.wanted("way"), in_processes).await?;
        self.step("the hot key");
        let hot = hot::measure(self.wanted("hot"), self.plan, in_processes).await?;
        let through_store = Wanted {
            hand_off: Some(Duration::ZERO),
            ..self.wanted("hot/through")
        };
        let hot_through_store = hot::measure(through_store, self.plan, in_processes).await?;
        let server = self.running.server.as_ref().map(|server| ServerFigures {
            ready_ms: milliseconds(server.ready_after),
            memory_mb: measure::memory(server.pid).map(|bytes| bytes as f64 / 1e6),
            processor_us_per_lock: processor
                .map(|(after, before)| (after - before).as_secs_f64() * 1e6 / taken as f64),
        });
        let (recovery, coupons, refunds) = self.mostly_waiting(in_processes).await?;
        Ok(Figures {
            name: self.contender.name.clone(),
            kind: self.contender.kind,
            fair: self.capabilities.fair,
            ttl_ms: milliseconds(self.ttl()),
            free,
            round_trips,
            hot,
            hot_through_store,
            recovery,
            coupons,
            refunds,
            server,
        })
    }

    /// Runs the measurements that mostly wait for the end of a ttl.
    async fn mostly_waiting(
        &self,
        in_processes: bool,
    ) -> Result<(Recovery, Coupons, Vec<Refunds>), Problem> {
        let recovery = async {
            self.step("killed holders");
            let wanted = (0..self.plan.killed).map(|number| self.wanted(&format!("dead/{number}")));
            recovery::measure(Arc::clone(&self.locks), wanted.collect(), in_processes).await
        };
        let coupons = async {
            self.step("coupons");
            sell_coupons(&self.running.url, self.plan.coupon).await
        };
        let refunds = async {
            self.step("refunds");
            let mut all = Vec::new();
            for mechanism in self.mechanisms() {
                all.push(pay_refunds(&self.running.url, mechanism, self.plan.refund).await?);
            }
            Ok(all)
        };
        if self.plan.together {
            tokio::try_join!(recovery, coupons, refunds)
        } else {
            Ok((recovery.await?, coupons.await?, refunds.await?))
        }
    }

    fn mechanisms(&self) -> &'static [&'static str] {
        match self.capabilities.fair {
            true => &["lock", "queue"],
            false => &["lock"],
        }
    }

    fn wanted(&self, key: &str) -> Wanted {
        Wanted {
            url: self.running.url.clone(),
            key: format!("{}/{key}", self.keys),
            ttl: self.ttl(),
            hand_off: None,
        }
    }

    fn ttl(&self) -> Duration {
        TTL.max(*self.capabilities.ttl.start())
    }

    fn processor_time(&self) -> Option<Duration> {
        let server: &Server = self.running.server.as_ref()?;
        measure::processor_time(server.pid)
    }

    fn step(&self, what: &str) {
        self.progress.step(&self.contender.name, what);
    }
}
