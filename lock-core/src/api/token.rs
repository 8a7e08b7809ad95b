//! The fencing token, by which a resource refuses an overtaken holder.

use std::fmt;
use std::str::FromStr;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Error, ErrorKind, Result};

/// Number of low bits of a token that count hand-offs inside one process.
const HAND_OFF_BITS: u32 = 14;

/// Number of tokens at the end of a grant's that are kept for holds which change their mode.
const CONVERSIONS: u64 = 256;

/// A number that is greater for every later grant of the same key.
///
/// A resource stores the highest token that it has seen. A holder stores its token there before its
/// first read, and the resource then refuses every request with a lower one. So even a holder that
/// slept through its own loss does no harm. A check at the write alone still loses updates, since
/// the next holder may have read before it.
///
/// The value is the backend's grant number shifted left by 14 bits; the low bits count hand-offs
/// between waiters of one process. It fits in a signed 64-bit integer. As text and in JSON it is a
/// decimal string, since many JSON readers round numbers above 2^53. It is read back from text, from
/// JSON, and with `try_from` from a number.
///
/// ```
/// use lock_core::FencingToken;
///
/// let (earlier, later) = (FencingToken::from_grant(7)?, FencingToken::from_grant(8)?);
/// assert!(earlier < later);
/// assert_eq!(earlier.value(), 7 << 14);
/// # Ok::<(), lock_core::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FencingToken(u64);

impl FencingToken {
    /// Maximum grant number of a token: 2^49 - 1.
    pub const GRANT_MAX: u64 = (i64::MAX as u64) >> HAND_OFF_BITS;

    /// Number of hand-offs for which one grant has tokens.
    pub(crate) const HAND_OFFS: usize = (1 << HAND_OFF_BITS) - 1 - CONVERSIONS as usize;

    /// Creates the token of grant number `grant`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Backend`] if `grant` exceeds [`GRANT_MAX`](Self::GRANT_MAX): tokens never wrap.
    pub fn from_grant(grant: u64) -> Result<Self> {
        if grant > Self::GRANT_MAX {
            return Err(Error::new(
                ErrorKind::Backend,
                format!(
                    "the store's grant number {grant} exceeds {}: its counter was tampered with, or its clock is far in the future",
                    Self::GRANT_MAX
                ),
            ));
        }
        Ok(Self(grant << HAND_OFF_BITS))
    }

    /// Returns the next token of the same grant; `None` if its hand-offs are used up.
    pub(crate) fn next_hand_off(self) -> Option<Self> {
        let hand_offs = self.0 & ((1 << HAND_OFF_BITS) - 1);
        (hand_offs < Self::HAND_OFFS as u64).then_some(Self(self.0 + 1))
    }

    /// Returns a token for a hold that changes its mode while the claim with grant number `next`
    /// already waits. For stores that number claims on arrival.
    ///
    /// It is greater than `previous`, the token of the last such change, and than all tokens of
    /// grants before `next`; it is less than all of `next`. `None` after 256 changes while the same
    /// claim waits.
    ///
    /// ```
    /// use lock_core::FencingToken;
    ///
    /// let (holder, waiter) = (FencingToken::from_grant(6)?, FencingToken::from_grant(7)?);
    /// let upgraded = FencingToken::before_grant(7, None).expect("the first change");
    /// let downgraded = FencingToken::before_grant(7, Some(upgraded)).expect("the second one");
    /// assert!(holder < upgraded && upgraded < downgraded && downgraded < waiter);
    /// # Ok::<(), lock_core::Error>(())
    /// ```
    pub fn before_grant(next: u64, previous: Option<Self>) -> Option<Self> {
        let end = Self::from_grant(next).ok()?.0;
        let first = end.checked_sub(CONVERSIONS)?;
        let token = previous.map_or(first, |previous| first.max(previous.0 + 1));
        (token < end).then_some(Self(token))
    }

