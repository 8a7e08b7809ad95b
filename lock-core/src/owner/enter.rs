//! The acquisition of an owner: it enters the grant that the owner has, or asks the store.

use std::future::Future;
use std::sync::{Arc, Weak};

use crate::owner::identity::{OwnedKey, Owner, Whole};
use crate::{Error, ErrorKind, LockGuard, LockRequest, Mode, Result};

/// Takes the lock of `request` for `owner`, who enters the grant that it has on `client`. Else runs
/// `acquire`, until another request of the owner has been granted the key.
///
/// # Errors
///
/// The errors of `acquire`, and [`Unsupported`](ErrorKind::Unsupported) if the request asks for more
/// than the grant of the owner is.
///
/// # Cancel safety
///
/// Dropping the future drops the future of `acquire`.
pub(crate) async fn acquire_for<C, F>(
    owner: Owner,
    client: &Arc<C>,
    request: LockRequest,
    acquire: impl FnOnce(LockRequest) -> F,
) -> Result<Option<LockGuard>>
where
    C: Send + Sync + 'static,
    F: Future<Output = Result<Option<LockGuard>>>,
{
    let client: Weak<C> = Arc::downgrade(client);
    let entry = owner.entry(client, &request.key);
    if let Some(guard) = enter(&entry, &request)? {
        return Ok(Some(guard));
    }
    // The limit is that of one guard, not of the grant.
    let for_store = LockRequest {
        max_hold: None,
        ..request.clone()
    };
    let mut acquiring = std::pin::pin!(acquire(for_store));
    loop {
        // Created before the look, so that no grant is missed.
        let granted = entry.granted.notified();
        if let Some(guard) = enter(&entry, &request)? {
            return Ok(Some(guard));
        }
        tokio::select! {
            // First what the store says, so that its grant is not given back.
            biased;
            outcome = &mut acquiring => {
                let Some(guard) = outcome? else {
                    return enter(&entry, &request);
                };
                let token = guard.token();
                let whole = Arc::new(guard);
                let part: Whole = Arc::<LockGuard>::clone(&whole);
                entry.set(&part);
                return Ok(Some(LockGuard::part_of(&whole, token, request.max_hold)));
            }
            () = granted => {}
        }
    }
}

/// Makes one more guard of the owner's grant; `None` if it has none that is held.
fn enter(entry: &OwnedKey, request: &LockRequest) -> Result<Option<LockGuard>> {
    let grant = entry.grant();
    let Some(whole) = grant.and_then(|grant| grant.downcast::<LockGuard>().ok()) else {
        return Ok(None);
    };
    let guard = LockGuard::part_of(&whole, whole.token(), request.max_hold);
    if !guard.is_held() {
        return Ok(None);
    }
    check(&whole, request).map_err(|error| {
        error
            .with_operation("acquire")
            .with_key(&request.key)
            .with_backend(whole.backend())
    })?;
    Ok(Some(guard))
}

/// Fails if `request` asks for more than the grant of `whole` is.
fn check(whole: &LockGuard, request: &LockRequest) -> Result<()> {
    let held = &whole.hold().id;
    let unsupported = |message| Err(Error::new(ErrorKind::Unsupported, message));
    if whole.mode() != request.mode {
        return unsupported(match (whole.mode(), request.mode) {
            (Mode::Shared, Mode::Exclusive) => {
                "the owner holds the key shared, and cannot enter it exclusively: take it exclusively in the outer request"
            }
            (Mode::Exclusive, Mode::Shared) => {
                "the owner holds the key exclusively, and cannot enter it shared: ask for it exclusively, which needs no round trip"
            }
            _ => {
                "the owner holds the key in another mode: ask for it in the same mode, or with another owner"
            }
        });
    }
    if request.lock_delay() > held.lock_delay() || request.min_hold() > held.min_hold() {
        return unsupported(
            "the owner holds the key with a shorter lock delay or minimum hold: set it in the outer request",
        );
    }
    Ok(())
}
