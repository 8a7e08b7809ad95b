//! What is in a state of the model, and how states that differ only in their numbers become one.

/// Which of two clients.
pub(crate) type Name = usize;

/// Identifies an acquisition: that of one client cannot be taken for that of another.
pub(crate) type Owner = u8;

/// More than there are at once: those that somebody knows, and one more.
const NUMBERS: usize = 16;

/// Counts grants. What a client is told is its `token`; how many grants there really were is the `grant`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Number {
    pub(crate) grant: u8,
    pub(crate) token: u8,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) clients: [Client; 2],
    /// Ticks until the clock of the first client may lose one again. That of the second is right.
    pub(crate) slow_again_in: u8,
    pub(crate) store: Store,
    /// What is under way, sorted.
    pub(crate) messages: Vec<Message>,
    /// What the resource under the lock has seen last.
    pub(crate) register: Number,
    /// Somebody who had been overtaken wrote over what its successor had written.
    pub(crate) is_overwritten: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    pub(crate) phase: Phase,
    /// It has looked whether it holds the lock, and will write with this token, be it however late.
    pub(crate) about_to_write: Option<Number>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    #[default]
    Idle,
    Asking {
        owner: Owner,
    },
    /// Believes that it holds the lock, while something is `left` by its own clock.
    Holding {
        owner: Owner,
        number: Number,
        left: u8,
    },
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Store {
    pub(crate) holder: Option<Holder>,
    /// The last grant.
    pub(crate) last: Number,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Holder {
    pub(crate) owner: Owner,
    pub(crate) number: Number,
    pub(crate) left: u8,
}

/// `left` is what is left by the client's clock of what it may believe, counted from when it sent the request.
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
    /// The number by which a client believes that it holds the lock.
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

    /// An owner that nobody remembers any more is as good as a new one.
    pub(crate) fn fresh_owner(&self) -> Owner {
        let known = self.owners();
        let fresh = (0..).find(|owner| !known.contains(owner));
        fresh.expect("there are more owners than places for them")
    }

    /// The numbers of everybody who knows one, in an order of their places.
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

    /// Whether `client` waits for an answer to what it asked as `owner`.
    fn listens(&self, client: Name, owner: Owner) -> bool {
        match self.clients[client].phase {
            Phase::Idle => false,
            Phase::Asking { owner: own } | Phase::Holding { owner: own, .. } => own == owner,
        }
    }

    /// Forgets what can make no difference any more: answers that nobody waits for, and what a client could have
    /// believed of one.
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

    /// Makes equal what is alike: numbers keep their order, owners their difference, messages have no order.
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

/// Which place each number has among those that there are.
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

    /// What is left of what the client may believe.
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
