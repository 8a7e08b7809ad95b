//! The scripts' calls: which keys and arguments each takes.

use std::time::Duration;

use lock_core::{HoldId, Mode};

use crate::layout::{Layout, owner_mark};
use crate::script::{
    Call, RELEASE_EXCLUSIVE, RELEASE_MANY, RENEW_EXCLUSIVE, RENEW_MANY, TAKE_EXCLUSIVE, TAKE_MANY,
};

impl Layout {
    /// `listens`: whether the lane is told of the key's next change.
    pub(crate) fn take(&self, hold: &HoldId, listens: bool) -> Call {
        let script = match hold.mode() {
            Mode::Exclusive => &TAKE_EXCLUSIVE,
            Mode::Shared | Mode::Permit { .. } => &TAKE_MANY,
        };
        let call = self
            .keys(script.call(), hold)
            .key(&self.counter())
            .argument(owner_mark(hold).as_bytes())
            .argument(milliseconds(hold.store_ttl()).as_bytes());
        let call = match hold.mode() {
            Mode::Exclusive => call,
            Mode::Shared => call.argument(b"0"),
            Mode::Permit { of } => call.argument(of.to_string().as_bytes()),
        };
        if listens { call.listening() } else { call }
    }

    pub(crate) fn renew(&self, hold: &HoldId) -> Call {
        let script = match hold.mode() {
            Mode::Exclusive => &RENEW_EXCLUSIVE,
            Mode::Shared | Mode::Permit { .. } => &RENEW_MANY,
        };
        self.keys(script.call(), hold)
            .argument(owner_mark(hold).as_bytes())
            .argument(milliseconds(hold.store_ttl()).as_bytes())
    }

    pub(crate) fn release(&self, hold: &HoldId) -> Call {
        let script = match hold.mode() {
            Mode::Exclusive => &RELEASE_EXCLUSIVE,
            Mode::Shared | Mode::Permit { .. } => &RELEASE_MANY,
        };
        self.keys(script.call(), hold)
            .argument(owner_mark(hold).as_bytes())
    }

    fn keys(&self, call: Call, hold: &HoldId) -> Call {
        let call = call.key(&self.lock(hold.key()));
        match hold.mode() {
            Mode::Exclusive => call,
            Mode::Shared | Mode::Permit { .. } => call.key(&self.tokens(hold.key())),
        }
    }
}

/// Rounded up, so that the server never expires a hold before we do.
fn milliseconds(ttl: Duration) -> String {
    ttl.as_nanos().div_ceil(1_000_000).to_string()
}
