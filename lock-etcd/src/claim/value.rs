//! The value of a claim's key: its mode, and what changes after its creation.

use std::borrow::Cow;

use lock_core::Mode;
use lock_core::backend::HoldId;

const SHARED: &str = "shared";
const UPGRADEABLE: &str = "upgradeable";
const PERMIT: &str = "permit:";
const CONVERTED: &str = "converted:";
const SLOT: &str = "slot:";

/// The value of a claim of this library.
///
/// The text is `shared host=web-1 pid=42 since=1764288000000`: words about the claim, and then the
/// metadata of the holder. Exclusive claims have no word for their mode. Other lock clients, and the
/// words that they do not know, count as exclusive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClaimValue<'a> {
    pub(crate) mode: Mode,
    /// The claim that the hold has had since its last change of mode, as text.
    pub(crate) converted: Option<String>,
    /// The slot of a permit, once the claim has chosen it.
    pub(crate) slot: Option<u32>,
    metadata: Cow<'a, str>,
}

impl<'a> ClaimValue<'a> {
    /// Returns the value with which a take creates a claim.
    pub(crate) fn new(hold: &HoldId) -> Self {
        Self {
            mode: hold.mode(),
            converted: None,
            slot: None,
            metadata: hold.metadata().into(),
        }
    }

    /// Reads the value of the claim of this name, below the prefix of its queue.
    pub(crate) fn read(name: &[u8], value: &'a [u8]) -> Self {
        let mut read = Self {
            mode: Mode::Exclusive,
            converted: None,
            slot: None,
            metadata: Cow::Borrowed(""),
        };
        // Only claims of this library have a mode: a value of another client must not admit a second
        // holder.
        let is_ours = name.contains(&b'-');
        let Some(mut rest) = std::str::from_utf8(value).ok().filter(|_| is_ours) else {
            return read;
        };
        loop {
            // Claims of earlier versions have no metadata.
            let (word, after) = rest.split_once(' ').unwrap_or((rest, ""));
            if !read.note(word) {
                break;
            }
            rest = after;
        }
        read.metadata = Cow::Borrowed(rest);
        read
    }

    /// Notes a word about the claim; returns false for any other word.
    fn note(&mut self, word: &str) -> bool {
        if let Some(of) = word.strip_prefix(PERMIT) {
            let permit = of.parse().ok().and_then(|of| Mode::permit(of).ok());
            permit.inspect(|mode| self.mode = *mode).is_some()
        } else if let Some(slot) = word.strip_prefix(SLOT) {
            self.slot = slot.parse().ok();
            self.slot.is_some()
        } else if let Some(claim) = word.strip_prefix(CONVERTED) {
            self.converted = Some(claim.to_owned());
            true
        } else {
            match word {
                SHARED => self.mode = Mode::Shared,
                UPGRADEABLE => self.mode = Mode::Upgradeable,
                _ => return false,
            }
            true
        }
    }

    /// Returns the text to store.
    pub(crate) fn to_text(&self) -> String {
        let mode = match self.mode {
            Mode::Shared => format!("{SHARED} "),
            Mode::Upgradeable => format!("{UPGRADEABLE} "),
            Mode::Permit { of } => format!("{PERMIT}{of} "),
            _ => String::new(),
        };
        let claim = self.converted.as_ref();
        let converted = claim.map_or_else(String::new, |claim| format!("{CONVERTED}{claim} "));
        let slot = self
            .slot
            .map_or_else(String::new, |slot| format!("{SLOT}{slot} "));
        format!("{mode}{converted}{slot}{}", self.metadata)
    }

    /// Returns the metadata of the holder.
    pub(crate) fn metadata(&self) -> &str {
        &self.metadata
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const METADATA: &str = "host=a pid=1 since=1 label=shared permit:2 slot:3";

    fn read(value: &str) -> ClaimValue<'_> {
        ClaimValue::read(b"1f-0a", value.as_bytes())
    }

    #[test]
    fn values_are_read_back() {
        let claim = || Some("0a".to_owned());
        for (mode, converted, slot) in [
            (Mode::Exclusive, None, None),
            (Mode::Exclusive, claim(), None),
            (Mode::Shared, None, None),
            (Mode::Shared, claim(), None),
            (Mode::Upgradeable, None, None),
            (Mode::permit(7).unwrap(), None, None),
            (Mode::permit(7).unwrap(), None, Some(6)),
        ] {
            let metadata = Cow::Borrowed(METADATA);
            let value = ClaimValue {
                mode,
                converted,
                slot,
                metadata,
            };
            assert_eq!(read(&value.to_text()), value);
        }
    }

    #[test]
    fn claims_of_earlier_versions_have_a_mode_only() {
        for (mode, value) in [(Mode::Exclusive, ""), (Mode::Shared, "shared")] {
            assert_eq!(read(value).mode, mode);
        }
        assert_eq!(read("permit:7").mode, Mode::permit(7).unwrap());
    }

    #[test]
    fn what_is_not_known_is_exclusive() {
        assert_eq!(ClaimValue::read(b"1f", b"shared").mode, Mode::Exclusive);
        for value in [
            "permit:0",
            "permit:x",
            "permit:-1",
            "Shared",
            "xshared",
            METADATA,
        ] {
            assert_eq!(read(value).mode, Mode::Exclusive, "{value}");
        }
    }
}
