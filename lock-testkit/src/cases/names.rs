//! Names that a store may mix up or choke on.

/// Names that all differ, and that some store, encoder or collation somewhere takes for another of
/// them, for a pattern, a path or a command.
pub(super) fn odd_names() -> Vec<String> {
    let mut names: Vec<String> = ODD_NAMES.iter().map(|name| (*name).to_owned()).collect();
    // Longest names, that differ in the last byte or in the length only.
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
    // Case, also where it is not one letter for one letter.
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
    // Space, and what looks like it or like nothing.
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
    // What Redis takes for a hash tag or a pattern.
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
    // Joined names.
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
    // What a queue's own nodes are called.
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
