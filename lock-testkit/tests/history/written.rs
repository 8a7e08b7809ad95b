//! Builders of histories for tests. All times are in milliseconds.

use lock_core::{Capabilities, Mode, TokenOrder};
use lock_testkit::history::{Effect, Event, Happening, History, Rule, Rules, Verdict};

pub(crate) const TTL: u64 = 900;

const MS: u64 = 1_000_000;

/// A claim of a worker, for the key `k` by default.
#[derive(Clone, Copy)]
pub(crate) struct Claim {
    worker: &'static str,
    number: u64,
    mode: Mode,
    key: &'static str,
}

pub(crate) fn exclusive(worker: &'static str, number: u64) -> Claim {
    Claim {
        worker,
        number,
        mode: Mode::Exclusive,
        key: "k",
    }
}

impl Claim {
    pub(crate) fn shared(self) -> Self {
        let mode = Mode::Shared;
        Self { mode, ..self }
    }

    pub(crate) fn permit(self, of: u32) -> Self {
        let mode = Mode::permit(of).expect("at least one");
        Self { mode, ..self }
    }

    pub(crate) fn of_key(self, key: &'static str) -> Self {
        Self { key, ..self }
    }

    fn event(self, at: u64, what: Happening) -> Event {
        let worker = Some(self.worker.to_owned());
        let at = at * MS;
        Event { at, worker, what }
    }

    pub(crate) fn asks(self, at: u64) -> Event {
        let what = Happening::Invoke {
            claim: self.number,
            key: self.key.to_owned(),
            mode: self.mode,
            ttl_ms: TTL,
        };
        self.event(at, what)
    }

    pub(crate) fn gets(self, at: u64, token: u64) -> Event {
        let claim = self.number;
        self.event(at, Happening::Grant { claim, token })
    }

    pub(crate) fn holds(self, at: u64) -> Event {
        let claim = self.number;
        self.event(at, Happening::Held { claim })
    }

    pub(crate) fn is_refused(self, at: u64) -> Event {
        let claim = self.number;
        self.event(at, Happening::Refuse { claim })
    }

    /// Returns the release; the last confirmed moment of the hold is 1 ms earlier.
    pub(crate) fn gives_back(self, at: u64) -> Event {
        let (claim, held_at) = (self.number, Some((at - 1) * MS));
        self.event(at, Happening::Release { claim, held_at })
    }

    pub(crate) fn loses(self, at: u64) -> Event {
        let (claim, held_at) = (self.number, Some((at - 1) * MS));
        let reason = "expired".to_owned();
        self.event(
            at,
            Happening::Loss {
                claim,
                held_at,
                reason,
            },
        )
    }

    pub(crate) fn is_killed(self, at: u64) -> Event {
        self.event(at, Happening::Death)
    }

    /// Returns the events of a claim that is granted after 1 ms and released at `until`.
    pub(crate) fn has_it(self, from: u64, until: u64, token: u64) -> Vec<Event> {
        let gets = self.gets(from + 1, token);
        vec![self.asks(from), gets, self.gives_back(until)]
    }
}

/// Returns a fault that affects all workers.
pub(crate) fn fault(from: u64, until: u64, effect: Effect) -> Event {
    let what = Happening::Fault {
        kind: "fault".to_owned(),
        until: until * MS,
        effect,
    };
    let worker = None;
    Event {
        at: from * MS,
        worker,
        what,
    }
}

/// Returns a fault that affects only `worker`.
pub(crate) fn fault_of(worker: &str, from: u64, until: u64) -> Event {
    let worker = Some(worker.to_owned());
    Event {
        worker,
        ..fault(from, until, Effect::None)
    }
}

pub(crate) fn stall(from: u64, until: u64) -> Event {
    let what = Happening::Stall { until: until * MS };
    Event {
        what,
        ..fault(from, until, Effect::None)
    }
}

pub(crate) fn end(at: u64) -> Event {
    let what = Happening::End;
    Event {
        what,
        ..fault(at, at, Effect::None)
    }
}

/// Returns the rules for a backend that makes all promises.
pub(crate) fn strict() -> Rules {
    let capabilities = Capabilities::new("strict").with_fairness();
    Rules::new(&capabilities.with_tokens(TokenOrder::Always))
}

pub(crate) fn check(events: &[Event], rules: &Rules) -> Verdict {
    // The check must not depend on the order of the lines.
    let mut events = events.to_vec();
    fastrand::shuffle(&mut events);
    History::new(events).check(rules)
}

pub(crate) fn assert_fine(events: &[Event], rules: &Rules) -> Verdict {
    let verdict = check(events, rules);
    lock_testkit::assert_excluded!(verdict.violations.is_empty(), "{:?}", verdict.violations);
    verdict
}

/// Asserts that the history breaks `rule` exactly `times` times, and no other rule.
pub(crate) fn assert_breaks(rule: Rule, times: usize, events: &[Event], rules: &Rules) {
    let violations = check(events, rules).violations;
    let broken: Vec<Rule> = violations.iter().map(|violation| violation.rule).collect();
    assert_eq!(broken, vec![rule; times], "{violations:?}");
}
