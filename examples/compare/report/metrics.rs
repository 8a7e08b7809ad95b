//! The figures that the tables of the terminal and of the page show.

use crate::colleagues::Refunds;
use crate::figures::{Comparison, Figures, Hot, ServerFigures};
use crate::plan::TASKS_TOGETHER;

/// One row: a metric with its unit, and a cell for each store.
#[derive(Debug)]
pub(crate) struct Metric {
    pub(crate) name: String,
    pub(crate) cells: Vec<String>,
}

/// Rows under a common heading.
#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) name: &'static str,
    pub(crate) metrics: Vec<Metric>,
}

/// Returns all sections.
pub(crate) fn sections(comparison: &Comparison) -> Vec<Section> {
    let stores = &comparison.stores;
    let section = |name, metrics| Section { name, metrics };
    vec![
        section("free locks", free(stores)),
        section(
            "hot key, handed on within a process (default)",
            hot(stores, |one| &one.hot),
        ),
        section(
            "hot key, each time through the store",
            hot(stores, |one| &one.hot_through_store),
        ),
        section("killed holder", killed_holder(stores)),
        section("coupons", coupons(stores)),
        section("refunds by lock", refunds(stores, "lock")),
        section("refunds by queue", refunds(stores, "queue")),
        section("server", server(stores)),
    ]
}

fn metric(stores: &[Figures], name: &str, cell: impl Fn(&Figures) -> String) -> Metric {
    Metric {
        name: name.to_owned(),
        cells: stores.iter().map(cell).collect(),
    }
}

fn free(stores: &[Figures]) -> Vec<Metric> {
    let together = format!("locks/s, {TASKS_TOGETHER} tasks");
    vec![
        metric(stores, "take p50 / p99, ms", |one| {
            pair(one.free.take.p50_ms, one.free.take.p99_ms)
        }),
        metric(stores, "release p50 / p99, ms", |one| {
            pair(one.free.release.p50_ms, one.free.release.p99_ms)
        }),
        metric(stores, "locks/s, one task", |one| short(one.free.per_s)),
        metric(stores, &together, |one| short(one.free.together_per_s)),
        metric(stores, "locks measured", |one| {
            short((one.free.take.n + one.free.together_n) as f64)
        }),
        metric(stores, "round trips, take / release", |one| {
            let trips = &one.round_trips;
            format!("{} / {}", trips_cell(trips.take), trips_cell(trips.release))
        }),
    ]
}

fn hot(stores: &[Figures], of: impl Fn(&Figures) -> &Hot) -> Vec<Metric> {
    vec![
        metric(stores, "locks/s", |one| short(of(one).per_s)),
        metric(stores, "wait p50 / p99, ms", |one| {
            pair(of(one).wait.p50_ms, of(one).wait.p99_ms)
        }),
        metric(stores, "fairness between processes", |one| {
            format!("{:.2}", of(one).fairness)
        }),
        metric(stores, "longest without, ms", |one| {
            short(of(one).longest_without_ms)
        }),
        metric(stores, "locks measured", |one| short(of(one).wait.n as f64)),
    ]
}

fn killed_holder(stores: &[Figures]) -> Vec<Metric> {
    vec![
        metric(stores, "ttl, s", |one| short(one.ttl_ms / 1e3)),
        metric(stores, "kills", |one| {
            one.recovery.blocked_ms.len().to_string()
        }),
        metric(stores, "blocks for, median / max, s", |one| {
            pair(
                one.recovery.median_ms() / 1e3,
                one.recovery.longest_ms() / 1e3,
            )
        }),
    ]
}

fn coupons(stores: &[Figures]) -> Vec<Metric> {
    vec![
        metric(stores, "sold exactly the stock", |one| {
            yes(one.coupons.clean)
        }),
        metric(stores, "claims/s, accidents included", |one| {
            short(one.coupons.row.claims_per_s)
        }),
    ]
}

fn refunds(stores: &[Figures], mechanism: &str) -> Vec<Metric> {
    let row = |name: &str, cell: &dyn Fn(&Refunds) -> String| {
        metric(stores, name, |one| {
            one.refunds_by(mechanism).map_or_else(|| "-".into(), cell)
        })
    };
    vec![
        row("all paid once", &|one| yes(one.clean)),
        row("at once / later", &|one| {
            let later = one.row.in_turn + one.row.by_compensation;
            format!("{} / {later}", one.row.at_once)
        }),
        row("answer p50 / p99, ms", &|one| {
            pair(one.row.p50_ms, one.row.p99_ms)
        }),
        row("blocked by a kill, at most, s", &|one| {
            known(one.row.blocked_ms.map(|blocked| blocked / 1e3))
        }),
        row("round trips", &|one| trips_cell(one.row.round_trips)),
    ]
}

fn server(stores: &[Figures]) -> Vec<Metric> {
    let row = |name: &str, figure: &dyn Fn(&ServerFigures) -> Option<f64>| {
        metric(stores, name, |one| {
            known(one.server.as_ref().and_then(figure))
        })
    };
    vec![
        row("starts in, s", &|server| Some(server.ready_ms / 1e3)),
        row("memory, MB", &|server| server.memory_mb),
        row("processor a free lock, us", &|server| {
            server.processor_us_per_lock
        }),
    ]
}

/// Formats a value with three digits, which is the precision of the figures.
pub(crate) fn short(value: f64) -> String {
    match value.abs() {
        size if !size.is_finite() => "-".to_owned(),
        0.0 => "0".to_owned(),
        size if size >= 99.5 => grouped(value.round()),
        size if size >= 9.95 => format!("{value:.1}"),
        size if size >= 0.995 => format!("{value:.2}"),
        size if size >= 0.0995 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

/// Formats a duration in milliseconds or seconds.
pub(crate) fn duration(ms: f64) -> String {
    if ms < 999.5 {
        format!("{} ms", short(ms))
    } else {
        format!("{} s", short(ms / 1e3))
    }
}

/// Formats a value with a comma between each three digits.
pub(crate) fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let first = digits.len() % 3;
    let (head, tail) = digits.split_at(first);
    let groups = tail.as_bytes().chunks(3).map(String::from_utf8_lossy);
    let head = (!head.is_empty()).then(|| head.into());
    head.into_iter().chain(groups).collect::<Vec<_>>().join(",")
}

fn pair(one: f64, other: f64) -> String {
    format!("{} / {}", short(one), short(other))
}

fn known(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), short)
}

pub(crate) fn trips_cell(trips: Option<f64>) -> String {
    trips.map_or_else(|| "-".to_owned(), |trips| format!("{trips:.1}"))
}

fn yes(is_so: bool) -> String {
    if is_so { "yes" } else { "NO" }.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_as_long_as_they_are_worth() {
        let cases = [
            (1_234_567.0, "1,234,567"),
            (123_456.7, "123,457"),
            (999.4, "999"),
            (12.34, "12.3"),
            (1.234, "1.23"),
            (0.1234, "0.12"),
            (0.012_34, "0.0123"),
            (0.0, "0"),
            (f64::NAN, "-"),
        ];
        for (value, text) in cases {
            assert_eq!(short(value), text);
        }
    }
}
