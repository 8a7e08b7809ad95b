//! The servers of the cases, and the settings of the clients.

use lock_core::KeeperMode;
use lock_testkit::servers::{Spare, Spares, ZooKeeperServer};
use lock_zookeeper::ZooKeeperConfig;

use super::permissions;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Place {
    One,
    Three,
    KeptByTheCaller,
    /// A user with only the documented permissions.
    Limited,
    #[cfg(feature = "tls")]
    OverTls,
}

impl Place {
    /// Returns a server for a case that freezes or restarts it.
    pub(crate) fn lend(self) -> Spare<ZooKeeperServer> {
        static ONE: Spares<ZooKeeperServer> = Spares::new(thaw);
        static THREE: Spares<ZooKeeperServer> = Spares::new(thaw);

        match self {
            Self::One | Self::KeptByTheCaller | Self::Limited => ONE.lend(ZooKeeperServer::start),
            Self::Three => THREE.lend(start_three),
            #[cfg(feature = "tls")]
            Self::OverTls => secure::lend(),
        }
    }

    /// Returns the server of all other cases.
    pub(crate) fn shared(self) -> &'static ZooKeeperServer {
        match self {
            Self::One | Self::KeptByTheCaller | Self::Limited => ZooKeeperServer::shared(),
            Self::Three => ZooKeeperServer::shared_three(),
            #[cfg(feature = "tls")]
            Self::OverTls => secure::shared(),
        }
    }

    /// Returns the settings for `server`. A limited user has its permissions below `chroot`.
    pub(crate) async fn config(self, server: &ZooKeeperServer, chroot: &str) -> ZooKeeperConfig {
        let plain = ZooKeeperConfig::new(server.address()).with_chroot(chroot);
        match self {
            Self::One | Self::Three => plain,
            Self::KeptByTheCaller => plain.with_keeper(KeeperMode::Caller),
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

pub(crate) fn thaw(server: &ZooKeeperServer) {
    server.members().iter().for_each(|member| member.thaw());
}

/// Starts an ensemble whose members stay together when all of them stand still for some seconds.
///
/// ZooKeeper 3.8.0 may commit nothing any more after both followers have left the leader during a
/// write. `syncLimit` is 10 s here, as in ZooKeeper's sample configuration.
fn start_three() -> ZooKeeperServer {
    ZooKeeperServer::start_three_with(&["syncLimit=20"])
}

#[cfg(feature = "tls")]
mod secure {
    use std::sync::OnceLock;

    use lock_core::Tls;
    use lock_testkit::servers::{Authority, Spare, Spares, ZooKeeperServer};

    use super::thaw;

    fn authority() -> &'static Authority {
        static AUTHORITY: OnceLock<Authority> = OnceLock::new();

        AUTHORITY.get_or_init(Authority::new)
    }

    fn start() -> ZooKeeperServer {
        ZooKeeperServer::start_with_tls(authority(), &[])
    }

    pub(super) fn lend() -> Spare<ZooKeeperServer> {
        static SPARES: Spares<ZooKeeperServer> = Spares::new(thaw);

        SPARES.lend(start)
    }

    pub(super) fn shared() -> &'static ZooKeeperServer {
        static SHARED: OnceLock<ZooKeeperServer> = OnceLock::new();

        SHARED.get_or_init(start)
    }

    pub(super) fn trust() -> Tls {
        Tls::new().with_ca(authority().ca())
    }
}
