//! Sessions, which are shared by ttl, lost with all their claims, and closed when unused.

use std::time::Duration;

use lock_core::backend::Released;
use lock_core::{DistributedLock, DistributedLockExt, LossReason, Mode};
use lock_testkit::servers::ZooKeeperServer;
use lock_testkit::{eventually, steady};
use lock_zookeeper::zookeeper_client::{Acls, CreateMode};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::{PROMPT, admin, children, connect, request, take};

/// The time after which unused sessions have ended.
const SESSIONS_END: Duration = Duration::from_secs(40);

#[test]
fn locks_of_one_ttl_share_a_session_that_is_closed_when_it_is_idle() {
    steady(async || {
        let server = ZooKeeperServer::start();
        let locks = connect(&server, "/shared").await;
        // Counts sessions, since the connections of `figure` close a while after their answer.
        let sessions = || server.member(0).figure("zk_global_sessions");
        // A session that opens too late for the client ends by itself.
        let open = async |number, what| {
            eventually(SESSIONS_END, what, || async { sessions() == Some(number) }).await;
        };
        let first = locks.lock("first").await.unwrap();
        open(1, "the one that was opened to connect").await;
        let mut guards = vec![first];
        for number in 0..20 {
            let wanted = request(&format!("k{number}"), Mode::Exclusive);
            guards.push(take(&locks, wanted.with_ttl(Duration::from_secs(5))).await);
        }
        open(2, "one a ttl").await;
        for guard in guards {
            guard.release().await.unwrap();
        }
        open(0, "both are closed").await;
        let guard = locks.lock("again").await.unwrap();
        assert_eq!(guard.release().await.unwrap(), Released::Released);
    });
}

#[test]
fn a_removed_node_is_a_loss_that_is_told_at_once_after_the_first_renewal() {
    steady(async || {
        let server = ZooKeeperServer::shared();
        let locks = connect(server, "/removed").await;
        let wanted = request("k", Mode::Exclusive).with_ttl(Duration::from_secs(60));
        let short = request("short", Mode::Exclusive).with_ttl(Duration::from_secs(6));
        let guard = take(&locks, short).await;
        let quiet = take(&locks, wanted).await;
        // Holds count on 4.5 s of the short ttl, so renewals are due after 1.5 s and after 3 s.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let admin = admin(server).await;
        let claims = children(&admin, "/removed/short").await;
        admin
            .delete(&format!("/removed/short/{}", claims[0]), None)
            .await
            .unwrap();
        let lost = timeout(Duration::from_millis(500), guard.lost()).await;
        assert_eq!(lost, Ok(LossReason::Removed));
        assert!(quiet.is_held());
        quiet.release().await.unwrap();
        assert_eq!(guard.release().await.unwrap(), Released::AlreadyLost);
    });
}

#[test]
fn a_node_that_looks_like_ours_is_not_ours() {
    steady(async || {
        let server = ZooKeeperServer::shared();
        let locks = connect(server, "/forged").await;
        let wanted = request("k", Mode::Exclusive).with_ttl(Duration::from_secs(3));
        let guard = take(&locks, wanted).await;
        let admin = admin(server).await;
        let claims = children(&admin, "/forged/k").await;
        let path = format!("/forged/k/{}", claims[0]);
        let mut forging = admin.new_multi_writer();
        forging.add_delete(&path, None).unwrap();
        let options = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
        forging.add_create(&path, &[], &options).unwrap();
        forging.commit().await.unwrap();
        let lost = timeout(Duration::from_secs(2), guard.lost()).await;
        assert_eq!(
            lost,
            Ok(LossReason::Removed),
            "its name is there, and it is another one"
        );
    });
}

#[test]
fn a_waiter_whose_node_is_removed_lines_up_again_and_gets_nothing_by_it() {
    steady(async || {
        let server = ZooKeeperServer::shared();
        let [holder, waiter] = [
            connect(server, "/displaced").await,
            connect(server, "/displaced").await,
        ];
        let wanted = || request("k", Mode::Exclusive).with_ttl(Duration::from_secs(3));
        let guard = take(&holder, wanted()).await;
        let admin = admin(server).await;
        let held = children(&admin, "/displaced/k").await;
        let mut waiting = JoinSet::new();
        waiting.spawn(async move { waiter.acquire(wanted()).await });
        let others = async || {
            let mut claims = children(&admin, "/displaced/k").await;
            claims.retain(|claim| !held.contains(claim));
            claims
        };
        eventually(PROMPT, "the waiter is in line", || async {
            others().await.len() == 1
        })
        .await;
        let first = others().await.remove(0);
        let path = format!("/displaced/k/{first}");
        admin.delete(&path, None).await.unwrap();
        eventually(PROMPT, "the waiter is in line again", || async {
            others().await.iter().any(|claim| *claim != first)
        })
        .await;
        lock_testkit::assert_excluded!(waiting.try_join_next().is_none(), "two have it");
        guard.release().await.unwrap();
        let served = timeout(PROMPT, waiting.join_next()).await;
        let guard = served.expect("served").unwrap().unwrap().unwrap();
        guard.expect("no end").release().await.unwrap();
    });
}

#[test]
fn a_restarted_server_costs_no_lock_and_no_place() {
    steady(async || {
        let server = ZooKeeperServer::start();
        let [holder, waiter] = [
            connect(&server, "/restart").await,
            connect(&server, "/restart").await,
        ];
        let wanted = || request("k", Mode::Exclusive).with_ttl(Duration::from_secs(20));
        let guard = take(&holder, wanted()).await;
        let mut waiting = JoinSet::new();
        waiting.spawn(async move { waiter.acquire(wanted()).await });
        let operator = admin(&server).await;
        eventually(PROMPT, "the waiter is in line", || async {
            children(&operator, "/restart/k").await.len() == 2
        })
        .await;
        drop(operator);
        server.member(0).restart();
        assert!(guard.is_held(), "lost with the connection");
        drop(guard);
        let served = timeout(2 * PROMPT, waiting.join_next()).await;
        let guard = served.expect("served").unwrap().unwrap();
        assert!(guard.unwrap().is_some());
    });
}
