//! Connects `mysql://` URLs to the backend of MySQL and MariaDB.

use std::sync::Arc;

use lock_core::{Capabilities, DistributedLock, Result};
use lock_mysql::{MySqlConfig, MySqlLock};

use crate::backend::BackendOptions;
use crate::config::configure_mysql;

pub(crate) async fn connect(options: BackendOptions) -> Result<Arc<dyn DistributedLock>> {
    Ok(Arc::new(MySqlLock::connect(translated(options)).await?))
}

pub(crate) fn check(options: &BackendOptions) -> Result<Capabilities> {
    MySqlLock::check(&translated(options.clone()))
}

/// Converts the options to the backend's configuration.
fn translated(options: BackendOptions) -> MySqlConfig {
    let mut own = MySqlConfig::new(options.url())
        .with_namespace(options.namespace())
        .with_keeper(options.keeper().unwrap_or_default())
        .with_tls(options.tls());
    configure_mysql(options.config, &mut own);
    // `0s` disables the purge.
    own.purge_after = own.purge_after.filter(|unused| !unused.is_zero());
    own
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lock_core::{KeeperMode, MySqlHold, Namespace};

    use super::*;
    use crate::Config;
    use crate::url::StoreUrl;

    fn translate(mut config: Config) -> MySqlConfig {
        let url = StoreUrl::take_from(&mut config).unwrap();
        translated(BackendOptions {
            url,
            namespace: Namespace::none(),
            config,
        })
    }

    #[test]
    fn what_is_left_out_has_the_default_of_the_backend() {
        let plain = translate(Config::new("MySQL://u:p@h/d"));
        assert_eq!(plain, MySqlConfig::new("mysql://u:p@h/d"));
        assert_eq!(plain.purge_after, Some(Duration::from_secs(24 * 60 * 60)));
        assert_eq!(plain.table, "locks");
    }

    #[test]
    fn every_setting_arrives() {
        let all = "mysqls://u:p@h/d?hold=row&table=t&create_table=false&purge_after=2s&connections=3&keeper=caller&tls_ca=/ca";
        let expected = MySqlConfig::new("mysqls://u:p@h/d")
            .with_hold(MySqlHold::Row)
            .with_table("t")
            .without_creating_tables()
            .with_purge_after(Some(Duration::from_secs(2)))
            .with_connections(3)
            .with_keeper(KeeperMode::Caller)
            .with_tls(lock_core::Tls::new().with_ca("/ca"));
        assert_eq!(translate(Config::new(all)), expected);
        let never = translate(Config::new("mysql://u@h/d?purge_after=0s"));
        assert_eq!(never.purge_after, None);
    }
}
