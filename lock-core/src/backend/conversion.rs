//! The conversion of a hold to another mode, in one step on the store.

use std::sync::Arc;
use std::time::Duration;

use crate::backend::{Backoff, Claim, Converted};
use crate::hold::Hold;
use crate::{Error, ErrorKind, FencingToken, LockGuard, LossReason, Mode, Result};

/// First and longest pause between requests that got no answer.
const PAUSES: [Duration; 2] = [Duration::from_millis(5), Duration::from_secs(1)];

/// Maximum time that an upgrade waits for releases of its own client.
const OWN_RELEASE_LIMIT: Duration = Duration::from_secs(2);

impl LockGuard {
    /// Makes an exclusive or upgradeable hold shared, in one step on the store: nobody else gets the
    /// key exclusively in between. Readers that wait may enter.
    ///
    /// The new guard has a greater token. It keeps the ttl, the lock delay and what is left of the
    /// minimum and maximum hold. Watches of the old guard end with
    /// [`Released`](LossReason::Released).
    ///
    /// # Errors
    ///
    /// The lock is released in the background.
    ///
    /// - [`Unsupported`](ErrorKind::Unsupported) on a backend [without
    ///   upgrades](crate::Capabilities::upgrades), for a hold in another mode, and for a hold with
    ///   several guards, such as those of an [`Owner`](crate::Owner).
    /// - [`Lost`](ErrorKind::Lost) if the hold was lost before.
    /// - [`Unavailable`](ErrorKind::Unavailable) if the store gave no answer until the hold would
    ///   have expired.
    /// - [`Denied`](ErrorKind::Denied) if the store rejects the client.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future releases the lock in the background.
    pub async fn downgrade(self) -> Result<Self> {
        let converted = convert(self, Mode::Shared, "downgrade").await;
        converted.map_err(|(_, error)| error)
    }

    /// Makes an upgradeable hold exclusive, in one step on the store, unless readers hold the key.
    ///
    /// The new guard has a greater token than every reader had. It keeps the ttl, the lock delay and
    /// what is left of the minimum and maximum hold. Watches of the old guard end with
    /// [`Released`](LossReason::Released).
    ///
    /// # Errors
    ///
    /// The old guard comes back. It is still held, unless the outcome is unknown.
    ///
    /// - [`Busy`](ErrorKind::Busy) if readers hold the key. The guard is still held.
    /// - [`Unsupported`](ErrorKind::Unsupported) on a backend [without
    ///   upgrades](crate::Capabilities::upgrades), for a hold in another mode, and for a hold with
    ///   several guards, such as those of an [`Owner`](crate::Owner). The guard is still held.
    /// - [`Lost`](ErrorKind::Lost) if the hold was lost.
    /// - [`Unavailable`](ErrorKind::Unavailable) if the store gave no answer until the hold would
    ///   have expired. The guard is lost, and released in the background.
    /// - [`Denied`](ErrorKind::Denied) if the store rejects the client.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future releases the lock in the background.
    pub async fn try_upgrade(self) -> Result<Self, (Self, Error)> {
        convert(self, Mode::Exclusive, "upgrade").await
    }
}

async fn convert(
    guard: LockGuard,
    mode: Mode,
    operation: &'static str,
) -> Result<LockGuard, (LockGuard, Error)> {
    let outcome = match check(&guard, mode) {
        Ok(()) => {
            let client = &guard.keeper().client;
            client.gate.pass(replace(&guard, mode)).await
        }
        Err(error) => Err(error),
    };
    match outcome {
        Ok(converted) => {
            guard.forget();
            Ok(converted)
        }
        Err(error) => {
            let error = error
                .with_operation(operation)
                .with_key(guard.key())
                .with_backend(guard.backend());
            Err((guard, error))
        }
    }
}

/// Fails for a guard that cannot be converted to `mode`.
fn check(guard: &LockGuard, mode: Mode) -> Result<()> {
    let unsupported = |message| Err(Error::new(ErrorKind::Unsupported, message));
    match (guard.mode(), mode) {
        (Mode::Upgradeable, _) | (Mode::Exclusive, Mode::Shared) => {}
        (Mode::Shared, Mode::Exclusive) => {
            return unsupported(
                "readers cannot upgrade, since two of them would wait for each other: ask for an upgradeable lock",
            );
        }
        (Mode::Exclusive, _) => return unsupported("the lock is exclusive already"),
        (Mode::Shared, _) => return unsupported("the lock is shared already"),
        (Mode::Permit { .. }, _) => return unsupported("permits cannot change their mode"),
    }
    if !guard.keeper().client.capabilities.upgrades {
        return unsupported(
            "changes of the mode are not supported by this backend: release the lock and take it again",
        );
    }
    if guard.hold().is_member() {
        return unsupported(
            "the grant has several guards, of readers or of an owner: take the lock without an owner",
        );
    }
    Ok(())
}

