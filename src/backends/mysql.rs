//! MySQL and MariaDB.

use std::sync::Arc;
use std::time::Duration;

use lock_core::{DistributedLock, Namespace, Result};
use lock_mysql::{MySqlConfig, MySqlHold, MySqlLock};

use crate::url::StoreUrl;
use crate::{Config, HoldAs, mysql_settings};

pub(crate) async fn connect(
    url: &StoreUrl,
    config: &Config,
    namespace: Namespace,
) -> Result<Arc<dyn DistributedLock>> {
    let config = translated(url, config, namespace)?;
    Ok(Arc::new(MySqlLock::connect(config).await?))
}

/// The same in the backend's words. What is not set has the backend's default.
fn translated(url: &StoreUrl, config: &Config, namespace: Namespace) -> Result<MySqlConfig> {
    let mut own = MySqlConfig::new(url.without_settings())
        .with_namespace(namespace)
        .with_keeper(config.keeper.unwrap_or_default())
        .with_tls(config.tls());
    if let Some(hold) = config.hold {
        own.hold = match hold {
            HoldAs::Lease => MySqlHold::Lease,
            HoldAs::Row => MySqlHold::Row,
        };
    }
    if let Some(table) = &config.table {
        own.table.clone_from(table);
    }
    if let Some(create_table) = config.create_table {
        own.create_table = create_table;
    }
    if let Some(unused) = config.purge_after {
        // Checked again, since a program may have set the field.
        let unused = mysql_settings::check_purge_after("purge_after", unused)?;
        own.purge_after = Some(unused).filter(|unused| *unused != Duration::ZERO);
    }
    if config.connections.is_some() {
        own.connections = config.connections;
    }
    Ok(own)
}

#[cfg(test)]
mod tests {
    use lock_core::KeeperMode;

    use super::*;

    fn translate(mut config: Config) -> Result<MySqlConfig> {
        let url = StoreUrl::take_from(&mut config)?;
        translated(&url, &config, Namespace::none())
    }

    #[test]
    fn what_is_left_out_has_the_default_of_the_backend() {
        let plain = translate(Config::new("MySQL://u:p@h/d")).unwrap();
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
        assert_eq!(translate(Config::new(all)).unwrap(), expected);
        let never = translate(Config::new("mysql://u@h/d?purge_after=0s")).unwrap();
        assert_eq!(never.purge_after, None);
    }

    #[test]
    fn a_field_is_checked_although_nobody_wrote_it_down() {
        let mut config = Config::new("mysql://u@h/d");
        config.purge_after = Some(Duration::from_millis(1));
        let error = translate(config).unwrap_err().to_string();
        assert!(error.contains("at least 1s"), "{error}");
    }
}
