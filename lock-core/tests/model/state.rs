//! The states of the model. States that differ only in their numbers become equal.

/// Index of one of the two clients.
pub(crate) type Name = usize;

/// Claim id of an acquisition. Acquisitions of different clients have different ids.
pub(crate) type Owner = u8;

/// Upper bound of the distinct numbers in a state, plus one for a new number.
const NUMBERS: usize = 16;

/// Number of a grant: the client gets `token`, and `grant` counts all grants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Number {
    pub(crate) grant: u8,
    pub(crate) token: u8,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) clients: [Client; 2],
    /// Ticks until the first client's clock may lose the next tick. The second client's clock is
    /// exact.
    pub(crate) slow_again_in: u8,
    pub(crate) store: Store,
    /// Messages under way, sorted.
    pub(crate) messages: Vec<Message>,
    /// Number of the last write that the resource accepted.
    pub(crate) register: Number,
    /// True if a former holder overwrote a write of a later holder.
    pub(crate) is_overwritten: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    pub(crate) phase: Phase,
    /// Number that the client saw when it checked the lock; its write may come much later.
    pub(crate) about_to_write: Option<Number>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    #[default]
    Idle,
    Asking {
        owner: Owner,
    },
    /// Believes that it holds the lock, until `left` ticks of its own clock are over.
    Holding {
        owner: Owner,
        number: Number,
        left: u8,
    },
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Store {
    pub(crate) holder: Option<Holder>,
    pub(crate) last: Number,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Holder {
    pub(crate) owner: Owner,
    pub(crate) number: Number,
    pub(crate) left: u8,
}

/// A message under way. A `left` in its content is the remaining validity by the client's clock,
/// counted from the sending of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Message {
    pub(crate) client: Name,
    pub(crate) owner: Owner,
    pub(crate) content: Content,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Content {
    Take { left: u8 },
    Granted { number: Number, left: u8 },
    Refused,
    Renew { left: u8 },
    Renewed { left: u8 },
    Gone,
    Release,
}

impl State {
    /// Returns the number of the grant that a client believes it holds.
    pub(crate) fn believes(&self, name: Name) -> Option<Number> {
        match self.clients[name].phase {
            Phase::Holding { number, .. } => Some(number),
            Phase::Idle | Phase::Asking { .. } => None,
        }
    }

    pub(crate) fn both_believe(&self) -> bool {
        self.believes(0).is_some() && self.believes(1).is_some()
    }

    pub(crate) fn send(&mut self, client: Name, owner: Owner, content: Content) {
        self.messages.push(Message {
            client,
            owner,
            content,
        });
    }

    /// Returns an owner that no client, message or store refers to.
    pub(crate) fn fresh_owner(&self) -> Owner {
        let known = self.owners();
        let fresh = (0..).find(|owner| !known.contains(owner));
        fresh.expect("there are more owners than places for them")
    }

    /// Returns all numbers in the state, in a fixed order.
    fn numbers_mut(&mut self) -> impl Iterator<Item = &mut Number> {
        let of_client = self.clients.iter_mut().flat_map(|client| {
            let held = match &mut client.phase {
                Phase::Holding { number, .. } => Some(number),
                Phase::Idle | Phase::Asking { .. } => None,
            };
            held.into_iter().chain(client.about_to_write.as_mut())
        });
        let of_message =
            self.messages
                .iter_mut()
                .filter_map(|message| match &mut message.content {
                    Content::Granted { number, .. } => Some(number),
                    _ => None,
                });
        let of_store = self
            .store
            .holder
            .iter_mut()
            .map(|holder| &mut holder.number);
        let others = [&mut self.store.last, &mut self.register];
        of_client.chain(of_message).chain(of_store).chain(others)
    }

    fn owners_mut(&mut self) -> impl Iterator<Item = &mut Owner> {
        let of_client = self
            .clients
            .iter_mut()
            .filter_map(|client| match &mut client.phase {
                Phase::Idle => None,
                Phase::Asking { owner } | Phase::Holding { owner, .. } => Some(owner),
            });
        let of_message = self.messages.iter_mut().map(|message| &mut message.owner);
        let of_holder = self.store.holder.iter_mut().map(|holder| &mut holder.owner);
        of_client.chain(of_message).chain(of_holder)
    }

    fn owners(&self) -> Vec<Owner> {
        let of_client = self.clients.iter().filter_map(|client| match client.phase {
            Phase::Idle => None,
            Phase::Asking { owner } | Phase::Holding { owner, .. } => Some(owner),
        });
        let of_message = self.messages.iter().map(|message| message.owner);
        let of_holder = self.store.holder.iter().map(|holder| holder.owner);
        of_client.chain(of_message).chain(of_holder).collect()
    }

    /// Returns true if `client` waits for an answer to a request of `owner`.
    fn listens(&self, client: Name, owner: Owner) -> bool {
        match self.clients[client].phase {
            Phase::Idle => false,
            Phase::Asking { owner: own } | Phase::Holding { owner: own, .. } => own == owner,
        }
    }

    /// Removes differences that have no effect: answers that no client waits for, and validity that
    /// no client will count on.
    fn forget(&mut self) {
        let mut messages = std::mem::take(&mut self.messages);
        messages.retain_mut(|message| {
            if self.listens(message.client, message.owner) {
                return true;
            }
            message.client = 0;
            if let Some(left) = message.content.left() {
                *left = 0;
            }
            message.content.is_request()
        });
        self.messages = messages;
    }

    /// Makes equivalent states equal. The order of numbers and the distinctness of owners stay;
    /// messages get sorted.
    pub(crate) fn renumber(&mut self) {
        self.forget();
        let grants = ranks(self.numbers_mut().map(|number| number.grant));
        let tokens = ranks(self.numbers_mut().map(|number| number.token));
        for number in self.numbers_mut() {
            number.grant = grants[usize::from(number.grant)];
            number.token = tokens[usize::from(number.token)];
        }
        let mut known = Vec::new();
        for owner in self.owners_mut() {
            let place = known.iter().position(|other| other == owner);
            let place = place.unwrap_or_else(|| {
                known.push(*owner);
                known.len() - 1
            });
            *owner = place as Owner;
        }
        self.messages.sort_unstable();
    }
}

/// Returns the rank of each number among the given numbers.
fn ranks(numbers: impl Iterator<Item = u8>) -> [u8; NUMBERS] {
    let mut ranks = [0; NUMBERS];
    numbers.for_each(|number| ranks[usize::from(number)] = 1);
    let mut smaller = 0;
    for rank in &mut ranks {
        smaller += std::mem::replace(rank, smaller);
    }
    ranks
}

impl Content {
    fn is_request(&self) -> bool {
        matches!(self, Self::Take { .. } | Self::Renew { .. } | Self::Release)
    }

    /// Returns the remaining validity that the client may count on.
    pub(crate) fn left(&mut self) -> Option<&mut u8> {
        match self {
            Self::Take { left }
            | Self::Granted { left, .. }
            | Self::Renew { left }
            | Self::Renewed { left } => Some(left),
            Self::Refused | Self::Gone | Self::Release => None,
        }
    }
}
