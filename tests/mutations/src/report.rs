//! Runs mutations and reports which of them the tests noticed.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::edit::apply;
use crate::runner::{Outcome, Results, Runner, now};
use crate::sources::Sources;
use crate::table::Mutation;
use crate::workspace::Copy;

/// The parts that a run of mutations needs.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) copy: Copy,
    pub(crate) runner: Runner,
    pub(crate) sources: Sources,
}

/// The outcome of mutations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caught {
    All,
    /// There was no time left for some mutations, or for a single one.
    Unfinished,
    NotAll,
}

impl Session {
    /// Runs mutations, between two runs of all their tests on the intact sources.
    ///
    /// # Errors
    ///
    /// Fails if a test does not pass on the intact sources.
    pub(crate) fn run_all(&self, mutations: &[&Mutation]) -> Result<Caught, String> {
        let begin = now();
        self.run_intact(mutations, "before")?;
        let mut caught = 0;
        for mutation in mutations {
            caught += usize::from(self.run(mutation)? == Caught::All);
        }
        self.run_intact(mutations, "afterwards")?;
        let total = mutations.len();
        println!(
            "{caught} of {total} mutations caught, in {} s",
            begin.elapsed().as_secs()
        );
        Ok(if caught == total {
            Caught::All
        } else {
            Caught::NotAll
        })
    }

    /// Builds the tests of the first mutation on the intact sources, which takes minutes the first
    /// time.
    pub(crate) fn build_first(&self, mutations: &[&Mutation]) {
        let begin = now();
        if let Some(first) = mutations.first() {
            self.runner.build_all(&first.tests());
        }
        println!("ready ({} s)", begin.elapsed().as_secs());
    }

    /// Runs mutations until the time limit.
    pub(crate) fn run_within(
        &mut self,
        limit: Duration,
        mutations: &[&Mutation],
    ) -> Result<Caught, String> {
        self.runner.deadline = Some(now() + limit);
        let mut drawn: Vec<&str> = Vec::new();
        let mut all = Caught::All;
        for mutation in mutations {
            match self.run(mutation)? {
                Caught::Unfinished => break,
                Caught::All => {}
                Caught::NotAll => all = Caught::NotAll,
            }
            drawn.push(&mutation.name);
        }
        match drawn.len() {
            0 => println!("There was no time for a mutation."),
            count => println!("Again, these {count}: scripts/sabotage {}", drawn.join(" ")),
        }
        Ok(all)
    }

    fn run_intact(&self, mutations: &[&Mutation], when: &str) -> Result<(), String> {
        let begin = now();
        let mut tests: Vec<&str> = mutations
            .iter()
            .flat_map(|mutation| mutation.tests())
            .collect();
        tests.sort_unstable();
        tests.dedup();
        // All tests of a program run together here, so the limit is longer.
        let results = self.runner.run(&tests, self.runner.limit * 10);
        let failed: Vec<String> = results
            .outcomes
            .iter()
            .filter(|(_, outcome)| **outcome != Outcome::Passed)
            .map(|(test, outcome)| format!("{test} {outcome}"))
            .collect();
        if failed.is_empty() {
            println!(
                "all {} tests pass {when} ({} s)",
                tests.len(),
                begin.elapsed().as_secs()
            );
            return Ok(());
        }
        let (failed, said) = (failed.join("\n"), excerpt(&results.log));
        Err(format!(
            "{said}\n{failed}\nWithout any mutation these do not pass ({when})."
        ))
    }

    fn run(&self, mutation: &Mutation) -> Result<Caught, String> {
        let begin = now();
        let name = &mutation.name;
        let changed = apply(mutation, &self.sources).map_err(|what| format!("{name}: {what}"))?;
        self.copy.write(&changed)?;
        let results = self.runner.run(&mutation.tests(), self.runner.limit);
        // Not from the workspace, which may have changed meanwhile.
        self.copy.write(&self.sources.originals(&changed))?;
        Ok(tell(name, &results, begin.elapsed().as_secs()))
    }
}

/// Prints the outcome of a mutation.
fn tell(name: &str, results: &Results, seconds: u64) -> Caught {
    let outcomes = &results.outcomes;
    if outcomes
        .values()
        .any(|outcome| *outcome == Outcome::Unfinished)
    {
        return Caught::Unfinished;
    }
    let noticed =
        |outcome: &Outcome| matches!(outcome, Outcome::Failed | Outcome::Hung | Outcome::Aborted);
    let mut counts: BTreeMap<Outcome, usize> = BTreeMap::new();
    for outcome in outcomes.values() {
        *counts.entry(*outcome).or_default() += 1;
    }
    if outcomes.values().all(noticed) {
        let counts: Vec<String> = counts
            .iter()
            .map(|(outcome, count)| format!("{count} {outcome}"))
            .collect();
        println!("caught    {name:48} {seconds:3} s  {}", counts.join(", "));
        return Caught::All;
    }
    for (test, outcome) in outcomes.iter().filter(|(_, outcome)| !noticed(outcome)) {
        let verdict = if *outcome == Outcome::Passed {
            "SURVIVED"
        } else {
            "ERROR   "
        };
        println!("{verdict}  {name}: {test} {outcome}");
    }
    if counts.contains_key(&Outcome::Broken) {
        println!("{}", excerpt(&results.log));
    }
    Caught::NotAll
}

/// Returns the lines of a log that explain a failure.
fn excerpt(log: &str) -> String {
    let mut lines = Vec::new();
    let mut more = 0;
    for line in log.lines() {
        if line.contains("panicked") || line.starts_with("error") {
            more = 4;
        }
        if more > 0 && lines.len() < 40 {
            lines.push(line);
            more -= 1;
        }
    }
    lines.join("\n")
}
