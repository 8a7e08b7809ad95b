//! ZooKeeper.

mod location;
mod percent;

use std::sync::Arc;

use lock_core::{DistributedLock, Error, ErrorKind, Namespace, Result};
use lock_zookeeper::{ZooKeeperConfig, ZooKeeperLock};

use self::location::Location;
use crate::Config;
use crate::url::StoreUrl;

const BACKEND: &str = "zookeeper";

pub(crate) async fn connect(
    url: &StoreUrl,
    config: &Config,
    namespace: Namespace,
) -> Result<Arc<dyn DistributedLock>> {
    let config = translated(url, config, namespace)?;
    Ok(Arc::new(ZooKeeperLock::connect(config).await?))
}

/// The same in the backend's words, which knows no urls.
fn translated(url: &StoreUrl, config: &Config, namespace: Namespace) -> Result<ZooKeeperConfig> {
    let location = Location::parse(&url.location)?;
    let own = ZooKeeperConfig::new(location.servers)
        .with_chroot(location.chroot)
        .with_namespace(namespace)
        .with_keeper(config.keeper.unwrap_or_default());
    let own = match location.auth {
        Some(auth) => own.with_auth(auth),
        None => own,
    };
    let tls = config.tls();
    if url.scheme == "zookeepers" {
        return Ok(own.with_tls(tls));
    }
    match tls.first_given() {
        Some(setting) => Err(config_error(format!(
            "{setting} is set, and zookeeper:// has no TLS: use zookeepers://, or leave {setting} out"
        ))),
        None => Ok(own),
    }
}

fn malformed(problem: &str) -> Error {
    config_error(format!(
        "the url is malformed: {problem}; write it like zookeeper://user:password@host1:2181,host2:2181/chroot"
    ))
}

fn config_error(message: String) -> Error {
    Error::new(ErrorKind::Config, message).with_backend(BACKEND)
}

#[cfg(test)]
mod tests {
    use lock_core::{KeeperMode, Tls};

    use super::*;

    fn translate(url: &str) -> Result<ZooKeeperConfig> {
        let mut config = Config::new(url);
        let url = StoreUrl::take_from(&mut config)?;
        translated(&url, &config, Namespace::none())
    }

    #[test]
    fn what_is_left_out_has_the_default_of_the_backend() {
        let plain = translate("ZooKeeper://a,b").unwrap();
        assert_eq!(plain, ZooKeeperConfig::new("a:2181,b:2181"));
    }

    #[test]
    fn every_setting_arrives() {
        let all = "zookeepers://l%40x:p%2Fw@a:1,[::1]/app/locks?keeper=caller&tls_ca=/ca";
        let expected = ZooKeeperConfig::new("a:1,[::1]:2181")
            .with_chroot("/app/locks")
            .with_auth("l@x:p/w")
            .with_keeper(KeeperMode::Caller)
            .with_tls(Tls::new().with_ca("/ca"));
        assert_eq!(translate(all).unwrap(), expected);
        let roots = translate("zookeepers://a").unwrap();
        assert_eq!(roots.tls, Some(Tls::new()), "the platform's");
    }

    #[test]
    fn certificates_belong_to_tls() {
        let error = translate("zookeeper://a?tls_ca=/ca").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains("use zookeepers://"), "{error}");
    }
}
