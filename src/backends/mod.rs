//! The backends: which URLs they answer to, and how a configuration becomes one of theirs.

#[cfg(feature = "etcd")]
pub(crate) mod etcd;
pub(crate) mod memory;
#[cfg(feature = "mysql")]
pub(crate) mod mysql;
#[cfg(feature = "redis")]
pub(crate) mod redis;
#[cfg(feature = "zookeeper")]
pub(crate) mod zookeeper;

use lock_core::{Error, ErrorKind, Result};

/// A kind of store, compiled in or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backend {
    Etcd,
    Memory,
    MySql,
    Redis,
    ZooKeeper,
}

impl Backend {
    pub(crate) const ALL: &[Self] = &[
        Self::Etcd,
        Self::Memory,
        Self::MySql,
        Self::Redis,
        Self::ZooKeeper,
    ];

    /// What the URLs of its stores begin with.
    pub(crate) fn schemes(self) -> &'static [&'static str] {
        match self {
            Self::Etcd => &["etcd", "etcds"],
            Self::Memory => &["memory"],
            Self::MySql => &["mysql", "mysqls"],
            Self::Redis => &["redis", "rediss"],
            Self::ZooKeeper => &["zookeeper", "zookeepers"],
        }
    }

    /// The backend that stores of this scheme belong to.
    pub(crate) fn of(scheme: &str) -> Result<Self> {
        let mut all = Self::ALL.iter().copied();
        all.find(|backend| backend.schemes().contains(&scheme))
            .ok_or_else(|| unknown_scheme(scheme))
    }
}

/// Schemes that other programs use for stores that are ours by another name.
const OTHER_NAMES: [(&str, &str); 15] = [
    ("mysql2", "mysql"),
    ("mysql+pymysql", "mysql"),
    ("mysql+mysqldb", "mysql"),
    ("mysql+asyncmy", "mysql"),
    ("mariadb+pymysql", "mysql"),
    ("etcd3", "etcd"),
    ("mariadb", "mysql"),
    ("mariadbs", "mysqls"),
    ("valkey", "redis"),
    ("valkeys", "rediss"),
    ("keydb", "redis"),
    ("zk", "zookeeper"),
    ("zks", "zookeepers"),
    ("zookeeper+tls", "zookeepers"),
    ("redis+tls", "rediss"),
];

const BY_STORE: &str =
    "write the scheme of the store, such as redis:// or etcd://, or rediss:// or etcds:// for TLS";
const NO_SENTINEL: &str =
    "Redis Sentinel is not supported yet: write redis:// and the address of the master";
const NO_CLUSTER: &str =
    "Redis Cluster is not supported yet: write redis:// and the address of a single server";

/// Schemes that name no store of ours, and what to write then.
const ADVICE: [(&str, &str); 9] = [
    ("http", BY_STORE),
    ("https", BY_STORE),
    ("tcp", BY_STORE),
    ("redis+sentinel", NO_SENTINEL),
    ("rediss+sentinel", NO_SENTINEL),
    ("redis-sentinel", NO_SENTINEL),
    ("sentinel", NO_SENTINEL),
    ("redis+cluster", NO_CLUSTER),
    ("redis-cluster", NO_CLUSTER),
];

fn unknown_scheme(scheme: &str) -> Error {
    if let Some((_, ours)) = OTHER_NAMES.iter().find(|(other, _)| *other == scheme) {
        return Error::new(
            ErrorKind::Config,
            format!("the lock url begins with {scheme}://: write {ours}:// instead"),
        );
    }
    if let Some((_, advice)) = ADVICE.iter().find(|(other, _)| *other == scheme) {
        return Error::new(
            ErrorKind::Config,
            format!("the lock url begins with {scheme}://: {advice}"),
        );
    }
    let known: Vec<&str> = Backend::ALL
        .iter()
        .flat_map(|backend| backend.schemes())
        .copied()
        .collect();
    Error::new(
        ErrorKind::Config,
        format!(
            "unknown scheme {scheme:?} in the lock url: known are {}",
            known.join(", ")
        ),
    )
}

/// The answer to a URL whose backend was left out of this build.
#[cfg(not(all(
    feature = "etcd",
    feature = "mysql",
    feature = "redis",
    feature = "zookeeper"
)))]
pub(crate) fn not_compiled_in(backend: Backend, scheme: &str) -> Error {
    // Features are called as the scheme without TLS.
    let feature = backend.schemes()[0];
    Error::new(
        ErrorKind::Config,
        format!(
            "{scheme}:// needs the cargo feature `{feature}`, which is not compiled in: build with `--features {feature}`, or in Cargo.toml: polylock = {{ version = \"{}\", features = [\"{feature}\"] }}",
            env!("CARGO_PKG_VERSION")
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes_of_other_programs_are_told_with_what_to_write() {
        for (scheme, advice) in [
            ("mysql2", "begins with mysql2://: write mysql:// instead"),
            ("mysql+pymysql", "write mysql:// instead"),
            ("etcd3", "write etcd:// instead"),
            ("http", "write the scheme of the store"),
            ("tcp", "such as redis:// or etcd://"),
            ("redis+sentinel", "not supported yet: write redis://"),
        ] {
            let error = Backend::of(scheme).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config, "{error}");
            assert!(error.to_string().contains(advice), "{error}");
        }
    }
}
