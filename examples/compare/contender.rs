//! The compared lock stores, each with a name and a URL.

use crate::servers::{self, Server};
use crate::stage::locks::scheme;
use crate::stage::problem::Problem;

/// The kinds of stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Memory,
    Redis,
    MysqlLease,
    MysqlRow,
    Etcd,
    ZooKeeper,
}

impl Kind {
    /// All kinds, in the order of the report.
    pub(crate) const ALL: [Self; 6] = [
        Self::Memory,
        Self::Redis,
        Self::MysqlLease,
        Self::MysqlRow,
        Self::Etcd,
        Self::ZooKeeper,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Redis => "redis",
            Self::MysqlLease => "mysql lease",
            Self::MysqlRow => "mysql row",
            Self::Etcd => "etcd",
            Self::ZooKeeper => "zookeeper",
        }
    }

    /// Returns the kind of the store at `url`; `None` for a scheme that polylock rejects later.
    fn of(url: &str) -> Option<Self> {
        Some(match scheme(url).as_str() {
            "memory" => Self::Memory,
            "redis" | "rediss" => Self::Redis,
            "mysql" | "mysqls" if url.contains("hold=row") => Self::MysqlRow,
            "mysql" | "mysqls" => Self::MysqlLease,
            "etcd" | "etcds" => Self::Etcd,
            "zookeeper" | "zookeepers" => Self::ZooKeeper,
            _ => return None,
        })
    }
}

/// A store to compare. A private server is started when the store's turn begins.
#[derive(Clone, Debug)]
pub(crate) struct Contender {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// `None` for a private server.
    url: Option<String>,
}

/// A store that can be reached.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) url: String,
    pub(crate) server: Option<Server>,
}

impl Contender {
    /// Returns the stores that a comparison without `--lock` lacks, each with the reason.
    pub(crate) fn missing(urls: &[String]) -> Vec<String> {
        let wanted = Kind::ALL.into_iter().filter(|_| urls.is_empty());
        wanted
            .filter_map(|kind| Some(format!("{}, {}", kind.name(), servers::missing(kind)?)))
            .collect()
    }

    /// Returns the stores at `urls`; without any, memory and all stores whose servers are
    /// installed.
    pub(crate) fn chosen(urls: &[String]) -> Result<Vec<Self>, Problem> {
        if urls.is_empty() {
            let missing = |kind: &Kind| servers::missing(*kind).is_some();
            let at_hand = Kind::ALL.into_iter().filter(|kind| !missing(kind));
            let contenders = at_hand.map(|kind| Self {
                name: kind.name().to_owned(),
                kind,
                url: (kind == Kind::Memory).then(|| "memory://".to_owned()),
            });
            return Ok(contenders.collect());
        }
        let mut chosen: Vec<Self> = Vec::new();
        for url in urls {
            let kind = Kind::of(url).ok_or_else(|| {
                let scheme = scheme(url);
                format!("{scheme}:// is no lock store: write memory://, redis://, mysql://, etcd:// or zookeeper://")
            })?;
            let same = chosen.iter().filter(|other| other.kind == kind).count();
            let name = match same {
                0 => kind.name().to_owned(),
                _ => format!("{} {}", kind.name(), same + 1),
            };
            let url = Some(url.clone());
            chosen.push(Self { name, kind, url });
        }
        Ok(chosen)
    }

    /// Starts the store's server, if it is a private one.
    pub(crate) async fn run(&self) -> Result<Running, Problem> {
        if let Some(url) = &self.url {
            return Ok(Running {
                url: url.clone(),
                server: None,
            });
        }
        let server = servers::start(self.kind).await?;
        Ok(Running {
            url: server.url.clone(),
            server: Some(server),
        })
    }

    /// Returns true if the store was named by its URL.
    pub(crate) fn is_given(&self) -> bool {
        self.url.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_url_has_a_name_of_its_own() {
        let urls = [
            "redis://a",
            "mysql://a/b",
            "mysql://a/b?hold=row",
            "rediss://b",
        ];
        let contenders = Contender::chosen(&urls.map(str::to_owned)).unwrap();
        let names: Vec<&str> = contenders.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["redis", "mysql lease", "mysql row", "redis 2"]);
        let unknown = Contender::chosen(&["mongodb://a".to_owned()]).unwrap_err();
        assert!(unknown.to_string().contains("mongodb"), "{unknown}");
    }

    #[test]
    fn memory_is_always_at_hand() {
        let contenders = Contender::chosen(&[]).unwrap();
        assert_eq!(contenders[0].kind, Kind::Memory);
    }
}
