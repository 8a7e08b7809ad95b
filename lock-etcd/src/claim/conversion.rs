//! Changes of a hold to another mode. The claim keeps its key and its place in the queue, and its
//! value tells the mode.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use etcd_client::{Compare, CompareOp, GetOptions, PutOptions, Txn, TxnOp, TxnResponse};
use lock_core::backend::{Backoff, Claim, Clock, Converted, HoldId, Moment};
use lock_core::{Error, ErrorKind, FencingToken, Mode, Result};

use crate::claim::key::ClaimKey;
use crate::client::Client;
use crate::connection::shared_connection::{REPLY_LIMIT, SharedConnection, transact};
use crate::error::{BACKEND, Failure, no_answer};
use crate::keys::end_of;
use crate::queue::{ListedClaim, QueueSnapshot, list_all, revision};

/// First and longest pause before the claims are read again, since others have changed meanwhile.
const PAUSES: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(50)];

/// The outcome of the requests of a conversion.
enum Outcome {
    Converted(FencingToken),
    Refused,
    Lost,
}

/// The requests that change the mode of one hold.
struct Conversion<'a> {
    command: &'a Arc<SharedConnection>,
    former: &'a ClaimKey,
    claim_key: &'a ClaimKey,
    to: &'a HoldId,
    /// True if an earlier request may still arrive.
    in_doubt: AtomicBool,
    ends: Moment,
}

impl Client {
    pub(crate) async fn convert_claim(&self, from: &HoldId, to: &Claim) -> Result<Converted> {
        let command = self.command()?;
        let Some(former) = self.known(from) else {
            return Ok(Converted::Lost);
        };
        let known = self.known(to.id());
        let is_repeated = known.is_some();
        // Registered before the first request, under the key and the lease of the hold.
        let Some(claim_key) = known.or_else(|| former.converted(to)) else {
            return Ok(Converted::Lost);
        };
        self.enter(to.id().claim(), Arc::clone(&claim_key));
        let conversion = Conversion {
            command: &command,
            former: &former,
            claim_key: &claim_key,
            to: to.id(),
            in_doubt: AtomicBool::new(is_repeated),
            ends: Clock::Boot.now().plus(REPLY_LIMIT),
        };
        let converted = self.finish(conversion, from).await;
        match &converted {
            Ok(Converted::Granted { .. }) => {}
            Err(error) if error.is_retryable() => {}
            _ => self.leave(to.id().claim()),
        }
        converted
    }

    async fn finish(&self, conversion: Conversion<'_>, from: &HoldId) -> Result<Converted> {
        let begun = Clock::Boot.now();
        let token = match conversion.run().await? {
            Outcome::Converted(token) => token,
            Outcome::Refused => return Ok(Converted::Refused),
            Outcome::Lost => return Ok(Converted::Lost),
        };
        let min_hold = conversion.to.min_hold();
        let (sent, ttl) = conversion.claim_key.lease.fresh(min_hold).await?;
        if !self.give_over(from.claim()) {
            // A release of the hold, which deletes the key, is under way.
            return Ok(Converted::Lost);
        }
        conversion.former.set_watch(None);
        conversion.claim_key.set_converted_token(token);
        let ttl = sent.plus(ttl).since(begun);
        Ok(Converted::Granted { token, ttl })
    }
}

