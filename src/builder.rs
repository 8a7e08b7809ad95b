//! Configuration in code, one method for each setting.

use std::time::Duration;

use lock_core::{KeeperMode, MySqlHold, Tls};

use crate::Config;

/// Setters for a configuration in code; a set field wins over the same field in the URL's query.
impl Config {
    /// Sets the prefix of every key on the store.
    #[must_use]
    pub fn with_namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Sets the time that a hold survives without a renewal.
    #[must_use]
    pub fn with_ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Sets the maximum wait of a request that sets none; zero: no wait.
    #[must_use]
    pub fn with_request_wait(mut self, limit: Duration) -> Self {
        self.request_wait = Some(limit);
        self
    }

    /// Sets the time that a key stays closed after its guard was lost.
    #[must_use]
    pub fn with_lock_delay(mut self, delay: Duration) -> Self {
        self.lock_delay = Some(delay);
        self
    }

    /// Sets the maximum time that a lock is handed on in this process; zero: no hand-off.
    #[must_use]
    pub fn with_hand_off(mut self, budget: Duration) -> Self {
        self.hand_off = Some(budget);
        self
    }

    /// Sets the runtime that renews holds.
    #[must_use]
    pub fn with_keeper(mut self, keeper: KeeperMode) -> Self {
        self.keeper = Some(keeper);
        self
    }

    /// Sets the certificates of a connection with TLS, which the URL's scheme turns on.
    ///
    /// Files that `tls` does not name stay unset.
    #[must_use]
    pub fn with_tls(mut self, tls: Tls) -> Self {
        (self.tls_ca, self.tls_cert, self.tls_key) = (tls.ca, tls.cert, tls.key);
        self
    }

    /// Sets the kind of lock on MySQL.
    #[must_use]
    pub fn with_hold(mut self, hold: MySqlHold) -> Self {
        self.hold = Some(hold);
        self
    }

    /// Sets the name of the lock table on MySQL.
    #[must_use]
    pub fn with_table(mut self, table: impl Into<String>) -> Self {
        self.table = Some(table.into());
        self
    }

    /// Sets whether missing tables are created on MySQL.
    #[must_use]
    pub fn with_create_table(mut self, create: bool) -> Self {
        self.create_table = Some(create);
        self
    }

    /// Sets how long a key has to be unused before MySQL's row is purged; `None`: never.
    #[must_use]
    pub fn with_purge_after(mut self, unused: Option<Duration>) -> Self {
        self.purge_after = Some(unused.unwrap_or_default());
        self
    }

    /// Sets the maximum number of MySQL connections for takes and holds.
    #[must_use]
    pub fn with_connections(mut self, limit: u32) -> Self {
        self.connections = Some(limit);
        self
    }

    /// Adds a setting of a backend from a [`Registry`](crate::Registry).
    #[must_use]
    pub fn with_setting(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.insert(name.into(), value.into());
        self
    }

    /// Adds a store by the name that [routes](Self::with_route) refer to.
    ///
    /// ```
    /// use polylock::{Config, DistributedLockExt, connect};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> polylock::Result<()> {
    /// let config = Config::default()
    ///     .with_store("fast", Config::new("memory://"))
    ///     .with_store("strict", Config::new("memory://?namespace=strict"))
    ///     .with_route("refund/*", "strict")
    ///     .with_route("*", "fast");
    /// connect(config).await?.lock("refund/7").await?.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with_store(mut self, name: impl Into<String>, store: Config) -> Self {
        self.locks.insert(name.into(), store);
        self
    }

    /// Adds a route from `keys`, a whole key or a prefix and a `*`, to a [store](Self::with_store).
    #[must_use]
    pub fn with_route(mut self, keys: impl Into<String>, store: impl Into<String>) -> Self {
        self.routes.insert(keys.into(), store.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::FIELDS;

    #[test]
    fn a_configuration_in_code_equals_the_same_from_a_file() {
        let tls = Tls::new()
            .with_ca("/ca.pem")
            .with_client_certificate("/cert.pem", "/key.pem");
        let built = Config::new("mysqls://u:p@h/d")
            .with_namespace("shop")
            .with_ttl(Duration::from_secs(5))
            .with_request_wait(Duration::ZERO)
            .with_lock_delay(Duration::from_secs(1))
            .with_hand_off(Duration::from_millis(5))
            .with_keeper(KeeperMode::Caller)
            .with_tls(tls)
            .with_hold(MySqlHold::Row)
            .with_table("app.locks")
            .with_create_table(false)
            .with_purge_after(None)
            .with_connections(12)
            .with_setting("height", "3");
        for field in FIELDS {
            assert!((field.is_given)(&built), "{} is not set", field.name);
        }
        let built = Config::default()
            .with_store("one", built)
            .with_route("a/*", "one");
        let read: Config = toml::from_str(
            r#"
            [locks.one]
            url = "mysqls://u:p@h/d"
            namespace = "shop"
            ttl = "5s"
            request_wait = "0s"
            lock_delay = "1s"
            hand_off = "5ms"
            keeper = "caller"
            tls_ca = "/ca.pem"
            tls_cert = "/cert.pem"
            tls_key = "/key.pem"
            hold = "row"
            table = "app.locks"
            create_table = false
            purge_after = "0s"
            connections = 12
            settings = { height = 3 }
            [routes]
            "a/*" = "one"
            "#,
        )
        .unwrap();
        assert_eq!(built, read);
    }

    #[test]
    fn what_is_set_in_code_wins_over_the_url() {
        let mut config = Config::new("memory://?ttl=9s").with_ttl(Duration::from_secs(5));
        crate::url::StoreUrl::take_from(&mut config).unwrap();
        assert_eq!(config.ttl, Some(Duration::from_secs(5)));
    }

    #[test]
    fn a_purge_never_or_later() {
        let later = Config::new("mysql://h/d").with_purge_after(Some(Duration::from_secs(2)));
        assert_eq!(later.purge_after, Some(Duration::from_secs(2)));
        let never = Config::new("mysql://h/d").with_purge_after(None);
        assert_eq!(never.purge_after, Some(Duration::ZERO));
    }
}
