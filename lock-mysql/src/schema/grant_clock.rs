//! The clock of the server that grants are numbered by.
//!
//! It says when it is evaluated, not when its statement was begun: a statement waits for the locks
//! of other transactions, which may have been granted something meanwhile. The driver has every
//! session count in UTC.

macro_rules! microseconds {
    () => {
        "TIMESTAMPDIFF(MICROSECOND, '2025-01-01', SYSDATE(6))"
    };
}

/// Microseconds since 2025, of which [we](grant_number) make a number.
pub(crate) const GRANT_CLOCK_US: &str = microseconds!();

/// Units of 4 microseconds since 2025, which lasts beyond 2090 in the 49 bits that a token has for
/// it. More grants of one key than that in a second are not to be had. For where the server itself
/// writes the number down: it costs it more.
pub(crate) const GRANT_CLOCK: &str =
    concat!("CAST(GREATEST(", microseconds!(), " DIV 4, 0) AS UNSIGNED)");

/// The condition that the clock moves: with `--sysdate-is-now` a server says when the statement was
/// begun all the same.
pub(crate) const SYSDATE_MOVES: &str = "SLEEP(0.001) = 0 AND SYSDATE(6) > UTC_TIMESTAMP(6)";

/// The number of a grant at this time.
pub(crate) fn grant_number(microseconds: i64) -> u64 {
    u64::try_from(microseconds / 4).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_numbered_before_the_beginning() {
        assert_eq!(grant_number(59_909_607_123_458), 14_977_401_780_864);
        assert_eq!(grant_number(-1_000_000), 0);
    }
}
