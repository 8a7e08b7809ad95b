//! A history: the claims of each key, with their grants and ends.

use std::collections::{BTreeMap, HashMap};

use lock_core::Mode;

use super::event::{Effect, Event, Happening};
use super::intervals::Intervals;

/// The records of all processes; the [module](crate::history) has an example.
#[derive(Debug, Default)]
pub struct History {
    keys: Vec<Key>,
    workers: Vec<Worker>,
    pub(super) faults: Vec<Fault>,
    /// The times in which any process was disturbed, or the machine stalled.
    pub(super) troubles: Intervals,
    /// The times in which the store was disturbed, or the machine stalled.
    pub(super) silence: Intervals,
    /// The end of the records.
    pub(super) end: u64,
}

#[derive(Debug)]
pub(super) struct Key {
    pub(super) name: String,
    /// In the order in which they were made.
    pub(super) claims: Vec<Claim>,
}

/// A process.
#[derive(Debug, Default)]
pub(super) struct Worker {
    pub(super) name: String,
    /// The times of the faults that affected this process alone.
    pub(super) troubles: Intervals,
}

/// A fault that was caused on purpose.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) kind: String,
    pub(super) begin: u64,
    pub(super) end: u64,
    pub(super) effect: Effect,
    /// The process that the fault affected; `None` for all processes.
    pub(super) worker: Option<usize>,
}

#[derive(Clone, Debug)]
pub(super) struct Claim {
    pub(super) worker: usize,
    pub(super) mode: Mode,
    /// In nanoseconds.
    pub(super) ttl: u64,
    pub(super) invoked: u64,
    pub(super) grant: Option<Grant>,
    /// The time and kind of its end: without a grant, or the end of its hold.
    pub(super) end: Option<(u64, End)>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Grant {
    /// A time after the acquisition had returned.
    pub(super) at: u64,
    pub(super) token: u64,
    /// The last time at which its guard certainly said that it is held.
    pub(super) held_until: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Refused, failed or cancelled.
    WithoutGrant,
    Released,
    Lost,
    /// The process was killed.
    Died,
}

impl Claim {
    /// Returns the span in which its guard certainly said that it is held.
    pub(super) fn certain(&self) -> Option<(u64, u64)> {
        let grant = self.grant?;
        (grant.at < grant.held_until).then_some((grant.at, grant.held_until))
    }

    /// Returns when the claim stopped waiting; `None` if it still waits.
    pub(super) fn answered(&self) -> Option<u64> {
        let without = self.end.filter(|(_, end)| *end != End::Released);
        let granted = self.grant.map(|grant| grant.at);
        granted.or(without.map(|(at, _)| at))
    }

    pub(super) fn is_lost(&self) -> bool {
        matches!(self.end, Some((_, End::Lost)))
    }
}

impl History {
    /// Creates a history from events in any order.
    pub fn new(events: impl IntoIterator<Item = Event>) -> Self {
        let mut builder = Builder::default();
        events.into_iter().for_each(|event| builder.take_in(event));
        builder.history()
    }

    pub(super) fn keys(&self) -> &[Key] {
        &self.keys
    }

    pub(super) fn key(&self, name: &str) -> Option<&Key> {
        self.keys.iter().find(|key| key.name == name)
    }

    pub(super) fn worker(&self, number: usize) -> &Worker {
        &self.workers[number]
    }

    /// Counts, by kind, the faults that affected a process while it held a lock.
    pub(super) fn faults_while_held(&self) -> BTreeMap<String, usize> {
        let holds = |worker: Option<usize>| {
            let claims = self.keys.iter().flat_map(|key| &key.claims);
            let ours =
                claims.filter(move |claim| worker.is_none_or(|worker| worker == claim.worker));
            Intervals::of(ours.filter_map(|claim| {
                let grant = claim.grant?;
                Some((grant.at, claim.end.map_or(grant.held_until, |(at, _)| at)))
            }))
        };
        let mut by_worker: HashMap<Option<usize>, Intervals> = HashMap::new();
        let mut faults = BTreeMap::new();
        for fault in &self.faults {
            let holds = by_worker
                .entry(fault.worker)
                .or_insert_with(|| holds(fault.worker));
            let count: &mut usize = faults.entry(fault.kind.clone()).or_default();
            *count += usize::from(holds.touches(fault.begin, fault.begin));
        }
        faults
    }
}

/// Groups the events by claim.
#[derive(Default)]
struct Builder {
    key_numbers: HashMap<String, usize>,
    worker_numbers: HashMap<String, usize>,
    claims: HashMap<(usize, u64), Draft>,
    deaths: HashMap<usize, u64>,
    faults: Vec<Fault>,
    stalls: Vec<(u64, u64)>,
    end: u64,
}

/// The known events of a claim.
#[derive(Default)]
struct Draft {
    invoke: Option<(u64, usize, Mode, u64)>,
    grant: Option<(u64, u64)>,
    held_until: u64,
    end: Option<(u64, End)>,
}

fn number_of(name: String, numbers: &mut HashMap<String, usize>) -> usize {
    let next = numbers.len();
    *numbers.entry(name).or_insert(next)
}

impl Builder {
    fn take_in(&mut self, event: Event) {
        let Event { at, worker, what } = event;
        self.end = self.end.max(at);
        let worker = worker.map(|name| number_of(name, &mut self.worker_numbers));
        match what {
            Happening::Fault {
                kind,
                until,
                effect,
            } => self.faults.push(Fault {
                kind,
                begin: at,
                end: until,
                effect,
                worker,
            }),
            Happening::Stall { until } => self.stalls.push((at, until)),
            Happening::End => {}
            Happening::Death => {
                self.deaths.extend(worker.map(|worker| (worker, at)));
            }
            of_a_claim => {
                if let Some(worker) = worker {
                    self.take_in_claim(at, worker, of_a_claim);
                }
            }
        }
    }

