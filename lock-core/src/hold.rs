//! One hold on a key, shared by the guard, the keeper and the watches: until when it is valid,
//! and why it ended.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::keeper::KeeperInner;
use crate::roster::Roster;
use crate::sync::locked;
use crate::{HoldId, LossReason, Moment};

/// How long a hold is left alone after it was confirmed, although its key changes: a thirtieth of its
/// ttl within these.
const ALARM_PAUSE_MIN: Duration = Duration::from_millis(10);
const ALARM_PAUSE_MAX: Duration = Duration::from_secs(1);

pub(crate) struct Hold {
    pub(crate) id: HoldId,
    pub(crate) keeper: Arc<KeeperInner>,
    pub(crate) roster: Arc<Roster>,
    /// Where clean-ups of this hold run when nobody waits for them.
    pub(crate) handle: Handle,
    state: Mutex<State>,
    changed: Notify,
    on_loss: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

#[derive(Debug)]
struct State {
    deadline: Moment,
    /// When the request was sent that won or renewed it last.
    confirmed: Moment,
    end: Option<LossReason>,
    /// Which guard the hold belongs to: it changes when it is handed on.
    turn: Turn,
    renewing: bool,
    /// Whether a renewal was ever sent.
    settled: bool,
    /// Something happened to the key that a renewal under way may not have seen.
    doubtful: bool,
    /// Handed on to a guard that its waiter has not received yet. Nobody may ever look at it, so
    /// it is not renewed meanwhile.
    underway: bool,
    /// Where the roster keeps it; only the roster reads and writes it.
    due: Option<Moment>,
}

/// Counts the guards that a hold belonged to, one after the other.
pub(crate) type Turn = u64;

/// What the keeper has to do for a hold whose time has come.
pub(crate) enum Step {
    /// Renew it, and look again at its deadline.
    Renew(Moment),
    /// A renewal is under way; look again at the deadline.
    WaitUntil(Moment),
    /// Its deadline passed just now.
    Expired,
    /// It had ended before.
    Forget,
}

impl Hold {
    pub(crate) fn new(
        id: HoldId,
        keeper: Arc<KeeperInner>,
        roster: Arc<Roster>,
        handle: Handle,
    ) -> Self {
        let now = keeper.clock.now();
        Self {
            id,
            keeper,
            roster,
            handle,
            state: Mutex::new(State {
                deadline: now,
                confirmed: now,
                end: None,
                turn: 0,
                renewing: false,
                settled: false,
                doubtful: false,
                underway: false,
                due: None,
            }),
            changed: Notify::new(),
            on_loss: OnceLock::new(),
        }
    }

    /// Starts the validity that a grant brought, whose request was `sent` then.
    pub(crate) fn start(&self, sent: Moment, deadline: Moment) {
        let mut state = locked(&self.state);
        state.confirmed = sent;
        state.deadline = deadline;
    }

    /// Whether its end has been told.
    pub(crate) fn has_ended(&self) -> bool {
        locked(&self.state).end.is_some()
    }

    /// How long the hold stays valid without another renewal.
    pub(crate) fn remaining(&self) -> Duration {
        match self.look() {
            Ok(deadline) => deadline.since(self.keeper.clock.now()),
            Err(_) => Duration::ZERO,
        }
    }

    /// The deadline of a valid hold, or why it is none. Reading a deadline that has passed makes
    /// the loss final: no later renewal brings the hold back.
    pub(crate) fn look(&self) -> Result<Moment, LossReason> {
        self.look_in_turn(None)
    }

    /// The same for the guard of one turn: for it, a hold that was handed on is released.
    pub(crate) fn look_in(&self, turn: Turn) -> Result<Moment, LossReason> {
        self.look_in_turn(Some(turn))
    }

    fn look_in_turn(&self, turn: Option<Turn>) -> Result<Moment, LossReason> {
        let mut state = locked(&self.state);
        if turn.is_some_and(|turn| turn != state.turn) {
            return Err(LossReason::Released);
        }
        if let Some(reason) = state.end {
            return Err(reason);
        }
        if self.keeper.clock.now() < state.deadline {
            return Ok(state.deadline);
        }
        state.end = Some(LossReason::Expired);
        drop(state);
        self.tell_end(LossReason::Expired);
        Err(LossReason::Expired)
    }

    /// Ends the hold; the first reason stays. Returns whether this call ended it.
    pub(crate) fn end(&self, reason: LossReason) -> bool {
        let mut state = locked(&self.state);
        if state.end.is_some() {
            return false;
        }
        state.end = Some(reason);
        drop(state);
        self.tell_end(reason);
        true
    }

    /// Has `action` done when the hold is lost, however late its guard is dropped.
    pub(crate) fn on_loss(&self, action: impl Fn() + Send + Sync + 'static) {
        // A hold meets one desk in its life, so nothing is ever overwritten.
        let _first = self.on_loss.set(Box::new(action));
    }

    fn tell_end(&self, reason: LossReason) {
        self.keeper.ward.leave(self);
        self.changed.notify_waiters();
        if reason != LossReason::Released
            && let Some(action) = self.on_loss.get()
        {
            action();
        }
    }

