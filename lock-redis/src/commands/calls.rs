//! The calls of the scripts, with their keys and arguments.

use std::time::Duration;

use lock_core::backend::HoldId;
use lock_core::{LockKey, Mode};

use crate::commands::script::{
    CONVERT, Call, INSPECT, RELEASE_EXCLUSIVE, RELEASE_MANY, RENEW_EXCLUSIVE, RENEW_MANY,
    TAKE_EXCLUSIVE, TAKE_MANY,
};
use crate::keys::{Keys, owner_mark};

/// The way in which a take asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asks {
    /// A single request while no waiter of this client waits for the key.
    Once,
    /// A single request beside a waiter of this client.
    BesideWaiter,
    /// A request of a waiter that polls.
    Waiting,
    /// A request of a waiter to which the server pushes the key's next change.
    Listening,
}

impl Keys {
    pub(crate) fn take(&self, hold: &HoldId, client: &str, asks: Asks) -> Call {
        let script = match hold.mode() {
            Mode::Exclusive => &TAKE_EXCLUSIVE,
            _ => &TAKE_MANY,
        };
        let waits: &[u8] = match asks {
            Asks::BesideWaiter => b"",
            Asks::Once => b"0",
            Asks::Waiting | Asks::Listening => b"1",
        };
        let call = self
            .keys(script.call(), hold)
            .key(&self.waits(hold.key()))
            .key(&self.counter())
            .argument(owner_mark(hold).as_bytes())
            .argument(milliseconds(hold.store_ttl()).as_bytes())
            .argument(client.as_bytes())
            .argument(waits)
            .argument(hold.metadata().as_bytes());
        let call = match hold.mode() {
            Mode::Exclusive => call,
            Mode::Permit { of } => call.argument(of.to_string().as_bytes()),
            _ => call.argument(b"0"),
        };
        match asks {
            Asks::Once => call,
            Asks::BesideWaiter | Asks::Waiting => call.alone(),
            Asks::Listening => call.listening(),
        }
    }

    /// Lets a hold expire after `ttl`.
    pub(crate) fn renew(&self, hold: &HoldId, ttl: Duration) -> Call {
        let script = match hold.mode() {
            Mode::Exclusive => &RENEW_EXCLUSIVE,
            _ => &RENEW_MANY,
        };
        self.keys(script.call(), hold)
            .argument(owner_mark(hold).as_bytes())
            .argument(milliseconds(ttl).as_bytes())
    }

    pub(crate) fn release(&self, hold: &HoldId, client: &str) -> Call {
        let script = match hold.mode() {
            Mode::Exclusive => &RELEASE_EXCLUSIVE,
            _ => &RELEASE_MANY,
        };
        self.keys(script.call(), hold)
            .key(&self.waits(hold.key()))
            .argument(owner_mark(hold).as_bytes())
            .argument(client.as_bytes())
    }

    /// Replaces the hold `from` by the claim `to` in another mode.
    pub(crate) fn convert(&self, from: &HoldId, to: &HoldId) -> Call {
        CONVERT
            .call()
            .key(&self.lock(from.key()))
            .key(&self.tokens(from.key()))
            .key(&self.counter())
            .argument(owner_mark(from).as_bytes())
            .argument(owner_mark(to).as_bytes())
            .argument(milliseconds(to.store_ttl()).as_bytes())
            .argument(to.metadata().as_bytes())
    }

    /// Reads the holders of a lock.
    pub(crate) fn inspect(&self, key: &LockKey) -> Call {
        INSPECT
            .call()
            .key(&self.lock(key))
            .key(&self.tokens(key))
            .key(&self.waits(key))
    }

    fn keys(&self, call: Call, hold: &HoldId) -> Call {
        let call = call.key(&self.lock(hold.key()));
        match hold.mode() {
            Mode::Exclusive => call,
            _ => call.key(&self.tokens(hold.key())),
        }
    }
}

/// Returns `ttl` in milliseconds, rounded up: the server never ends a hold before the client does.
pub(crate) fn milliseconds(ttl: Duration) -> String {
    ttl.as_nanos().div_ceil(1_000_000).to_string()
}
