//! Faults of a store with several members.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::time::Duration;

use lock_testkit::block_thread;
use lock_testkit::history::Effect;
use lock_testkit::servers::{EtcdCluster, EtcdMember, ZooKeeperMember, ZooKeeperServer};
use tokio::time::Instant;

use crate::torments::Torment;

/// Maximum time until a cluster serves again.
const READY_LIMIT: Duration = Duration::from_secs(60);

/// A server that is a member of a store.
trait Member {
    fn leads(&self) -> bool;
    fn freeze(&self);
    fn thaw(&self);
    fn kill(&self);
    fn start_anew(&self);
}

impl Member for EtcdMember {
    fn leads(&self) -> bool {
        self.is_leader()
    }

    fn freeze(&self) {
        self.freeze();
    }

    fn thaw(&self) {
        self.thaw();
    }

    fn kill(&self) {
        self.kill();
    }

    fn start_anew(&self) {
        self.restart();
    }
}

impl Member for ZooKeeperMember {
    fn leads(&self) -> bool {
        self.leads()
    }

    fn freeze(&self) {
        (**self).freeze();
    }

    fn thaw(&self) {
        (**self).thaw();
    }

    fn kill(&self) {
        (**self).kill();
    }

    fn start_anew(&self) {
        self.relaunch();
    }
}

pub(crate) fn etcd(
    cluster: &EtcdCluster,
    torment: Torment,
    duration: Duration,
    member: usize,
) -> Effect {
    if torment == Torment::Delete {
        let mut deleting = cluster.control_command();
        // A cluster without a leader refuses, which is expected.
        let _unanswered = deleting.args(["del", "torture/", "--prefix"]).output();
        return Effect::Removal;
    }
    let members = cluster.members();
    harm(members, torment, duration, member);
    wait_until(|| members.iter().any(EtcdMember::is_leader));
    Effect::None
}

pub(crate) fn zookeeper(
    ensemble: &ZooKeeperServer,
    torment: Torment,
    duration: Duration,
    member: usize,
) -> Effect {
    if torment == Torment::Delete {
        delete_some_nodes(ensemble);
        return Effect::Removal;
    }
    let members = ensemble.members();
    harm(members, torment, duration, member);
    wait_until(|| members.iter().all(ZooKeeperMember::serves));
    Effect::None
}

fn harm<M: Member>(members: &[M], torment: Torment, duration: Duration, member: usize) {
    let chosen = match torment {
        Torment::StopLeader | Torment::KillLeader => members.iter().position(Member::leads),
        _ => None,
    };
    let chosen = chosen.unwrap_or(member);
    let next = (chosen + 1) % members.len();
    let stopped: &[usize] = match torment {
        Torment::KillLeader | Torment::KillMember => {
            members[chosen].kill();
            block_thread(duration);
            return members[chosen].start_anew();
        }
        Torment::LoseQuorum => &[chosen, next],
        _ => &[chosen],
    };
    stopped.iter().for_each(|&member| members[member].freeze());
    block_thread(duration);
    stopped.iter().for_each(|&member| members[member].thaw());
}

/// Deletes every second node of all holds and claims that exist at one moment. Ignores errors.
fn delete_some_nodes(ensemble: &ZooKeeperServer) {
    let mut command = ensemble.control_command();
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut line_by_line = command
        .stderr(Stdio::null())
        .spawn()
        .expect("ZooKeeper runs, so does its command line");
    let mut asking = line_by_line.stdin.take().expect("it is piped");
    let answers = line_by_line.stdout.take().expect("it is piped");
    let _ended = writeln!(asking, "ls -R /torture\nversion");
    let mut nodes = 0;
    for line in BufReader::new(answers).lines().map_while(Result::ok) {
        if line.starts_with("ZooKeeper CLI version") {
            break;
        }
        if line.contains("/_c_") {
            nodes += 1;
            if nodes % 2 == 1 {
                let _ended = writeln!(asking, "delete {line}");
            }
        }
    }
    // The command line performs all commands, and ends at the end of its input.
    drop(asking);
    let _status = line_by_line.wait();
}

/// Waits for a cluster, at most for [`READY_LIMIT`]; after that, the workers have to wait for it.
fn wait_until(is_ready: impl Fn() -> bool) {
    let end = Instant::now() + READY_LIMIT;
    while !is_ready() && Instant::now() < end {
        block_thread(Duration::from_millis(20));
    }
}
