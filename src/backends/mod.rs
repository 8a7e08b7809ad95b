//! The backends of this crate, with the schemes of their URLs.

#[cfg(feature = "etcd")]
pub(crate) mod etcd;
pub(crate) mod memory;
#[cfg(feature = "mysql")]
pub(crate) mod mysql;
#[cfg(feature = "redis")]
pub(crate) mod redis;
#[cfg(feature = "zookeeper")]
pub(crate) mod zookeeper;

use lock_core::{Error, ErrorKind};

use crate::registry::backend::Backend;

/// Builds the entry of a backend that a cargo feature compiles in. The feature's name is also the
/// scheme without TLS.
macro_rules! optional {
    ($feature:literal, $backend:ident) => {{
        #[cfg(feature = $feature)]
        let backend = Backend::new($feature, $backend::connect).with_check($backend::check);
        #[cfg(not(feature = $feature))]
        let backend = Backend::new($feature, async |options| {
            Err(not_compiled_in($feature, &options))
        })
        .with_check(|options| Err(not_compiled_in($feature, options)));
        backend.with_scheme(concat!($feature, "s")).with_tls()
    }};
}

/// Returns the backends of this crate, compiled in or not.
pub(crate) fn built_in() -> Vec<Backend> {
    vec![
        optional!("etcd", etcd),
        // `connect` rejects certificates with an error of its own.
        Backend::new("memory", memory::connect)
            .with_check(memory::check)
            .with_tls(),
        optional!("mysql", mysql),
        optional!("redis", redis),
        optional!("zookeeper", zookeeper),
    ]
}

pub(crate) fn is_built_in(scheme: &str) -> bool {
    let scheme = scheme.to_ascii_lowercase();
    let mut schemes = built_in().into_iter().flat_map(|backend| backend.schemes);
    schemes.any(|one| one == scheme)
}

/// Schemes that other programs use for supported stores.
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

/// Schemes without a supported store, with advice for each.
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

/// Returns the error of a URL whose scheme no backend has registered.
pub(crate) fn unknown_scheme<'a>(scheme: &str, known: impl Iterator<Item = &'a str>) -> Error {
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
    let known: Vec<&str> = known.collect();
    Error::new(
        ErrorKind::Config,
        format!(
            "unknown scheme {scheme:?} in the lock url: known are {}",
            known.join(", ")
        ),
    )
}

/// Returns the error of a URL whose backend is not compiled in.
#[cfg(not(all(
    feature = "etcd",
    feature = "mysql",
    feature = "redis",
    feature = "zookeeper"
)))]
fn not_compiled_in(feature: &str, options: &crate::backend::BackendOptions) -> Error {
    let scheme = options.scheme();
    Error::new(
        ErrorKind::Config,
        format!(
            "{scheme}:// needs the cargo feature `{feature}`, which is not compiled in: build with `--features {feature}`, or in Cargo.toml: polylock = {{ …, features = [\"{feature}\"] }}"
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
            let error = unknown_scheme(scheme, ["etcd", "redis"].into_iter());
            assert_eq!(error.kind(), ErrorKind::Config, "{error}");
            assert!(error.to_string().contains(advice), "{error}");
        }
    }
}
