//! What a worker wants next, drawn at random.

use std::time::Duration;

use fastrand::Rng;
use polylock::{Capabilities, LockRequest};

use crate::registers::REGISTERS;
use crate::stage::problem::Problem;

/// Keys that many want, those that few want, and one that is held for long by everybody.
const SHELVES: usize = 2;
const PERMITS: usize = 1;
const WARM: usize = 8;
const STEADY: usize = 6;

/// How many permits of a key there are.
const PERMITS_OF: u32 = 3;

/// A lock, how it is asked for, and what comes then.
#[derive(Debug)]
pub(crate) struct Wish {
    key: String,
    mode: Kind,
    ttl: Duration,
    pub(crate) patience: Patience,
    pub(crate) hold: Duration,
    pub(crate) ending: Ending,
    /// Which register is updated meanwhile.
    pub(crate) register: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Exclusive,
    Shared,
    Permit,
}

/// For how long somebody asks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience {
    None,
    Within(Duration),
    Endless,
    /// Asks without an end, and goes away after so long.
    Cancelled(Duration),
}

/// How a lock is given back.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ending {
    /// Waits for the answer of the store.
    Released,
    /// Only drops the guard.
    Dropped,
    /// Asks for the release and does not wait for it.
    Abandoned,
}

impl Wish {
    /// What the store can do is asked for.
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
        // Those who hold a key together, and whoever waits for all of them, have leases that end apart.
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

    /// One that is held for long by everybody, so that there is a long line for it.
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

    /// One that is held for as long as several renewals, so that faults find somebody who holds.
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

    /// An update of a register, for as long as it takes.
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

/// Mostly moments, sometimes long enough for a renewal, rarely for several.
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
