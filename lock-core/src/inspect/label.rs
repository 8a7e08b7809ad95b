//! The check of a holder's label.

use crate::{Error, ErrorKind, Result};

/// Maximum length of a label, in bytes.
const LABEL_MAX: usize = 64;

/// Checks a label.
///
/// # Errors
///
/// [`ErrorKind::Config`] if it is empty, has more than 64 bytes, or contains control characters.
pub(crate) fn check_label(label: &str) -> Result<()> {
    let problem = match label.len() {
        0 => "is empty: leave it out".to_owned(),
        1..=LABEL_MAX if label.contains(char::is_control) => {
            "contains control characters: remove them".to_owned()
        }
        1..=LABEL_MAX => return Ok(()),
        length => format!("has {length} bytes: at most {LABEL_MAX} are stored"),
    };
    let message = format!("label {label:?} {problem}");
    Err(Error::new(ErrorKind::Config, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_short_and_printable() {
        assert!(check_label(&"x".repeat(64)).is_ok());
        for wrong in [String::new(), "x".repeat(65), "a\nb".into()] {
            let error = check_label(&wrong).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        }
    }
}