impl Conversion<'_> {
    /// Lists the claims, and changes the value of the key if nothing has changed since.
    ///
    /// The token comes before that of the first claim that waits when the mode changes. So it is
    /// greater than those of all earlier grants, also of readers that have come and gone since the
    /// list.
    async fn run(&self) -> Result<Outcome, Failure> {
        let (queue, key) = (self.claim_key.queue.as_str(), &*self.claim_key.key);
        let created = self.claim_key.created();
        let mut backoff = Backoff::new(PAUSES[0], PAUSES[1]);
        loop {
            let claims = self.read(&self.send(&list_all(queue, key)).await?)?;
            let own = claims.claim(created);
            let Some(own) = own.filter(|own| own.key == key.as_bytes()) else {
                return Ok(Outcome::Lost);
            };
            if own.converted.as_deref() == Some(&*self.to.claim().to_string()) {
                // An earlier answer was lost.
                return self.converted(&claims, claims.revision + 1);
            }
            let is_upgrade = self.to.mode() == Mode::Exclusive;
            let is_as_read = [
                is_as_created(own),
                Compare::mod_revision(key, CompareOp::Equal, own.modified),
            ];
            if is_upgrade && claims.holders().nth(1).is_some() {
                if !self.in_doubt.load(Ordering::SeqCst) {
                    return Ok(Outcome::Refused);
                }
                // Then an earlier request that still arrives changes nothing.
                let same = PutOptions::new().with_ignore_value().with_ignore_lease();
                let touch = Txn::new()
                    .when(is_as_read)
                    .and_then([TxnOp::put(key, "", Some(same))]);
                if self.send(&touch).await?.succeeded() {
                    return Ok(Outcome::Refused);
                }
                continue;
            }
            let nobody_came_in = match claims.first_waiter() {
                // Claims that came meanwhile are behind it.
                Some(waiter) => is_as_created(waiter),
                None => Compare::mod_revision(queue, CompareOp::Less, claims.revision + 1)
                    .with_range(end_of(queue)),
            };
            let mut when = Vec::from(is_as_read);
            when.extend(is_upgrade.then_some(nobody_came_in));
            let mut value = self.claim_key.value.clone();
            value.converted = Some(self.to.claim().to_string());
            let put = PutOptions::new().with_ignore_lease();
            let put = TxnOp::put(key, value.to_text(), Some(put));
            let list = TxnOp::get(queue, Some(GetOptions::new().with_range(end_of(queue))));
            let convert = Txn::new().when(when).and_then([put, list]);
            let answer = self.send(&convert).await?;
            if answer.succeeded() {
                let now = revision(&answer).map_err(Failure::Unknown)?;
                let before = self.read(&answer)?.with_mode(created, self.former.mode);
                return self.converted(&before, now);
            }
            tokio::time::sleep(backoff.next_pause()).await;
        }
    }

    /// Returns the outcome with the token before the first waiter of `claims`, or before `next`.
    fn converted(&self, claims: &QueueSnapshot, next: i64) -> Result<Outcome, Failure> {
        let next = claims.first_waiter().map_or(next, |waiter| waiter.created);
        let previous = self.former.converted_token();
        let next = u64::try_from(next).ok();
        let token = next.and_then(|next| FencingToken::before_grant(next, previous));
        let token = token.ok_or_else(|| Failure::Refused(no_token()))?;
        Ok(Outcome::Converted(token))
    }

    async fn send(&self, transaction: &Txn) -> Result<TxnResponse, Failure> {
        let left = self.ends.since(Clock::Boot.now());
        if left.is_zero() {
            return Err(Failure::Unknown(no_answer(REPLY_LIMIT)));
        }
        let in_doubt = || self.in_doubt.store(true, Ordering::SeqCst);
        let sending = |client| transact(client, transaction.clone());
        self.command.ask_noting(left, sending, in_doubt).await
    }

    fn read(&self, answer: &TxnResponse) -> Result<QueueSnapshot, Failure> {
        let claims = QueueSnapshot::read(answer, &self.claim_key.queue, "");
        claims.map_err(Failure::Unknown)
    }
}

fn is_as_created(claim: &ListedClaim) -> Compare {
    Compare::create_revision(&*claim.key, CompareOp::Equal, claim.created)
}

fn no_token() -> Error {
    Error::new(
        ErrorKind::Unsupported,
        "the mode was changed too often while another claim waits: release the lock and take it again",
    )
    .with_backend(BACKEND)
}
