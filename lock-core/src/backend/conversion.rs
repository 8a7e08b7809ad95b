//! The conversion of a hold to another mode, in one step on the store.

use std::time::Duration;

use crate::backend::{Backoff, Claim, Converted, Moment};
use crate::{Error, ErrorKind, FencingToken, LockGuard, LossReason, Mode, Result};

/// First and longest pause between requests that got no answer.
const PAUSES: [Duration; 2] = [Duration::from_millis(5), Duration::from_secs(1)];

impl LockGuard {
    /// Makes an exclusive or upgradeable hold shared, in one step on the store: no other client
    /// gets the key exclusively in between. Readers that wait may enter.
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
        client.await_own_releases(guard.key(), mode).await;
    }
    let hold = guard.hold();
    let until = hold.expire_if_due().map_err(lost)?;
    let conversion = Conversion::begin(guard, mode)?;
    if mode == Mode::Shared {
        // From the request on, readers may hold the key, too.
        guard.end();
    }
    let mut backoff = Backoff::new(PAUSES[0], PAUSES[1]);
    loop {
        let sent = client.clock.now();
        let asking = client.store.convert(&hold.id, conversion.claim());
        let Ok(answer) = tokio::time::timeout(until.since(sent), asking).await else {
            return Err(conversion.got_no_answer());
        };
        match answer {
            Ok(Converted::Granted { token, ttl }) => return conversion.granted(token, sent, ttl),
            Ok(Converted::Refused) => return Err(conversion.refused(readers_hold())),
            Ok(Converted::Lost) => {
                hold.end(LossReason::Removed);
                return Err(conversion.refused(lost(LossReason::Removed)));
            }
            Err(error) if is_refusal(&error) => return Err(conversion.refused(error)),
            Err(error) if !error.is_retryable() => return Err(error),
            Err(error) => {
                tracing::debug!(%error, "the conversion of a hold got no answer, trying again");
            }
        }
        let left = until.since(client.clock.now());
        tokio::time::sleep(backoff.next_pause().min(left)).await;
    }
}

/// Returns true if the store has refused the request, and converted nothing.
fn is_refusal(error: &Error) -> bool {
    use ErrorKind::{Closed, Config, Denied, Unsupported};
    matches!(error.kind(), Closed | Config | Denied | Unsupported)
}

/// A conversion that the store may have made. If it is dropped without an answer, the hold ends, and
/// both the hold and the claim that may have replaced it are released.
struct Conversion<'a> {
    guard: &'a LockGuard,
    claim: Option<Claim>,
    reason: LossReason,
}

impl<'a> Conversion<'a> {
    fn begin(guard: &'a LockGuard, mode: Mode) -> Result<Self> {
        let claim = Claim::replacing(guard, mode)?;
        guard.hold().set_converting(true);
        Ok(Self {
            guard,
            claim: Some(claim),
            reason: LossReason::Released,
        })
    }

    fn claim(&self) -> &Claim {
        self.claim.as_ref().expect("it has no answer yet")
    }

    fn granted(mut self, token: FencingToken, sent: Moment, ttl: Duration) -> Result<LockGuard> {
        let is_late = |claim: &mut Claim| claim.is_late(sent, ttl);
        let Some(mut claim) = self.claim.take_if(|claim| !is_late(claim)) else {
            self.reason = LossReason::Expired;
            return Err(too_late());
        };
        self.guard.hold().end(LossReason::Released);
        claim.set_max_hold(self.guard.hold().turn_left());
        claim.sending();
        let guard = claim.granted(token, sent, ttl);
        guard.ok_or_else(|| Error::new(ErrorKind::Closed, "the client was shut down"))
    }

    /// Ends a conversion that the store refused. A hold that is in use is as it was.
    ///
    /// An earlier request without an answer may still arrive. The claim is then not released, so
    /// that the key stays closed until a renewal has missed the hold.
    fn refused(mut self, error: Error) -> Error {
        if self.guard.is_held() {
            self.claim = None;
        }
        error
    }

    /// Ends a conversion without an answer.
    fn got_no_answer(mut self) -> Error {
        self.reason = LossReason::Expired;
        Error::new(
            ErrorKind::Unavailable,
            "the store gave no answer while the lock was held, so the lock is released: take it again",
        )
    }
}

impl Drop for Conversion<'_> {
    fn drop(&mut self) {
        let (hold, keeper) = (self.guard.hold(), self.guard.keeper());
        if let Some(claim) = self.claim.take() {
            let is_closed = keeper.client.gate.is_closed();
            let reason = if is_closed {
                LossReason::Closed
            } else {
                self.reason
            };
            keeper.give_up_conversion(hold, claim.hold(), reason);
        }
        hold.set_converting(false);
        // A renewal may have missed the hold meanwhile.
        if hold.expire_if_due().is_ok() {
            hold.recheck_if_needed();
        }
    }
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
