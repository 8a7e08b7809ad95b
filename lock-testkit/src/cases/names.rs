//! Names that a store may confuse or fail on.

/// Returns different names that a store, an encoder or a collation may confuse.
///
/// A store may also take some of them for a pattern, a path or a command.
pub(super) fn odd_names() -> Vec<String> {
    let mut names: Vec<String> = ODD_NAMES.iter().map(|name| (*name).to_owned()).collect();
    // The longest names, which differ in the last byte or in the length only.
    names.extend([
        "x".repeat(255),
        format!("{}y", "x".repeat(254)),
        "x".repeat(254),
        "锁".repeat(85),
        format!("{}钥", "锁".repeat(84)),
        "\0".repeat(255),
        "/".repeat(255),
    ]);
    names
}

const ODD_NAMES: &[&str] = &[
    // Upper and lower case, also where they differ in length.
    "a",
    "A",
    "ß",
    "ss",
    "SS",
    "i",
    "I",
    "ı",
    "İ",
    "K",
    "\u{212A}",
    "k",
    // Spaces, and characters that look like a space or are invisible.
    "a ",
    " a",
    "a  ",
    " ",
    "a\t",
    "a\u{A0}",
    "a\u{200B}",
    "\u{FEFF}a",
    // One character, composed in two ways; a letter with and without its accent.
    "\u{E9}",
    "e\u{301}",
    "e",
    // Paths and their encodings.
    "a/b",
    "a%2Fb",
    "a%2fb",
    "a//b",
    "a/",
    "/a",
    "//a",
    "/",
    "a/.",
    "a/..",
    ".",
    "..",
    "a\\b",
    "a+b",
    "%",
    "%00",
    "%61",
    // Control characters, with NUL at either end, alone and doubled.
    "\0",
    "\0\0",
    "a\0",
    "\0a",
    "a\0b",
    "a\r\nb",
    "a\nb",
    "a\rb",
    "\n",
    "\u{7F}",
    "\u{1B}[0m",
    // Hash tags and patterns of Redis.
    "{}",
    "{",
    "}",
    "{a}",
    "{a}b",
    "{a}{b}",
    "a*",
    "*",
    "a?",
    "?",
    "[a]",
    "[^a]",
    "a[b",
    // Separators.
    "a:b",
    "a:b:c",
    ":a",
    "a:",
    ":",
    "a,b",
    "a;b",
    "a b",
    "a=b",
    "a&b",
    "a#b",
    "a@b",
    // Quotes, comments and numbers of SQL.
    "'",
    "''",
    "a'b",
    "\"a\"",
    "`a`",
    "a--",
    "a/*b*/",
    "0",
    "00",
    "0.0",
    "1e3",
    "0x61",
    "NULL",
    "null",
    "%s",
    "$1",
    "a_b",
    "a%b",
    // Names of the nodes of a queue.
    "lock-0000000001",
    "_c_00000000-0000-0000-0000-000000000000-lock-0000000001",
    "a-lock-",
    "a/0",
    // Beyond the basic plane.
    "锁/订单:42",
    "🔒",
    "🔑",
    "\u{10FFFF}",
];

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn odd_names_are_valid_and_all_different() {
        let names = odd_names();
        assert!(
            names
                .iter()
                .all(|name| lock_core::LockKey::new(name).is_ok())
        );
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
    }
}