    fn take_in_claim(&mut self, at: u64, worker: usize, what: Happening) {
        match what {
            Happening::Invoke {
                claim,
                key,
                mode,
                ttl_ms,
            } => {
                let ttl = ttl_ms.saturating_mul(1_000_000);
                let key = number_of(key, &mut self.key_numbers);
                self.draft(worker, claim).invoke = Some((at, key, mode, ttl));
            }
            Happening::Grant { claim, token } => {
                self.draft(worker, claim).grant = Some((at, token));
            }
            Happening::Refuse { claim }
            | Happening::Fail { claim, .. }
            | Happening::Cancel { claim } => {
                self.draft(worker, claim).end = Some((at, End::WithoutGrant));
            }
            Happening::Held { claim } => self.draft(worker, claim).is_held_at(Some(at)),
            Happening::Loss { claim, held_at, .. } => {
                self.draft(worker, claim).ends(at, End::Lost, held_at);
            }
            Happening::Release { claim, held_at } => {
                self.draft(worker, claim).ends(at, End::Released, held_at);
            }
            Happening::Fault { .. }
            | Happening::Death
            | Happening::Stall { .. }
            | Happening::End => {}
        }
    }

    fn draft(&mut self, worker: usize, claim: u64) -> &mut Draft {
        self.claims.entry((worker, claim)).or_default()
    }

    fn history(self) -> History {
        let mut names: Vec<String> = vec![String::new(); self.key_numbers.len()];
        for (name, number) in self.key_numbers {
            names[number] = name;
        }
        let without_claims = |name| Key {
            name,
            claims: Vec::new(),
        };
        let mut keys: Vec<Key> = names.into_iter().map(without_claims).collect();
        for ((worker, _), draft) in self.claims {
            if let Some((key, claim)) = draft.finished(worker, self.deaths.get(&worker).copied()) {
                keys[key].claims.push(claim);
            }
        }
        for key in &mut keys {
            key.claims
                .sort_by_key(|claim| (claim.invoked, claim.worker));
        }
        let mut workers: Vec<Worker> = Vec::new();
        workers.resize_with(self.worker_numbers.len(), Worker::default);
        for (name, number) in self.worker_numbers {
            let own = |fault: &&Fault| fault.worker == Some(number);
            let troubles = self
                .faults
                .iter()
                .filter(own)
                .map(|fault| (fault.begin, fault.end));
            workers[number] = Worker {
                name,
                troubles: Intervals::of(troubles),
            };
        }
        let stretch = |fault: &Fault| (fault.begin, fault.end);
        let to_anybody = self.faults.iter().map(stretch);
        let to_all = self.faults.iter().filter(|fault| fault.worker.is_none());
        let to_all = to_all.map(stretch);
        History {
            keys,
            workers,
            troubles: Intervals::of(to_anybody.chain(self.stalls.iter().copied())),
            silence: Intervals::of(to_all.chain(self.stalls.iter().copied())),
            faults: self.faults,
            end: self.end,
        }
    }
}

impl Draft {
    fn is_held_at(&mut self, at: Option<u64>) {
        self.held_until = self.held_until.max(at.unwrap_or_default());
    }

    fn ends(&mut self, at: u64, end: End, held_at: Option<u64>) {
        self.is_held_at(held_at);
        self.end = Some((at, end));
    }

    /// Returns the claim and its key, or `None` if its start was not recorded.
    fn finished(self, worker: usize, died: Option<u64>) -> Option<(usize, Claim)> {
        let (invoked, key, mode, ttl) = self.invoke?;
        let grant = self.grant.map(|(at, token)| Grant {
            at,
            token,
            held_until: self.held_until.max(at),
        });
        let died = died.map(|at| (at.max(invoked), End::Died));
        let claim = Claim {
            worker,
            mode,
            ttl,
            invoked,
            grant,
            end: self.end.or(died),
        };
        Some((key, claim))
    }
}
