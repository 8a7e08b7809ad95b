//! Names that are used once: neither the client nor the cluster remembers them.

use std::time::Duration;

use lock_core::Mode;
use lock_testkit::processes::{Child, Role};
use lock_testkit::servers::EtcdCluster;

use crate::{claims, request};

/// A child of its own, since other tests of this process need memory meanwhile.
#[test]
fn used_names_leave_no_memory_behind() {
    /// What an allocator may do for itself, in kilobytes. A name alone has 200 bytes.
    const NOISE: usize = 1000;
    let cluster = EtcdCluster::start(1);
    let request = request("k", Mode::Exclusive, Duration::from_secs(30));
    let mut child = Child::start(cluster.url(), &request, Role::UseNames(8_000));
    child.token();
    let grown = child.growth();
    assert!(grown < NOISE, "{grown} kB more after 8,000 more names");
    assert!(
        claims(&cluster, "").is_empty(),
        "names were left on the cluster"
    );
}