    /// Ends the turn of a valid hold's guard and starts the next guard's.
    pub(crate) fn next_turn(&self) -> Option<Turn> {
        self.look().ok()?;
        let mut state = locked(&self.state);
        if state.end.is_some() {
            return None;
        }
        state.turn += 1;
        state.underway = true;
        let turn = state.turn;
        drop(state);
        self.changed.notify_waiters();
        Some(turn)
    }

    /// Notes that the next turn's guard has arrived.
    pub(crate) fn arrived(&self) {
        locked(&self.state).underway = false;
    }

    /// Moves the deadline after a renewal that was confirmed and had been `sent` then, unless the
    /// hold has ended meanwhile.
    pub(crate) fn extend(&self, sent: Moment, deadline: Moment) -> bool {
        if self.look().is_err() {
            return false;
        }
        let mut state = locked(&self.state);
        state.renewing = false;
        state.confirmed = state.confirmed.max(sent);
        state.deadline = state.deadline.max(deadline);
        state.end.is_none()
    }

    /// Makes the hold due for another renewal after one with an unknown outcome.
    pub(crate) fn renewal_failed(&self) {
        locked(&self.state).renewing = false;
    }

    /// What is to be done for it now. [`Step::Renew`] is answered once a renewal.
    pub(crate) fn step(&self) -> Step {
        let ended_before = self.has_ended();
        let Ok(deadline) = self.look() else {
            return if ended_before {
                Step::Forget
            } else {
                Step::Expired
            };
        };
        let mut state = locked(&self.state);
        if state.renewing {
            return Step::WaitUntil(deadline);
        }
        if state.underway {
            // Well before the deadline, since it nearly always arrives at once.
            let soon = self.keeper.clock.now().plus(self.id.ttl() / 30);
            return Step::WaitUntil(soon.min(deadline));
        }
        state.renewing = true;
        state.settled = true;
        state.doubtful = false;
        Step::Renew(deadline)
    }

    /// Whether a renewal was ever sent; the first one may be unanswered when its key changes.
    pub(crate) fn is_settled(&self) -> bool {
        locked(&self.state).settled
    }

    /// When to ask the store whether it is still there, once something has happened to its key: at
    /// once, but not again and again for a key that changes all the time.
    pub(crate) fn next_question(&self) -> Moment {
        let ttl = self.id.ttl();
        let pause = (ttl / 30).clamp(ALARM_PAUSE_MIN.min(ttl / 4), ALARM_PAUSE_MAX);
        let confirmed = locked(&self.state).confirmed;
        self.keeper.clock.now().max(confirmed.plus(pause))
    }

    /// Says that something happened to the key on the store.
    pub(crate) fn doubt(&self) {
        locked(&self.state).doubtful = true;
    }

    /// Whether something happened since the last renewal was sent.
    pub(crate) fn is_doubtful(&self) -> bool {
        locked(&self.state).doubtful
    }

    pub(crate) fn replace_due(&self, due: Option<Moment>) -> Option<Moment> {
        std::mem::replace(&mut locked(&self.state).due, due)
    }

    /// Waits for the end of the hold, or of its guard's turn.
    pub(crate) async fn ended(&self, turn: Turn) -> LossReason {
        loop {
            let changed = self.changed.notified();
            let deadline = match self.look_in(turn) {
                Ok(deadline) => deadline,
                Err(reason) => return reason,
            };
            // The keeper's timer ends the hold at its deadline, but the keeper may be held up or have
            // gone with the runtime of another caller.
            tokio::select! {
                () = changed => {}
                () = self.keeper.clock.sleep_until(deadline), if Handle::try_current().is_ok() => {}
            }
        }
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold")
            .field("id", &self.id)
            .field("state", &*locked(&self.state))
            .finish_non_exhaustive()
    }
}

/// A view of a hold that can be cloned and sent anywhere, also into blocking work.
///
/// It outlives the guard and never keeps the lock: once the guard is released or dropped it says
/// that the lock is not held any more.
///
/// ```
/// use lock_core::{DistributedLockExt, MemoryLock};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let guard = MemoryLock::new().lock("import").await?;
/// let watch = guard.watch();
/// let rows = tokio::task::spawn_blocking(move || {
///     (0..1000).take_while(|_| watch.is_held()).count()
/// });
/// assert_eq!(rows.await?, 1000);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct HoldWatch {
    hold: Arc<Hold>,
    turn: Turn,
}

impl HoldWatch {
    pub(crate) fn new(hold: Arc<Hold>, turn: Turn) -> Self {
        Self { hold, turn }
    }

    /// Whether the lock is held at this very moment, by the local clock alone.
    pub fn is_held(&self) -> bool {
        self.hold.look_in(self.turn).is_ok()
    }

    /// How long it stays held without another renewal; zero when it is not held.
    pub fn remaining(&self) -> Duration {
        if self.is_held() {
            self.hold.remaining()
        } else {
            Duration::ZERO
        }
    }

    /// Waits until the lock is not held any more, and says why.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, and any number of callers may wait.
    pub async fn lost(&self) -> LossReason {
        self.hold.ended(self.turn).await
    }
}
