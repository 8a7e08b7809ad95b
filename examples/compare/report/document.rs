//! The table by which articles about refund systems compare lock stores, with figures beside it.

use crate::contender::Kind;
use crate::figures::Figures;
use crate::plan::TASKS_TOGETHER;
use crate::report::metrics::{duration, short, trips_cell};

/// A criterion of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Criterion {
    Deployment,
    Cost,
    Scaling,
    Reliability,
    Impact,
}

impl Criterion {
    pub(crate) const ALL: [Self; 5] = [
        Self::Deployment,
        Self::Cost,
        Self::Scaling,
        Self::Reliability,
        Self::Impact,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Deployment => "ease of deployment",
            Self::Cost => "cost",
            Self::Scaling => "scaling",
            Self::Reliability => "reliability",
            Self::Impact => "impact on the system",
        }
    }

    /// Returns the judgement. Articles cover Redis, databases and ZooKeeper; this file adds the
    /// others.
    pub(crate) fn words(self, kind: Kind) -> &'static str {
        use Kind::{Etcd, Memory, MysqlLease, MysqlRow, Redis, ZooKeeper};
        match (self, kind) {
            (Self::Deployment, Memory) => "nothing to deploy",
            (Self::Deployment, Redis) => "rather easy: one server",
            (Self::Deployment, MysqlLease | MysqlRow) => {
                "easy: a table in a database that you have"
            }
            (Self::Deployment, Etcd) => {
                "rather hard: a cluster of its own; three servers, so that one may fail"
            }
            (Self::Deployment, ZooKeeper) => {
                "rather hard: an ensemble of its own, on Java; three servers, so that one may fail"
            }
            (Self::Cost, Memory) => "none",
            (Self::Cost, Redis) => "rather low",
            (Self::Cost, MysqlLease) => "low",
            (Self::Cost, MysqlRow) => "low; a connection for each lock that is held",
            (Self::Cost, Etcd | ZooKeeper) => "rather high: more servers",
            (Self::Scaling, Memory) => "not beyond one process",
            (Self::Scaling, Redis) => "easy: any number of keys",
            (Self::Scaling, MysqlLease) => "easy: a row per key",
            (Self::Scaling, MysqlRow) => "easy in keys; each held lock needs a connection",
            (Self::Scaling, Etcd) => {
                "rather easy: any number of keys; every write goes through one leader"
            }
            (Self::Scaling, ZooKeeper) => {
                "rather easy as a lock, rather hard as a queue; every write goes through one leader"
            }
            (Self::Reliability, Memory) => "as the process",
            (Self::Reliability, Redis) => {
                "rather reliable: a single server is a single point of failure"
            }
            (Self::Reliability, MysqlLease | MysqlRow) => "reliable: as the database",
            (Self::Reliability, Etcd | ZooKeeper) => "reliable: a minority of the servers may fail",
            (Self::Impact, Memory) => "none",
            (Self::Impact, Redis) => "small",
            (Self::Impact, MysqlLease | MysqlRow) => "rather small: one more table",
            (Self::Impact, Etcd) => "large as a queue, which makes work asynchronous",
            (Self::Impact, ZooKeeper) => "large as a queue, which makes work asynchronous",
        }
    }

    /// Returns the figures that support or contradict the judgement.
    pub(crate) fn facts(self, one: &Figures) -> String {
        let server = one.server.as_ref();
        match self {
            Self::Deployment => server.map_or_else(String::new, |server| {
                format!("serves {} after its start", duration(server.ready_ms))
            }),
            Self::Cost => server.map_or_else(String::new, |server| {
                let memory = server
                    .memory_mb
                    .map(|memory| format!("{} MB of memory", short(memory)));
                let processor = server
                    .processor_us_per_lock
                    .map(|processor| format!("{} µs of a processor per lock", short(processor)));
                memory
                    .into_iter()
                    .chain(processor)
                    .collect::<Vec<_>>()
                    .join(", ")
            }),
            Self::Scaling => format!(
                "{} locks/s by one task, {} by {TASKS_TOGETHER}; {} on one hot key",
                short(one.free.per_s),
                short(one.free.together_per_s),
                short(one.hot_through_store.per_s)
            ),
            Self::Reliability => format!(
                "a killed holder of a lock with a ttl of {} blocks it for {}; coupons and refunds {}",
                duration(one.ttl_ms),
                duration(one.recovery.median_ms()),
                if one.is_clean() {
                    "came out right"
                } else {
                    "CAME OUT WRONG"
                }
            ),
            Self::Impact => format!(
                "{} round trips to take, {} to release; taking takes {} ms, 99 of 100 times less than {} ms",
                trips_cell(one.round_trips.take),
                trips_cell(one.round_trips.release),
                short(one.free.take.p50_ms),
                short(one.free.take.p99_ms)
            ),
        }
    }
}
