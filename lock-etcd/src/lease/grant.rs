//! Grants leases.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use etcd_client::{LeaseGrantOptions, ResponseHeader};
use lock_core::backend::{ClaimId, Clock, HumanDuration, Moment};
use lock_core::{Error, ErrorKind, Result};

use crate::connection::shared_connection::SharedConnection;
use crate::error::{BACKEND, Failure, unexpected};
use crate::lease::revoke::{revoke, spawn_revoke};

/// The time that a grant may take.
const LIMIT: Duration = Duration::from_secs(2);

/// The granting of leases over one connection.
pub(crate) struct Granting {
    connection: Arc<SharedConnection>,
    /// Twice the number of leases that were asked for.
    asked: AtomicU64,
    /// The latest term of the cluster that is known.
    term: AtomicU64,
}

/// A lease as it was granted or last confirmed, without its claims.
#[derive(Clone, Copy)]
pub(crate) struct GrantedLease {
    pub(crate) id: i64,
    pub(crate) sent: Moment,
    pub(crate) ttl: Duration,
    /// A term that had begun before the lease was requested. No leader of an earlier term has known
    /// of the lease while it led.
    pub(crate) term: u64,
}

impl Granting {
    pub(crate) fn over(connection: Arc<SharedConnection>) -> Self {
        Self {
            connection,
            asked: AtomicU64::new(0),
            term: AtomicU64::new(0),
        }
    }

    /// Notes that the cluster has reached this term.
    pub(crate) fn note_term(&self, term: u64) {
        self.term.fetch_max(term, Ordering::SeqCst);
    }

    /// Returns the shortest ttl that the servers grant, in whole seconds. Servers grant it when
    /// less is requested.
    pub(crate) async fn shortest(&self) -> Result<Duration> {
        let grant = |client: Arc<etcd_client::Client>| async move {
            client.lease_client().grant(1, None).await
        };
        let granted = self.connection.ask(LIMIT, grant).await?;
        self.note_term(granted.header().map_or(0, ResponseHeader::raft_term));
        revoke(&self.connection, granted.id(), LIMIT).await;
        seconds(granted.ttl())
    }

    /// Grants a lease for `claim`. A lease whose grant was not confirmed is revoked.
    pub(crate) async fn grant(&self, claim: ClaimId, asked: Duration) -> Result<GrantedLease> {
        let (id, term) = (self.next_id(claim), self.term.load(Ordering::SeqCst));
        let wanted = i64::try_from(asked.as_secs()).unwrap_or(i64::MAX);
        let sent = Clock::Boot.now();
        let grant = |client: Arc<etcd_client::Client>| async move {
            let options = LeaseGrantOptions::new().with_id(id);
            client.lease_client().grant(wanted, Some(options)).await
        };
        let ttl = match self.connection.ask(LIMIT, grant).await {
            Ok(granted) => {
                self.note_term(granted.header().map_or(0, ResponseHeader::raft_term));
                seconds(granted.ttl())?
            }
            // The first answer was lost, and the repetition found the granted lease. Its remaining
            // time is unknown, but the lease was asked for no earlier than `sent`.
            Err(Failure::LeaseKnown(_)) => asked,
            Err(failure) => {
                spawn_revoke(&self.connection, id, asked);
                return Err(failure.into());
            }
        };
        if ttl > asked {
            revoke(&self.connection, id, LIMIT).await;
            return Err(too_short(asked, ttl));
        }
        Ok(GrantedLease {
            id,
            sent,
            ttl,
            term,
        })
    }

    /// Returns a unique id, so that a lease can be revoked even if its grant was never confirmed.
    fn next_id(&self, claim: ClaimId) -> i64 {
        let random = u64::from_str_radix(&claim.to_string()[..16], 16).unwrap_or_default();
        let number = self.asked.fetch_add(2, Ordering::Relaxed);
        // Zero would let the server choose the id.
        (random.wrapping_add(number) >> 1).cast_signed().max(1)
    }
}

fn seconds(ttl: i64) -> Result<Duration> {
    match u64::try_from(ttl) {
        Ok(ttl) if ttl > 0 => Ok(Duration::from_secs(ttl)),
        Ok(_) | Err(_) => Err(unexpected("a lease without a ttl")),
    }
}

fn too_short(ttl: Duration, shortest: Duration) -> Error {
    let (ttl, shortest) = (HumanDuration(ttl), HumanDuration(shortest));
    Error::new(
        ErrorKind::Unsupported,
        format!("ttl {ttl} is out of range for etcd: choose at least {shortest}, which the servers' election timeout demands"),
    )
    .with_backend(BACKEND)
}
