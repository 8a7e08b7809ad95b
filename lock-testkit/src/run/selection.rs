//! The tests that the harness was asked to run.

use std::sync::OnceLock;

/// The options of the test harness with a value in the next argument, unless it follows a `=`.
const WITH_VALUE: [&str; 7] = [
    "--color",
    "--format",
    "--logfile",
    "--shuffle-seed",
    "--skip",
    "--test-threads",
    "-Z",
];

/// The tests that the arguments of a test program choose.
#[derive(Debug, Default)]
pub(crate) struct Selection {
    filters: Vec<String>,
    skipped: Vec<String>,
    is_exact: bool,
}

impl Selection {
    /// Reads the arguments of this process, once.
    pub(crate) fn of_this_process() -> &'static Self {
        static SELECTION: OnceLock<Selection> = OnceLock::new();

        SELECTION.get_or_init(|| {
            let arguments = std::env::args_os().skip(1);
            Self::of(arguments.map(|argument| argument.to_string_lossy().into_owned()))
        })
    }

    fn of(mut arguments: impl Iterator<Item = String>) -> Self {
        let mut selection = Self::default();
        while let Some(argument) = arguments.next() {
            if let Some(skipped) = argument.strip_prefix("--skip=") {
                selection.skipped.push(skipped.to_owned());
            } else if argument == "--skip" {
                selection.skipped.extend(arguments.next());
            } else if WITH_VALUE.contains(&argument.as_str()) {
                arguments.next();
            } else if argument == "--" {
                selection.filters.extend(arguments.by_ref());
            } else if argument == "--exact" {
                selection.is_exact = true;
            } else if !argument.starts_with('-') {
                selection.filters.push(argument);
            }
        }
        selection
    }

    /// Returns true if the test is to be run.
    pub(crate) fn has(&self, test: &str) -> bool {
        let is_meant = |filter: &String| match self.is_exact {
            true => test == filter,
            false => test.contains(filter.as_str()),
        };
        let is_chosen = self.filters.is_empty() || self.filters.iter().any(is_meant);
        is_chosen && !self.skipped.iter().any(is_meant)
    }
}

#[cfg(test)]
mod tests {
    use super::Selection;

    fn chosen(arguments: &str) -> Vec<&'static str> {
        let arguments = arguments.split_whitespace().map(str::to_owned);
        let selection = Selection::of(arguments);
        let mut tests = vec!["a::one", "a::one_more", "b::one"];
        tests.retain(|test| selection.has(test));
        tests
    }

    #[test]
    fn chooses_what_the_harness_chooses() {
        let all = ["a::one", "a::one_more", "b::one"];
        assert_eq!(chosen("--quiet --test-threads 4 --color=never"), all);
        assert_eq!(chosen("a:: --nocapture"), all[..2]);
        assert_eq!(chosen("b more"), all[1..]);
        assert_eq!(chosen("--exact a::one"), all[..1]);
        assert_eq!(chosen("--skip a::one -- one"), all[2..]);
        assert_eq!(chosen("--exact --skip=a::one"), all[1..]);
        assert!(chosen("c").is_empty());
    }
}
