//! Percent-decoding.

/// Decodes the percent escapes of `text`; `None` for a malformed escape or invalid UTF-8.
///
/// A `+` stays a `+`: this function is for user, password and path of a URL, not for its query.
///
/// ```
/// use lock_core::backend::percent_decoded;
///
/// assert_eq!(percent_decoded("p%2Fw%25+").as_deref(), Some("p/w%+"));
/// assert_eq!(percent_decoded("100%"), None);
/// ```
pub fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        let (high, low) = (digit()?, digit()?);
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_digits_are_a_byte_of_a_character() {
        let decoded = percent_decoded("a+b%2f%2F%25 %e9%94%81");
        assert_eq!(decoded, Some("a+b//% 锁".into()));
    }

    #[test]
    fn what_is_malformed_stands_for_nothing() {
        for text in ["%", "a%4", "%zz", "%+1", "%ff", "%e9%94"] {
            assert_eq!(percent_decoded(text), None, "{text}");
        }
    }
}
