//! Durations in the options of the attribute, such as `"500ms"`.

use std::time::Duration;

use syn::{Error, LitStr, Result};

/// Returns the duration that `text` says.
pub(crate) fn parse(text: &LitStr) -> Result<Duration> {
    let value = text.value();
    let malformed = || {
        Error::new(
            text.span(),
            format!(
                "malformed duration {value:?}: write a number and a unit, such as \"30s\", \"500ms\" or \"2m\""
            ),
        )
    };
    let unit = value
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(value.len());
    let (number, unit) = value.split_at(unit);
    let number: u64 = number.parse().map_err(|_| malformed())?;
    let milliseconds = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(malformed()),
    };
    let milliseconds = number.checked_mul(milliseconds).ok_or_else(malformed)?;
    Ok(Duration::from_millis(milliseconds))
}
