//! The faults of a private server.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use lock_testkit::block_thread;
use lock_testkit::history::{Effect, Recorder};
use lock_testkit::servers::{RedisServer, Reply, ServerProcess, SqlServer};
use tokio::time::{Instant, sleep};

use crate::bag::Bag;
use crate::calm::Times;
use crate::cluster::{etcd, zookeeper};
use crate::server::{MEMBERS, Server};
use crate::stage::problem::Problem;

/// Time by which a clock is set back. The next fault comes later than that.
///
/// Why: tokens need not grow if a store's clock is set back and its memory is lost.
const BACK: Duration = Duration::from_secs(1);

/// Pause between two faults of the store, in milliseconds.
const PAUSE: std::ops::Range<u64> = 300..1200;

/// A fault of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Torment {
    /// The server is stopped, and continues later.
    Stop,
    /// The server is killed and restarted.
    Kill,
    ClockAhead,
    ClockBack,
    /// All data of the server is deleted.
    Flush,
    /// All or some of the locks on the server are deleted.
    Delete,
    /// The server has no memory left, and evicts keys.
    Evict,
    /// The server closes its connections.
    KillClients,
    StopLeader,
    KillLeader,
    StopMember,
    KillMember,
    /// A majority of the members is stopped.
    LoseQuorum,
}

impl Torment {
    fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop_server",
            Self::Kill => "kill_server",
            Self::ClockAhead => "clock_ahead",
            Self::ClockBack => "clock_back",
            Self::Flush => "flush",
            Self::Delete => "delete_locks",
            Self::Evict => "evict",
            Self::KillClients => "kill_clients",
            Self::StopLeader => "stop_leader",
            Self::KillLeader => "kill_leader",
            Self::StopMember => "stop_member",
            Self::KillMember => "kill_member",
            Self::LoseQuorum => "lose_quorum",
        }
    }

    fn of(server: &Server) -> Vec<Self> {
        let alone = [
            Self::Stop,
            Self::Kill,
            Self::ClockAhead,
            Self::ClockBack,
            Self::KillClients,
        ];
        let together = [
            Self::StopLeader,
            Self::KillLeader,
            Self::StopMember,
            Self::KillMember,
            Self::LoseQuorum,
        ];
        match server {
            Server::Redis(_) => [&alone[..], &[Self::Flush, Self::Delete, Self::Evict]].concat(),
            Server::SqlLeases(_) => [&alone[..], &[Self::Delete]].concat(),
            Server::SqlRows(_) => alone.to_vec(),
            Server::Etcd(_) | Server::ZooKeeper(_) => [&together[..], &[Self::Delete]].concat(),
        }
    }
}

/// Torments the server until the end of the run. Returns when the store may have forgotten locks.
pub(crate) async fn run(
    server: Arc<Server>,
    times: Times,
    recorder: &Recorder,
    ttl: Duration,
    mut rng: Rng,
) -> Result<Vec<Instant>, Problem> {
    let mut bag = Bag::new(Torment::of(&server));
    let (mut ahead, mut removals) = (0, Vec::new());
    while let Some(torment) = bag.draw(&mut rng) {
        let duration = ttl.mul_f64(0.05 + 1.2 * rng.f64() * rng.f64());
        if !times.time_for(duration + BACK).await {
            break;
        }
        ahead += match torment {
            Torment::ClockAhead => i64::try_from((ttl + ttl / 2).as_millis())?,
            Torment::ClockBack => -i64::try_from(BACK.as_millis())?,
            _ => 0,
        };
        let (since, began) = (Recorder::now(), Instant::now());
        let suffering = Arc::clone(&server);
        let member = rng.usize(0..MEMBERS);
        let effect = tokio::task::spawn_blocking(move || match &*suffering {
            Server::Redis(server) => redis(server, torment, duration, ahead),
            Server::SqlLeases(server) => sql(server, torment, duration, ahead, false),
            Server::SqlRows(server) => sql(server, torment, duration, ahead, true),
            Server::Etcd(cluster) => etcd(cluster, torment, duration, member),
            Server::ZooKeeper(ensemble) => zookeeper(ensemble, torment, duration, member),
        });
        let effect = effect
            .await
            .map_err(|_| format!("{} fails", torment.name()))?;
        recorder.fault(None, torment.name(), since, effect);
        if effect.removes() {
            removals.push(began);
        }
        let pause = Duration::from_millis(rng.u64(PAUSE));
        let settling = if torment == Torment::ClockBack {
            BACK
        } else {
            Duration::ZERO
        };
        sleep(pause + settling).await;
    }
    Ok(removals)
}

