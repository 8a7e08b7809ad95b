//! The protocol of leases, renewals, releases and tokens between two clients and a store, in small ticks of time.
//!
//! Nobody has to hurry: any client may stand still for as long as it likes, and any message may be lost or arrive
//! late. Only clocks go on, and lose one tick in a ttl at most.
//!
//! Owners and tokens are numbered anew in each state. Nothing but their order counts for tokens, and nothing but
//! their difference for owners, so there are finitely many states however long it goes on.

use crate::explore::Model;
use crate::state::{Content, Holder, Message, Name, Number, Owner, Phase, State, Store};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Asks(Name),
    AsksAgain(Name),
    Renews(Name),
    /// Or gives up what it asked for, of which nobody knows how far it has come.
    GivesBack(Name),
    /// Forgets everything.
    Crashes(Name),
    /// Looks whether it holds the lock, and then stands still or is slow.
    Looks(Name),
    /// What it meant to write when it looked arrives at the resource.
    Writes(Name),
    Arrives(Message),
    IsLost(Message),
    /// Time goes on, for the first client perhaps not.
    Ticks {
        first_is_slow: bool,
    },
    /// An operator deletes the lock.
    IsRemoved,
}

/// The rules of the protocol. A model without one of them shows what it is good for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Protocol {
    /// How long the store keeps a hold, in ticks of its clock.
    pub(crate) ttl: u8,
    /// By how much less a client believes in it, in ticks of its own.
    pub(crate) margin: u8,
    /// Whether the clock of the first client loses a tick now and then, but one in a ttl at most.
    pub(crate) drifts: bool,
    /// What a client believes counts from when it sent the request, not from when the answer came.
    pub(crate) counts_from_sending: bool,
    /// A release removes the hold of its own owner only.
    pub(crate) release_compares: bool,
    /// The store ends a hold by itself after its ttl.
    pub(crate) expires: bool,
    /// Every grant has a greater token.
    pub(crate) tokens_grow: bool,
    /// The resource refuses tokens that are lower than one it has seen.
    pub(crate) is_fenced: bool,
    /// How many messages may be under way at once.
    pub(crate) messages: usize,
    /// Whether the lock is for anything. Without that, tokens make no difference and are all the same.
    pub(crate) has_resource: bool,
    /// Whether operators delete locks.
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

    /// For how long a client believes in an answer.
    fn validity(&self) -> u8 {
        self.ttl - self.margin
    }

    /// The same, when the answer arrives.
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

    /// What a client does with the resource that the lock is for.
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

    /// What a message does where it arrives.
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
        // Asked twice, it is granted once.
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

    /// What a client makes of an answer to what it asked as `owner`.
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
            // It was granted twice, or is refused after that: the first answer counts.
            (Phase::Holding { .. }, Content::Granted { .. } | Content::Refused) => phase,
            _ => Phase::Idle,
        }
    }

    /// One tick later by the store's clock; `None` where the first client's cannot be slow again.
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
                // It is told, and never believes in it again.
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
