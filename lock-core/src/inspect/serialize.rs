//! The serialized form of what a store knows of a key.

use std::time::{Duration, SystemTime};

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::{HolderInfo, KeyInfo, Mode};

/// Serializes as `exclusive`, `shared`, or `{"permit": 3}`.
impl Serialize for Mode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Exclusive => serializer.serialize_unit_variant("Mode", 0, "exclusive"),
            Self::Shared => serializer.serialize_unit_variant("Mode", 1, "shared"),
            Self::Permit { of } => serializer.serialize_newtype_variant("Mode", 2, "permit", of),
            Self::Upgradeable => serializer.serialize_unit_variant("Mode", 3, "upgradeable"),
        }
    }
}

impl Serialize for KeyInfo {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("KeyInfo", 2)?;
        fields.serialize_field("holders", &self.holders)?;
        fields.serialize_field("waiters", &self.waiters)?;
        fields.end()
    }
}

/// Serializes times in milliseconds: `since_ms` from 1970, and `ttl_left_ms`.
impl Serialize for HolderInfo {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let since = self.since.map(|since| {
            let since_1970 = since.duration_since(SystemTime::UNIX_EPOCH);
            milliseconds(since_1970.unwrap_or_default())
        });
        let mut fields = serializer.serialize_struct("HolderInfo", 8)?;
        fields.serialize_field("mode", &self.mode)?;
        fields.serialize_field("label", &self.label)?;
        fields.serialize_field("host", &self.host)?;
        fields.serialize_field("pid", &self.pid)?;
        fields.serialize_field("since_ms", &since)?;
        fields.serialize_field("token", &self.token)?;
        fields.serialize_field("ttl_left_ms", &self.ttl_left.map(milliseconds))?;
        fields.serialize_field("foreign", &self.foreign)?;
        fields.end()
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
