//! The key of one claim, and its state from before the first write to the release.

use std::sync::Arc;

use etcd_client::TxnOp;
use lock_core::backend::{Claim, HoldId, LossSender, Moment, Mutex};
use lock_core::{FencingToken, Mode};
use tokio::sync::{OnceCell, watch};

use crate::claim::key_pool::KeyPool;
use crate::claim::value::ClaimValue;
use crate::keys::{Keys, Look, look_at};
use crate::lease::shared_lease::SharedLease;
use crate::watch::watches::Subscription;

/// A claim on the servers.
pub(crate) struct ClaimKey {
    /// The prefix of all claims on the lock.
    pub(crate) queue: String,
    /// The key of this claim.
    pub(crate) key: Arc<str>,
    /// The value with which the key is created.
    pub(crate) value: ClaimValue<'static>,
    pub(crate) mode: Mode,
    pub(crate) lease: Arc<SharedLease>,
    pub(crate) loss: LossSender,
    state: Mutex<ClaimState>,
    /// The lease of this key alone, once its hold was given back before the end of its minimum.
    pub(crate) own_lease: OnceCell<i64>,
}

#[derive(Default)]
struct ClaimState {
    /// Closed when the take that is under way ends.
    under_way: Option<watch::Receiver<()>>,
    /// True if a request was sent that may still create the key when it arrives.
    in_doubt: bool,
    /// True if another client deleted the key, or if a request was sent that may still delete it.
    reuse_forbidden: bool,
    is_released: bool,
    /// The create revision of a granted key; zero before.
    created: i64,
    /// The token of the hold since its last change of mode.
    converted: Option<FencingToken>,
    /// The watch that reports the deletion of a hold's key.
    watch: Option<Subscription>,
    /// When to forget the claim, after a release that failed.
    forgotten_at: Option<Moment>,
}

impl ClaimKey {
    pub(crate) fn new(
        keys: &Keys,
        key_pool: &KeyPool,
        claim: &Claim,
        lease: Arc<SharedLease>,
    ) -> Arc<Self> {
        let hold: &HoldId = claim.id();
        let queue = keys.queue(hold.key());
        let used = key_pool.take(&queue, hold.mode());
        let key = used.unwrap_or_else(|| keys.claim(hold, lease.id()).into());
        lease.attach_key(hold.claim(), Arc::clone(&key));
        Arc::new(Self {
            queue,
            key,
            value: ClaimValue::new(hold),
            mode: hold.mode(),
            loss: claim.loss(),
            lease,
            state: Mutex::default(),
            own_lease: OnceCell::new(),
        })
    }

    /// Makes the claim that is to replace this granted one, with the same key. Returns `None` if the
    /// lease has ended.
    pub(crate) fn converted(&self, to: &Claim) -> Option<Arc<Self>> {
        // A request that still may arrive changes only the key as it was granted. But the key has
        // the name of this claim.
        self.forbid_reuse();
        let (hold, loss) = (to.id(), to.loss());
        if !self.lease.adopt(hold.claim(), loss.clone(), &self.key) {
            return None;
        }
        let now = self.state.lock();
        Some(Arc::new(Self {
            queue: self.queue.clone(),
            key: Arc::clone(&self.key),
            value: ClaimValue::new(hold),
            mode: hold.mode(),
            loss,
            lease: Arc::clone(&self.lease),
            state: Mutex::new(ClaimState {
                in_doubt: now.in_doubt,
                reuse_forbidden: true,
                created: now.created,
                ..ClaimState::default()
            }),
            own_lease: OnceCell::new(),
        }))
    }

    /// Returns the token of the hold since its last change of mode, if there was one.
    pub(crate) fn converted_token(&self) -> Option<FencingToken> {
        self.state.lock().converted
    }

    pub(crate) fn set_converted_token(&self, token: FencingToken) {
        self.state.lock().converted = Some(token);
    }

    /// Returns true if a release of the key has begun.
    pub(crate) fn is_released(&self) -> bool {
        self.state.lock().is_released
    }

