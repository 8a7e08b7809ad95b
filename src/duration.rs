//! Durations as people write them: `"30s"`, `"500ms"`, `"1m 30s"`.

use std::fmt;
use std::time::Duration;

use serde::de::{Deserializer, Visitor};

use crate::{Error, ErrorKind, Result};

/// Reads the value of the setting `name`.
pub(crate) fn parse(name: &str, text: &str) -> Result<Duration> {
    humantime::parse_duration(text).map_err(|source| {
        Error::new(ErrorKind::Config, format!("{name}: {}", malformed(text))).with_source(source)
    })
}

/// For serde: an optional duration as text.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<Option<Duration>, D::Error> {
    deserializer.deserialize_any(DurationText).map(Some)
}

fn malformed(text: &str) -> String {
    format!(
        "malformed duration {text:?}: write a number and a unit, such as \"30s\", \"500ms\" or \"2m\""
    )
}

struct DurationText;

impl Visitor<'_> for DurationText {
    type Value = Duration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration as text with a unit, such as \"30s\", \"500ms\" or \"2m\"")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> std::result::Result<Duration, E> {
        humantime::parse_duration(text).map_err(|_| E::custom(malformed(text)))
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> std::result::Result<Duration, E> {
        Err(E::custom(malformed(&number.to_string())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_needed_and_named() {
        assert_eq!(parse("ttl", "1m 30s").unwrap(), Duration::from_secs(90));
        assert_eq!(parse("ttl", "0s").unwrap(), Duration::ZERO);
        for text in ["30", "", "s", "-1s", "30 parsecs"] {
            let error = parse("ttl", text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config);
            assert!(
                error.to_string().starts_with("ttl: malformed duration"),
                "{error}"
            );
        }
    }
}
