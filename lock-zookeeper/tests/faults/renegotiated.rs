//! Sessions whose timeout a server shortens on a new connection.
//!
//! No hold counts on more than the timeout of its session.

use std::time::Duration;

use lock_core::{DistributedLock, LockGuard, LockRequest, LossReason, Mode};
use lock_testkit::faults::Proxy;
use lock_testkit::servers::ZooKeeperServer;
use lock_testkit::{assert_excluded, eventually, steady};
use lock_zookeeper::ZooKeeperLock;
use tokio::time::{Instant, timeout};

use crate::PROMPT;
use crate::bed::{Bed, connect, request, take};

const TTL: Duration = Duration::from_secs(30);

fn wanted() -> LockRequest {
    request("k", Mode::Exclusive).with_ttl(TTL)
}

/// Waits for the loss of the hold and the next grant, and checks that the loss is reported first.
async fn assert_told_before_the_next_one(guard: &LockGuard, others: &ZooKeeperLock, what: &str) {
    let lost = async {
        let reason = guard.lost().await;
        assert_eq!(reason, LossReason::Expired, "{what}");
        Instant::now()
    };
    let granted = async {
        let next = others.acquire(wanted()).await;
        let next = next.expect("no fault reaches it").expect("no end");
        (Instant::now(), next)
    };
    let both = timeout(2 * TTL, async { tokio::join!(lost, granted) }).await;
    let (lost, (granted, next)) = both.expect("the session ends");
    assert_excluded!(lost < granted, "for {:?}: {what}", lost - granted);
    next.release().await.expect("the store answers");
}

async fn counts_at_most(guard: &LockGuard, limit: Duration) {
    eventually(PROMPT, "it counts on what the session has", || async {
        guard.remaining() <= limit
    })
    .await;
}

#[test]
fn a_shorter_session_after_a_restart_is_known_before_it_can_end() {
    steady(async || {
        for lines in [
            &["maxSessionTimeout=4000"][..],
            &["maxSessionTimeout=12000"],
            &["tickTime=200", "maxSessionTimeout=4000"],
            &["tickTime=2000", "maxSessionTimeout=8000"],
        ] {
            let bed = Bed::new().await;
            let locks = bed.client().await;
            let guard = take(&locks, wanted()).await;
            let member = bed.server.member(0);
            member.configure(lines);
            member.restart();
            counts_at_most(&guard, Duration::from_secs(12)).await;
            assert!(guard.is_held(), "lost by a restart: {lines:?}");
            let others = bed.direct().await;
            bed.proxy.all().hold();
            assert_told_before_the_next_one(&guard, &others, &format!("{lines:?}")).await;
            bed.proxy.all().pass();
        }
    });
}

#[test]
fn a_server_whose_answers_are_lost_may_have_shortened_the_session() {
    steady(async || {
        // The first silent connection after the restart: 0 is the short session that asks for the
        // timeout, 1 the session that continues.
        for silent in [0, 1] {
            let bed = Bed::new().await;
            let locks = bed.client().await;
            let guard = take(&locks, wanted()).await;
            let member = bed.server.member(0);
            member.configure(&["maxSessionTimeout=4000"]);
            let known = bed.proxy.all().count();
            for connection in known + silent..known + 100 {
                bed.proxy.nth(connection).to_client().hold();
            }
            member.restart();
            let others = bed.direct().await;
            assert_told_before_the_next_one(&guard, &others, &format!("silent: {silent}")).await;
            bed.proxy.all().pass();
        }
    });
}

#[test]
fn a_session_that_was_shortened_is_as_long_as_before_once_the_server_gives_it() {
    steady(async || {
        let bed = Bed::new().await;
        let locks = bed.client().await;
        let guard = take(&locks, wanted()).await;
        let member = bed.server.member(0);
        for (line, at_most) in [
            ("maxSessionTimeout=10000", 10),
            ("maxSessionTimeout=20000", 20),
        ] {
            member.configure(&[line]);
            member.restart();
            let at_most = Duration::from_secs(at_most);
            eventually(PROMPT, line, || async {
                let remaining = guard.remaining();
                remaining <= at_most && remaining > at_most / 2
            })
            .await;
        }
        assert!(guard.is_held());
        guard.release().await.unwrap();
    });
}

#[test]
fn members_that_differ_cost_no_lock_and_are_not_trusted_alike() {
    steady(async || {
        let server = ZooKeeperServer::start_three();
        let proxies: Vec<Proxy> = server
            .members()
            .iter()
            .map(|member| Proxy::before(member.port()))
            .collect();
        let addresses = proxies
            .iter()
            .map(|proxy| format!("127.0.0.1:{}", proxy.port()));
        let locks = connect(addresses.collect::<Vec<_>>().join(",")).await;
        let guard = take(&locks, wanted()).await;
        // The members change one after the other, first to a shorter and then to a longer timeout.
        for lines in [["maxSessionTimeout=6000"], ["maxSessionTimeout=60000"]] {
            for member in server.members() {
                member.configure(&lines);
                member.restart();
                server.leader();
                eventually(PROMPT, "the session goes on", || async {
                    guard.remaining() > Duration::from_secs(3)
                })
                .await;
                let others = connect(server.address()).await;
                let tried = others.acquire(wanted().without_waiting()).await;
                assert_excluded!(!matches!(tried, Ok(Some(_))));
            }
        }
        server.member(0).configure(&["maxSessionTimeout=5000"]);
        server.member(0).restart();
        server.leader();
        // The client can reach only the member with the shorter timeout.
        proxies[1].refuse();
        proxies[2].refuse();
        for proxy in &proxies[1..] {
            proxy.all().cut();
        }
        counts_at_most(&guard, Duration::from_secs(5)).await;
        let others = connect(server.address()).await;
        for proxy in &proxies {
            proxy.all().hold();
        }
        assert_told_before_the_next_one(&guard, &others, "the last member").await;
    });
}
