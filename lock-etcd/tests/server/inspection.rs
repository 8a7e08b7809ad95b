//! Claims of other programs and of earlier versions, as an inspection shows them.

use lock_core::{DistributedLockExt, Mode};
use lock_testkit::servers::EtcdCluster;
use lock_testkit::steady;

use crate::connect;

#[test]
fn what_others_have_stored_is_shown_as_far_as_it_goes() {
    steady(async || {
        let cluster = EtcdCluster::start(1);
        let locks = connect(cluster.url()).await;
        let earlier = format!("k/1f-{:032x}", 7);
        for (claim, value, is_foreign) in [
            ("k/694d7ec", "host=a pid=1 since=1", true),
            (earlier.as_str(), "", false),
            (earlier.as_str(), "shared", false),
        ] {
            cluster.control(&["put", claim, "--", value]);
            let info = locks.inspect("k").await.expect("the server runs");
            assert_eq!(info.holders.len(), 1, "{info:?}");
            let holder = &info.holders[0];
            assert_eq!(holder.foreign, is_foreign, "{value:?}: {holder:?}");
            assert_eq!(holder.token.is_some(), !is_foreign, "{value:?}");
            assert_eq!((&holder.label, holder.pid), (&None, None), "{value:?}");
            if value == "shared" {
                assert_eq!(holder.mode, Some(Mode::Shared));
            }
            cluster.control(&["del", claim]);
        }
        // The keys of another lock are no claims.
        cluster.control(&["put", "k/other/694d7ec", "x"]);
        assert_eq!(locks.inspect("k").await.unwrap().holders, []);
    });
}
