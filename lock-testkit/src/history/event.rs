//! One line of a history.

use lock_core::Mode;
use serde::{Deserialize, Serialize};

/// Something that happened at a moment, as it stands in a line of JSON:
///
/// ```json
/// {"at":81234567890123,"worker":"2.0","event":"invoke","claim":7,"key":"refund/4001","mode":"exclusive","ttl_ms":2000}
/// {"at":81234568090123,"worker":"2.0","event":"grant","claim":7,"token":"98304"}
/// {"at":81234569090123,"worker":"2.0","event":"release","claim":7,"held_at":81234569090001}
/// {"at":81234568400000,"worker":"2.0","event":"fault","kind":"stall","until":81234568900000}
/// ```
///
/// The order of lines means nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When, in nanoseconds on a clock that all who write have in common: `CLOCK_BOOTTIME` on Linux.
    pub at: u64,
    /// Whose it is: the process that wrote it, or that suffered it. A process that is started anew has
    /// another name. Missing: everybody's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// What it was.
    #[serde(flatten)]
    pub what: Happening,
}

/// What can happen. A claim is known by its worker and a number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Happening {
    /// A lock is about to be asked for.
    Invoke {
        /// A number that this worker gives to no other claim.
        claim: u64,
        /// The resource.
        key: String,
        /// `exclusive`, `shared`, or `permit/N` for one of N permits.
        #[serde(with = "mode_as_text")]
        mode: Mode,
        /// How long the hold survives without a renewal.
        ttl_ms: u64,
    },
    /// It was granted; the moment is after the acquisition has returned.
    Grant {
        /// Which claim.
        claim: u64,
        /// The fencing token, in decimal.
        #[serde(with = "number_as_text")]
        token: u64,
    },
    /// It ended without a grant, since somebody else has the lock.
    Refuse {
        /// Which claim.
        claim: u64,
    },
    /// It ended without an answer.
    Fail {
        /// Which claim.
        claim: u64,
        /// What was wrong.
        reason: String,
    },
    /// Whoever asked did not wait for the answer.
    Cancel {
        /// Which claim.
        claim: u64,
    },
    /// Its guard said that it is held; the moment is before it was asked. Now and then, so that something is
    /// known of holders that are killed.
    Held {
        /// Which claim.
        claim: u64,
    },
    /// Its guard said that it is lost.
    Loss {
        /// Which claim.
        claim: u64,
        /// The last moment before the guard said that it is held; missing when it never did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        held_at: Option<u64>,
        /// What the guard said.
        reason: String,
    },
    /// Its holder begins to give it back, with or without waiting for that.
    Release {
        /// Which claim.
        claim: u64,
        /// The last moment before the guard said that it is held; missing when it never did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        held_at: Option<u64>,
    },
    /// Something was done on purpose to this worker, or to the store of all.
    Fault {
        /// What it is called.
        kind: String,
        /// When it was over.
        until: u64,
        /// What it does to holds, besides making life hard.
        #[serde(default, skip_serializing_if = "Effect::is_none")]
        effect: Effect,
    },
    /// The worker is killed.
    Death,
    /// Nothing ran on the machine until then.
    Stall {
        /// When it went on.
        until: u64,
    },
    /// The records end here.
    End,
}

/// What a fault does to holds that are on the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Effect {
    /// It does not remove any.
    #[default]
    None,
    /// It may remove them: deleted, flushed, expired by a clock that was set ahead, their connections killed.
    Removal,
    /// It may remove them, and what the store knew of earlier grants with them.
    Forgetting,
    /// The clock of the store is set back.
    SetBack,
}

impl Effect {
    fn is_none(&self) -> bool {
        *self == Self::None
    }

    /// Whether a hold may be gone from the store with nobody having given it back.
    pub fn removes(self) -> bool {
        matches!(self, Self::Removal | Self::Forgetting)
    }
}

/// Modes as text.
mod mode_as_text {
    use lock_core::Mode;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(mode: &Mode, serializer: S) -> Result<S::Ok, S::Error> {
        match mode {
            Mode::Shared => serializer.serialize_str("shared"),
            Mode::Permit { of } => serializer.collect_str(&format_args!("permit/{of}")),
            _ => serializer.serialize_str("exclusive"),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Mode, D::Error> {
        let text = String::deserialize(deserializer)?;
        let permit = || Mode::permit(text.strip_prefix("permit/")?.parse().ok()?).ok();
        match text.as_str() {
            "exclusive" => Ok(Mode::Exclusive),
            "shared" => Ok(Mode::Shared),
            _ => permit().ok_or_else(|| {
                D::Error::custom(format!("{text} is no mode: exclusive, shared or permit/3"))
            }),
        }
    }
}

/// Numbers above 2^53 as text, since many JSON readers round them.
mod number_as_text {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(number: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(number)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_the_same_when_it_is_read() {
        let event = Event {
            at: 5,
            worker: Some("2.0".to_owned()),
            what: Happening::Invoke {
                claim: 7,
                key: "refund/4001".to_owned(),
                mode: Mode::permit(3).unwrap(),
                ttl_ms: 2000,
            },
        };
        let line = serde_json::to_string(&event).unwrap();
        assert_eq!(
            line,
            r#"{"at":5,"worker":"2.0","event":"invoke","claim":7,"key":"refund/4001","mode":"permit/3","ttl_ms":2000}"#
        );
        assert_eq!(serde_json::from_str::<Event>(&line).unwrap(), event);
    }

    #[test]
    fn tokens_are_not_rounded() {
        let line =
            r#"{"at":5,"worker":"a","event":"grant","claim":1,"token":"9223372036854775807"}"#;
        let event: Event = serde_json::from_str(line).unwrap();
        assert_eq!(serde_json::to_string(&event).unwrap(), line);
    }

    #[test]
    fn what_can_be_left_out_is() {
        let line = r#"{"at":5,"event":"fault","kind":"flush","until":6}"#;
        let event: Event = serde_json::from_str(line).unwrap();
        assert!(matches!(
            event.what,
            Happening::Fault {
                effect: Effect::None,
                ..
            }
        ));
        assert_eq!(serde_json::to_string(&event).unwrap(), line);
    }

    #[test]
    fn an_unknown_mode_is_named() {
        let line = r#"{"at":5,"worker":"a","event":"invoke","claim":1,"key":"k","mode":"permit/0","ttl_ms":1}"#;
        let error = serde_json::from_str::<Event>(line).unwrap_err();
        assert!(error.to_string().contains("permit/0 is no mode"), "{error}");
    }
}
