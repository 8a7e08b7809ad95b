//! Programs and runtimes that end while a lock is held, or was given back just now.

use lock_core::Mode;
use lock_testkit::processes::{Child, Ending, Flavor, Role};
use lock_testkit::servers::ZooKeeperServer;
use lock_testkit::{eventually, steady};
use lock_zookeeper::zookeeper_client::{Client, Error};

use crate::{PROMPT, request};

#[test]
fn whatever_ends_no_lock_outlives_it_by_more_than_its_ttl() {
    steady(async || {
        let server = ZooKeeperServer::start();
        let admin = Client::connect(&server.address()).await.unwrap();
        for flavor in Flavor::ALL {
            for ending in Ending::ALL {
                let wanted = request("k", Mode::Exclusive);
                let mut child = Child::start(server.address(), &wanted, Role::End(flavor, ending));
                child.token();
                let said = child.says();
                assert!(["returns", "ended"].contains(&said.as_str()), "{said}");
                let what = format!("{flavor:?} {ending:?} leaves nothing");
                eventually(PROMPT, &what, || async {
                    match admin.list_children("/k").await {
                        Ok(claims) => claims.is_empty(),
                        Err(error) => error == Error::NoNode,
                    }
                })
                .await;
            }
        }
    });
}
