//! Renders the figures as tables.

use std::fmt::Write;

use serde_json::Value;

use crate::store::{Figures, RUNS};

/// The name and the figures of a store.
type Column = (&'static str, Figures);

type Cell = fn(&Figures) -> Option<String>;

/// The rows of the summary.
const ROWS: [(&str, Cell); 14] = [
    ("free, 1 task: lock + release, p50", |figures| {
        microseconds(figures, "free, 1 task", "p50_us")
    }),
    ("… against raw", |figures| {
        ratio(figures, "free, 1 task", "p50_vs_raw")
    }),
    ("… round trips per acquire", |figures| {
        let trips = number(figures, "free, 1 task", "round_trips_per_acquire")?;
        Some(format!("{trips:.1}"))
    }),
    ("free, 64 tasks: locks a second", |figures| {
        count(figures, "free, 64 tasks", "rate")
    }),
    ("… against raw", |figures| {
        ratio(figures, "free, 64 tasks", "rate_vs_raw")
    }),
    ("hot, 64 tasks: locks a second", |figures| {
        count(figures, "hot", "rate")
    }),
    ("… longest wait", |figures| {
        microseconds(figures, "hot", "max_us")
    }),
    ("… not handed on: locks a second", |figures| {
        count(figures, "hot, not handed on", "rate")
    }),
    ("hot, 2 processes × 64 tasks: locks a second", |figures| {
        count(figures, "hot, with a rival", "rate")
    }),
    ("hot, 4 processes × 16 tasks: smallest share", |figures| {
        let shares = &figures.get("procs")?["process_shares"];
        let shares = shares.as_array()?.iter().filter_map(Value::as_f64);
        let least = shares.min_by(f64::total_cmp)?;
        Some(format!("{:.0} %", least * 100.0))
    }),
    ("handover between 2 processes, p50", |figures| {
        let time = microseconds(figures, "handover", "p50_us")?;
        let trips = ratio(figures, "handover", "p50_vs_raw");
        Some(trips.map_or(time.clone(), |trips| format!("{time}, {trips} round trips")))
    }),
    ("10,000 held: processor time, of a core", |figures| {
        let percent = number(figures, "held", "cpu_pct")?;
        Some(format!("{percent:.1} %"))
    }),
    ("… memory a lock", |figures| {
        let bytes = number(figures, "held", "bytes_per_lock")?;
        Some(format!("{bytes:.0} B"))
    }),
    ("… a free lock's p50, against none held", |figures| {
        let held = number(figures, "held", "p50_vs_raw")?;
        let alone = number(figures, "free, 1 task", "p50_vs_raw")?;
        Some(format!("{:.2}", held / alone))
    }),
];

/// Returns the summary, with a column for each store.
pub(crate) fn summary(columns: &[Column]) -> String {
    let mut text = "| |".to_owned();
    for (name, _) in columns {
        text += &format!(" {} |", name.replace('-', " "));
    }
    text += &format!("\n|---|{}\n", "---|".repeat(columns.len()));
    for (name, cell) in ROWS {
        text += &format!("| {name} |");
        for (_, figures) in columns {
            let value = cell(figures).unwrap_or_else(|| "-".to_owned());
            text += &format!(" {value} |");
        }
        text.push('\n');
    }
    text
}

/// Returns the text of the results file.
pub(crate) fn results(conditions: &str, columns: &[Column]) -> String {
    let mut text = format!(
        "# Results of `scripts/bench`\n\n{conditions}\n{}",
        summary(columns)
    );
    text += "\n## Each run\n\n";
    for (name, arguments) in RUNS {
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "### {name}\n\n`polylock bench --lock URL {arguments}`\n"
        );
        text += "| | rate | p50 | p90 | p99 | longest | violations | round trips per acquire | tasks, least / most | raw rate | raw p50 | rate / raw | p50 / raw |\n";
        text += &format!("|{}\n", "---|".repeat(13));
        for (store, figures) in columns {
            if let Some(run) = figures.get(name) {
                text += &line(store, run);
            }
        }
        text.push('\n');
    }
    // Removes the blank line at the end of the file.
    text.pop();
    text
}

fn line(store: &str, run: &Value) -> String {
    let shown = |name: &str| match &run[name] {
        Value::Null => "-".to_owned(),
        value => value.to_string(),
    };
    let time = |name: &str| run[name].as_f64().map_or("-".to_owned(), duration);
    format!(
        "| {store} | {} | {} | {} | {} | {} | {} | {} | {} / {} | {} | {} | {} | {} |\n",
        shown("rate"),
        time("p50_us"),
        time("p90_us"),
        time("p99_us"),
        time("max_us"),
        shown("violations"),
        shown("round_trips_per_acquire"),
        shown("task_min"),
        shown("task_max"),
        shown("raw_rate"),
        time("raw_p50_us"),
        shown("rate_vs_raw"),
        shown("p50_vs_raw"),
    )
}

fn number(figures: &Figures, run: &str, field: &str) -> Option<f64> {
    figures.get(run)?[field].as_f64()
}

fn ratio(figures: &Figures, run: &str, field: &str) -> Option<String> {
    number(figures, run, field).map(|ratio| format!("{ratio:.2}"))
}

fn microseconds(figures: &Figures, run: &str, field: &str) -> Option<String> {
    number(figures, run, field).map(duration)
}

fn duration(microseconds: f64) -> String {
    match microseconds {
        time if time < 1000.0 => format!("{time:.0} µs"),
        time => format!("{:.1} ms", time / 1000.0),
    }
}

/// Formats a figure with three significant digits, and commas between thousands.
fn count(figures: &Figures, run: &str, field: &str) -> Option<String> {
    let number = number(figures, run, field)?;
    let unit = 10_f64.powi((number.log10().floor() as i32 - 2).max(0));
    let digits = format!("{:.0}", (number / unit).round() * unit);
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    Some(text)
}
