//! Derives recommendations from the figures.

use crate::contender::Kind;
use crate::figures::{Comparison, Figures};
use crate::report::metrics::{duration, short};

/// A question, and the store that answers it best.
#[derive(Debug)]
pub(crate) struct Advice {
    pub(crate) question: &'static str,
    pub(crate) answer: String,
    pub(crate) reasons: Vec<String>,
}

/// Returns the answers; leaves out questions that no store can answer.
pub(crate) fn advice(comparison: &Comparison) -> Vec<Advice> {
    let candidates: Vec<&Figures> = comparison
        .stores
        .iter()
        .filter(|store| store.kind != Kind::Memory && store.is_clean())
        .collect();
    let all = [
        hot_coupon(&candidates),
        refund(&candidates),
        refund_in_order(&candidates),
    ];
    all.into_iter().flatten().collect()
}

/// Recommends a store for one lock that all processes want.
///
/// The rate of grants between processes decides: hand-off within a process is alike on all stores.
fn hot_coupon(candidates: &[&Figures]) -> Option<Advice> {
    let mut ranking = candidates.to_vec();
    let rate = |one: &Figures| one.hot_through_store.per_s;
    ranking.sort_by(|one, other| rate(other).total_cmp(&rate(one)));
    let best = *ranking.first()?;
    let mut reasons = vec![format!(
        "it passed one lock on {} times a second, and 99 of 100 waited less than {} ms",
        short(rate(best)),
        short(best.hot_through_store.wait.p99_ms)
    )];
    if let Some(next) = ranking.get(1) {
        reasons.push(format!(
            "next is {} with {} times a second",
            next.name,
            short(rate(next))
        ));
    }
    reasons.push(format!(
        "a holder that is killed stops the sale for {}, its ttl being {}",
        duration(best.recovery.median_ms()),
        duration(best.ttl_ms)
    ));
    if best.kind == Kind::Redis {
        reasons.push(
            "it keeps locks in memory only: let the database refuse what would oversell, by the fencing token or a conditional update".to_owned(),
        );
    }
    Some(Advice {
        question: "For a hot coupon",
        answer: best.name.clone(),
        reasons,
    })
}

/// Recommends a store for refunds: it must keep its tokens, and free the lock of a dead peer soon.
fn refund(candidates: &[&Figures]) -> Option<Advice> {
    let keeping = candidates.iter().filter(|one| keeps_tokens(one.kind));
    let best = *keeping.min_by(by_recovery)?;
    let lock = best.refunds_by("lock")?;
    let mut reasons = vec![
        format!(
            "a peer that is killed blocks its bank for {}",
            duration(best.recovery.median_ms())
        ),
        format!(
            "a refund has its answer in {} ms, 99 of 100 in {} ms, and nothing was paid twice or lost",
            short(lock.row.p50_ms),
            short(lock.row.p99_ms)
        ),
        "locks and tokens are on disk, where a restart finds them".to_owned(),
    ];
    if best.kind == Kind::MysqlRow {
        reasons[2] = "tokens are on disk, and the books may be in the same database; a restart of the server frees all locks, which the holders are told".to_owned();
    }
    Some(Advice {
        question: "For a refund that is left for later when its bank is busy",
        answer: best.name.clone(),
        reasons,
    })
}

/// Recommends a store for refunds in order: its servers keep a queue.
fn refund_in_order(candidates: &[&Figures]) -> Option<Advice> {
    let queues = candidates.iter().filter(|one| one.fair);
    let best = *queues.min_by(by_recovery)?;
    let queue = best.refunds_by("queue")?;
    let trips = queue.row.round_trips.map_or_else(String::new, |trips| {
        format!(", after {trips:.0} round trips to the store")
    });
    Some(Advice {
        question: "For refunds that are paid in the order in which they came",
        answer: best.name.clone(),
        reasons: vec![
            format!("the servers keep the queue{trips}"),
            format!(
                "a peer that is killed blocks the queue for {}",
                duration(best.recovery.median_ms())
            ),
            "locks and tokens outlive a member of the cluster: run three or five".to_owned(),
        ],
    })
}

fn by_recovery(one: &&&Figures, other: &&&Figures) -> std::cmp::Ordering {
    one.recovery
        .median_ms()
        .total_cmp(&other.recovery.median_ms())
}

/// Returns true if a restarted server still knows the tokens that it gave out.
fn keeps_tokens(kind: Kind) -> bool {
    match kind {
        Kind::Memory | Kind::Redis => false,
        Kind::MysqlLease | Kind::MysqlRow | Kind::Etcd | Kind::ZooKeeper => true,
    }
}
