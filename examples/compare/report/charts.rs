//! The charts of the page.

use plotters::prelude::*;

use crate::contender::Kind;
use crate::figures::{Comparison, Figures, Times};
use crate::plan::TASKS_TOGETHER;
use crate::report::chart::{Chart, HEIGHT, Mark, Row, Scale, WIDTH};
use crate::report::metrics::{short, trips_cell};
use crate::stage::problem::Problem;

/// Charts under a common heading, each with a note for the reader.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) heading: &'static str,
    pub(crate) charts: Vec<(Chart, String)>,
}

/// Returns all charts in groups.
pub(crate) fn groups(comparison: &Comparison) -> Vec<Group> {
    let conditions = &comparison.conditions;
    let free_s = conditions.free_s;
    let crowd = format!(
        "{} processes (threads on memory) of {} tasks each take and release one lock as fast as they can, for {} s.",
        conditions.processes, conditions.tasks, conditions.hot_s
    );
    let group = |heading, charts| Group { heading, charts };
    vec![
        group(
            "A free lock",
            vec![
                (
                    free(comparison),
                    format!("One task takes and releases 64 locks in turn, for {free_s} s. This is what most locks of a service cost."),
                ),
                (
                    throughput(comparison),
                    format!("The same with one task, and then with {TASKS_TOGETHER} tasks of one process, each with locks of its own."),
                ),
                (
                    round_trips(comparison),
                    "How often a lock waits for its store: multiply it by the distance to yours. Measured over a connection that takes 20 ms longer."
                        .to_owned(),
                ),
            ],
        ),
        group(
            "A lock that many tasks want",
            vec![
                (
                    changes_of_hands(comparison),
                    format!("{crowd} By default a lock that others of the same process wait for is handed on for up to 10 ms without asking the store."),
                ),
                (
                    waits(comparison),
                    "The same crowd without handing on: the time from asking for the lock until it is there."
                        .to_owned(),
                ),
                (
                    fairness(comparison),
                    "The same crowd without handing on. Jain's index over the locks that each process got: 1 when all got as many, 0.33 when one got all."
                        .to_owned(),
                ),
            ],
        ),
        group(
            "A holder that is killed",
            vec![(
                recovery(comparison),
                "A process takes a lock and crashes while others wait. With mysql row the server sees the connection close. After a loss of power it would wait for the ttl, too."
                    .to_owned(),
            )],
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
        axis: "milliseconds (● half, ○ 99 of 100)".to_owned(),
        scale: Scale::Tenfold,
        rows: rows(comparison, |one| times(&one.free.take)),
    }
}

fn throughput(comparison: &Comparison) -> Chart {
    let mark = |one: &Figures| {
        let (alone, together) = (one.free.per_s, one.free.together_per_s);
        let text = format!("{} / {}", short(alone), short(together));
        // The text is right of the greater value, which is not always the hollow dot.
        (Mark::Range(alone, together), text)
    };
    Chart {
        title: "Free locks taken each second".to_owned(),
        axis: format!("by one task ●, by {TASKS_TOGETHER} tasks ○"),
        scale: Scale::Tenfold,
        rows: rows(comparison, mark),
    }
}

fn changes_of_hands(comparison: &Comparison) -> Chart {
    let mark = |one: &Figures| {
        let (through, handed) = (&one.hot_through_store, &one.hot);
        let text = format!("{} / {}", short(through.per_s), short(handed.per_s));
        (Mark::Range(through.per_s, handed.per_s), text)
    };
    Chart {
        title: "A hot lock taken each second".to_owned(),
        axis: "each time from the store ●, handed on ○".to_owned(),
        scale: Scale::Tenfold,
        rows: rows(comparison, mark),
    }
}

fn waits(comparison: &Comparison) -> Chart {
    Chart {
        title: "Waiting for a hot lock".to_owned(),
        axis: "milliseconds (● half, ○ 99 of 100)".to_owned(),
        scale: Scale::Tenfold,
        rows: rows(comparison, |one| times(&one.hot_through_store.wait)),
    }
}

fn fairness(comparison: &Comparison) -> Chart {
    let mark = |one: &Figures| {
        let hot = &one.hot_through_store;
        let text = format!("{:.2}", hot.fairness);
        (Mark::Bar(hot.fairness), text)
    };
    Chart {
        title: "Fairness between processes".to_owned(),
        axis: "Jain's index, of 1".to_owned(),
        scale: Scale::Linear,
        rows: rows(comparison, mark),
    }
}

fn recovery(comparison: &Comparison) -> Chart {
    let mark = |one: &Figures| {
        let blocked: Vec<f64> = one.recovery.blocked_ms.iter().map(|ms| ms / 1e3).collect();
        let text = format!("median {}", short(one.recovery.median_ms() / 1e3));
        (Mark::Dots(blocked), text)
    };
    Chart {
        title: "After the holder was killed".to_owned(),
        axis: "seconds until the next one has it".to_owned(),
        scale: Scale::Linear,
        rows: rows(comparison, mark),
    }
}

fn round_trips(comparison: &Comparison) -> Chart {
    let mark = |one: &Figures| {
        let trips = &one.round_trips;
        let text = format!("{} + {}", trips_cell(trips.take), trips_cell(trips.release));
        let both = trips.take.unwrap_or(f64::NAN) + trips.release.unwrap_or(f64::NAN);
        (Mark::Bar(both), text)
    };
    Chart {
        title: "Round trips of a free lock".to_owned(),
        axis: "round trips: to take + to release".to_owned(),
        scale: Scale::Linear,
        rows: rows(comparison, mark),
    }
}

fn times(times: &Times) -> (Mark, String) {
    let text = format!("{} / {}", short(times.p50_ms), short(times.p99_ms));
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
