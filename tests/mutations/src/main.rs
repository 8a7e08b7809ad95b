//! Proves that the tests notice broken code.
//!
//! It applies each mutation to the sources, and expects the tests that `tests/mutations/tables`
//! name for it to fail.

mod check;
mod edit;
mod items;
mod lexer;
mod markdown;
mod named_tests;
mod report;
mod runner;
mod selection;
mod sources;
mod table;
mod workspace;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use std::{env, fs};

use clap::Parser;

use crate::report::{Caught, Session};
use crate::runner::Runner;
use crate::sources::Sources;
use crate::table::Mutation;
use crate::workspace::Copy;

/// Breaks a copy of the sources by one mutation after the other, and expects the tests to notice.
#[derive(Debug, Parser)]
#[command(name = "scripts/sabotage", arg_required_else_help = true)]
struct Arguments {
    /// Names of mutations, or numbers of scenarios.
    names: Vec<String>,
    /// Run every mutation.
    #[arg(long)]
    all: bool,
    /// Leave out the mutations of other crates than this one.
    #[arg(long, value_name = "CRATE")]
    package: Option<String>,
    /// Run the mutations whose items, or whose rows of a table, have changed since this revision.
    #[arg(long, value_name = "REVISION")]
    since: Option<String>,
    /// Run mutations that the hash of the sources draws, for at most this many seconds.
    #[arg(long, value_name = "SECONDS")]
    draw: Option<u64>,
    /// Time after which the tests of one program count as hung, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    limit: u64,
    /// Print the names of the selected mutations, and run nothing.
    #[arg(long)]
    list: bool,
    /// Apply the named mutation, if any, to the copy in target/sabotage, and run nothing.
    #[arg(long)]
    apply: bool,
    /// Check the tables: mutations that do not apply, missing tests, and an outdated
    /// tests/FAILURES.md.
    #[arg(long)]
    check: bool,
    /// Write tests/FAILURES.md.
    #[arg(long)]
    table: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    run(&arguments).unwrap_or_else(|error| {
        eprintln!("{error}");
        ExitCode::from(2)
    })
}

fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let root = root.canonicalize().map_err(|error| error.to_string())?;
    let mutations = table::read(&root)?;
    let sources = Sources::read(&root, &packages(&mutations))?;
    if arguments.table {
        let written = fs::write(
            root.join("tests/FAILURES.md"),
            markdown::failures(&mutations),
        );
        written.map_err(|error| format!("tests/FAILURES.md: {error}"))?;
    }
    if arguments.check || arguments.table {
        let complaints = check::complaints(&root, &mutations, &sources);
        complaints
            .iter()
            .for_each(|complaint| eprintln!("{complaint}"));
        return Ok(status(complaints.is_empty()));
    }
    let mut chosen = choose(arguments, &root, &mutations, &sources)?;
    if let Some(package) = &arguments.package {
        chosen.retain(|mutation| mutation.package == *package);
    }
    if arguments.list {
        chosen
            .iter()
            .for_each(|mutation| println!("{}", mutation.name));
        return Ok(ExitCode::SUCCESS);
    }
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let copy = Copy::of(&root, target.join("sabotage"))?;
    if arguments.apply {
        for mutation in chosen {
            copy.write(&edit::apply(mutation, &sources)?)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if chosen.is_empty() {
        println!("There is no such mutation.");
        return Ok(ExitCode::SUCCESS);
    }
    let limit = Duration::from_secs(arguments.limit);
    let runner = Runner {
        tree: copy.tree.clone(),
        target,
        limit,
        deadline: None,
    };
    let mut session = Session {
        copy,
        runner,
        sources,
    };
    match arguments.draw {
        Some(seconds) => {
            session.build_first(&chosen);
            let caught = session.run_within(Duration::from_secs(seconds), &chosen)?;
            Ok(status(caught != Caught::NotAll))
        }
        None => Ok(status(session.run_all(&chosen)? == Caught::All)),
    }
}

/// Returns the mutations that the arguments select, in the order in which they run.
fn choose<'a>(
    arguments: &Arguments,
    root: &Path,
    mutations: &'a [Mutation],
    sources: &Sources,
) -> Result<Vec<&'a Mutation>, String> {
    let chosen = if arguments.all {
        mutations.iter().collect()
    } else if let Some(revision) = &arguments.since {
        let then = Sources::at(root, revision, &packages(mutations))?;
        selection::changed(root, revision, mutations, sources, &then)
    } else if arguments.draw.is_some() {
        selection::drawn(mutations, sources)
    } else {
        selection::named(mutations, &arguments.names)?
    };
    Ok(chosen)
}

/// Returns the crates whose sources mutations change.
fn packages(mutations: &[Mutation]) -> Vec<&str> {
    let mut packages: Vec<&str> = mutations
        .iter()
        .flat_map(Mutation::edits)
        .map(|(package, _)| package)
        .collect();
    packages.sort_unstable();
    packages.dedup();
    packages
}

fn status(is_well: bool) -> ExitCode {
    if is_well {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
