//! Configuration from any serde format.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::LazyLock;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error as DeserializeError, MapAccess, Visitor,
};

use crate::Config;
use crate::fields::{FIELDS, Field};

static NAMES: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let fields = FIELDS.iter().map(|field| field.name);
    let all = ["url"].into_iter().chain(fields);
    all.chain(["settings", "locks", "routes"]).collect()
});

impl<'de> Deserialize<'de> for Config {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_struct("Config", &NAMES, ConfigVisitor)
    }
}

struct ConfigVisitor;

impl<'de> Visitor<'de> for ConfigVisitor {
    type Value = Config;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a configuration of locks")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Config, A::Error> {
        let (mut config, mut seen) = (Config::default(), HashSet::new());
        while let Some(Name(name)) = map.next_key()? {
            if !seen.insert(name) {
                return Err(A::Error::custom(format!("duplicate field `{name}`")));
            }
            match (name, Field::named(name)) {
                (_, Some(field)) => map.next_value_seed(Filling(field, &mut config))?,
                ("url", None) => config.url = map.next_value()?,
                ("locks", None) => config.locks = map.next_value()?,
                ("routes", None) => config.routes = map.next_value()?,
                (_, None) => {
                    for (name, value) in map.next_value::<BTreeMap<String, Scalar>>()? {
                        if let Scalar::Text(text) | Scalar::Bare(text) = value {
                            config.settings.insert(name, text);
                        }
                    }
                }
            }
        }
        Ok(config)
    }
}

/// The name of a setting.
///
/// Its parser rejects unknown names. Why: formats show the line of an error, and an error about a
/// whole table shows the table's first line, perhaps a URL with a password.
struct Name(&'static str);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_identifier(NameVisitor)
    }
}

struct NameVisitor;

impl Visitor<'_> for NameVisitor {
    type Value = Name;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a setting")
    }

    fn visit_str<E: DeserializeError>(self, name: &str) -> Result<Name, E> {
        let known = NAMES.iter().find(|known| **known == name);
        let known = known.ok_or_else(|| E::unknown_field(name, &NAMES))?;
        Ok(Name(known))
    }
}

/// The parser of one field, shared with all other sources.
struct Filling<'a>(&'static Field, &'a mut Config);

impl<'de> DeserializeSeed<'de> for Filling<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let Self(field, config) = self;
        let text = match Scalar::deserialize(deserializer)? {
            Scalar::Absent => return Ok(()),
            // `1.50` and `1.5` are one number, but would be two namespaces.
            Scalar::Bare(text) if (field.is_text)() => {
                return Err(D::Error::custom(format!(
                    "{}: {text} is no text: write it in quotation marks",
                    field.name
                )));
            }
            Scalar::Text(text) | Scalar::Bare(text) => text,
        };
        let filled = field.fill(config, field.name, &text);
        filled.map_err(D::Error::custom)
    }
}

/// A single value in a configuration file.
enum Scalar {
    Absent,
    Text(String),
    /// A number or boolean without quotation marks.
    Bare(String),
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ScalarVisitor)
    }
}

struct ScalarVisitor;

impl<'de> Visitor<'de> for ScalarVisitor {
    type Value = Scalar;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a single value")
    }

    fn visit_str<E>(self, text: &str) -> Result<Scalar, E> {
        Ok(Scalar::Text(text.to_owned()))
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Scalar, E> {
        Ok(Scalar::Bare(truth.to_string()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Scalar, E> {
        Ok(Scalar::Bare(number.to_string()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Scalar, E> {
        Ok(Scalar::Bare(number.to_string()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Scalar, E> {
        Ok(Scalar::Bare(number.to_string()))
    }

    fn visit_unit<E>(self) -> Result<Scalar, E> {
        Ok(Scalar::Absent)
    }

    fn visit_none<E>(self) -> Result<Scalar, E> {
        Ok(Scalar::Absent)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Scalar, D::Error> {
        Scalar::deserialize(deserializer)
    }
}
