//! Names that are used once: neither the client nor the server remembers them.

use lock_core::Mode;
use lock_testkit::processes::{Child, Role};
use lock_testkit::servers::ZooKeeperServer;
use lock_testkit::{eventually, steady};
use lock_zookeeper::zookeeper_client::Client;

use crate::{PROMPT, request};

/// A child of its own, since other tests of this process need memory meanwhile.
#[test]
fn used_names_leave_neither_memory_nor_nodes_behind() {
    steady(async || {
        /// What an allocator may do for itself, and how much more names the last second had than the one of the warm-up, in
        /// kilobytes. A name alone has 200 bytes, and its path stands in several places.
        const NOISE: usize = 1_500;
        let server = ZooKeeperServer::start();
        let admin = Client::connect(&server.address()).await.unwrap();
        let wanted = request("k", Mode::Exclusive);
        let mut child = Child::start(server.address(), &wanted, Role::UseNames(8_000));
        child.token();
        let grown = child.growth();
        assert!(grown < NOISE, "{grown} kB more after 8,000 more names");
        // The child ends a while before its last names are a second old, and the server looks every few seconds.
        eventually(2 * PROMPT, "no name is left", || async {
            admin.list_children("/").await.unwrap() == ["zookeeper"]
        })
        .await;
    });
}
