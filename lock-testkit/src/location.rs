//! The servers in a lock URL, and their replacement by proxies.

/// Returns the servers of a lock URL as `host:port`, or `None` if proxies cannot replace them.
///
/// Proxies cannot replace servers whose certificates are verified.
///
/// ```
/// use lock_testkit::location::servers;
///
/// assert_eq!(servers("etcd://one:1234,two").unwrap(), ["one:1234", "two:2379"]);
/// assert_eq!(servers("rediss://host"), None);
/// ```
pub fn servers(url: &str) -> Option<Vec<String>> {
    let (scheme, _) = url.split_once("://")?;
    let port = match scheme.to_ascii_lowercase().as_str() {
        "redis" => 6379,
        "mysql" => 3306,
        "etcd" => 2379,
        "zookeeper" => 2181,
        _ => return None,
    };
    let (_, hosts, _) = parts(url);
    let with_port = |host: &str| match host.rsplit_once(':') {
        Some((_, digits)) if digits.parse::<u16>().is_ok() => host.to_owned(),
        _ => format!("{host}:{port}"),
    };
    Some(hosts.split(',').map(with_port).collect())
}

/// Returns `url` with other servers, each as `host:port`.
///
/// ```
/// use lock_testkit::location::with_servers;
///
/// let proxy = ["127.0.0.1:1234".to_owned()];
/// assert_eq!(with_servers("redis://me@host/0", &proxy), "redis://me@127.0.0.1:1234/0");
/// ```
pub fn with_servers(url: &str, servers: &[String]) -> String {
    let (before, _, behind) = parts(url);
    format!("{before}{}{behind}", servers.join(","))
}

/// Splits a URL into the text before its servers, the servers, and the text after them.
fn parts(url: &str) -> (&str, &str, &str) {
    let authority = url.find("://").map_or(0, |scheme| scheme + 3);
    let end = url[authority..].find(['/', '?']);
    let end = end.map_or(url.len(), |length| authority + length);
    let begin = url[authority..end].rfind('@');
    let begin = begin.map_or(authority, |user| authority + user + 1);
    (&url[..begin], &url[begin..end], &url[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_stand_in_for_servers_and_the_rest_stays() {
        let url = "etcd://me:a@b@one:1234,two/x?ttl=5s";
        assert_eq!(servers(url).unwrap(), ["one:1234", "two:2379"]);
        let others = ["127.0.0.1:1".to_owned(), "127.0.0.1:2".to_owned()];
        assert_eq!(
            with_servers(url, &others),
            "etcd://me:a@b@127.0.0.1:1,127.0.0.1:2/x?ttl=5s"
        );
    }

    #[test]
    fn nobody_stands_in_where_certificates_are_verified() {
        assert_eq!(servers("rediss://host"), None);
        assert_eq!(servers("memory://"), None);
    }
}
