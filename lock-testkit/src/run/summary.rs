//! The outcomes of the cases of a run.

use std::fmt;

use crate::{Case, Need, Outcome};

/// The proved cases of a run, and the skipped cases with the reasons.
///
/// Its text has a line with the numbers, and a line for each reason to skip cases.
///
/// ```
/// # use std::sync::Arc;
/// # use lock_core::{DistributedLock, MemoryLock};
/// # use lock_testkit::{Case, Store};
/// # struct Memory(MemoryLock);
/// # #[lock_testkit::async_trait]
/// # impl Store for Memory {
/// #     async fn client(&self) -> Arc<dyn DistributedLock> { Arc::new(self.0.new_client()) }
/// #     async fn residue(&self) -> Vec<String> { self.0.claims() }
/// # }
/// # async fn new_store(_: Case) -> Memory { Memory(MemoryLock::new()) }
/// use lock_testkit::{Group, Need, Summary, cases, run};
///
/// let mut chosen = cases();
/// chosen.retain(|case| case.group == Group::Residue || case.needs(Need::Switchover));
/// let summary: Summary = chosen.into_iter().map(|case| (case, run(case, new_store))).collect();
/// assert_eq!((summary.proved().len(), summary.skipped().len()), (4, 1));
/// assert!(summary.to_string().starts_with("4 proved, 1 skipped\n"));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Summary {
    proved: Vec<Case>,
    skipped: Vec<(Case, Need)>,
}

impl Summary {
    /// Creates a summary without cases.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a case with its outcome.
    pub fn add(&mut self, case: Case, outcome: Outcome) {
        match outcome {
            Outcome::Proved => self.proved.push(case),
            Outcome::Unsupported(need) | Outcome::Skipped(need) => self.skipped.push((case, need)),
        }
    }

    /// Returns the proved cases.
    pub fn proved(&self) -> &[Case] {
        &self.proved
    }

    /// Returns the skipped cases, each with the need because of which it was skipped.
    pub fn skipped(&self) -> &[(Case, Need)] {
        &self.skipped
    }
}

impl FromIterator<(Case, Outcome)> for Summary {
    fn from_iter<I: IntoIterator<Item = (Case, Outcome)>>(ended: I) -> Self {
        let mut summary = Self::new();
        summary.extend(ended);
        summary
    }
}

impl Extend<(Case, Outcome)> for Summary {
    fn extend<I: IntoIterator<Item = (Case, Outcome)>>(&mut self, ended: I) {
        for (case, outcome) in ended {
            self.add(case, outcome);
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (proved, skipped) = (self.proved.len(), self.skipped.len());
        write!(f, "{proved} proved, {skipped} skipped")?;
        let mut reasons: Vec<Need> = Vec::new();
        for (_, need) in &self.skipped {
            if !reasons.contains(need) {
                reasons.push(*need);
            }
        }
        for reason in reasons {
            let cases = self.skipped.iter().filter(|(_, need)| *need == reason);
            let cases: Vec<Case> = cases.map(|(case, _)| *case).collect();
            let count = cases.len();
            write!(f, "\n  {count} skipped, {reason}: {}", names(&cases))?;
        }
        Ok(())
    }
}

/// Returns the names of cases in alphabetical order; a complete group is one entry.
fn names(chosen: &[Case]) -> String {
    let mut names: Vec<String> = Vec::new();
    for case in chosen {
        let of_group = |cases: &[Case]| {
            let members = cases.iter().filter(|other| other.group == case.group);
            members.count()
        };
        let all = of_group(&crate::cases());
        names.push(match of_group(chosen) == all {
            true => format!("{} (all {all})", case.group),
            false => case.to_string(),
        });
    }
    names.sort();
    names.dedup();
    names.join(", ")
}
