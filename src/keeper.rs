//! Where holds are renewed, as people write it: `"thread"` or `"caller"`.

use lock_core::KeeperMode;
use serde::de::{Deserialize, Deserializer, Error as DeserializeError};

use crate::{Error, ErrorKind, Result};

/// Reads the value of the setting `name`.
pub(crate) fn parse(name: &str, text: &str) -> Result<KeeperMode> {
    match text {
        "thread" => Ok(KeeperMode::Thread),
        "caller" => Ok(KeeperMode::Caller),
        _ => Err(Error::new(
            ErrorKind::Config,
            format!(
                "{name}: unknown place {text:?} for the keeper: known are \"thread\", \"caller\""
            ),
        )),
    }
}

/// For serde: an optional place as text.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<Option<KeeperMode>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    let place = text.map(|text| parse("keeper", &text)).transpose();
    place.map_err(D::Error::custom)
}
