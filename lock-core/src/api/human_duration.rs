//! Durations rounded for errors and logs.

use std::fmt;
use std::time::Duration;

/// A duration rounded for errors and logs: `1 s`, not `999.990015ms`.
///
/// Below a minute it has up to three digits and one unit, above that whole minutes and seconds, or
/// whole hours and minutes.
///
/// ```
/// use std::time::Duration;
/// use lock_core::backend::HumanDuration;
///
/// let waited = Duration::from_micros(999_990);
/// assert_eq!(HumanDuration(waited).to_string(), "1 s");
/// assert_eq!(HumanDuration(Duration::from_secs(90)).to_string(), "1 min 30 s");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HumanDuration(pub Duration);

impl fmt::Display for HumanDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.0.as_micros();
        match micros {
            // The bounds are those where rounding yields the next unit.
            0..1_000 => write!(f, "{micros} µs"),
            1_000..999_500 => write_rounded(f, micros, 1_000, "ms"),
            999_500..59_950_000 => write_rounded(f, micros, 1_000_000, "s"),
            59_950_000..3_599_500_000 => write_pair(f, (micros + 500_000) / 1_000_000, "min", "s"),
            _ => write_pair(f, (micros + 30_000_000) / 60_000_000, "h", "min"),
        }
    }
}

/// Writes `micros` in units of `unit` microseconds. Values below 10 ms, and seconds, get one
/// decimal unless it is zero.
fn write_rounded(f: &mut fmt::Formatter<'_>, micros: u128, unit: u128, name: &str) -> fmt::Result {
    let tenths = (micros + unit / 20) / (unit / 10);
    let is_exact = tenths.is_multiple_of(10);
    if is_exact || (tenths >= 100 && name == "ms") {
        write!(f, "{} {name}", (micros + unit / 2) / unit)
    } else {
        write!(f, "{}.{} {name}", tenths / 10, tenths % 10)
    }
}

/// Writes `small` units as large units of 60 and a rest.
fn write_pair(f: &mut fmt::Formatter<'_>, small: u128, large: &str, name: &str) -> fmt::Result {
    match (small / 60, small % 60) {
        (many, 0) => write!(f, "{many} {large}"),
        (many, rest) => write!(f, "{many} {large} {rest} {name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_rounded() {
        for (micros, shown) in [
            (0, "0 µs"),
            (850, "850 µs"),
            (1_500, "1.5 ms"),
            (9_960, "10 ms"),
            (12_345, "12 ms"),
            (250_000, "250 ms"),
            (999_499, "999 ms"),
            (999_990, "1 s"),
            (1_000_000, "1 s"),
            (1_549_999, "1.5 s"),
            (30_000_000, "30 s"),
            (59_960_000, "1 min"),
            (90_000_000, "1 min 30 s"),
            (3_599_900_000, "1 h"),
            (5_400_000_000, "1 h 30 min"),
            (86_400_000_000, "24 h"),
        ] {
            assert_eq!(
                HumanDuration(Duration::from_micros(micros)).to_string(),
                shown
            );
        }
    }
}
