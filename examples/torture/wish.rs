//! The next request of a worker, drawn at random.

use std::time::Duration;

use fastrand::Rng;
use polylock::{Capabilities, LockRequest};

use crate::registers::REGISTERS;
use crate::stage::problem::Problem;

/// Numbers of keys: two kinds with many waiters, a kind with few, and a kind that is held for long.
const SHELVES: usize = 2;
const PERMITS: usize = 1;
const WARM: usize = 8;
const STEADY: usize = 6;

/// Number of permits of a key.
const PERMITS_OF: u32 = 3;

/// A lock, the request for it, and the use of it.
#[derive(Debug)]
pub(crate) struct Wish {
    key: String,
    mode: Kind,
    ttl: Duration,
    pub(crate) patience: Patience,
    pub(crate) hold: Duration,
    pub(crate) ending: Ending,
    /// The register to update while the lock is held.
    pub(crate) register: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Exclusive,
    Shared,
    Permit,
}

/// The wait of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience {
    None,
    Within(Duration),
    Endless,
    /// The request waits for ever, and its future is dropped after this time.
    Cancelled(Duration),
}

/// The way in which a lock is given back.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ending {
    /// The task releases the guard, and waits for the store's answer.
    Released,
    /// The task drops the guard.
    Dropped,
    /// The task begins the release, and drops its future.
    Abandoned,
}

impl Wish {
    /// Draws a lock of a kind that the store supports.
    pub(crate) fn draw(rng: &mut Rng, capabilities: &Capabilities, ttl: Duration) -> Self {
        let hold = hold(rng, ttl);
        let wish = |key: String, mode, register| Self {
            key,
            mode,
            ttl,
            patience: Patience::None,
            hold,
            ending: Ending::Released,
            register,
        };
        let mut wish = match rng.u32(0..100) {
            0..50 => {
                let register = rng.usize(0..REGISTERS);
                wish(
                    format!("register/{register}"),
                    Kind::Exclusive,
                    Some(register),
                )
            }
            50..68 if capabilities.shared => {
                let kind = if rng.u32(0..3) == 0 {
                    Kind::Exclusive
                } else {
                    Kind::Shared
                };
                wish(format!("shelf/{}", rng.usize(0..SHELVES)), kind, None)
            }
            68..76 if capabilities.permits => {
                let kind = if rng.u32(0..10) == 0 {
                    Kind::Exclusive
                } else {
                    Kind::Permit
                };
                wish(format!("permits/{}", rng.usize(0..PERMITS)), kind, None)
            }
            _ => wish(
                format!("warm/{}", rng.usize(0..WARM)),
                Kind::Exclusive,
                None,
            ),
        };
        // The holders that share a key, and the waiter behind them, have leases that end at
        // different times.
        if wish.register.is_none() {
            wish.ttl = ttl * rng.u32(2..=4) / 2;
        }
        wish.patience = patience(rng, ttl);
        wish.ending = match rng.u32(0..10) {
            0..6 => Ending::Released,
            6..9 => Ending::Dropped,
            _ => Ending::Abandoned,
        };
        wish
    }

    /// Draws a request for the key that is always held for long, so that its queue is long.
    pub(crate) fn slow(rng: &mut Rng, ttl: Duration) -> Self {
        Self {
            key: "slow".to_owned(),
            mode: Kind::Exclusive,
            ttl,
            patience: match rng.u32(0..5) {
                0 => patience(rng, ttl),
                _ => Patience::Endless,
            },
            hold: ttl.mul_f64(0.1 + 0.2 * rng.f64()),
            ending: Ending::Released,
            register: None,
        }
    }

    /// Draws a lock that is held for several renewals, so that faults strike while it is held.
    pub(crate) fn steady(rng: &mut Rng, ttl: Duration) -> Self {
        Self {
            key: format!("steady/{}", rng.usize(0..STEADY)),
            mode: Kind::Exclusive,
            ttl: ttl * rng.u32(2..=4) / 2,
            patience: Patience::Within(ttl),
            hold: ttl.mul_f64(0.3 + 1.5 * rng.f64()),
            ending: Ending::Released,
            register: None,
        }
    }

    /// Draws an update of a register, held only as long as that takes.
    pub(crate) fn update(rng: &mut Rng, ttl: Duration) -> Self {
        let register = rng.usize(0..REGISTERS);
        Self {
            key: format!("register/{register}"),
            mode: Kind::Exclusive,
            ttl,
            patience: Patience::Endless,
            hold: Duration::from_millis(rng.u64(5..30)),
            ending: Ending::Released,
            register: Some(register),
        }
    }

    pub(crate) fn request(&self, keys: &str) -> Result<LockRequest, Problem> {
        let key = format!("{keys}/{}", self.key);
        let request = match self.mode {
            Kind::Exclusive => LockRequest::exclusive(&key)?,
            Kind::Shared => LockRequest::shared(&key)?,
            Kind::Permit => LockRequest::permit(&key, PERMITS_OF)?,
        };
        let request = request.with_ttl(self.ttl);
        Ok(match self.patience {
            Patience::None => request.without_waiting(),
            Patience::Within(limit) => request.waiting_at_most(limit),
            Patience::Endless | Patience::Cancelled(_) => {
                request.with_wait(polylock::Wait::Forever)
            }
        })
    }
}

/// Draws a hold: mostly moments, sometimes long enough for a renewal, rarely for several.
fn hold(rng: &mut Rng, ttl: Duration) -> Duration {
    match rng.u32(0..200) {
        0..180 => Duration::from_micros(rng.u64(0..4000)),
        180..196 => ttl.mul_f64(0.2 * rng.f64()),
        196..199 => ttl.mul_f64(rng.f64()),
        _ => ttl.mul_f64(1.0 + rng.f64()),
    }
}

fn patience(rng: &mut Rng, ttl: Duration) -> Patience {
    match rng.u32(0..100) {
        0..20 => Patience::None,
        20..55 => Patience::Within(ttl.mul_f64(1.5 * rng.f64())),
        55..85 => Patience::Endless,
        _ => Patience::Cancelled(Duration::from_micros(rng.u64(0..60_000))),
    }
}
