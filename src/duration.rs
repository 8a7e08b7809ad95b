//! Durations as people write them: `"30s"`, `"500ms"`, `"1m 30s"`.

use std::fmt;
use std::time::Duration;

use serde::de::{Deserializer, Error as DeserializeError, Visitor};

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
    deserializer.deserialize_any(DurationText)
}

fn malformed(text: &str) -> String {
    format!(
        "malformed duration {text:?}: write a number and a unit, such as \"30s\", \"500ms\" or \"2m\""
    )
}

struct DurationText;

impl Visitor<'_> for DurationText {
    type Value = Option<Duration>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration as text with a unit, such as \"30s\", \"500ms\" or \"2m\"")
    }

    fn visit_str<E: DeserializeError>(self, text: &str) -> std::result::Result<Self::Value, E> {
        match humantime::parse_duration(text) {
            Ok(duration) => Ok(Some(duration)),
            Err(_) => Err(E::custom(malformed(text))),
        }
    }

    fn visit_unit<E: DeserializeError>(self) -> std::result::Result<Self::Value, E> {
        Ok(None)
    }

    // A bare number is the likely mistake, so it gets the same advice as malformed text.
    fn visit_i64<E: DeserializeError>(self, number: i64) -> std::result::Result<Self::Value, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_u64<E: DeserializeError>(self, number: u64) -> std::result::Result<Self::Value, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: DeserializeError>(self, number: f64) -> std::result::Result<Self::Value, E> {
        self.visit_str(&number.to_string())
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