    /// Returns the token as a number.
    pub fn value(self) -> u64 {
        self.0
    }
}

impl fmt::Debug for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FencingToken({})", self.0)
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl TryFrom<u64> for FencingToken {
    type Error = Error;

    /// Reads a token that was stored as a number, such as the highest that a resource has seen.
    fn try_from(value: u64) -> Result<Self> {
        match i64::try_from(value) {
            Ok(_) => Ok(Self(value)),
            Err(_) => Err(no_token(&value)),
        }
    }
}

impl FromStr for FencingToken {
    type Err = Error;

    /// Reads a token that was stored as text: a decimal number.
    fn from_str(text: &str) -> Result<Self> {
        let is_decimal = text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse::<u64>() {
            Ok(value) if is_decimal => Self::try_from(value),
            Ok(_) | Err(_) => Err(no_token(&text)),
        }
    }
}

fn no_token(what: &dyn fmt::Debug) -> Error {
    let message = format!(
        "{what:?} is no fencing token: it is a decimal number up to {}",
        i64::MAX
    );
    Error::new(ErrorKind::Config, message)
}

impl<'de> Deserialize<'de> for FencingToken {
    /// Reads a decimal string, as tokens are written, or a number.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            deserializer.deserialize_any(TokenVisitor)
        } else {
            deserializer.deserialize_str(TokenVisitor)
        }
    }
}

struct TokenVisitor;

impl Visitor<'_> for TokenVisitor {
    type Value = FencingToken;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a fencing token as a decimal string")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> std::result::Result<FencingToken, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> std::result::Result<FencingToken, E> {
        FencingToken::try_from(value).map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> std::result::Result<FencingToken, E> {
        let value = u64::try_from(value).map_err(|_| E::custom(no_token(&value)))?;
        self.visit_u64(value)
    }
}

impl Serialize for FencingToken {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_order_tokens_and_overflow_is_an_error() {
        let low = FencingToken::from_grant(7).unwrap();
        let high = FencingToken::from_grant(8).unwrap();
        assert!(low < high);
        assert_eq!(low.value(), 7 << 14);
        let last = FencingToken::from_grant(FencingToken::GRANT_MAX).unwrap();
        assert!(i64::try_from(last.value()).is_ok());
        assert!(FencingToken::from_grant(FencingToken::GRANT_MAX + 1).is_err());
    }

    #[test]
    fn a_stored_token_is_read_back() {
        let token = FencingToken::from_grant(7).unwrap();
        assert_eq!(FencingToken::try_from(token.value()).unwrap(), token);
        assert_eq!(token.to_string().parse::<FencingToken>().unwrap(), token);
        for wrong in ["", "+7", "-7", "7.0", " 7", "0x7", "9223372036854775808"] {
            let error = wrong.parse::<FencingToken>().unwrap_err();
            assert!(error.to_string().contains("no fencing token"), "{error}");
        }
        assert!(FencingToken::try_from(u64::MAX).is_err());
    }

    #[test]
    fn hand_offs_count_up_to_the_next_grant_and_never_into_it() {
        let grant = FencingToken::from_grant(7).unwrap();
        let next_grant = FencingToken::from_grant(8).unwrap();
        let mut last = grant;
        let mut hand_offs = 0;
        while let Some(next) = last.next_hand_off() {
            assert!(last < next && next < next_grant);
            last = next;
            hand_offs += 1;
        }
        assert_eq!(hand_offs, 16_127);
        assert_eq!(hand_offs, FencingToken::HAND_OFFS);
        let mut changed = FencingToken::before_grant(8, None);
        let mut changes = 0;
        while let Some(token) = changed {
            assert!(last < token && token < next_grant);
            assert_eq!(token.next_hand_off(), None);
            last = token;
            changed = FencingToken::before_grant(8, Some(token));
            changes += 1;
        }
        assert_eq!(changes, CONVERSIONS);
    }
}