    /// Returns the create revision of a granted key; zero before.
    pub(crate) fn created(&self) -> i64 {
        self.state.lock().created
    }

    /// Notes that a take is under way, until the returned value is dropped.
    pub(crate) fn begin(self: &Arc<Self>) -> UnderWay {
        let (ended, end) = watch::channel(());
        self.state.lock().under_way = Some(end);
        UnderWay {
            claim_key: Arc::clone(self),
            answered: false,
            ended: Some(ended),
        }
    }

    /// Waits until no take is under way.
    pub(crate) async fn settled(&self) {
        let under_way = self.state.lock().under_way.clone();
        if let Some(mut end) = under_way {
            // Nothing is ever sent on this channel: it only closes.
            while end.changed().await.is_ok() {}
        }
    }

    /// Notes that a request that creates the key may still arrive. That request needs the lease, so
    /// the lease is retired: it ends with its last claim.
    pub(crate) fn mark_in_doubt(&self) {
        self.state.lock().in_doubt = true;
        self.lease.retire();
    }

    pub(crate) fn is_in_doubt(&self) -> bool {
        self.state.lock().in_doubt
    }

    /// Notes that a delete of the key is about to be sent. If an earlier delete was sent, either of
    /// the two may arrive after the other was answered.
    pub(crate) fn mark_released(&self) {
        let mut state = self.state.lock();
        state.reuse_forbidden |= state.is_released;
        state.is_released = true;
    }

    /// Notes that the time at which the key is deleted is unknown.
    pub(crate) fn forbid_reuse(&self) {
        self.state.lock().reuse_forbidden = true;
    }

    /// Returns true if another claim may use the key later. All requests about the key have then
    /// been answered.
    pub(crate) fn is_reusable(&self) -> bool {
        let state = self.state.lock();
        let is_settled = state.under_way.as_ref().is_none_or(has_ended);
        is_settled && !state.in_doubt && !state.reuse_forbidden
    }

    pub(crate) fn granted(&self, created: i64) {
        self.state.lock().created = created;
    }

    /// Builds the request for the key as it was granted.
    pub(crate) fn look(&self) -> TxnOp {
        look_at(&*self.key, self.created(), Look::KeyOnly)
    }

    /// Notes that the key was there as granted in this revision. Returns true if the key is
    /// watched.
    pub(crate) fn note_seen(&self, revision: i64) -> bool {
        let state = self.state.lock();
        let watch = state.watch.as_ref();
        watch.inspect(|watch| watch.seen(revision)).is_some()
    }

    pub(crate) fn set_watch(&self, watch: Option<Subscription>) {
        self.state.lock().watch = watch;
    }

    /// Notes that the release failed, and may be repeated until `moment`.
    pub(crate) fn forget_at(&self, moment: Moment) {
        self.state.lock().forgotten_at.get_or_insert(moment);
    }

    pub(crate) fn is_forgotten(&self, now: Moment) -> bool {
        self.state.lock().forgotten_at.is_some_and(|at| at <= now)
    }
}

/// Returns true if the take that holds the sender has ended.
fn has_ended(take: &watch::Receiver<()>) -> bool {
    take.has_changed().is_err()
}

/// A take that is under way. If it is dropped before its answer, together with its runtime, the
/// request may still arrive.
pub(crate) struct UnderWay {
    claim_key: Arc<ClaimKey>,
    answered: bool,
    ended: Option<watch::Sender<()>>,
}

impl UnderWay {
    /// Notes that the take was answered, or has failed.
    pub(crate) fn ended(mut self) {
        self.answered = true;
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if !self.answered {
            self.claim_key.mark_in_doubt();
        }
        self.ended = None;
        // Free the channel: it would be a fifth of the memory that a hold takes.
        let under_way = &mut self.claim_key.state.lock().under_way;
        if under_way.as_ref().is_some_and(has_ended) {
            *under_way = None;
        }
    }
}
