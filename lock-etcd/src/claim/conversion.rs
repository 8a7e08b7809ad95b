//! Changes of a hold to another mode. The claim keeps its key and its place in the queue, and its
//! value tells the mode.

use std::sync::Arc;
use std::time::Duration;

use etcd_client::{Compare, CompareOp, PutOptions, Txn, TxnOp};
use lock_core::backend::{Claim, Clock, Converted, HoldId, Moment};
use lock_core::{Error, ErrorKind, FencingToken, Mode, Result};

use crate::claim::key::ClaimKey;
use crate::claim::value::ClaimConversion;
use crate::client::Client;
use crate::connection::shared_connection::{REPLY_LIMIT, SharedConnection, transact};
use crate::error::{BACKEND, Failure, no_answer};
use crate::keys::end_of;
use crate::queue::{ListedClaim, QueueSnapshot, list_all};

/// The outcome of the requests of a conversion.
enum Outcome {
    Converted(FencingToken),
    Refused,
    Lost,
}

impl Client {
    pub(crate) async fn convert_claim(&self, from: &HoldId, to: &Claim) -> Result<Converted> {
        let Some(former) = self.known(from) else {
            return Ok(Converted::Lost);
        };
        let Some(claim_key) = self.enter_conversion(&former, to) else {
            return Ok(Converted::Lost);
        };
        let (begun, command) = (Clock::Boot.now(), self.command()?);
        let outcome = self.convert(&command, &claim_key, to.id()).await?;
        let token = match outcome {
            Outcome::Converted(token) => token,
            Outcome::Refused | Outcome::Lost => {
                self.leave(to.id().claim());
                return Ok(match outcome {
                    Outcome::Refused => Converted::Refused,
                    _ => Converted::Lost,
                });
            }
        };
        let (sent, ttl) = claim_key.lease.fresh(to.id().min_hold()).await?;
        former.set_watch(None);
        self.leave(from.claim());
        let ttl = sent.plus(ttl).since(begun);
        Ok(Converted::Granted { token, ttl })
    }

    /// Registers the claim `to` before the first request, under the key and the lease of the hold.
    fn enter_conversion(&self, former: &ClaimKey, to: &Claim) -> Option<Arc<ClaimKey>> {
        let entered = self.known(to.id());
        entered.or_else(|| {
            let claim_key = former.converted(to)?;
            self.enter(to.id().claim(), Arc::clone(&claim_key));
            Some(claim_key)
        })
    }

    /// Lists the claims, and changes the value of the key if nothing has changed since.
    async fn convert(
        &self,
        command: &Arc<SharedConnection>,
        claim_key: &ClaimKey,
        to: &HoldId,
    ) -> Result<Outcome, Failure> {
        let ends = Clock::Boot.now().plus(REPLY_LIMIT);
        let (queue, key) = (claim_key.queue.as_str(), &*claim_key.key);
        let list = list_all(queue, key);
        loop {
            let left = left(ends)?;
            let listing = command.ask(left, |client| transact(client, list.clone()));
            let claims = QueueSnapshot::read(&listing.await?, queue, "");
            let claims = claims.map_err(Failure::Unknown)?;
            let own = claims.claim(claim_key.created());
            let Some(own) = own.filter(|own| own.key == key.as_bytes()) else {
                return Ok(Outcome::Lost);
            };
            let previous = own.conversion.as_deref();
            if let Some(last) = previous
                && last.claim == to.claim().to_string()
            {
                return Ok(Outcome::Converted(last.token));
            }
            if to.mode() == Mode::Exclusive && claims.holders().nth(1).is_some() {
                return Ok(Outcome::Refused);
            }
            let waiter = claims.first_waiter();
            let next = waiter.map_or(claims.revision + 1, |waiter| waiter.created);
            let token = u64::try_from(next)
                .ok()
                .and_then(|next| FencingToken::before_grant(next, previous.map(|last| last.token)));
            let token = token.ok_or_else(|| Failure::Refused(no_token()))?;
            let nothing_came = match waiter {
                // Claims that came meanwhile are behind it.
                Some(waiter) => is_as_created(waiter),
                None => Compare::mod_revision(queue, CompareOp::Less, claims.revision + 1)
                    .with_range(end_of(queue)),
            };
            let is_unchanged = Compare::mod_revision(key, CompareOp::Equal, own.modified);
            let put = PutOptions::new().with_ignore_lease();
            let put = TxnOp::put(key, value(claim_key, to, token), Some(put));
            let convert = Txn::new()
                .when([is_as_created(own), is_unchanged, nothing_came])
                .and_then([put]);
            let left = self::left(ends)?;
            let converting = command.ask(left, |client| transact(client, convert.clone()));
            if converting.await?.succeeded() {
                return Ok(Outcome::Converted(token));
            }
        }
    }
}

fn is_as_created(claim: &ListedClaim) -> Compare {
    Compare::create_revision(&*claim.key, CompareOp::Equal, claim.created)
}

fn value(claim_key: &ClaimKey, to: &HoldId, token: FencingToken) -> String {
    let claim = to.claim().to_string();
    let mut value = claim_key.value.clone();
    value.conversion = Some(ClaimConversion { claim, token });
    value.to_text()
}

fn left(ends: Moment) -> Result<Duration, Failure> {
    let left = ends.since(Clock::Boot.now());
    match left.is_zero() {
        true => Err(Failure::Unknown(no_answer(REPLY_LIMIT))),
        false => Ok(left),
    }
}

fn no_token() -> Error {
    Error::new(
        ErrorKind::Unsupported,
        "the mode was changed too often while another claim waits: release the lock and take it again",
    )
    .with_backend(BACKEND)
}
