//! The protocol between two clients and a store: leases, renewals, releases and tokens, in ticks of
//! time.
//!
//! Any client may stall for any time, and any message may be lost or arrive late. Only the clocks
//! keep running, and a clock loses at most one tick in a ttl.
//!
//! Each state numbers its owners and tokens anew. Only the order of tokens and the distinctness of
//! owners matter, so the number of states is finite.

use crate::explore::Model;
use crate::state::{Content, Holder, Message, Name, Number, Owner, Phase, State, Store};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Asks(Name),
    AsksAgain(Name),
    Renews(Name),
    /// Releases the hold, or its unanswered take, which may or may not have reached the store.
    GivesBack(Name),
    /// Loses all of its state.
    Crashes(Name),
    /// Checks whether it holds the lock. Its write may come any time later.
    Looks(Name),
    /// The write of a client that checked the lock reaches the resource.
    Writes(Name),
    Arrives(Message),
    IsLost(Message),
    /// One tick passes, for the first client possibly not.
    Ticks {
        first_is_slow: bool,
    },
    /// An operator deletes the lock.
    IsRemoved,
}

/// The rules and the extent of the model. Leaving out a rule shows its purpose.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Protocol {
    /// Time that the store keeps a hold, in ticks of its clock.
    pub(crate) ttl: u8,
    /// Time by which a client's validity is shorter than the ttl, in ticks of its own clock.
    pub(crate) margin: u8,
    /// True if the first client's clock may lose a tick, at most one in a ttl.
    pub(crate) drifts: bool,
    /// True if validity counts from the sending of the request, not from the answer.
    pub(crate) counts_from_sending: bool,
    /// True if a release removes only the hold of its own owner.
    pub(crate) release_compares: bool,
    /// True if the store ends a hold after its ttl.
    pub(crate) expires: bool,
    /// True if every grant has a greater token.
    pub(crate) tokens_grow: bool,
    /// True if the resource refuses tokens that are lower than the last accepted token.
    pub(crate) is_fenced: bool,
    /// Maximum number of messages under way.
    pub(crate) messages: usize,
    /// True if clients write to a resource. Without a resource, tokens have no effect and are all
    /// equal.
    pub(crate) has_resource: bool,
    /// True if an operator may delete the lock.
    pub(crate) removals: bool,
}

impl Protocol {
    pub(crate) const RIGHT: Self = Self {
        ttl: 3,
        margin: 1,
        drifts: true,
        counts_from_sending: true,
        release_compares: true,
        expires: true,
        tokens_grow: true,
        is_fenced: true,
        messages: 2,
        has_resource: false,
        removals: false,
    };

    /// Returns the time that a client counts on an answer, in ticks.
    fn validity(&self) -> u8 {
        self.ttl - self.margin
    }

    /// Returns the validity that remains for the client when an answer arrives.
    fn believed(&self, left: u8) -> u8 {
        if self.counts_from_sending {
            left
        } else {
            self.validity()
        }
    }
}

impl Model for Protocol {
    type State = State;
    type Step = Step;

    fn first(&self) -> State {
        State::default()
    }

    fn steps(&self, state: &State) -> Vec<(Step, State)> {
        let mut steps = Vec::new();
        for name in 0..state.clients.len() {
            self.client_steps(state, name, &mut steps);
        }
        for (index, message) in state.messages.iter().enumerate() {
            let mut lost = state.clone();
            lost.messages.remove(index);
            let mut arrived = lost.clone();
            self.arrive(&mut arrived, *message);
            steps.push((Step::IsLost(*message), lost));
            steps.push((Step::Arrives(*message), arrived));
        }
        for first_is_slow in [false, true] {
            if let Some(later) = self.tick(state, first_is_slow) {
                steps.push((Step::Ticks { first_is_slow }, later));
            }
        }
        if self.removals && state.store.holder.is_some() {
            let mut removed = state.clone();
            removed.store.holder = None;
            steps.push((Step::IsRemoved, removed));
        }
        steps.iter_mut().for_each(|(_, state)| state.renumber());
        steps
    }
}

impl Protocol {
    fn client_steps(&self, state: &State, name: Name, steps: &mut Vec<(Step, State)>) {
        let left = self.validity();
        let mut may = |step, phase, message: Option<(Owner, Content)>| {
            if message.is_none() || state.messages.len() < self.messages {
                let mut next = state.clone();
                next.clients[name].phase = phase;
                if let Some((owner, content)) = message {
                    next.send(name, owner, content);
                }
                steps.push((step, next));
            }
        };
        let phase = state.clients[name].phase;
        match phase {
            Phase::Idle => {
                let owner = state.fresh_owner();
                let take = Some((owner, Content::Take { left }));
                may(Step::Asks(name), Phase::Asking { owner }, take);
            }
            Phase::Asking { owner } => {
                let take = Some((owner, Content::Take { left }));
                may(Step::AsksAgain(name), phase, take);
                let release = Some((owner, Content::Release));
                may(Step::GivesBack(name), Phase::Idle, release);
                may(Step::Crashes(name), Phase::Idle, None);
            }
            Phase::Holding { owner, .. } => {
                let renew = Some((owner, Content::Renew { left }));
                may(Step::Renews(name), phase, renew);
                let release = Some((owner, Content::Release));
                may(Step::GivesBack(name), Phase::Idle, release);
                may(Step::Crashes(name), Phase::Idle, None);
            }
        }
        self.work(state, name, steps);
    }

