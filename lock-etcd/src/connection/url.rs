//! Parses a URL into the members of a cluster.

use std::borrow::Cow;
use std::fmt;

use lock_core::backend::percent_decoded;
use lock_core::{Error, ErrorKind, Result};

use crate::error::BACKEND;

const DEFAULT_PORT: u16 = 2379;

/// The parts of a url.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) is_secure: bool,
    /// User and password.
    pub(crate) user: Option<(String, String)>,
    pub(crate) hosts: Vec<Host>,
}

/// The address of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Host {
    /// A name or an address, without brackets.
    pub(crate) name: String,
    pub(crate) port: u16,
}

impl Location {
    /// Reads `etcd://user:password@host1:2379,host2:2379`.
    pub(crate) fn parse(url: &str) -> Result<Self> {
        let (is_secure, rest) = match url.split_once("://") {
            Some(("etcd", rest)) => (false, rest),
            Some(("etcds", rest)) => (true, rest),
            Some(_) | None => return Err(malformed("it has to begin with etcd:// or etcds://")),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        // Errors repeat nothing of the URL: any part of it may belong to a password.
        if rest.contains(['/', '?', '#']) {
            return Err(malformed(
                "nothing may follow the hosts, and /, ? and # in user or password are written %2F, %3F and %23",
            ));
        }
        let (user, hosts) = match rest.rsplit_once('@') {
            Some((user, hosts)) => (Some(parse_user(user)?), hosts),
            None => (None, rest),
        };
        let hosts: Result<Vec<Host>> = hosts.split(',').map(Host::parse).collect();
        Ok(Self {
            is_secure,
            user,
            hosts: hosts?,
        })
    }
}

impl Host {
    fn parse(text: &str) -> Result<Self> {
        let (name, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((address, port)) => (address, port.strip_prefix(':')),
            None => match text.rsplit_once(':') {
                Some((name, port)) => (name, Some(port)),
                None => (text, None),
            },
        };
        if name.is_empty() || name.contains(char::is_whitespace) {
            return Err(malformed("each host needs a name or an address"));
        }
        if name.contains(':') && !text.starts_with('[') {
            return Err(malformed("an IPv6 address needs brackets: [::1]:2379"));
        }
        let port = port.map_or(Ok(DEFAULT_PORT), str::parse);
        Ok(Self {
            name: name.to_owned(),
            port: port.map_err(|_| malformed("a port is a number up to 65535"))?,
        })
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.contains(':') {
            write!(f, "[{}]:{}", self.name, self.port)
        } else {
            write!(f, "{}:{}", self.name, self.port)
        }
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Only the hosts: the rest holds the password.
        fmt::Debug::fmt(&self.hosts, f)
    }
}

fn parse_user(text: &str) -> Result<(String, String)> {
    let Some((name, password)) = text.split_once(':') else {
        return Err(malformed("a user needs a password: user:password@host"));
    };
    if name.is_empty() {
        return Err(malformed("a password needs a user: user:password@host"));
    }
    let decoded = |text| {
        percent_decoded(text)
            .ok_or_else(|| malformed("% in user or password is followed by two hexadecimal digits"))
    };
    Ok((decoded(name)?, decoded(password)?))
}

fn malformed(problem: &str) -> Error {
    config_error(format!(
        "the url is malformed: {problem}; write it like etcd://user:password@host1:2379,host2:2379"
    ))
}

pub(crate) fn config_error(message: impl Into<Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::Config, message).with_backend(BACKEND)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(url: &str) -> Vec<String> {
        let location = Location::parse(url).unwrap();
        location.hosts.iter().map(Host::to_string).collect()
    }

    #[test]
    fn hosts_have_ports_or_the_usual_one() {
        assert_eq!(hosts("etcd://a"), ["a:2379"]);
        assert_eq!(
            hosts("etcd://a:1,[::1]:2,[fe80::1]"),
            ["a:1", "[::1]:2", "[fe80::1]:2379"]
        );
        assert!(Location::parse("etcds://a/").unwrap().is_secure);
    }

    #[test]
    fn users_are_decoded() {
        let location = Location::parse("etcd://l%40x:p%2Fw%25@a").unwrap();
        assert_eq!(location.user, Some(("l@x".to_owned(), "p/w%".to_owned())));
        assert!(!format!("{location:?}").contains("p/w"));
    }

    #[test]
    fn what_is_malformed_is_refused_without_repeating_it() {
        for url in [
            "a:1",
            "http://a",
            "etcd://",
            "etcd://a,,b",
            "etcd://a:x",
            "etcd://::1",
            "etcd://a/b",
            "etcd://secret@a",
            "etcd://:secret@a",
            "etcd://u:secret%4@a",
            "etcd://u:secret?@a",
        ] {
            let error = Location::parse(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config, "{url}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
}
