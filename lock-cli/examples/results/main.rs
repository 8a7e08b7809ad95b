//! Benches every store with `polylock bench` and writes the results; `scripts/bench` calls it.
//!
//! Each store runs on a server of this program. The figures of each store are kept in a file, so
//! that a run may name a single store. The results cover all stores.

mod store;
mod table;

use std::error::Error;
use std::fs;
use std::path::PathBuf;

use clap::Parser;
use store::BenchedStore;

type Problem = Box<dyn Error>;

/// The marks around the table in the document.
const MARKS: [&str; 2] = [
    "<!-- results of scripts/bench -->\n",
    "<!-- end of results -->\n",
];

#[derive(Debug, Parser)]
struct Arguments {
    /// The `polylock` program to measure
    #[arg(long, value_name = "FILE")]
    polylock: PathBuf,

    /// Directory that keeps the figures between runs
    #[arg(long, value_name = "DIRECTORY")]
    figures: PathBuf,

    /// File with the text about machine and servers that is put above the results
    #[arg(long, value_name = "FILE")]
    conditions: PathBuf,

    /// Results file to write
    #[arg(long, value_name = "FILE")]
    results: PathBuf,

    /// Document whose table is refreshed
    #[arg(long, value_name = "FILE")]
    document: PathBuf,

    /// Stores to measure. Default: all stores whose servers are installed
    #[arg(value_name = "STORE")]
    stores: Vec<String>,
}

fn main() -> Result<(), Problem> {
    let arguments = Arguments::parse();
    fs::create_dir_all(&arguments.figures)?;
    for name in &arguments.stores {
        if BenchedStore::ALL.iter().all(|store| store.name != name) {
            return Err(format!("{name} is no store: {:?}", BenchedStore::names()).into());
        }
    }
    for store in BenchedStore::ALL {
        let is_wanted =
            arguments.stores.is_empty() || arguments.stores.iter().any(|name| name == store.name);
        if !is_wanted {
            continue;
        }
        if let Some(packages) = store.missing() {
            eprintln!(
                "NO {}: its server is not installed, Debian has {packages}",
                store.name
            );
            continue;
        }
        let figures = store.bench(&arguments.polylock)?;
        let text = serde_json::to_string_pretty(&figures)?;
        fs::write(arguments.figures.join(store.file()), text)?;
    }
    let mut columns = Vec::new();
    for store in BenchedStore::ALL {
        if let Ok(text) = fs::read_to_string(arguments.figures.join(store.file())) {
            columns.push((store.name, serde_json::from_str(&text)?));
        }
    }
    let conditions = fs::read_to_string(&arguments.conditions)?;
    fs::write(&arguments.results, table::results(&conditions, &columns))?;
    let document = fs::read_to_string(&arguments.document)?;
    fs::write(
        &arguments.document,
        with_table(&document, &table::summary(&columns))?,
    )?;
    Ok(())
}

fn with_table(document: &str, table: &str) -> Result<String, Problem> {
    let [begin, end] = MARKS;
    let parts = document.split_once(begin).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(end)?;
        Some((before, after))
    });
    let (before, after) = parts.ok_or("the document has no marks for the table")?;
    Ok(format!("{before}{begin}{table}{end}{after}"))
}
