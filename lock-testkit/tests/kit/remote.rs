//! A client of the shelf in another process, correct or with a fault.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::backend::{Claim, HoldId, Keeper, KeeperRuntime, LeaseStore, Released, Renewal};
use lock_core::{
    Capabilities, DistributedLock, FencingToken, LockGuard, LockRequest, LossReason, Mode, Result,
    Wait,
};
use tokio::time::{Instant, sleep};

use crate::client::everything;
use crate::fault::Fault;
use crate::rules::CLOCK;

/// The interval at which a waiter asks for its grant.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Connects to a shelf. `address` is the name of its fault, a space, and the server's address.
pub(crate) async fn connect(address: String) -> RemoteLock {
    let (fault, server) = address.split_once(' ').expect("two words");
    let stream = TcpStream::connect(server).expect("the case goes on");
    stream.set_nodelay(true).expect("a socket");
    let line = Arc::new(Line {
        fault: fault.to_owned(),
        stream: Mutex::new(BufReader::new(stream)),
    });
    let keeper_runtime = match line.is(Fault::BelievesInLongerTtl) {
        true => KeeperRuntime::caller(),
        false => KeeperRuntime::thread().expect("a thread"),
    };
    RemoteLock {
        keeper: Keeper::new(everything(), Arc::<Line>::clone(&line), keeper_runtime),
        names: Mutex::default(),
        line,
    }
}

#[derive(Debug)]
pub(crate) struct RemoteLock {
    keeper: Keeper,
    line: Arc<Line>,
    /// All names that were requested; filled only with the fault `RemembersNames`.
    names: Mutex<Vec<String>>,
}

/// A connection to the server, which answers requests in order.
#[derive(Debug)]
struct Line {
    fault: String,
    stream: Mutex<BufReader<TcpStream>>,
}

impl Line {
    fn is(&self, fault: Fault) -> bool {
        self.fault == format!("{fault:?}")
    }

    /// Sends a request and returns its answer. Blocks for a round trip on the loopback.
    fn ask(&self, question: &str) -> String {
        let mut stream = self.stream.lock().expect("no panic under it");
        let question = format!("{question}\n");
        let sent = stream.get_mut().write_all(question.as_bytes());
        sent.expect("the case goes on");
        let mut answer = String::new();
        stream.read_line(&mut answer).expect("the case goes on");
        answer.trim_end().to_owned()
    }
}

impl RemoteLock {
    /// Enters the queue, and returns the grant number if the claim was granted at once.
    fn take(&self, claim: &Claim, waits: bool) -> Option<u64> {
        let id = claim.id();
        let mode = match id.mode() {
            Mode::Shared => -1,
            Mode::Upgradeable => -2,
            Mode::Permit { of } => i64::from(of.get()),
            _ => 0,
        };
        let (owner, ttl, delay) = (id.claim(), id.ttl().as_millis(), id.lock_delay());
        let minimum = id.min_hold().as_millis();
        let delay = delay.as_millis();
        let key = id.key();
        let question = format!("take {owner} {waits} {mode} {ttl} {delay} {minimum} {key}");
        let granted = self.line.ask(&question).parse().ok();
        self.line
            .ask(&format!("describe {owner} {}", id.metadata()));
        granted
    }

    async fn wait(&self, request: &LockRequest) -> Result<Option<LockGuard>> {
        if self.line.is(Fault::RemembersNames) {
            let mut names = self.names.lock().expect("no panic under it");
            names.push(request.key.to_string());
        }
        let end = match request.wait() {
            Wait::No => Some(Instant::now()),
            Wait::Until(end) => Some(end),
            Wait::Forever => None,
        };
        let mut claim = self.keeper.claim(request)?;
        let mut sent = claim.sending();
        let mut granted = self.take(&claim, request.wait() != Wait::No);
        while granted.is_none() {
            if end.is_some_and(|end| end <= Instant::now()) {
                return Ok(None);
            }
            sleep(LOOK_AGAIN).await;
            sent = claim.sending();
            let look = format!("look {}", claim.id().claim());
            granted = self.line.ask(&look).parse().ok();
        }
        let ttl = claim.id().store_ttl();
        let believed = match self.line.is(Fault::BelievesInLongerTtl) {
            true => ttl * 4,
            false => ttl,
        };
        let token = FencingToken::from_grant(granted.expect("the loop has ended"))?;
        Ok(claim.granted(token, sent, believed))
    }
}

#[async_trait]
impl DistributedLock for RemoteLock {
    fn capabilities(&self) -> Capabilities {
        everything()
    }

    async fn acquire(&self, request: LockRequest) -> Result<Option<LockGuard>> {
        self.keeper
            .acquiring(request, async |request| self.wait(&request).await)
            .await
    }
}

#[async_trait]
impl LeaseStore for Line {
    async fn renew(&self, holds: &[HoldId]) -> Result<Vec<Renewal>> {
        let renew = |hold: &HoldId| {
            let sent = CLOCK.now();
            match self.ask(&format!("renew {}", hold.claim())).as_str() {
                "held" => Renewal::Held {
                    sent,
                    ttl: hold.store_ttl(),
                },
                _ => Renewal::Lost(LossReason::Removed),
            }
        };
        Ok(holds.iter().map(renew).collect())
    }

    async fn release(&self, hold: &HoldId) -> Result<Released> {
        let in_background = std::thread::current().name() == Some("polylock-keeper");
        if self.is(Fault::ReleasesOnlyWhenAsked) && in_background {
            return Ok(Released::Released);
        }
        match self.ask(&format!("release {}", hold.claim())).as_str() {
            "released" => Ok(Released::Released),
            _ => Ok(Released::AlreadyLost),
        }
    }
}
