//! A user with the documented permissions only.

use lock_testkit::servers::ZooKeeperServer;
use lock_zookeeper::zookeeper_client::{Acl, Acls, AuthId, Client, CreateMode, Error, Permission};

/// Name and password of the user.
pub(crate) const LOCKER: &str = "locker:secret";

/// Name and password of the operator, who lists the nodes that the user leaves.
pub(crate) const OPERATOR: &str = "operator:secret";

/// The ids that the server makes of them: the name, and the digest of name and password in base64.
const LOCKER_DIGEST: &str = "locker:V5wsTctgECivH7a8uH5RxQ6MIZw=";

const OPERATOR_DIGEST: &str = "operator:7jWRZ6rRChO2XKqMVWLii1hb7YQ=";

/// Creates the node `chroot`, unless it exists, and grants the user the documented permissions.
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