    /// Adds the steps of a client that writes to the resource.
    fn work(&self, state: &State, name: Name, steps: &mut Vec<(Step, State)>) {
        if !self.has_resource {
            return;
        }
        let mut next = state.clone();
        match (state.clients[name].about_to_write, state.believes(name)) {
            (Some(number), _) => {
                next.clients[name].about_to_write = None;
                let is_refused = self.is_fenced && number.token < state.register.token;
                if !is_refused {
                    next.is_overwritten |= number.grant < state.register.grant;
                    next.register = number;
                }
                steps.push((Step::Writes(name), next));
            }
            (None, Some(number)) => {
                next.clients[name].about_to_write = Some(number);
                steps.push((Step::Looks(name), next));
            }
            (None, None) => {}
        }
    }

    /// Applies a message at its receiver.
    fn arrive(&self, state: &mut State, message: Message) {
        let Message {
            client,
            owner,
            content,
        } = message;
        let answer = match content {
            Content::Take { left } => Some(match self.take(&mut state.store, owner) {
                Some(number) => Content::Granted { number, left },
                None => Content::Refused,
            }),
            Content::Renew { left } => Some(match &mut state.store.holder {
                Some(holder) if holder.owner == owner => {
                    holder.left = self.ttl;
                    Content::Renewed { left }
                }
                _ => Content::Gone,
            }),
            Content::Release => {
                let is_theirs = |holder: Holder| holder.owner == owner || !self.release_compares;
                if state.store.holder.is_some_and(is_theirs) {
                    state.store.holder = None;
                }
                None
            }
            answer => {
                let phase = &mut state.clients[client].phase;
                *phase = self.hear(*phase, owner, answer);
                None
            }
        };
        if let Some(content) = answer {
            state.send(client, owner, content);
        }
    }

    fn take(&self, store: &mut Store, owner: Owner) -> Option<Number> {
        let is_other = |holder: Holder| holder.owner != owner;
        if store.holder.is_some_and(is_other) {
            return None;
        }
        // A take that is sent twice gets the same grant.
        let number = store.holder.map_or_else(
            || Number {
                grant: store.last.grant + u8::from(self.has_resource),
                token: store.last.token + u8::from(self.has_resource && self.tokens_grow),
            },
            |holder| holder.number,
        );
        store.last = number;
        store.holder = Some(Holder {
            owner,
            number,
            left: self.ttl,
        });
        Some(number)
    }

    /// Returns the client's next phase after an answer to a request of `owner`.
    fn hear(&self, phase: Phase, owner: Owner, answer: Content) -> Phase {
        match (phase, answer) {
            (Phase::Asking { .. }, Content::Granted { number, left })
                if self.believed(left) > 0 =>
            {
                let left = self.believed(left);
                Phase::Holding {
                    owner,
                    number,
                    left,
                }
            }
            (Phase::Holding { number, left, .. }, Content::Renewed { left: more }) => {
                let left = left.max(self.believed(more));
                Phase::Holding {
                    owner,
                    number,
                    left,
                }
            }
            // The answer to a resent take changes nothing: the first answer counts.
            (Phase::Holding { .. }, Content::Granted { .. } | Content::Refused) => phase,
            _ => Phase::Idle,
        }
    }

    /// Returns the state one tick later, or `None` if the first client's clock must not lose a tick
    /// now.
    fn tick(&self, state: &State, first_is_slow: bool) -> Option<State> {
        if first_is_slow && (!self.drifts || state.slow_again_in > 0) {
            return None;
        }
        let mut later = state.clone();
        later.slow_again_in = if first_is_slow {
            self.ttl
        } else {
            state.slow_again_in.saturating_sub(1)
        };
        let stands = |client: Name| client == 0 && first_is_slow;
        for (name, client) in later.clients.iter_mut().enumerate() {
            match &mut client.phase {
                Phase::Holding { .. } if stands(name) => {}
                // The client notices the end of its validity, and never counts on this grant again.
                Phase::Holding { left: 1, .. } => client.phase = Phase::Idle,
                Phase::Holding { left, .. } => *left -= 1,
                Phase::Idle | Phase::Asking { .. } => {}
            }
        }
        for message in &mut later.messages {
            if let Some(left) = message.content.left()
                && !stands(message.client)
            {
                *left = left.saturating_sub(1);
            }
        }
        if let Some(holder) = &mut later.store.holder
            && self.expires
        {
            holder.left -= 1;
            if holder.left == 0 {
                later.store.holder = None;
            }
        }
        Some(later)
    }
}
