//! Truth values and numbers, as text or as a format writes them.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as DeserializeError, Visitor};

use crate::{Error, ErrorKind, Result};

/// Reads the value of the setting `name`.
pub(crate) fn truth(name: &str, text: &str) -> Result<bool> {
    match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(Error::new(
            ErrorKind::Config,
            format!("{name}: unknown value {text:?}: known are \"true\", \"false\""),
        )),
    }
}

/// Reads the value of the setting `name`, of which there is at least one.
pub(crate) fn count(name: &str, text: &str) -> Result<u32> {
    match text.parse() {
        Ok(count) if count > 0 => Ok(count),
        _ => Err(Error::new(
            ErrorKind::Config,
            format!(
                "{name}: malformed number {text:?}: write a whole number from 1 to {}, such as \"8\"",
                u32::MAX
            ),
        )),
    }
}

/// For serde: an optional value of the setting `name`, read from text as anywhere else.
pub(crate) fn deserialize<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    name: &str,
    read: fn(&str, &str) -> Result<T>,
) -> std::result::Result<Option<T>, D::Error> {
    let scalar = Option::<Scalar>::deserialize(deserializer)?;
    let value = scalar.map(|Scalar(text)| read(name, &text)).transpose();
    value.map_err(D::Error::custom)
}

/// One value as text, whether it stands in quotes or not.
struct Scalar(String);

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_any(ScalarVisitor)
    }
}

struct ScalarVisitor;

impl Visitor<'_> for ScalarVisitor {
    type Value = Scalar;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a single value")
    }

    fn visit_str<E: DeserializeError>(self, text: &str) -> std::result::Result<Scalar, E> {
        Ok(Scalar(text.to_owned()))
    }

    fn visit_bool<E: DeserializeError>(self, truth: bool) -> std::result::Result<Scalar, E> {
        Ok(Scalar(truth.to_string()))
    }

    fn visit_i64<E: DeserializeError>(self, number: i64) -> std::result::Result<Scalar, E> {
        Ok(Scalar(number.to_string()))
    }

    fn visit_u64<E: DeserializeError>(self, number: u64) -> std::result::Result<Scalar, E> {
        Ok(Scalar(number.to_string()))
    }

    fn visit_f64<E: DeserializeError>(self, number: f64) -> std::result::Result<Scalar, E> {
        Ok(Scalar(number.to_string()))
    }
}
