//! The configuration of a lock service: one struct, from a URL, from serde or from the environment.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use lock_core::{KeeperMode, MySqlHold};

use crate::backends::is_built_in;
use crate::url::HiddenUrl;
use crate::{fields, read};

// Each row is one setting. The configuration of a backend documents default and range of its
// settings.
fields::config! {
    /// The store of the locks, and defaults for requests.
    ///
    /// It can be made in code (`Config::new("redis://host").with_namespace("shop")`), or read from a
    /// URL (`"redis://host?namespace=shop&ttl=10s".into_config()`), from any serde format, or from
    /// the environment ([`Config::from_env`]). Durations are text with a unit in all but code. A
    /// field wins over the same field in the URL's query.
    ///
    /// ```
    /// use std::time::Duration;
    /// use polylock::Config;
    ///
    /// let config: Config = toml::from_str(r#"
    ///     url = "redis://cache.internal:6379"
    ///     namespace = "shop"
    ///     ttl = "10s"
    /// "#)?;
    /// let built = Config::new("redis://cache.internal:6379")
    ///     .with_namespace("shop")
    ///     .with_ttl(Duration::from_secs(10));
    /// assert_eq!(config, built);
    /// # Ok::<(), toml::de::Error>(())
    /// ```
    besides {
        /// The URL of the store. Empty if [`locks`](Self::locks) has several stores instead.
        ///
        /// - `memory://`
        /// - `redis://user:password@host:6379/0`
        /// - `mysql://user:password@host:3306/database`, for MySQL and MariaDB
        /// - `etcd://host1:2379,host2:2379`
        /// - `zookeeper://host1:2181,host2:2181/chroot`
        ///
        /// `etcd://` and `zookeeper://` may have `user:password@` before the first host. The
        /// schemes with TLS are `rediss://`, `mysqls://`, `etcds://` and `zookeepers://`; the
        /// client verifies the server. The scheme selects a backend of this crate, whose cargo
        /// feature has to be compiled in, or of a [`Registry`](crate::Registry).
        ///
        /// The query may contain other fields, `?ttl=10s&namespace=shop`. In user and password,
        /// write characters other than letters, digits and `-._~` as `%` and two hexadecimal
        /// digits. Several hosts are members of one cluster or ensemble. Write an IPv6 address in
        /// brackets.
        url: String,
        /// Settings of a backend from a [`Registry`](crate::Registry), by name; numbers and
        /// booleans as text. Default: none.
        ///
        /// The URL and the environment list them among the other settings; a file has a table for
        /// them. The backends of this crate have no such settings.
        settings: BTreeMap<String, String>,
        /// Several stores, by the names that [`routes`](Self::routes) refers to. Default: none.
        ///
        /// Outer settings, such as `ttl` or `namespace`, are defaults for each store. The
        /// environment cannot name several stores.
        ///
        /// ```
        /// use polylock::Config;
        ///
        /// let config: Config = toml::from_str(r#"
        ///     namespace = "shop"
        ///
        ///     [locks.fast]
        ///     url = "redis://cache.internal:6379"
        ///     [locks.strict]
        ///     url = "etcd://one.internal:2379,two.internal:2379,three.internal:2379"
        ///     ttl = "10s"
        ///
        ///     [routes]
        ///     "refund/*" = "strict"
        ///     "*" = "fast"
        /// "#)?;
        /// assert_eq!(config.routes["*"], "fast");
        /// # Ok::<(), toml::de::Error>(())
        /// ```
        locks: BTreeMap<String, Config>,
        /// Routes from keys to stores in [`locks`](Self::locks): a whole key, or a prefix and a
        /// `*`. Default: none.
        ///
        /// The longest match counts, and `"*"` matches all other keys; a key without a match cannot
        /// be locked. Stores without a route are not connected.
        routes: BTreeMap<String, String>,
    }
    every All {
        /// The prefix of every key on the store. Default: none, so that a key has the same name as
        /// with other lock clients. 1 to 255 bytes.
        namespace: String = read::text,
        /// Time that a hold survives without a renewal. Default: 30 s. Range: 50 ms to 24 h, or
        /// less where the backend narrows it.
        ttl: Duration = read::duration,
        /// Maximum wait of a [`LockRequest`](crate::LockRequest) that sets none. Default: for ever;
        /// `0s`: no wait.
        ///
        /// It applies to [`acquire`](crate::DistributedLock::acquire) and
        /// [`with_lock`](crate::DistributedLockExt::with_lock) only. The other methods have their
        /// own waits: `lock`, `lock_shared` and `permit` wait for ever, `try_…` not at all, and
        /// `…_within` takes the limit as an argument.
        request_wait: Duration = read::duration,
        /// Time that a key stays closed after its guard was lost, for requests without a delay. See
        /// [`LockRequest::lock_delay`](crate::LockRequest::lock_delay). Default: `0s`. Range: at
        /// most 24 h together with the ttl, or less where the backend narrows it; not supported
        /// with `hold = "row"` on MySQL.
        lock_delay: Duration = read::duration,
        /// Maximum time that an exclusive lock is handed on between waiters of this process. Then
        /// it goes back to the store, see [`HandOff`](crate::HandOff). Default: 10 ms; `0s`: no
        /// hand-off, which keeps the order among processes on stores that have one.
        hand_off: Duration = read::duration,
        /// The runtime that renews holds: `"thread"` or `"caller"`. `"thread"` is a thread of
        /// polylock, so that an application that blocks its runtime keeps its locks. `"caller"` is
        /// the runtime that acquired the lock. Default: `thread`; on `memory://` `caller`, which is
        /// the only value there.
        keeper: KeeperMode = read::keeper,
    }
    every Tls {
        /// A PEM file with the trusted certificate authorities. Default: those of the platform.
        ///
        /// This setting and the next two apply to schemes with TLS (`rediss://`, `mysqls://`,
        /// `etcds://`, `zookeepers://`) and are an error with others. Exception: with `mysql://`
        /// they enable TLS with the server verified. On MySQL, Mozilla's authorities are trusted in
        /// any case.
        tls_ca: PathBuf = read::path,
        /// A PEM file with the client certificate. Default: none.
        tls_cert: PathBuf = read::path,
        /// A PEM file with the private key of `tls_cert`. Default: none.
        tls_key: PathBuf = read::path,
    }
    only "mysql", by configure_mysql into lock_mysql::MySqlConfig {
        /// The kind of lock, `"lease"` or `"row"`, see [`MySqlHold`].
        ///
        /// This field and those below apply to `mysql://` and `mysqls://`, and are an error with
        /// other backends. For defaults and ranges see the fields of `lock_mysql::MySqlConfig`.
        hold: MySqlHold = read::hold,
        /// The name of the lock table.
        table: String = read::text,
        /// Creates missing tables if true.
        create_table: bool = read::truth,
        /// Time after which the row of an unused key is purged; `0s`: never.
        purge_after: Duration = read::purge_after,
        /// Maximum number of connections for takes and holds.
        connections: u32 = read::count,
    }
}

impl Config {
    /// Creates a configuration with `url` and defaults.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            ..Self::default()
        }
    }

    /// Returns true if unknown settings may belong to a registered backend.
    pub(crate) fn may_have_own_settings(&self) -> bool {
        self.url
            .split_once("://")
            .is_some_and(|(scheme, _)| !is_built_in(scheme))
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Config");
        shown.field("url", &HiddenUrl(&self.url));
        for field in FIELDS {
            let value = field.show(self);
            // Hides a private key that was set instead of its path.
            match format!("{value:?}").contains("-----BEGIN") {
                true => shown.field(field.name, &"***"),
                false => shown.field(field.name, value),
            };
        }
        if !self.settings.is_empty() {
            // The values may be passwords.
            shown.field("settings", &self.settings.keys());
        }
        if !self.locks.is_empty() {
            shown.field("locks", &self.locks);
            shown.field("routes", &self.routes);
        }
        shown.finish()
    }
}
