//! The charts of the page.

use plotters::prelude::*;

use crate::contender::Kind;
use crate::figures::{Comparison, Figures, Times};
use crate::plan::TASKS_TOGETHER;
use crate::report::chart::{Chart, HEIGHT, Mark, Row, Scale, WIDTH};
use crate::report::metrics::{short, trips_cell};
use crate::stage::problem::Problem;

/// Returns all charts, each with a note for the reader.
pub(crate) fn all(comparison: &Comparison) -> Vec<(Chart, String)> {
    let conditions = &comparison.conditions;
    let crowd = format!(
        "{} processes (threads on memory) of {} tasks each take and release one lock as fast as they can, for {} s.",
        conditions.processes, conditions.tasks, conditions.hot_s
    );
    vec![
        (
            free(comparison),
            format!(
                "One task takes and releases 64 locks in turn that nobody else wants, for {} s. This is what most locks of a service cost.",
                conditions.free_s
            ),
        ),
        (
            throughput(comparison),
            format!(
                "The same with one task, and then with {TASKS_TOGETHER} tasks of one process, each with locks of its own."
            ),
        ),
        (
            changes_of_hands(comparison),
            format!("{crowd} By default a lock that others of the same process wait for is handed on without asking the store, for up to 10 ms (hollow); filled is the same without that, so that the store decides each time."),
        ),
        (
            waits(comparison),
            format!("{crowd} How long it took from asking for the lock until it was there, each time through the store."),
        ),
        (
            fairness(comparison),
            format!("{crowd} Jain's index over the locks that each process got: 1 when all got as many, 0.33 when one got all."),
        ),
        (
            recovery(comparison),
            "Processes take a lock and end without releasing it, while somebody waits for it. Where the server sees the connection close (mysql row) nobody waits for the ttl; had the machine lost its power, it would be waited for."
                .to_owned(),
        ),
        (
            round_trips(comparison),
            "How often a free lock waits for its store, measured by a way to the store that takes 20 ms longer. Multiply it by the distance to your store."
                .to_owned(),
        ),
    ]
}

/// Renders four charts as one picture.
pub(crate) fn picture(comparison: &Comparison) -> Result<String, Problem> {
    let charts = [
        free(comparison),
        changes_of_hands(comparison),
        recovery(comparison),
        waits(comparison),
    ];
    let mut text = String::new();
    {
        let size = (2 * WIDTH, 2 * HEIGHT);
        let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
        for (part, chart) in area.split_evenly((2, 2)).iter().zip(&charts) {
            chart.draw(part)?;
        }
        area.present()?;
    }
    Ok(text)
}

fn free(comparison: &Comparison) -> Chart {
    Chart {
        title: "Taking a free lock".to_owned(),
        axis: "milliseconds until it is there: half of them (filled), 99 of 100 (hollow)"
            .to_owned(),
        scale: Scale::Tenfold,
        rows: rows(comparison, |one| times(&one.free.take)),
    }
}

fn throughput(comparison: &Comparison) -> Chart {
    let mark = |one: &Figures| {
        let (alone, together) = (one.free.per_s, one.free.together_per_s);
        let n = one.free.take.n + one.free.together_n;
        let text = format!(
            "{} / {} (n = {})",
            short(alone),
            short(together),
            short(n as f64)
        );
        // The text is right of the greater value, which is not always the hollow dot.
        (Mark::Range(alone, together), text)
    };
    Chart {
        title: "Free locks".to_owned(),
        axis: format!(
            "taken and released each second: by one task (filled), by {TASKS_TOGETHER} (hollow)"
        ),
        scale: Scale::Tenfold,
        rows: rows(comparison, mark),
    }
}

