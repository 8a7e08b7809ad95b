//! What a deployment says about its locks: one struct, from a URL, from serde or from the
//! environment.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use lock_core::{KeeperMode, RedactedUrl, Tls};
use serde::Deserialize;

use crate::fields::FIELDS;
use crate::{HoldAs, duration, keeper, mysql_settings};

/// Which store holds the locks, and what applies to requests that do not say otherwise.
///
/// It comes from a URL alone (`"redis://host?namespace=shop&ttl=10s".into()`), from any serde
/// format, or from the environment ([`Config::from_env`]). Durations are text with a unit. A field
/// given both here and in the URL's query counts as given here.
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
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The store: `memory://`, `redis://user:password@host:6379/0`,
    /// `mysql://user:password@host:3306/database` for MySQL and MariaDB, `etcd://host1:2379,host2:2379`, or
    /// `zookeeper://host1:2181,host2:2181/chroot`, the last two with `user:password@` before the first
    /// host where the servers want one. `rediss://`, `mysqls://`, `etcds://` and `zookeepers://` are the
    /// same over TLS, with the server verified. The scheme chooses the backend, whose cargo feature has
    /// to be compiled in.
    ///
    /// Fields may stand behind it as a query, `?ttl=10s&namespace=shop`. In user and password, other
    /// characters than letters, digits and `-._~` are written as `%` and two hexadecimal digits.
    /// Several hosts are members of one cluster or ensemble; an IPv6 address stands in brackets.
    ///
    /// Empty where [`locks`](Self::locks) has several stores instead.
    #[serde(default)]
    pub url: String,
    /// What stands before every key on the store. Default: nothing, so that other lock clients'
    /// plain names meet ours. 1 to 255 bytes.
    #[serde(default)]
    pub namespace: Option<String>,
    /// How long a hold survives without a renewal. Default: 30 s. Range: 50 ms to 24 h, or what
    /// the backend can give.
    #[serde(default, deserialize_with = "duration::deserialize")]
    pub ttl: Option<Duration>,
    /// How long a [`LockRequest`](crate::LockRequest) waits that names no wait. Default: for ever;
    /// `0s`: not at all.
    ///
    /// It applies to [`acquire`](crate::DistributedLock::acquire) and
    /// [`with_lock`](crate::DistributedLockExt::with_lock) only. The other calls name their wait:
    /// `lock`, `lock_shared` and `permit` wait for ever, `try_…` not at all, `…_within` as long as
    /// they are told.
    #[serde(default, deserialize_with = "duration::deserialize")]
    pub request_wait: Option<Duration>,
    /// How long a key stays closed after its guard was lost, for requests that do not say, see
    /// [`LockRequest::lock_delay`](crate::LockRequest::lock_delay). Default: `0s`. Range: at most 24 h together with
    /// the ttl, or what the backend can give; `hold = "row"` on MySQL has none.
    #[serde(default, deserialize_with = "duration::deserialize")]
    pub lock_delay: Option<Duration>,
    /// How long an exclusive lock may be handed on between waiters of this process before it goes
    /// back to the store, see [`HandOff`](crate::HandOff). Default: 10 ms; `0s`: not at all, which keeps the order
    /// among processes on stores that have one.
    #[serde(default, deserialize_with = "duration::deserialize")]
    pub hand_off: Option<Duration>,
    /// Where holds are renewed: `"thread"`, a thread of polylock's own, so that an application that
    /// blocks its runtime keeps its locks, or `"caller"`, the runtime that acquired them. Default:
    /// `thread`, except on `memory://`, which has nothing but `caller`.
    #[serde(default, deserialize_with = "keeper::deserialize")]
    pub keeper: Option<KeeperMode>,
    /// A PEM file with the certificates of the authorities that the server's certificate may come
    /// from. Default: those that the platform trusts. This and the next two belong to schemes with
    /// TLS (`rediss://`, `mysqls://`, `etcds://`, `zookeepers://`) and are an error with others, except
    /// that they turn TLS and the verification of the server on for `mysql://`. On MySQL the roots that Mozilla trusts are trusted
    /// in any case.
    #[serde(default)]
    pub tls_ca: Option<PathBuf>,
    /// A PEM file with our own certificate, for servers that demand one. Default: none.
    #[serde(default)]
    pub tls_cert: Option<PathBuf>,
    /// A PEM file with the private key of `tls_cert`. Default: none.
    #[serde(default)]
    pub tls_key: Option<PathBuf>,
    /// What a held lock is on the server: `"lease"`, a row that says who holds the key and until when,
    /// or `"row"`, the row lock of an open transaction, see [`HoldAs`]. Default: `lease`. This and the
    /// fields below belong to `mysql://` and `mysqls://`, and are an error with other backends.
    #[serde(default, deserialize_with = "mysql_settings::de::hold")]
    pub hold: Option<HoldAs>,
    /// The name of the locks table: letters, digits and `_`, at most 56, perhaps behind the name of
    /// another database and a dot. Default: `locks`. A second one has `_holders` behind this name.
    #[serde(default)]
    pub table: Option<String>,
    /// Whether missing tables are created at connect. Default: `true`; with `false` the user needs no
    /// right to create any.
    #[serde(default, deserialize_with = "mysql_settings::de::create_table")]
    pub create_table: Option<bool>,
    /// How long a key stays in the table unused before its row is purged. Default: 24 h; `0s`: for
    /// ever. At least 1 s otherwise.
    #[serde(default, deserialize_with = "mysql_settings::de::purge_after")]
    pub purge_after: Option<Duration>,
    /// How many connections are opened at most for takes and holds; up to eight more keep, release and
    /// clean up. Default: 8 with `lease`, on each runtime that takes locks, where only requests under way need
    /// one (and up to three more release), and 64 with `row`, where each held lock and each waited key does.
    /// Range: from 1.
    #[serde(default, deserialize_with = "mysql_settings::de::connections")]
    pub connections: Option<u32>,
    /// Several stores instead of one, by names that [`routes`](Self::routes) refers to. What is set outside,
    /// such as `ttl` or `namespace`, applies to each that does not say otherwise. The environment cannot name
    /// any. Default: none.
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
    #[serde(default)]
    pub locks: BTreeMap<String, Self>,
    /// Which of [`locks`](Self::locks) has which keys: a whole key, or the beginning of keys and a `*`. The
    /// longest that fits counts, `"*"` for every key that none else fits; a key that none fits cannot be
    /// locked. Locks that no route leads to are not connected. Default: none.
    #[serde(default)]
    pub routes: BTreeMap<String, String>,
}

impl Config {
    /// A configuration with this URL and every default.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            namespace: None,
            ttl: None,
            request_wait: None,
            lock_delay: None,
            hand_off: None,
            keeper: None,
            tls_ca: None,
            tls_cert: None,
            tls_key: None,
            hold: None,
            table: None,
            create_table: None,
            purge_after: None,
            connections: None,
            locks: BTreeMap::new(),
            routes: BTreeMap::new(),
        }
    }

    /// The certificates, as backends take them.
    pub(crate) fn tls(&self) -> Tls {
        let mut tls = Tls::new();
        tls.ca.clone_from(&self.tls_ca);
        tls.cert.clone_from(&self.tls_cert);
        tls.key.clone_from(&self.tls_key);
        tls
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Config");
        shown.field("url", &RedactedUrl(&self.url));
        for field in &FIELDS {
            let value = field.show(self);
            // A private key that was set in the place of its file's name.
            match format!("{value:?}").contains("-----BEGIN") {
                true => shown.field(field.name, &"***"),
                false => shown.field(field.name, value),
            };
        }
        if !self.locks.is_empty() {
            shown.field("locks", &self.locks);
            shown.field("routes", &self.routes);
        }
        shown.finish()
    }
}
