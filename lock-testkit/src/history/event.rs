//! One line of a history.

use lock_core::Mode;
use serde::{Deserialize, Serialize};

/// Something that happened at a moment, written as a line of JSON:
///
/// ```json
/// {"at":1234500000,"worker":"a","event":"invoke","claim":7,"key":"k","mode":"shared","ttl_ms":900}
/// {"at":1234800000,"worker":"a","event":"grant","claim":7,"token":"98304"}
/// {"at":1235800000,"worker":"a","event":"release","claim":7,"held_at":1235799000}
/// {"at":1235100000,"worker":"a","event":"fault","kind":"stall","until":1235600000}
/// ```
///
/// The order of the lines does not matter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The time in nanoseconds, on a clock that all processes share: `CLOCK_BOOTTIME` on Linux.
    pub at: u64,
    /// The process that wrote the event, or that was affected by the fault. A restarted process has
    /// another name. Missing if the event concerns all processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// The kind of event.
    #[serde(flatten)]
    pub what: Happening,
}

/// The kind of an event. A worker and a number identify a claim.
///
/// ```
/// use lock_testkit::history::{Event, Happening};
///
/// let line = r#"{"at":5,"worker":"a","event":"grant","claim":1,"token":"7"}"#;
/// let event: Event = serde_json::from_str(line)?;
/// assert!(matches!(event.what, Happening::Grant { claim: 1, token: 7 }));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Happening {
    /// The worker is about to request a lock.
    Invoke {
        /// The number of the claim, unique within its worker.
        claim: u64,
        /// The name of the resource.
        key: String,
        /// `exclusive`, `shared`, or `permit/N` for one of N permits.
        #[serde(with = "mode_as_text")]
        mode: Mode,
        /// The time that the hold survives without a renewal, in milliseconds.
        ttl_ms: u64,
    },
    /// The claim was granted. The time is after the acquisition has returned.
    Grant {
        /// The number of the claim.
        claim: u64,
        /// The fencing token, in decimal.
        #[serde(with = "number_as_text")]
        token: u64,
    },
    /// The claim ended without a grant, since another claim has the lock.
    Refuse {
        /// The number of the claim.
        claim: u64,
    },
    /// The claim ended without an answer.
    Fail {
        /// The number of the claim.
        claim: u64,
        /// The error.
        reason: String,
    },
    /// The caller stopped waiting for the answer.
    Cancel {
        /// The number of the claim.
        claim: u64,
    },
    /// The guard said that it is held. The time is before the question. Recorded from time to time,
    /// so that something is known of holders that are killed.
    Held {
        /// The number of the claim.
        claim: u64,
    },
    /// The guard said that it is lost.
    Loss {
        /// The number of the claim.
        claim: u64,
        /// The time before the guard last said that it is held; missing if it never did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        held_at: Option<u64>,
        /// The reason that the guard gave.
        reason: String,
    },
    /// The holder is about to release, whether or not it waits for the release.
    Release {
        /// The number of the claim.
        claim: u64,
        /// The time before the guard last said that it is held; missing if it never did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        held_at: Option<u64>,
    },
    /// A fault was caused on purpose, on this worker or on the store of all workers.
    Fault {
        /// The name of the fault.
        kind: String,
        /// The end of the fault.
        until: u64,
        /// The effect of the fault on holds.
        #[serde(default, skip_serializing_if = "Effect::is_none")]
        effect: Effect,
    },
    /// The worker is about to be killed.
    Death,
    /// The machine stalled: nothing ran on it.
    Stall {
        /// The end of the stall.
        until: u64,
    },
    /// The records end here.
    End,
}

/// The effect of a fault on holds that are on the store.
///
/// ```
/// use lock_testkit::history::Effect;
///
/// assert!(Effect::Forgetting.removes() && !Effect::SetBack.removes());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Effect {
    /// The fault removes no holds.
    #[default]
    None,
    /// The fault may remove holds: deletion, flush, a clock set ahead, or killed connections.
    Removal,
    /// The fault may remove holds, and the store's knowledge of earlier grants.
    Forgetting,
    /// The fault sets the clock of the store back.
    SetBack,
}

impl Effect {
    fn is_none(&self) -> bool {
        *self == Self::None
    }

    /// Returns true if holds may vanish from the store without a release.
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
            Mode::Upgradeable => serializer.serialize_str("upgradeable"),
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
            "upgradeable" => Ok(Mode::Upgradeable),
            _ => permit().ok_or_else(|| {
                D::Error::custom(format!(
                    "{text} is no mode: exclusive, shared, upgradeable or permit/3"
                ))
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
