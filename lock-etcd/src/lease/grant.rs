//! Has leases granted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use etcd_client::{LeaseGrantOptions, ResponseHeader};
use lock_core::{Clock, Error, ErrorKind, HumanDuration, Moment, OwnerId, Result};

use crate::connection::shared::SharedConnection;
use crate::error::{BACKEND, Failure, is_lease_known, unexpected};
use crate::lease::revoke::{revoke, spawn_revoke};

/// The time that a grant may take.
const LIMIT: Duration = Duration::from_secs(2);

/// Has leases granted over one connection.
pub(crate) struct Granting {
    connection: Arc<SharedConnection>,
    /// Twice how many were asked for.
    asked: AtomicU64,
    /// The latest term that the cluster is known to have come to.
    term: AtomicU64,
}

/// A lease that nobody stands under yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Granted {
    pub(crate) id: i64,
    pub(crate) sent: Moment,
    pub(crate) ttl: Duration,
    /// A term that the cluster had come to before it was asked for: who led it earlier never knew of this lease
    /// while leading.
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

    /// Notes that the cluster has come to this term.
    pub(crate) fn note_term(&self, term: u64) {
        self.term.fetch_max(term, Ordering::SeqCst);
    }

    fn note(&self, header: Option<&ResponseHeader>) {
        self.note_term(header.map_or(0, ResponseHeader::raft_term));
    }

    /// The shortest ttl that the servers give, in whole seconds; found out by asking for less.
    pub(crate) async fn shortest(&self) -> Result<Duration> {
        let grant = |client: Arc<etcd_client::Client>| async move {
            client.lease_client().grant(1, None).await
        };
        let granted = self.connection.ask(LIMIT, grant).await?;
        self.note(granted.header());
        revoke(&self.connection, granted.id(), LIMIT).await;
        seconds(granted.ttl())
    }

    /// Has a lease granted, in the name of whoever needs it. One that may have been granted unheard is revoked.
    pub(crate) async fn grant(&self, owner: OwnerId, asked: Duration) -> Result<Granted> {
        let (id, term) = (self.next_id(owner), self.term.load(Ordering::SeqCst));
        let wanted = i64::try_from(asked.as_secs()).unwrap_or(i64::MAX);
        let sent = Clock::Boot.now();
        let grant = |client: Arc<etcd_client::Client>| async move {
            let options = LeaseGrantOptions::new().with_id(id);
            client.lease_client().grant(wanted, Some(options)).await
        };
        let ttl = match self.connection.ask(LIMIT, grant).await {
            Ok(granted) => {
                self.note(granted.header());
                seconds(granted.ttl())?
            }
            // An answer was lost on the way, and the repetition found what it had granted. How long it
            // lives is not known, but that it was asked for no earlier than this.
            Err(Failure::Refused(refusal)) if is_lease_known(&refusal.error) => asked,
            Err(failure) => {
                spawn_revoke(&self.connection, id, asked);
                return Err(failure.into());
            }
        };
        if ttl > asked {
            revoke(&self.connection, id, LIMIT).await;
            return Err(too_short(asked, ttl));
        }
        Ok(Granted {
            id,
            sent,
            ttl,
            term,
        })
    }

    /// An id that nobody else has, so that a lease can be revoked whose grant was never confirmed.
    fn next_id(&self, owner: OwnerId) -> i64 {
        let random = u64::from_str_radix(&owner.to_string()[..16], 16).unwrap_or_default();
        let number = self.asked.fetch_add(2, Ordering::Relaxed);
        // Zero would let the server choose.
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
        format!("a ttl of {ttl} cannot be had here: choose one of at least {shortest}, which the servers' election timeout demands"),
    )
    .with_backend(BACKEND)
}