fn redis(server: &RedisServer, torment: Torment, duration: Duration, ahead: i64) -> Effect {
    match torment {
        Torment::Stop => {
            server.freeze();
            block_thread(duration);
            server.thaw();
            Effect::None
        }
        Torment::Kill => {
            server.kill();
            block_thread(duration / 4);
            server.restart();
            Effect::Forgetting
        }
        Torment::ClockAhead | Torment::ClockBack => set_clock(server, torment, ahead),
        Torment::Flush => {
            told(server, &["FLUSHALL"]);
            Effect::Forgetting
        }
        Torment::Delete => {
            let keys = told(server, &["KEYS", "torture/*"]).map(|keys| keys.texts());
            for key in keys.unwrap_or_default().into_iter().step_by(2) {
                told(server, &["DEL", &key]);
            }
            Effect::Removal
        }
        Torment::Evict => {
            told(
                server,
                &["CONFIG", "SET", "maxmemory-policy", "allkeys-random"],
            );
            told(server, &["CONFIG", "SET", "maxmemory", "1"]);
            block_thread(duration / 8);
            told(server, &["CONFIG", "SET", "maxmemory", "0"]);
            Effect::Forgetting
        }
        _ => {
            told(server, &["CLIENT", "KILL", "TYPE", "normal"]);
            Effect::None
        }
    }
}

/// Sends a command; `None` if the server is too busy to answer.
fn told(server: &RedisServer, command: &[&str]) -> Option<Reply> {
    server.client().command(command).ok()
}

fn sql(server: &SqlServer, torment: Torment, duration: Duration, ahead: i64, rows: bool) -> Effect {
    // A lease is on the disk; a row lock ends with its connection.
    let ends_connections = if rows { Effect::Removal } else { Effect::None };
    match torment {
        Torment::Stop => {
            server.freeze();
            block_thread(duration);
            server.thaw();
            Effect::None
        }
        Torment::Kill => {
            server.kill();
            block_thread(duration / 4);
            server.restart();
            ends_connections
        }
        Torment::ClockAhead | Torment::ClockBack => {
            let effect = set_clock(server, torment, ahead);
            // No clock ends a transaction.
            if rows && effect.removes() {
                Effect::None
            } else {
                effect
            }
        }
        Torment::Delete => {
            let wait = "set session innodb_lock_wait_timeout = 2";
            // A row that another client has locked does not keep the rest from being deleted.
            for table in ["locks", "locks_holders"] {
                let _busy = server.try_execute(&format!("{wait}; delete from {table}"));
            }
            Effect::Forgetting
        }
        _ => {
            let others = "select id from information_schema.processlist \
                          where user = 'root' and id <> connection_id()";
            for id in server.try_execute(others).unwrap_or_default().lines() {
                // The connection may be gone already.
                let _gone = server.try_execute(&format!("kill {id}"));
            }
            ends_connections
        }
    }
}

fn set_clock(server: &ServerProcess, torment: Torment, ahead: i64) -> Effect {
    let by = Duration::from_millis(ahead.unsigned_abs());
    if ahead < 0 {
        server.set_clock_back(by);
    } else {
        server.set_clock_ahead(by);
    }
    match torment {
        Torment::ClockBack => Effect::SetBack,
        _ => Effect::Removal,
    }
}