fn changes_of_hands(comparison: &Comparison) -> Chart {
    let mark = |one: &Figures| {
        let (through, handed) = (&one.hot_through_store, &one.hot);
        let n = short((through.wait.n + handed.wait.n) as f64);
        let text = format!(
            "{} / {} (n = {n})",
            short(through.per_s),
            short(handed.per_s)
        );
        (Mark::Range(through.per_s, handed.per_s), text)
    };
    Chart {
        title: "One hot lock".to_owned(),
        axis: "taken each second: through the store (filled), handed on in a process (hollow)"
            .to_owned(),
        scale: Scale::Tenfold,
        rows: rows(comparison, mark),
    }
}

fn waits(comparison: &Comparison) -> Chart {
    Chart {
        title: "Waiting for the hot lock, through the store".to_owned(),
        axis: "milliseconds of waiting: half of them (filled), 99 of 100 (hollow)".to_owned(),
        scale: Scale::Tenfold,
        rows: rows(comparison, |one| times(&one.hot_through_store.wait)),
    }
}

fn fairness(comparison: &Comparison) -> Chart {
    let mark = |one: &Figures| {
        let hot = &one.hot_through_store;
        let text = format!("{:.2} (n = {})", hot.fairness, short(hot.wait.n as f64));
        (Mark::Bar(hot.fairness), text)
    };
    Chart {
        title: "Fairness between processes, through the store".to_owned(),
        axis: "Jain's index, of 1".to_owned(),
        scale: Scale::Linear,
        rows: rows(comparison, mark),
    }
}

fn recovery(comparison: &Comparison) -> Chart {
    let mark = |one: &Figures| {
        let blocked: Vec<f64> = one.recovery.blocked_ms.iter().map(|ms| ms / 1e3).collect();
        let text = format!(
            "median {}, ttl {} s (n = {})",
            short(one.recovery.median_ms() / 1e3),
            short(one.ttl_ms / 1e3),
            blocked.len()
        );
        (Mark::Dots(blocked), text)
    };
    Chart {
        title: "After the holder was killed".to_owned(),
        axis: "seconds until the next one has the lock".to_owned(),
        scale: Scale::Linear,
        rows: rows(comparison, mark),
    }
}

fn round_trips(comparison: &Comparison) -> Chart {
    let mark = |one: &Figures| {
        let trips = &one.round_trips;
        let text = format!(
            "{} + {} (n = 9 each)",
            trips_cell(trips.take),
            trips_cell(trips.release)
        );
        let both = trips.take.unwrap_or(f64::NAN) + trips.release.unwrap_or(f64::NAN);
        (Mark::Bar(both), text)
    };
    Chart {
        title: "Round trips of a free lock".to_owned(),
        axis: "round trips that are waited for: to take + to release".to_owned(),
        scale: Scale::Linear,
        rows: rows(comparison, mark),
    }
}

fn times(times: &Times) -> (Mark, String) {
    let text = format!(
        "{} / {} (n = {})",
        short(times.p50_ms),
        short(times.p99_ms),
        short(times.n as f64)
    );
    (Mark::Range(times.p50_ms, times.p99_ms), text)
}

fn rows(comparison: &Comparison, mark: impl Fn(&Figures) -> (Mark, String)) -> Vec<Row> {
    let row = |one: &Figures| {
        let (mark, text) = mark(one);
        Row {
            name: one.name.clone(),
            color: color(one.kind),
            mark,
            text,
        }
    };
    comparison.stores.iter().map(row).collect()
}

/// Returns the color of a kind, from a palette that color-blind eyes can tell apart.
///
/// M. Okabe, K. Ito: Color Universal Design, 2008.
fn color(kind: Kind) -> RGBColor {
    match kind {
        Kind::Memory => RGBColor(120, 120, 120),
        Kind::Redis => RGBColor(213, 94, 0),
        Kind::MysqlLease => RGBColor(0, 114, 178),
        Kind::MysqlRow => RGBColor(86, 180, 233),
        Kind::Etcd => RGBColor(0, 158, 115),
        Kind::ZooKeeper => RGBColor(204, 121, 167),
    }
}
