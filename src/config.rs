//! What a deployment says about its locks: one struct, from a URL, from serde or from the
//! environment.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use lock_core::{KeeperMode, MySqlHold};

use crate::backends::is_built_in;
use crate::url::HiddenUrl;
use crate::{fields, read};

// A setting is one row here. Where a backend alone has it, its default and its range are documented
// in the configuration of that backend.
fields::config! {
    /// Which store holds the locks, and what applies to requests that do not say otherwise.
    ///
    /// It comes from a URL alone (`"redis://host?namespace=shop&ttl=10s".into()`), from any serde
    /// format, or from the environment ([`Config::from_env`]). Durations are text with a unit. A
    /// field given both here and in the URL's query counts as given here.
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
    /// assert_eq!(config.ttl, Some(Duration::from_secs(10)));
    /// # Ok::<(), toml::de::Error>(())
    /// ```
    besides {
        /// The store: `memory://`, `redis://user:password@host:6379/0`,
        /// `mysql://user:password@host:3306/database` for MySQL and MariaDB,
        /// `etcd://host1:2379,host2:2379`, or `zookeeper://host1:2181,host2:2181/chroot`, the last
        /// two with `user:password@` before the first host where the servers want one. `rediss://`,
        /// `mysqls://`, `etcds://` and `zookeepers://` are the same over TLS, with the server
        /// verified. The scheme chooses the backend, whose cargo feature has to be compiled in, or
        /// one that a [`Registry`](crate::Registry) has besides.
        ///
        /// Fields may stand behind it as a query, `?ttl=10s&namespace=shop`. In user and password,
        /// other characters than letters, digits and `-._~` are written as `%` and two hexadecimal
        /// digits. Several hosts are members of one cluster or ensemble; an IPv6 address stands in
        /// brackets.
        ///
        /// Empty where [`locks`](Self::locks) has several stores instead.
        url: String,
        /// Settings of a backend from a [`Registry`](crate::Registry), by their names; numbers and
        /// truth values as text. In the URL and in the environment they stand among the other
        /// settings, in a file in a table of their own. The backends of this crate have none.
        /// Default: none.
        settings: BTreeMap<String, String>,
        /// Several stores instead of one, by names that [`routes`](Self::routes) refers to. What is
        /// set outside, such as `ttl` or `namespace`, applies to each that does not say otherwise.
        /// The environment cannot name any. Default: none.
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
        /// Which of [`locks`](Self::locks) has which keys: a whole key, or the beginning of keys
        /// and a `*`. The longest that fits counts, `"*"` for every key that none else fits; a key
        /// that none fits cannot be locked. Locks that no route leads to are not connected.
        /// Default: none.
        routes: BTreeMap<String, String>,
    }
    every All {
        /// What stands before every key on the store. Default: nothing, so that other lock clients'
        /// plain names meet ours. 1 to 255 bytes.
        namespace: String = read::text,
        /// How long a hold survives without a renewal. Default: 30 s. Range: 50 ms to 24 h, or what
        /// the backend can give.
        ttl: Duration = read::duration,
        /// How long a [`LockRequest`](crate::LockRequest) waits that names no wait. Default: for
        /// ever; `0s`: not at all.
        ///
        /// It applies to [`acquire`](crate::DistributedLock::acquire) and
        /// [`with_lock`](crate::DistributedLockExt::with_lock) only. The other calls name their
        /// wait: `lock`, `lock_shared` and `permit` wait for ever, `try_…` not at all, `…_within`
        /// as long as they are told.
        request_wait: Duration = read::duration,
        /// How long a key stays closed after its guard was lost, for requests that do not say, see
        /// [`LockRequest::lock_delay`](crate::LockRequest::lock_delay). Default: `0s`. Range: at
        /// most 24 h together with the ttl, or what the backend can give; `hold = "row"` on MySQL
        /// has none.
        lock_delay: Duration = read::duration,
        /// How long an exclusive lock may be handed on between waiters of this process before it
        /// goes back to the store, see [`HandOff`](crate::HandOff). Default: 10 ms; `0s`: not at
        /// all, which keeps the order among processes on stores that have one.
        hand_off: Duration = read::duration,
        /// Where holds are renewed: `"thread"`, a thread of polylock's own, so that an application
        /// that blocks its runtime keeps its locks, or `"caller"`, the runtime that acquired them.
        /// Default: `thread`, except on `memory://`, which has nothing but `caller`.
        keeper: KeeperMode = read::keeper,
    }
    every Tls {
        /// A PEM file with the certificates of the authorities that the server's certificate may
        /// come from. Default: those that the platform trusts. This and the next two belong to
        /// schemes with TLS (`rediss://`, `mysqls://`, `etcds://`, `zookeepers://`) and are an
        /// error with others, except that they turn TLS and the verification of the server on for
        /// `mysql://`. On MySQL the roots that Mozilla trusts are trusted in any case.
        tls_ca: PathBuf = read::path,
        /// A PEM file with our own certificate, for servers that demand one. Default: none.
        tls_cert: PathBuf = read::path,
        /// A PEM file with the private key of `tls_cert`. Default: none.
        tls_key: PathBuf = read::path,
    }
    only "mysql", by configure_mysql into lock_mysql::MySqlConfig {
        /// The form of a held lock, `"lease"` or `"row"`, see [`MySqlHold`]. This and the fields
        /// below belong to `mysql://` and `mysqls://`, and are an error with other backends. Their
        /// defaults and ranges are those of the fields of these names in `lock_mysql::MySqlConfig`.
        hold: MySqlHold = read::hold,
        /// The name of the locks table.
        table: String = read::text,
        /// Whether missing tables are created.
        create_table: bool = read::truth,
        /// How long a key stays in the table unused before its row is purged; `0s`: for ever.
        purge_after: Duration = read::purge_after,
        /// The maximum number of connections for takes and holds.
        connections: u32 = read::count,
    }
}

impl Config {
    /// A configuration with this URL and every default.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            ..Self::default()
        }
    }

    /// Returns true if settings that are no field may be those of a backend from a registry.
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
            // A private key that was set in the place of its file's name.
            match format!("{value:?}").contains("-----BEGIN") {
                true => shown.field(field.name, &"***"),
                false => shown.field(field.name, value),
            };
        }
        if !self.settings.is_empty() {
            // Their values may be passwords.
            shown.field("settings", &self.settings.keys());
        }
        if !self.locks.is_empty() {
            shown.field("locks", &self.locks);
            shown.field("routes", &self.routes);
        }
        shown.finish()
    }
}
