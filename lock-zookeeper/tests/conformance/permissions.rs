//! A user with the documented permissions, and no others.

use lock_testkit::servers::ZooKeeperServer;
use lock_zookeeper::zookeeper_client::{Acl, Acls, AuthId, Client, CreateMode, Error, Permission};

/// The user's name and password.
pub(crate) const LOCKER: &str = "locker:secret";

/// The client that looks at what the user leaves.
pub(crate) const OPERATOR: &str = "operator:secret";

/// What the server makes of them: `locker:` and the digest of both, in base64.
const LOCKER_DIGEST: &str = "locker:V5wsTctgECivH7a8uH5RxQ6MIZw=";

const OPERATOR_DIGEST: &str = "operator:7jWRZ6rRChO2XKqMVWLii1hb7YQ=";

/// Creates the node `chroot`, as an operator that gives it away, unless it is there.
pub(crate) async fn give_away(server: &ZooKeeperServer, chroot: &str) {
    let admin = Client::connect(&server.address()).await;
    let admin = admin.expect("the server runs");
    let given = |permissions, digest| Acl::new(permissions, AuthId::new("digest", digest));
    let acl = [
        given(Permission::CREATE | Permission::DELETE, LOCKER_DIGEST),
        given(Permission::READ, OPERATOR_DIGEST),
    ];
    let options = CreateMode::Persistent.with_acls(Acls::new(&acl));
    match admin.create(chroot, &[], &options).await {
        Ok(_) | Err(Error::NodeExists) => {}
        Err(error) => panic!("{chroot} cannot be made: {error}"),
    }
}
