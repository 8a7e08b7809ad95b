//! The holders of a key, read from the server.

use std::time::Duration;

use lock_core::{HolderInfo, KeyInfo, LockKey, Mode, Result};
use redis::Value;

use crate::client::{Client, REPLY_LIMIT, unexpected};

impl Client {
    /// Reads the holders of `key` on the connection of the caller's runtime, without tracking it.
    pub(crate) async fn inspect_key(&self, key: &LockKey) -> Result<KeyInfo> {
        let command = self.command()?;
        let connection = command.connection_within(REPLY_LIMIT).await?;
        let call = self.keys.inspect(key);
        let answer = command.call(&connection, &call, REPLY_LIMIT).await?;
        read(&answer).ok_or_else(|| unexpected(&answer))
    }
}

/// Reads the answer of `inspect.lua`.
fn read(answer: &Value) -> Option<KeyInfo> {
    let Value::Array(entries) = answer else {
        return None;
    };
    let (Value::Int(waiters), entries) = entries.split_first()? else {
        return None;
    };
    let holders = entries.chunks(3).map(|entry| match entry {
        [
            Value::BulkString(member),
            Value::BulkString(value),
            Value::Int(left),
        ] => {
            let holder = holder(&text(member), &text(value));
            Some(match u64::try_from(*left) {
                Ok(left) => holder.with_ttl_left(Duration::from_millis(left)),
                Err(_) => holder,
            })
        }
        _ => None,
    });
    let info = KeyInfo::new(holders.collect::<Option<_>>()?);
    Some(info.with_waiters(usize::try_from(*waiters).ok()?))
}

/// Reads one holder: a member of the set of holders with its value in the tokens, or the value of
/// an exclusive lock without a member.
fn holder(member: &str, value: &str) -> HolderInfo {
    let is_claim = |text: &str| text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit());
    let (mode, granted) = match member.split_at_checked(1) {
        None => match value.split_once(':') {
            Some((claim, granted)) if is_claim(claim) => (Some(Mode::Exclusive), granted),
            _ => return HolderInfo::foreign(),
        },
        Some(("s", claim)) if is_claim(claim) => (Some(Mode::Shared), value),
        Some(("u", claim)) if is_claim(claim) => (Some(Mode::Upgradeable), value),
        // The number of permits is in the metadata.
        Some(("p", claim)) if is_claim(claim) => (None, value),
        Some(_) => return HolderInfo::foreign(),
    };
    let digits = granted.bytes().take_while(u8::is_ascii_digit).count();
    let (grant, rest) = granted.split_at(digits);
    let holder = HolderInfo::new();
    let holder = match grant.parse() {
        Ok(grant) => holder.with_grant(grant),
        Err(_) => holder,
    };
    let holder = match mode {
        Some(mode) => holder.with_mode(mode),
        None => holder,
    };
    // Further numbers may stand before the metadata, which starts with a letter.
    let is_number = |letter: char| letter == ' ' || letter.is_ascii_digit();
    holder.with_metadata(rest.trim_start_matches(is_number))
}

fn text(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLAIM: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn holders_are_read_with_and_without_metadata() {
        let metadata = "host=a pid=7 since=5000 label=x y";
        let now = holder("", &format!("{CLAIM}:12 {metadata}"));
        let later = holder("", &format!("{CLAIM}:12 3 {metadata}"));
        assert_eq!(now, later);
        assert_eq!(now.label.as_deref(), Some("x y"));
        assert_eq!((now.pid, now.mode), (Some(7), Some(Mode::Exclusive)));
        assert_eq!(now.token.map(|token| token.value()), Some(12 << 14));

        let earlier = holder("", &format!("{CLAIM}:12"));
        assert_eq!((earlier.token, earlier.pid), (now.token, None));
        assert!(!earlier.foreign);
        assert!(holder("", "theirs").foreign && holder("", "theirs:12").foreign);
    }

    #[test]
    fn readers_and_permits_are_read() {
        let reader = holder(&format!("s{CLAIM}"), "9 host=a pid=7 since=5000");
        assert_eq!(reader.mode, Some(Mode::Shared));
        let permit = format!("p{CLAIM}");
        let known = holder(&permit, "9 host=a pid=7 since=5000 of=3");
        assert_eq!(known.mode, Mode::permit(3).ok());
        let unknown = holder(&permit, "");
        assert_eq!((unknown.mode, unknown.token), (None, None));
        assert!(holder("theirs", "").foreign);
    }
}
