//! An operator deletes the node of a hold while the server cannot report it.

use std::time::Duration;

use lock_core::backend::Released;
use lock_core::{LossReason, Mode};
use lock_testkit::steady;
use lock_zookeeper::zookeeper_client::{Acls, CreateMode};
use tokio::time::timeout;

use crate::PROMPT;
use crate::bed::{Bed, request, take};

/// A ttl with a renewal every 6 s, a third of the 18 s that holds count on.
const TTL: Duration = Duration::from_secs(20);

/// The time in which a holder learns of a removal without a renewal.
const AT_ONCE: Duration = Duration::from_secs(3);

#[test]
fn a_removal_during_an_outage_is_told_behind_it() {
    told_behind_an_outage(AT_ONCE, async |bed, path| {
        bed.operator().await.delete(path, None).await.unwrap();
    });
}

#[test]
fn a_node_that_was_replaced_during_an_outage_is_no_hold_behind_it() {
    told_behind_an_outage(PROMPT, async |bed, path| {
        let operator = bed.operator().await;
        let mut replacing = operator.new_multi_writer();
        replacing.add_delete(path, None).unwrap();
        let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
        replacing.add_create(path, &[], &options).unwrap();
        replacing.commit().await.unwrap();
    });
}

/// Removes the node of a hold while its client is cut off, and checks when the loss is reported.
fn told_behind_an_outage(limit: Duration, remove: impl AsyncFn(&Bed, &str)) {
    steady(async || {
        let bed = Bed::new().await;
        let locks = bed.client().await;
        let removed = take(&locks, request("removed", Mode::Exclusive).with_ttl(TTL)).await;
        let kept = take(&locks, request("kept", Mode::Exclusive).with_ttl(TTL)).await;
        // The client watches a node from the first renewal on.
        bed.has_watches(2).await;
        bed.proxy.refuse();
        bed.proxy.all().cut();
        let claims = bed.claims("removed").await;
        remove(&bed, &format!("/removed/{}", claims[0])).await;
        bed.proxy.accept();
        let lost = timeout(limit, removed.lost()).await;
        assert_eq!(lost, Ok(LossReason::Removed));
        assert!(kept.is_held());
        let released = removed.release().await;
        assert_eq!(released.expect("reachable"), Released::AlreadyLost);
    });
}
