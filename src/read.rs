//! Parsers of setting values; each function parses the value of the setting `name`.

use std::path::PathBuf;
use std::time::Duration;

use lock_core::{KeeperMode, MySqlHold};

use crate::{Error, ErrorKind, Result};

/// Minimum of `purge_after`, which `lock_mysql::MySqlConfig` documents. It is checked here, too, so
/// that the error names the line of the file.
const PURGE_AFTER_MIN: Duration = Duration::from_secs(1);

pub(crate) fn text(_name: &str, text: &str) -> Result<String> {
    Ok(text.to_owned())
}

pub(crate) fn path(_name: &str, text: &str) -> Result<PathBuf> {
    Ok(text.into())
}

pub(crate) fn duration(name: &str, text: &str) -> Result<Duration> {
    humantime::parse_duration(text).map_err(|source| {
        wrong(
            name,
            format_args!(
                "malformed duration {text:?}: write a number and a unit, such as \"30s\", \"500ms\" or \"2m\""
            ),
        )
        .with_source(source)
    })
}

pub(crate) fn count(name: &str, text: &str) -> Result<u32> {
    match text.parse() {
        Ok(count) if count > 0 => Ok(count),
        _ => Err(wrong(
            name,
            format_args!(
                "malformed number {text:?}: write a whole number from 1 to {}, such as \"8\"",
                u32::MAX
            ),
        )),
    }
}

pub(crate) fn truth(name: &str, text: &str) -> Result<bool> {
    one_of(name, "value", text, [("true", true), ("false", false)])
}

pub(crate) fn keeper(name: &str, text: &str) -> Result<KeeperMode> {
    let known = [
        ("thread", KeeperMode::Thread),
        ("caller", KeeperMode::Caller),
    ];
    one_of(name, "keeper", text, known)
}

pub(crate) fn hold(name: &str, text: &str) -> Result<MySqlHold> {
    let known = [("lease", MySqlHold::Lease), ("row", MySqlHold::Row)];
    one_of(name, "way to hold a lock", text, known)
}

pub(crate) fn purge_after(name: &str, text: &str) -> Result<Duration> {
    let unused = duration(name, text)?;
    if !unused.is_zero() && unused < PURGE_AFTER_MIN {
        return Err(wrong(
            name,
            format_args!(
                "{unused:?} is too short: choose at least {PURGE_AFTER_MIN:?}, or \"0s\" for never"
            ),
        ));
    }
    Ok(unused)
}

fn one_of<T: Copy>(name: &str, what: &str, text: &str, known: [(&str, T); 2]) -> Result<T> {
    let found = known.iter().find(|(word, _)| *word == text);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let words = known.map(|(word, _)| format!("{word:?}")).join(", ");
        wrong(
            name,
            format_args!("unknown {what} {text:?}: known are {words}"),
        )
    })
}

fn wrong(name: &str, problem: std::fmt::Arguments<'_>) -> Error {
    Error::new(ErrorKind::Config, format!("{name}: {problem}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_units() {
        assert_eq!(duration("ttl", "1m 30s").unwrap(), Duration::from_secs(90));
        assert_eq!(duration("ttl", "0s").unwrap(), Duration::ZERO);
        for text in ["30", "", "s", "-1s", "30 parsecs"] {
            let error = duration("ttl", text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config);
            assert!(
                error.to_string().starts_with("ttl: malformed duration"),
                "{error}"
            );
        }
    }
}
