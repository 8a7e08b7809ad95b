//! Where the cases run, and how clients connect there.

use lock_core::KeeperPlace;
use lock_testkit::servers::ZooKeeperServer;
use lock_zookeeper::ZooKeeperConfig;

use super::permissions;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Place {
    One,
    Three,
    KeptByTheCaller,
    /// As a user who may do no more than what is documented.
    Limited,
    #[cfg(feature = "tls")]
    OverTls,
}

impl Place {
    /// A server for a case that freezes it.
    pub(crate) fn start(self) -> ZooKeeperServer {
        match self {
            Self::One | Self::KeptByTheCaller | Self::Limited => ZooKeeperServer::start(),
            Self::Three => ZooKeeperServer::start_three(),
            #[cfg(feature = "tls")]
            Self::OverTls => secure::start(),
        }
    }

    /// The one for all other cases.
    pub(crate) fn shared(self) -> &'static ZooKeeperServer {
        match self {
            Self::One | Self::KeptByTheCaller | Self::Limited => ZooKeeperServer::shared(),
            Self::Three => ZooKeeperServer::shared_three(),
            #[cfg(feature = "tls")]
            Self::OverTls => secure::shared(),
        }
    }

    /// How a client connects to `server`; whoever is limited is so below `chroot`.
    pub(crate) async fn config(self, server: &ZooKeeperServer, chroot: &str) -> ZooKeeperConfig {
        let plain = ZooKeeperConfig::new(server.address()).with_chroot(chroot);
        match self {
            Self::One | Self::Three => plain,
            Self::KeptByTheCaller => plain.with_keeper(KeeperPlace::Caller),
            Self::Limited => {
                permissions::give_away(server, chroot).await;
                plain.with_auth(permissions::LOCKER)
            }
            #[cfg(feature = "tls")]
            Self::OverTls => {
                let address = server.tls_address().expect("it was started with TLS");
                ZooKeeperConfig::new(address)
                    .with_chroot(chroot)
                    .with_tls(secure::trust())
            }
        }
    }
}

#[cfg(feature = "tls")]
mod secure {
    use std::sync::OnceLock;

    use lock_core::Tls;
    use lock_testkit::servers::{Authority, ZooKeeperServer};

    fn authority() -> &'static Authority {
        static AUTHORITY: OnceLock<Authority> = OnceLock::new();

        AUTHORITY.get_or_init(Authority::new)
    }

    pub(super) fn start() -> ZooKeeperServer {
        ZooKeeperServer::start_with_tls(authority(), &[])
    }

    pub(super) fn shared() -> &'static ZooKeeperServer {
        static SHARED: OnceLock<ZooKeeperServer> = OnceLock::new();

        SHARED.get_or_init(start)
    }

    pub(super) fn trust() -> Tls {
        Tls::new().with_ca(authority().ca())
    }
}
