//! Tokens of Rust, Lua and SQL: enough to compare code without its comments and layout.

use std::ops::Range;

/// A language of the sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    Rust,
    Lua,
    Sql,
}

impl Language {
    /// Returns the language of a file, if its tokens are known.
    pub(crate) fn of(file: &str) -> Option<Self> {
        match file.rsplit_once('.')?.1 {
            "rs" => Some(Self::Rust),
            "lua" => Some(Self::Lua),
            "sql" => Some(Self::Sql),
            _ => None,
        }
    }
}

/// Returns the places of the tokens of `text`, with literals split: a string may hold a statement.
pub(crate) fn fine_tokens(text: &str, language: Language) -> Vec<Range<usize>> {
    let tokens = tokens(text, language);
    tokens
        .into_iter()
        .flat_map(|token| words(text, token))
        .collect()
}

/// Returns the words and signs in a token.
fn words(text: &str, token: Range<usize>) -> Vec<Range<usize>> {
    let mut words = Vec::new();
    let mut start = token.start;
    while let Some(next) = text[start..token.end].chars().next() {
        let rest = &text[start..token.end];
        let length = match rest.find(|next| !is_of_word(next)) {
            Some(0) => next.len_utf8(),
            Some(length) => length,
            None => rest.len(),
        };
        // The backslash that continues a line in the next one is layout.
        if !next.is_whitespace() && !rest.starts_with("\\\n") {
            words.push(start..start + length);
        }
        start += length;
    }
    words
}

/// Returns the places of the tokens of `text`.
pub(crate) fn tokens(text: &str, language: Language) -> Vec<Range<usize>> {
    let mut tokens = Vec::new();
    let mut start = 0;
    while let Some(next) = text[start..].chars().next() {
        let rest = &text[start..];
        if next.is_whitespace() {
            start += next.len_utf8();
        } else if let Some(length) = comment(rest, language) {
            start += length;
        } else {
            let length = token(rest, language);
            tokens.push(start..start + length);
            start += length;
        }
    }
    tokens
}

/// Returns the length of the comment at the start of `text`.
fn comment(text: &str, language: Language) -> Option<usize> {
    let line = if language == Language::Rust {
        "//"
    } else {
        "--"
    };
    if language == Language::Lua && text.starts_with("--[[") {
        return Some(text.find("]]").map_or(text.len(), |end| end + 2));
    }
    if text.starts_with(line) {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    (language != Language::Lua && text.starts_with("/*")).then(|| block_comment(text))
}

/// Returns the length of a block comment, which may contain further block comments.
fn block_comment(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < text.len() {
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// Returns the length of the token at the start of `text`.
fn token(text: &str, language: Language) -> usize {
    let first = text.chars().next().unwrap_or_default();
    if language == Language::Rust {
        if let Some(length) = rust_literal(text) {
            return length;
        }
    } else if matches!(first, '"' | '\'' | '`') {
        return quoted(text, first);
    }
    if is_of_word(first) {
        return text.find(|next| !is_of_word(next)).unwrap_or(text.len());
    }
    first.len_utf8()
}

fn is_of_word(char: char) -> bool {
    char.is_alphanumeric() || char == '_'
}

/// Returns the length of the string, character or lifetime at the start of Rust code.
fn rust_literal(text: &str) -> Option<usize> {
    let prefix = text
        .find(|next| !matches!(next, 'b' | 'c' | 'r'))
        .unwrap_or(0);
    let literal = &text[prefix..];
    let hashes = literal.find(|next| next != '#').unwrap_or(0);
    if text[..prefix].ends_with('r') && literal[hashes..].starts_with('"') {
        let end = format!("\"{}", "#".repeat(hashes));
        let begin = prefix + hashes + 1;
        let length = text[begin..].find(&end);
        return Some(length.map_or(text.len(), |length| begin + length + end.len()));
    }
    if prefix <= 1 && literal.starts_with('"') {
        return Some(prefix + quoted(literal, '"'));
    }
    if prefix <= 1 && literal.starts_with('\'') {
        let mut inside = literal.chars().skip(1);
        let is_char = inside.next() == Some('\\') || inside.next() == Some('\'');
        return Some(match is_char {
            true => prefix + quoted(literal, '\''),
            false => {
                let name = literal[1..].find(|next| !is_of_word(next));
                prefix + 1 + name.unwrap_or(literal.len() - 1)
            }
        });
    }
    None
}

/// Returns the length of the literal at the start of `text`, up to the `quote` that ends it.
fn quoted(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, next) in text.char_indices().skip(1) {
        match next {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            _ if next == quote => return at + next.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str, language: Language) -> Vec<&str> {
        let tokens = tokens(text, language);
        tokens.into_iter().map(|token| &text[token]).collect()
    }

    #[test]
    fn comments_and_layout_do_not_count() {
        let code = "fn a() {\n    // b\n    c(1) /* d /* e */ f */;\n}\n";
        assert_eq!(
            texts(code, Language::Rust),
            ["fn", "a", "(", ")", "{", "c", "(", "1", ")", ";", "}"]
        );
        assert_eq!(
            texts("a -- b\nc --[[ d\ne ]] f", Language::Lua),
            ["a", "c", "f"]
        );
        assert_eq!(texts("a -- b\nc /* d */ e", Language::Sql), ["a", "c", "e"]);
    }

    #[test]
    fn literals_are_one_token() {
        let code = r####"f("a // b \" c", 'x', '\'', b'"', r#"d " e"#, b"g", &'a h)"####;
        let expected = [
            "f",
            "(",
            r#""a // b \" c""#,
            ",",
            "'x'",
            ",",
            r"'\''",
            ",",
            "b'\"'",
            ",",
            r###"r#"d " e"#"###,
            ",",
            "b\"g\"",
            ",",
            "&",
            "'a",
            "h",
            ")",
        ];
        assert_eq!(texts(code, Language::Rust), expected);
        assert_eq!(texts("a = 'b -- c'", Language::Lua), ["a", "=", "'b -- c'"]);
    }

    #[test]
    fn words_that_begin_like_literals_are_words() {
        assert_eq!(
            texts("b r#loop cr", Language::Rust),
            ["b", "r", "#", "loop", "cr"]
        );
    }
}
