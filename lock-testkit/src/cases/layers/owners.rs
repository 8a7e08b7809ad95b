//! Requests of one owner enter the grant that it has already.

use lock_core::backend::Released;
use lock_core::{LockGuard, LockRequest, Mode, Owner};

use crate::assert_excluded;
use crate::bench::Bench;
use crate::client::{Client, release};
use crate::eventually::within;

/// Takes a free lock for `owner`; `None` if the backend refuses owners as unsupported.
async fn owned(client: &Client, request: &LockRequest, owner: &Owner) -> Option<LockGuard> {
    let request = request.clone().for_owner(owner).without_waiting();
    match client.locks().acquire(request).await {
        Ok(guard) => Some(guard.expect("granted, since the key is free or its own")),
        Err(error) if error.kind() == lock_core::ErrorKind::Unsupported => None,
        Err(error) => panic!("a request of an owner failed: {error:?}"),
    }
}

pub(crate) async fn an_owner_enters_its_own_lock(bench: Bench) {
    let [client, other] = bench.clients().await;
    for mode in bench.modes() {
        let request = bench.brief(&format!("reentrant/{mode:?}"), mode);
        let owner = Owner::new();
        let Some(outer) = owned(&client, &request, &owner).await else {
            return;
        };
        let inner = owned(&client, &request, &owner).await.expect("supported");
        assert_eq!(outer.token(), inner.token(), "a reentry is no acquisition");
        assert_eq!(outer.release().await.expect("released"), Released::Released);
        // Longer than the ttl, so that the inner guard is held only if the grant is renewed.
        within(bench.short() * 2 + bench.prompt(), "a ttl", async {
            let end = tokio::time::Instant::now() + bench.short() * 3 / 2;
            while tokio::time::Instant::now() < end {
                let innermost = owned(&client, &request, &owner).await;
                assert!(innermost.is_some_and(|guard| guard.token() == inner.token()));
                tokio::time::sleep(bench.short() / 10).await;
            }
        })
        .await;
        let writer = bench.exclusive(request.key.as_str());
        other.is_refused_beside(&inner, &writer).await;
        assert_eq!(inner.release().await.expect("released"), Released::Released);
        release(other.wait_for(&writer).await).await;
    }
}

pub(crate) async fn an_owner_does_not_enter_the_lock_of_another(bench: Bench) {
    let [client, other] = bench.clients().await;
    let request = bench.exclusive("owned");
    let Some(guard) = owned(&client, &request, &Owner::new()).await else {
        return;
    };
    for stranger in [&client, &other] {
        stranger.is_refused_beside(&guard, &request).await;
        let theirs = request.clone().for_owner(&Owner::new());
        stranger.is_refused_beside(&guard, &theirs).await;
    }
    release(guard).await;
}

pub(crate) async fn an_owner_asks_no_store(bench: Bench) {
    let [client, other] = bench.clients().await;
    let (request, owner) = (bench.exclusive("without a store"), Owner::new());
    let outer = owned(&client, &request, &owner).await;
    if !bench.freeze().await {
        return;
    }
    let Some(outer) = outer else {
        return bench.thaw().await;
    };
    for _ in 0..100 {
        let inner = owned(&client, &request, &owner).await.expect("supported");
        assert_eq!(inner.token(), outer.token());
        release(inner).await;
    }
    bench.thaw().await;
    assert!(outer.is_held());
    drop(outer);
    release(other.wait_for(&request).await).await;
}

pub(crate) async fn a_lost_grant_is_lost_for_its_owner(bench: Bench) {
    let client = bench.client().await;
    let request = bench.brief("lost with its owner", Mode::Exclusive);
    let owner = Owner::new();
    let Some(outer) = owned(&client, &request, &owner).await else {
        return;
    };
    let inner = owned(&client, &request, &owner).await.expect("supported");
    if !bench.remove("lost with its owner").await {
        return;
    }
    let limit = bench.short() + bench.prompt();
    for guard in [&outer, &inner] {
        within(limit, "the loss", guard.lost()).await;
        assert_excluded!(!guard.is_held(), "{guard:?} is held after its loss");
    }
    let again = client.wait_for(&request.clone().for_owner(&owner)).await;
    assert!(again.token() > inner.token(), "a lost grant was entered");
    drop((outer, inner));
    assert!(again.is_held());
    release(again).await;
}
