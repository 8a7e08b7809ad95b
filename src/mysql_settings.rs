//! What can be said of MySQL and MariaDB only, as people write it. It is read in every build, so that
//! a configuration does not depend on what is compiled in.

use std::time::Duration;

use serde::de::Deserializer;

use crate::{Error, ErrorKind, Result, duration, scalar};

/// What a held lock is on a MySQL or MariaDB server: [`Config::hold`](crate::Config::hold).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum HoldAs {
    /// `"lease"`: a row that says who holds the key and until when. No connection is needed while a
    /// lock is held; all three modes.
    #[default]
    Lease,
    /// `"row"`: the row lock of a transaction that stays open. Anybody's `SELECT … FOR UPDATE`
    /// respects it, and the server frees it as soon as the connection dies. Each held lock and each
    /// waited key needs a connection; no permits, and ttls from 1 s.
    Row,
}

/// Keys that are purged sooner would be purged and made again all the time.
const PURGE_AFTER_MIN: Duration = Duration::from_secs(1);

pub(crate) fn hold(name: &str, text: &str) -> Result<HoldAs> {
    match text {
        "lease" => Ok(HoldAs::Lease),
        "row" => Ok(HoldAs::Row),
        _ => Err(Error::new(
            ErrorKind::Config,
            format!("{name}: unknown way to hold a lock {text:?}: known are \"lease\", \"row\""),
        )),
    }
}

pub(crate) fn purge_after(name: &str, text: &str) -> Result<Duration> {
    check_purge_after(name, duration::parse(name, text)?)
}

pub(crate) fn check_purge_after(name: &str, unused: Duration) -> Result<Duration> {
    if !unused.is_zero() && unused < PURGE_AFTER_MIN {
        return Err(Error::new(
            ErrorKind::Config,
            format!(
                "{name}: {unused:?} is too short: choose at least {PURGE_AFTER_MIN:?}, or \"0s\" for never"
            ),
        ));
    }
    Ok(unused)
}

/// For serde: each with the name of its field.
pub(crate) mod de {
    use super::*;

    type Read<'de, D, T> = std::result::Result<Option<T>, <D as Deserializer<'de>>::Error>;

    pub(crate) fn hold<'de, D: Deserializer<'de>>(from: D) -> Read<'de, D, HoldAs> {
        scalar::deserialize(from, "hold", super::hold)
    }

    pub(crate) fn create_table<'de, D: Deserializer<'de>>(from: D) -> Read<'de, D, bool> {
        scalar::deserialize(from, "create_table", scalar::truth)
    }

    pub(crate) fn purge_after<'de, D: Deserializer<'de>>(from: D) -> Read<'de, D, Duration> {
        scalar::deserialize(from, "purge_after", super::purge_after)
    }

    pub(crate) fn connections<'de, D: Deserializer<'de>>(from: D) -> Read<'de, D, u32> {
        scalar::deserialize(from, "connections", scalar::count)
    }
}
