//! The fencing token, by which a resource refuses an overtaken holder.

use std::fmt;
use std::str::FromStr;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Error, ErrorKind, Result};

/// Number of low bits of a token that count hand-offs inside one process.
const HAND_OFF_BITS: u32 = 14;

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
    pub(crate) const HAND_OFFS: usize = (1 << HAND_OFF_BITS) - 1;

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

    /// Returns the next token of the same grant; `None` if its hand-off bits are used up.
    pub(crate) fn next_hand_off(self) -> Option<Self> {
        let next = self.0 + 1;
        (next >> HAND_OFF_BITS == self.0 >> HAND_OFF_BITS).then_some(Self(next))
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
        assert_eq!(hand_offs, 16_383);
        assert_eq!(hand_offs, FencingToken::HAND_OFFS);
    }
}
