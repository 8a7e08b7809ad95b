//! The acquisition of a set: all keys in one request if they are free, else one key after the other,
//! in the order of the keys.

use std::collections::BTreeMap;

use futures_util::future::join_all;

use super::guard::{LockSet, first_loss};
use crate::keeper::shutdown_gate::shut_down;
use crate::{
    DistributedLock, Error, ErrorKind, HoldState, LockGuard, LockKey, LockRequest, LossReason,
    Result, Wait,
};

/// Returns a request for each key, once, in the order of the keys.
///
/// # Errors
///
/// [`InvalidKey`](ErrorKind::InvalidKey) for a key that is empty or over 255 bytes.
pub(crate) fn requests<K: AsRef<str>>(
    keys: impl IntoIterator<Item = K>,
) -> Result<Vec<LockRequest>> {
    keys.into_iter()
        .map(|key| LockRequest::exclusive(key.as_ref()))
        .collect()
}

/// Takes the locks of `requests` within one `wait`; `None` if the wait ran out, with all locks
/// released.
///
/// All clients take their keys in the order of the keys, so none waits for another in a circle.
///
/// # Errors
///
/// The error of the first acquisition that fails, with all locks released, and
/// [`Config`](ErrorKind::Config) for two different requests of one key.
///
/// # Cancel safety
///
/// Dropping the future releases in the background what it has taken.
pub(crate) async fn acquire_all<L>(
    locks: &L,
    requests: Vec<LockRequest>,
    wait: Wait,
) -> Result<Option<LockSet>>
where
    L: DistributedLock + ?Sized,
{
    let requests = in_order(requests)?;
    match locks.acquire_together(&requests).await {
        Ok(Some(guards)) if guards.iter().all(LockGuard::is_held) => {
            return Ok(Some(LockSet::new(guards)));
        }
        Ok(taken) => drop(taken),
        // Asked again, one key after the other: the connection may have broken while it was idle.
        Err(error) if error.is_retryable() => {}
        Err(error) => return Err(error),
    }
    loop {
        let mut guards = Vec::with_capacity(requests.len());
        let outcome = take_each(locks, &requests, wait, &mut guards).await;
        if let Ok(Attempt::Taken) = outcome {
            return Ok(Some(LockSet::new(guards)));
        }
        let loss = first_lost(&guards);
        release(guards).await;
        match outcome? {
            Attempt::Lost if wait == Wait::No => return Err(lost_while_taking(loss)),
            // The wait for a later key outlasted the hold of an earlier one. Begin anew.
            Attempt::Taken | Attempt::Lost => {}
            Attempt::Busy => return Ok(None),
        }
    }
}

enum Attempt {
    Taken,
    Busy,
    Lost,
}

/// Takes the locks of `requests` one after the other into `guards`, until one is refused or lost.
async fn take_each<L>(
    locks: &L,
    requests: &[LockRequest],
    wait: Wait,
    guards: &mut Vec<LockGuard>,
) -> Result<Attempt>
where
    L: DistributedLock + ?Sized,
{
    for request in requests {
        let acquiring = locks.acquire(request.clone().with_wait(wait));
        let outcome = tokio::select! {
            biased;
            _ = first_loss(guards) => return Ok(Attempt::Lost),
            outcome = acquiring => outcome?,
        };
        match outcome {
            Some(guard) => guards.push(guard),
            None => return Ok(Attempt::Busy),
        }
    }
    // A loss that nobody has reported yet: this task may have stood still.
    match guards.iter().all(LockGuard::is_held) {
        true => Ok(Attempt::Taken),
        false => Ok(Attempt::Lost),
    }
}

/// Sorts the requests by key, and drops repeated ones.
fn in_order(requests: Vec<LockRequest>) -> Result<Vec<LockRequest>> {
    let mut by_key = BTreeMap::<String, LockRequest>::new();
    for request in requests {
        let key = request.key.as_str().to_owned();
        match by_key.get(&key) {
            Some(same) if *same == request => {}
            Some(_) => {
                return Err(Error::new(
                    ErrorKind::Config,
                    "a set asks for this key in two ways: ask once, in the stronger mode",
                )
                .with_key(&request.key));
            }
            None => _ = by_key.insert(key, request),
        }
    }
    Ok(by_key.into_values().collect())
}

fn first_lost(guards: &[LockGuard]) -> Option<(LockKey, LossReason)> {
    guards.iter().find_map(|guard| match guard.state() {
        HoldState::Lost(reason) => Some((guard.key().clone(), reason)),
        _ => None,
    })
}

fn lost_while_taking(loss: Option<(LockKey, LossReason)>) -> Error {
    let error = match loss {
        Some((_, LossReason::Closed)) => shut_down(),
        _ => Error::new(
            ErrorKind::Unavailable,
            "the lock was lost before the other locks of the set were taken: use a longer ttl",
        ),
    };
    match loss {
        Some((key, _)) => error.with_key(&key),
        None => error,
    }
}

/// Releases guards, the latest first. A release without an answer is repeated in the background.
async fn release(guards: Vec<LockGuard>) {
    let releases = guards.into_iter().rev().map(LockGuard::release);
    for released in join_all(releases).await {
        if let Err(error) = released {
            tracing::debug!(%error, "a lock of an unfinished set is released in the background");
        }
    }
}
