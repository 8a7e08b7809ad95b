//! The text about a holder that its take stores beside the claim.

use std::fmt::Write;
use std::time::Duration;

use crate::Mode;
use crate::inspect::this_process;

/// The word of an upgradeable holder.
const UPGRADEABLE: &str = "upgradeable";

/// The description of a holder, as it is stored.
///
/// The text is `host=web-1 pid=42 since=1764288000000 label=nightly report`, with the time in
/// milliseconds since 1970. After the time, a permit has `of=3`, and an upgradeable holder the word
/// `upgradeable`. The label is the rest of the text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HolderMetadata<'a> {
    pub(crate) host: &'a str,
    pub(crate) pid: u32,
    pub(crate) since: Duration,
    pub(crate) mode: Option<Mode>,
    pub(crate) label: Option<&'a str>,
}

impl<'a> HolderMetadata<'a> {
    /// Describes a holder that takes a lock now, in this process.
    pub(crate) fn of_this_process(mode: Mode, label: Option<&'a str>) -> Self {
        Self {
            host: this_process::host(),
            // Read each time, so that it is right in a forked process.
            pid: std::process::id(),
            since: this_process::wall_clock(),
            mode: Some(mode),
            label,
        }
    }

    /// Reads a stored text; `None` for any other text.
    pub(crate) fn parse(stored: &'a str) -> Option<Self> {
        let (host, rest) = stored.strip_prefix("host=")?.split_once(" pid=")?;
        let (pid, rest) = rest.split_once(" since=")?;
        let (rest, label) = match rest.split_once(" label=") {
            Some((rest, label)) => (rest, Some(label)),
            None => (rest, None),
        };
        // Ignore words that a later version may add.
        let mut words = rest.split(' ');
        let since = words.next()?.parse().ok()?;
        let mode = words.find_map(|word| match word.strip_prefix("of=") {
            Some(of) => Mode::permit(of.parse().ok()?).ok(),
            None => (word == UPGRADEABLE).then_some(Mode::Upgradeable),
        });
        Some(Self {
            host,
            pid: pid.parse().ok()?,
            since: Duration::from_millis(since),
            mode,
            label,
        })
    }

    /// Returns the text to store.
    pub(crate) fn to_text(&self) -> String {
        let mut text = String::with_capacity(96);
        let (host, pid, since) = (self.host, self.pid, self.since.as_millis());
        // Writing to a string never fails.
        let _ = write!(text, "host={host} pid={pid} since={since}");
        match self.mode {
            Some(Mode::Permit { of }) => drop(write!(text, " of={of}")),
            Some(Mode::Upgradeable) => drop(write!(text, " {UPGRADEABLE}")),
            _ => {}
        }
        if let Some(label) = self.label {
            text.push_str(" label=");
            text.push_str(label);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(mode: Option<Mode>, label: Option<&str>) -> HolderMetadata<'_> {
        HolderMetadata {
            host: "web-1",
            pid: 42,
            since: Duration::from_millis(1_764_288_000_123),
            mode,
            label,
        }
    }

    #[test]
    fn a_stored_text_is_read_back() {
        let permit = Mode::permit(3).ok();
        for label in [
            None,
            Some("nightly report"),
            Some(" label=x of=2 "),
            Some("é"),
        ] {
            for mode in [None, permit] {
                let text = metadata(mode, label).to_text();
                assert_eq!(HolderMetadata::parse(&text), Some(metadata(mode, label)));
            }
        }
        let text = metadata(permit, Some("a b")).to_text();
        assert_eq!(text, "host=web-1 pid=42 since=1764288000123 of=3 label=a b");
    }

    #[test]
    fn other_texts_are_no_metadata() {
        let others = [
            "",
            "x",
            "exclusive",
            "host=a pid=x since=1",
            "host=a pid=1 since=",
            "pid=1 since=1",
        ];
        for other in others {
            assert_eq!(HolderMetadata::parse(other), None, "{other:?}");
        }
        let later = HolderMetadata::parse("host=a pid=1 since=5 zone=b label=c");
        assert_eq!(later.and_then(|later| later.label), Some("c"));
    }

    #[test]
    fn this_process_is_described() {
        let text = HolderMetadata::of_this_process(Mode::Shared, None).to_text();
        let read = HolderMetadata::parse(&text).unwrap();
        assert_eq!((read.pid, read.mode), (std::process::id(), None));
        assert!(!read.host.is_empty() && !read.host.contains(char::is_whitespace));
        assert!(read.since > Duration::from_secs(1_700_000_000));
        assert!(text.len() < 200, "{text}");
    }
}