/// Replaces the hold of `guard` by a claim in `mode`.
async fn replace(guard: &LockGuard, mode: Mode) -> Result<LockGuard> {
    let client = &guard.keeper().client;
    if mode == Mode::Exclusive {
        let releases = client.releases.await_releases(guard.key(), mode);
        // The outcome is the store's answer, whether these releases were confirmed or not.
        let _confirmed = tokio::time::timeout(OWN_RELEASE_LIMIT, releases).await;
    }
    let mut claim = Claim::replacing(guard, mode)?;
    let hold = guard.hold();
    let until = hold.expire_if_due().map_err(lost)?;
    if mode == Mode::Shared {
        // From the request on, readers may hold the key, too.
        hold.end(LossReason::Released);
    }
    let conversion = Conversion::begin(hold);
    let mut backoff = Backoff::new(PAUSES[0], PAUSES[1]);
    let mut is_known = true;
    loop {
        let sent = claim.sending();
        let asking = client.store.convert(&hold.id, claim.id());
        let Ok(answer) = tokio::time::timeout(until.since(sent), asking).await else {
            return Err(unknown(hold));
        };
        match answer {
            Ok(Converted::Granted { grant, ttl }) => {
                drop(conversion);
                let token = FencingToken::from_grant(grant)?;
                return claim.granted(token, sent, ttl).ok_or_else(too_late);
            }
            Ok(Converted::Lost) => {
                hold.end(LossReason::Removed);
                return Err(lost(LossReason::Removed));
            }
            Ok(Converted::Refused) if is_known => {
                claim.refused();
                conversion.has_failed();
                return Err(readers_hold());
            }
            Err(error) if is_known && is_refusal(&error) => {
                claim.refused();
                conversion.has_failed();
                return Err(error);
            }
            // An earlier request may still arrive, and would convert a hold that is in use.
            Ok(Converted::Refused) => return Err(unknown(hold)),
            Err(error) if !error.is_retryable() => {
                hold.end(LossReason::Expired);
                return Err(error);
            }
            Err(error) => {
                tracing::debug!(%error, "the conversion of a hold got no answer, trying again");
            }
        }
        is_known = false;
        let left = until.since(client.clock.now());
        tokio::time::sleep(backoff.next_pause().min(left)).await;
    }
}

/// Returns true if the store has certainly not converted anything.
fn is_refusal(error: &Error) -> bool {
    use ErrorKind::{Closed, Config, Denied, Unsupported};
    matches!(error.kind(), Closed | Config | Denied | Unsupported)
}

/// A conversion that the store may have made. Dropping it ends the hold, unless the conversion has
/// failed.
struct Conversion<'a> {
    hold: &'a Arc<Hold>,
    has_failed: bool,
}

impl<'a> Conversion<'a> {
    fn begin(hold: &'a Arc<Hold>) -> Self {
        hold.set_converting(true);
        Self {
            hold,
            has_failed: false,
        }
    }

    fn has_failed(mut self) {
        self.has_failed = true;
    }
}

impl Drop for Conversion<'_> {
    fn drop(&mut self) {
        self.hold.set_converting(false);
        if self.has_failed {
            // A renewal may have missed the hold meanwhile.
            self.hold.recheck_if_needed();
        } else {
            self.hold.end(LossReason::Released);
        }
    }
}

/// Ends a hold that may have been converted.
fn unknown(hold: &Hold) -> Error {
    hold.end(LossReason::Expired);
    Error::new(
        ErrorKind::Unavailable,
        "the store gave no answer while the lock was held, so the lock is released: take it again",
    )
}

fn lost(reason: LossReason) -> Error {
    Error::new(ErrorKind::Lost, format!("the lock was lost: {reason}"))
}

fn readers_hold() -> Error {
    Error::new(
        ErrorKind::Busy,
        "readers hold the key: try again when they have released it, or release the lock",
    )
}

fn too_late() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "the answer came too late for the ttl: use a longer ttl, or look at what slows the store",
    )
}
