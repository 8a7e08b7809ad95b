//! The URL of an ensemble.

use lock_core::backend::percent_decoded;
use lock_core::{Error, Result};

use crate::error::config_error;

const DEFAULT_PORT: u16 = 2181;

/// The parts of `zookeeper://user:password@host1:2181,host2:2181/chroot`.
pub(crate) struct Location {
    pub(crate) is_secure: bool,
    /// `user:password`, decoded, as the servers expect it.
    pub(crate) auth: Option<String>,
    /// All hosts with their ports.
    pub(crate) servers: String,
    /// Empty for the root.
    pub(crate) chroot: String,
}

impl Location {
    // Errors repeat nothing of the URL: any part of it may belong to a password.
    pub(crate) fn parse(url: &str) -> Result<Self> {
        let (is_secure, text) = match url.split_once("://") {
            Some(("zookeeper", rest)) => (false, rest),
            Some(("zookeepers", rest)) => (true, rest),
            Some(_) | None => {
                return Err(malformed(
                    "it has to begin with zookeeper:// or zookeepers://",
                ));
            }
        };
        if text.contains('?') {
            return Err(malformed(
                "nothing may follow the chroot, and ? in user or password is written %3F",
            ));
        }
        let (before, chroot) = match text.find('/') {
            Some(start) => text.split_at(start),
            None => (text, ""),
        };
        if chroot.contains('@') || text.contains('#') {
            return Err(malformed(
                "/ and # in user or password are written %2F and %23, and @ in the chroot %40",
            ));
        }
        if chroot.contains(',') {
            return Err(malformed(
                "the chroot stands once, behind the last host, as in h1:2181,h2:2181/app; a comma in it is written %2C",
            ));
        }
        let (auth, hosts) = match before.rsplit_once('@') {
            Some((user, hosts)) => (Some(parse_user(user)?), hosts),
            None => (None, before),
        };
        let servers: std::result::Result<Vec<String>, _> =
            hosts.split(',').map(with_port).collect();
        let chroot = chroot.strip_suffix('/').unwrap_or(chroot);
        Ok(Self {
            is_secure,
            auth,
            servers: servers.map_err(malformed)?.join(","),
            chroot: percent_decoded(chroot).ok_or_else(|| wrong_escape("the chroot"))?,
        })
    }
}

fn parse_user(text: &str) -> Result<String> {
    let Some((user, password)) = text.split_once(':') else {
        return Err(malformed("a user needs a password: user:password@host"));
    };
    if user.is_empty() {
        return Err(malformed("a password needs a user: user:password@host"));
    }
    let part = |text| percent_decoded(text).ok_or_else(|| wrong_escape("user or password"));
    let (user, password) = (part(user)?, part(password)?);
    if user.contains(':') {
        return Err(malformed("ZooKeeper knows no users with a colon"));
    }
    Ok(format!("{user}:{password}"))
}

/// Returns a server as `host:port`, with the default port if it has none.
///
/// # Errors
///
/// The problem, without the text of the server.
pub(crate) fn with_port(text: &str) -> std::result::Result<String, &'static str> {
    let (name, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((_, "")) => (text, None),
        Some((address, rest)) => match rest.strip_prefix(':') {
            Some(port) => (&text[..address.len() + 2], Some(port)),
            None => return Err("only a port follows a bracket: [::1]:2181"),
        },
        None => match text.rsplit_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (text, None),
        },
    };
    if matches!(name, "" | "[]") || name.contains(char::is_whitespace) {
        return Err("each host needs a name or an address");
    }
    if name.contains(':') && !name.starts_with('[') {
        return Err("an IPv6 address needs brackets: [::1]:2181");
    }
    let port = port.map_or(Ok(DEFAULT_PORT), str::parse);
    match port {
        Ok(port) if port > 0 => Ok(format!("{name}:{port}")),
        Ok(_) | Err(_) => Err("a port is a number from 1 to 65535"),
    }
}

fn wrong_escape(place: &str) -> Error {
    malformed(&format!(
        "% in {place} is followed by two hexadecimal digits"
    ))
}

fn malformed(problem: &str) -> Error {
    config_error(format!(
        "the url is malformed: {problem}; write it like zookeeper://user:password@host1:2181,host2:2181/chroot"
    ))
}

#[cfg(test)]
mod tests {
    use lock_core::ErrorKind;

    use super::*;

    fn parse(text: &str) -> Location {
        Location::parse(&format!("zookeeper://{text}")).unwrap()
    }

    #[test]
    fn hosts_have_ports_or_the_usual_one() {
        assert_eq!(parse("a").servers, "a:2181");
        assert_eq!(
            parse("a:1,[::1]:2,[fe80::1]").servers,
            "a:1,[::1]:2,[fe80::1]:2181"
        );
    }

    #[test]
    fn a_chroot_is_a_path_or_nothing() {
        for (text, chroot) in [
            ("a", ""),
            ("a/", ""),
            ("a/app/locks", "/app/locks"),
            ("a/app/", "/app"),
            ("a/a%40b%25", "/a@b%"),
            ("a,b/c%2Cd", "/c,d"),
        ] {
            assert_eq!(parse(text).chroot, chroot, "{text}");
        }
    }

    #[test]
    fn users_are_decoded() {
        let auth = |text| parse(text).auth;
        assert_eq!(auth("l%40x:p%2Fw%25:+@a").as_deref(), Some("l@x:p/w%:+"));
        assert_eq!(auth("u:@a").as_deref(), Some("u:"));
        assert_eq!(auth("u:p@w@a").as_deref(), Some("u:p@w"));
        assert_eq!(auth("a/b"), None);
    }

    #[test]
    fn what_is_malformed_is_refused_without_repeating_it() {
        for (text, part) in [
            ("", "each host needs"),
            ("a,,b", "each host needs"),
            ("[]:1", "each host needs"),
            ("a:x", "a port is"),
            ("a:0", "a port is"),
            ("[::1]2", "only a port"),
            ("::1", "needs brackets"),
            ("secret@a", "needs a password"),
            (":secret@a", "needs a user"),
            ("u:secret%4@a", "% in user or password"),
            ("u%3A:secret@a", "no users with a colon"),
            ("u:1/secret@a", "written %2F"),
            ("u:1#secret@a", "%23"),
            ("a/b%4", "% in the chroot"),
            ("a/app,b/app", "once, behind the last host"),
            ("u:secret@a:1/app,b:2/app", "once, behind the last host"),
            ("u:secret?x@a", "? in user or password"),
        ] {
            let parsed = Location::parse(&format!("zookeeper://{text}"));
            let error = parsed.map(|_| ()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config, "{text}");
            let error = error.to_string();
            assert!(error.contains(part), "{text}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn the_scheme_turns_tls_on() {
        assert!(!parse("a").is_secure);
        assert!(Location::parse("zookeepers://a").unwrap().is_secure);
        for url in ["a:2181", "u:secret@a", "zk://u:secret@a"] {
            let error = Location::parse(url).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains("begin with zookeeper://"), "{url}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
