//! URLs with passwords removed.

use std::fmt;

/// A store's URL, displayed without password, query and fragment.
///
/// It hides too much rather than too little, since the URL may be malformed or meant for another
/// program.
///
/// ```
/// use lock_core::backend::RedactedUrl;
///
/// let url = RedactedUrl("redis://app:secret@cache:6379/0");
/// assert_eq!(url.to_string(), "redis://app:***@cache:6379/0");
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RedactedUrl<'a>(pub &'a str);

impl fmt::Display for RedactedUrl<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&redacted(self.0))
    }
}

impl fmt::Debug for RedactedUrl<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&redacted(self.0), f)
    }
}

impl RedactedUrl<'_> {
    /// Returns true if `@` and host seem to be missing, as in `mysql://user:password`.
    pub fn lacks_host(&self) -> bool {
        let rest = self.0.split_once("://").map_or("", |(_, rest)| rest);
        has_password(rest.split('/').next().unwrap_or_default())
    }
}

/// Returns true if a `:` is followed by anything but a port, as in `user:password` without `@`.
fn has_password(authority: &str) -> bool {
    authority.split(',').any(|host| {
        let after_address = host.rsplit(']').next().unwrap_or(host);
        let port = after_address.split_once(':').map(|(_, port)| port);
        port.is_some_and(|port| !port.bytes().all(|byte| byte.is_ascii_digit()))
    })
}

/// Characters before the settings in URLs of other programs, which may be passwords.
const BEFORE_SETTINGS: [char; 7] = ['?', '#', ';', ',', '&', '(', ' '];

/// Returns the index of the first separator that a `name=value` setting follows.
fn find_setting(text: &str) -> Option<usize> {
    let is_setting = |text: &str| {
        let name = text.split_once('=').map_or("", |(name, _)| name.trim());
        let is_of_name = |c: char| c.is_ascii_alphanumeric() || "_-. ".contains(c);
        !name.is_empty() && name.chars().all(is_of_name)
    };
    text.match_indices(BEFORE_SETTINGS)
        .map(|(at, _)| at)
        .find(|at| is_setting(&text[at + 1..]))
}

fn redacted(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    let scheme_of_jdbc = scheme.strip_prefix("jdbc:").unwrap_or(scheme);
    let is_scheme = |c: char| c.is_ascii_alphanumeric() || "+-.:".contains(c);
    if scheme.is_empty() || !scheme_of_jdbc.chars().all(is_scheme) {
        // Without a scheme, any part may be a password.
        return if url.is_empty() { "" } else { "***" }.to_owned();
    }
    // A password may contain an unescaped `@`, `/` or `?`, so split at the last `@`.
    let host = rest.rfind('@').map_or(0, |at| at + 1);
    let (userinfo, rest) = rest.split_at(host);
    if find_setting(userinfo).is_some() {
        return format!("{scheme}://***");
    }
    let lower = scheme.to_ascii_lowercase();
    let is_redis = ["redis", "valkey", "keydb"]
        .iter()
        .any(|of| lower.starts_with(of));
    let user = match userinfo.split_once(':') {
        Some((user, _)) => format!("{user}:***@"),
        None if userinfo.is_empty() => String::new(),
        // On Redis a lone userinfo is most often a password that lacks its leading colon.
        None if is_redis => "***@".to_owned(),
        None => format!("{}:***@", userinfo.trim_end_matches('@')),
    };
    let hidden_from = [rest.find(['?', '#']), find_setting(rest)];
    let shown = hidden_from.into_iter().flatten().min();
    let authority = rest[..shown.unwrap_or(rest.len())].split('/').next();
    let authority = authority.unwrap_or_default();
    // MySQL needs a user, so a number after a colon may be a password, too.
    let may_be_password = lower.contains("mysql") || lower.contains("mariadb");
    if userinfo.is_empty()
        && (has_password(authority) || may_be_password && authority.contains(':'))
    {
        // `@` and host are missing, so the authority is a user and a password.
        let user = authority.split(':').next().unwrap_or_default();
        return format!("{scheme}://{user}:***");
    }
    let (location, hidden) = match shown {
        Some(end) if end + 1 < rest.len() => (&rest[..=end], "***"),
        Some(end) => (&rest[..end], ""),
        None => (rest, ""),
    };
    format!("{scheme}://{user}{location}{hidden}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_hidden_wherever_they_stand() {
        for (url, shown) in [
            ("redis://host:6379/0", "redis://host:6379/0"),
            ("redis://user:secret@host/0", "redis://user:***@host/0"),
            ("redis://:secret@host", "redis://:***@host"),
            ("redis://user:se/cr@et@host", "redis://user:***@host"),
            ("user:secret@host", "***"),
            ("redis://user:top?secret@host", "redis://user:***@host"),
            (
                "unix:///run/redis.sock?pass=secret",
                "unix:///run/redis.sock?***",
            ),
            ("memory://?namespace=shop", "memory://?***"),
            ("mysql://u:secret@h/d#secret?", "mysql://u:***@h/d#***"),
            ("memory://?", "memory://"),
            ("mysql://u:secret", "mysql://u:***"),
            ("mysql://u:secret/db?ttl=1s", "mysql://u:***"),
            ("mysqls://u:1234/d", "mysqls://u:***"),
            ("u:secret", "***"),
            ("etcd://h:1,u:se", "etcd://h:***"),
            ("redis://[::1]:6379/0", "redis://[::1]:6379/0"),
            ("etcd://h1:2379,h2:2379", "etcd://h1:2379,h2:2379"),
            ("mysql://app@h/db", "mysql://app:***@h/db"),
            ("redis://secret@h", "redis://***@h"),
            ("VALKEY://secret@h", "VALKEY://***@h"),
            ("redis://user:12;secret@host", "redis://user:***@host"),
            ("", ""),
        ] {
            assert_eq!(redacted(url), shown);
        }
    }

    #[test]
    fn passwords_in_urls_of_other_programs_are_hidden() {
        for (url, shown) in [
            ("Server=h;Uid=u;Pwd=secret;Database=d", "***"),
            ("host=h port=1 password=secret", "***"),
            ("h:6379,password=secret,ssl=true", "***"),
            ("password=secret;url=redis://h", "***"),
            ("\"redis://u:secret@h\"", "***"),
            ("redis://h:6379,password=secret", "redis://h:6379,***"),
            ("redis://h,ssl=true,password=se@cret", "redis://***"),
            ("mysql://h/d;password=secret", "mysql://h/d;***"),
            ("mysql://h/d&password=secret", "mysql://h/d&***"),
            ("mysql://h/d?password=se@cret", "mysql://***"),
            ("mysql://h:1/d;user=u;password=se@cret", "mysql://***"),
            ("unix:///run/r.sock?pass=se@cret", "unix://***"),
            (
                "jdbc:mysql://h/d;user=u;password=secret",
                "jdbc:mysql://h/d;***",
            ),
            (
                "jdbc:mysql://address=(host=h)(password=secret)/d",
                "jdbc:mysql://address=(***",
            ),
            (
                "jdbc:mysql:loadbalance://u:secret@h1,h2/d",
                "jdbc:mysql:loadbalance://u:***@h1,h2/d",
            ),
        ] {
            assert_eq!(redacted(url), shown);
        }
    }
}
