//! A peer: takes refunds as they arrive, and later the refunds that were left.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use crate::refund::client::{Client, apply};
use crate::refund::locks::Locks;
use crate::refund::mechanism::Mechanism;
use crate::refund::protocol::{Answer, Call, Peer, Reply};
use crate::refund::requests::{Arrival, Refund};
use crate::refund::settle::{Pace, settle};
use crate::stage::crash::{Crash, CrashBy, End};
use crate::stage::problem::Problem;
use crate::stage::{Instance, Transport};

/// Pause between two rounds of the compensation run, in milliseconds.
const REST: std::ops::RangeInclusive<u64> = 5..=15;

/// The refund system.
pub(crate) struct RefundSystem;

impl Instance for RefundSystem {
    type Call = Call;
    type Reply = Reply;

    async fn serve(
        number: u32,
        headquarters: Arc<dyn Transport<Call, Reply>>,
        crash_by: CrashBy,
    ) -> Result<End, Problem> {
        let job = apply(number, &*headquarters).await?;
        let life = job.life;
        let client = || Client {
            peer: Peer { number, life },
            transport: Arc::clone(&headquarters),
            crash: Crash::new(crash_by),
        };
        let peer = Arc::new(Service {
            mechanism: job.mechanism,
            locks: Locks::connect(&job).await?,
            crashed: Notify::new(),
        });
        client().ready().await?;
        let opened = Instant::now();
        let mut tasks = JoinSet::new();
        for arrival in job.arrivals {
            let (peer, client) = (Arc::clone(&peer), client());
            tasks.spawn(async move {
                sleep_until(opened + arrival.after).await;
                peer.survive(&client, peer.take(&client, &arrival)).await
            });
        }
        let (compensating, client) = (Arc::clone(&peer), client());
        tasks.spawn(async move {
            let work = compensating.compensate(&client);
            compensating.survive(&client, work).await
        });
        loop {
            tokio::select! {
                () = peer.crashed.notified() => return Ok(End::Crashed),
                ended = tasks.join_next() => match ended {
                    Some(ended) => ended??,
                    None => return Ok(End::Finished),
                },
            }
        }
    }
}

/// The state that the tasks of one peer share.
struct Service {
    mechanism: Mechanism,
    locks: Locks,
    crashed: Notify,
}

impl Service {
    /// Runs `work`; a crash during it ends this peer.
    async fn survive(
        &self,
        client: &Client,
        work: impl Future<Output = Result<(), Problem>>,
    ) -> Result<(), Problem> {
        match client.crash.survived_by(work).await {
            Some(result) => result,
            None => {
                self.crashed.notify_one();
                std::future::pending().await
            }
        }
    }

    /// Handles a refund that has just arrived, and answers the caller.
    async fn take(&self, client: &Client, arrival: &Arrival) -> Result<(), Problem> {
        client.arrived(arrival.id).await?;
        let Arrival { id, refund, .. } = arrival;
        if self.mechanism == Mechanism::Queue {
            client.answered(*id, Answer::Accepted).await?;
            self.attempt(client, refund, Pace::Paced).await?;
            client.leave(refund).await
        } else {
            let answer = self.attempt(client, refund, Pace::AtOnce).await?;
            client.answered(*id, answer).await
        }
    }

    async fn attempt(
        &self,
        client: &Client,
        refund: &Refund,
        pace: Pace,
    ) -> Result<Answer, Problem> {
        let Some(protection) = self.locks.protect(refund).await? else {
            return Ok(Answer::Left);
        };
        let answer = settle(client, refund, &protection, pace).await?;
        protection.end().await;
        Ok(answer)
    }

    /// Finishes the refunds that were left, until every refund is finished.
    async fn compensate(&self, client: &Client) -> Result<(), Problem> {
        while let Some(mut left) = client.backlog().await? {
            fastrand::shuffle(&mut left);
            for refund in &left {
                if client.take_up(refund).await? {
                    self.attempt(client, refund, Pace::Paced).await?;
                    client.leave(refund).await?;
                }
            }
            sleep(Duration::from_millis(fastrand::u64(REST))).await;
        }
        Ok(())
    }
}
