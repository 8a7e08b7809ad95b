//! What a lock URL leads to, so that something else can stand in between.

/// The servers that `url` leads to, each as `host:port`; `None` where others cannot stand in for them, as where
/// their certificates are verified.
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

/// `url` with other servers, which stand in for those that it leads to.
pub fn with_servers(url: &str, servers: &[String]) -> String {
    let (before, _, behind) = parts(url);
    format!("{before}{}{behind}", servers.join(","))
}

/// What stands before the servers of a URL, the servers, and what stands behind them.
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
