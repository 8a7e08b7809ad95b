//! The name of this machine, and its wall clock.

use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

/// Maximum length of a host's name on Linux.
const HOST_MAX: usize = 64;

/// Returns the name of this machine, read once; `unknown` if it cannot be read.
pub(super) fn host() -> &'static str {
    static HOST: OnceLock<String> = OnceLock::new();

    HOST.get_or_init(|| {
        let named = std::fs::read_to_string("/proc/sys/kernel/hostname");
        let named = named.or_else(|_| std::env::var("HOSTNAME"));
        clean(&named.unwrap_or_default())
    })
}

/// Returns `name` without characters that the stored text gives a meaning.
fn clean(name: &str) -> String {
    let is_kept = |letter: &char| letter.is_ascii_graphic() && *letter != '=';
    let kept: String = name.chars().filter(is_kept).take(HOST_MAX).collect();
    match kept.is_empty() {
        true => "unknown".to_owned(),
        false => kept,
    }
}

/// Returns the time since 1970 by the clock of this machine, which may be wrong.
pub(super) fn wall_clock() -> Duration {
    #[expect(
        clippy::disallowed_methods,
        reason = "it is shown to people, and decides nothing"
    )]
    let now = SystemTime::now();
    now.duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_one_word() {
        assert_eq!(clean("web-1\n"), "web-1");
        assert_eq!(clean(" pid=1\t"), "pid1");
        assert_eq!(clean("\n"), "unknown");
        assert_eq!(clean(&"x".repeat(300)).len(), HOST_MAX);
    }
}
