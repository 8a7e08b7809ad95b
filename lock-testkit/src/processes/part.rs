//! The instructions for a child, which it gets in its environment.

use std::process::Command;
use std::time::Duration;

use lock_core::{LockKey, LockRequest, Mode};

use super::Role;

const STORE: &str = "LOCK_TESTKIT_CHILD_STORE";
const ROLE: &str = "LOCK_TESTKIT_CHILD_ROLE";
const KEY: &str = "LOCK_TESTKIT_CHILD_KEY";
const MODE: &str = "LOCK_TESTKIT_CHILD_MODE";
const TTL: &str = "LOCK_TESTKIT_CHILD_TTL";
const LOCK_DELAY: &str = "LOCK_TESTKIT_CHILD_LOCK_DELAY";
const MIN_HOLD: &str = "LOCK_TESTKIT_CHILD_MIN_HOLD";
const LABEL: &str = "LOCK_TESTKIT_CHILD_LABEL";

pub(super) struct Part {
    pub(super) store: String,
    pub(super) request: LockRequest,
    pub(super) role: Role,
}

impl Part {
    pub(super) fn give_to(&self, command: &mut Command) {
        let mode = match self.request.mode {
            Mode::Shared => "shared".to_owned(),
            Mode::Upgradeable => "upgradeable".to_owned(),
            Mode::Permit { of } => of.to_string(),
            _ => "exclusive".to_owned(),
        };
        command
            .env(STORE, &self.store)
            .env(ROLE, self.role.to_words())
            .env(KEY, self.request.key.as_str())
            .env(MODE, mode);
        if let Some(label) = self.request.label() {
            command.env(LABEL, label);
        }
        for (name, duration) in [
            (TTL, self.request.ttl),
            (LOCK_DELAY, self.request.lock_delay),
            (MIN_HOLD, self.request.min_hold),
        ] {
            if let Some(duration) = duration {
                command.env(name, duration.as_nanos().to_string());
            }
        }
    }

    pub(super) fn is_of_this_process() -> bool {
        std::env::var_os(ROLE).is_some()
    }

    /// Returns the part of this process, or `None` if it is not a child.
    pub(super) fn of_this_process() -> Option<Self> {
        let role = std::env::var(ROLE).ok()?;
        let told = |name| std::env::var(name).expect("the parent tells all of it");
        let mode = match told(MODE).as_str() {
            "exclusive" => Mode::Exclusive,
            "upgradeable" => Mode::Upgradeable,
            "shared" => Mode::Shared,
            of => Mode::permit(of.parse().expect("a number of permits")).expect("at least one"),
        };
        let key = LockKey::new(told(KEY)).expect("it was a key");
        let mut request = LockRequest::new(key, mode);
        request.ttl = duration(TTL);
        request.lock_delay = duration(LOCK_DELAY);
        request.min_hold = duration(MIN_HOLD);
        if let Ok(label) = std::env::var(LABEL) {
            request = request.labelled(label).expect("it was a label");
        }
        Some(Self {
            store: told(STORE),
            request,
            role: Role::from_words(&role).unwrap_or_else(|| panic!("no such role: {role}")),
        })
    }
}

fn duration(name: &str) -> Option<Duration> {
    let told = std::env::var(name).ok()?;
    Some(Duration::from_nanos(told.parse().expect("nanoseconds")))
}
