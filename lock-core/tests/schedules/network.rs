//! The network of the simulated world, and the server behind it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;
use std::time::Duration;

use fastrand::Rng;
use lock_core::LockKey;
use lock_core::backend::HoldId;
use tokio::sync::oneshot;

use crate::clock::Time;
use crate::held;
use crate::server::Server;

/// Maximum extra delay of a request whose connection was cut.
pub(crate) const LATE_MAX: Duration = Duration::from_millis(150);

/// Minimum ttl of a shortened renewal, so that the client learns of it in time.
const SHORT: Duration = Duration::from_millis(10);

/// Carries requests of each process to the server in order, and answers back. It reports released
/// keys to each process, unless it drops the report.
pub(crate) struct Network(Mutex<State>);

#[derive(Debug)]
struct State {
    rng: Rng,
    now: Time,
    server: Server,
    /// Messages under way, by time of arrival and number.
    under_way: BTreeMap<(Time, u64), Message>,
    /// Number of messages so far.
    messages: u64,
    links: Vec<Link>,
    /// Maximum travel time of a message.
    latency: Duration,
    /// Dropped answers and wake-ups per 1000.
    swallowed: u32,
    /// Renewals per 1000 that get less than the requested ttl.
    shortened: u32,
    /// Senders of answers that never arrive. Keeping them keeps the connection open.
    silenced: Vec<oneshot::Sender<Answer>>,
}

/// The connection of one process.
#[derive(Debug, Default)]
struct Link {
    /// Arrivals of the last request and answer: messages in one direction do not overtake each
    /// other.
    last_request: Time,
    last_answer: Time,
    /// Keys that the server reported as released or removed.
    inbox: Vec<LockKey>,
    /// Time until which the network drops all messages of this process.
    silent_until: Time,
    is_dead: bool,
}

#[derive(Debug)]
struct Message {
    process: usize,
    content: Content,
}

#[derive(Debug)]
enum Content {
    /// A request; the sender is `None` if the client no longer waits for the answer.
    Request(Request, Option<oneshot::Sender<Answer>>),
    Answer(Answer, oneshot::Sender<Answer>),
    Changed(LockKey),
}

#[derive(Debug)]
pub(crate) enum Request {
    Take(HoldId),
    Renew(Vec<HoldId>),
    Shorten(HoldId, Duration),
    Release(HoldId),
}

/// An answer of the server. It has the number of a take's grant, the new ttl of each renewed hold,
/// or true if a released or shortened hold
/// existed.
#[derive(Debug)]
pub(crate) enum Answer {
    Taken(Option<u64>),
    Renewed(Vec<Option<Duration>>),
    Released(bool),
}

impl Network {
    pub(crate) fn new(rng: Rng, latency: Duration, swallowed: u32, shortened: u32) -> Self {
        Self(Mutex::new(State {
            rng,
            now: Time::ZERO,
            server: Server::default(),
            under_way: BTreeMap::new(),
            messages: 0,
            links: Vec::new(),
            latency,
            swallowed,
            shortened,
            silenced: Vec::new(),
        }))
    }

    /// Connects a new process, and returns its number.
    pub(crate) fn connect(&self) -> usize {
        let mut state = held(&self.0);
        state.links.push(Link::default());
        state.links.len() - 1
    }

    pub(crate) fn send(&self, process: usize, request: Request) -> oneshot::Receiver<Answer> {
        let (sender, receiver) = oneshot::channel();
        let mut state = held(&self.0);
        if state.links[process].is_dead || state.is_silent(process) {
            state.silenced.push(sender);
            return receiver;
        }
        let last = state.links[process].last_request;
        let arrives = state.arrival(last);
        state.links[process].last_request = arrives;
        state.post(arrives, process, Content::Request(request, Some(sender)));
        receiver
    }

    /// Moves time to `now` and delivers what is due. Returns the numbers of the receiving
    /// processes.
    pub(crate) fn deliver(&self, now: Time) -> Vec<usize> {
        let mut state = held(&self.0);
        let mut receivers = Vec::new();
        while let Some(first) = state.under_way.first_entry()
            && first.key().0 <= now
        {
            state.now = first.key().0;
            let message = state.under_way.pop_first().expect("it is the first").1;
            if !matches!(message.content, Content::Request(..)) {
                receivers.push(message.process);
            }
            state.arrive(message);
        }
        state.now = now;
        receivers
    }

    /// Returns the time of the next arrival.
    pub(crate) fn next_arrival(&self) -> Option<Time> {
        held(&self.0).under_way.keys().next().map(|(at, _)| *at)
    }

    /// Takes the keys that the server has reported to a process since the last call.
    pub(crate) fn inbox(&self, process: usize) -> Vec<LockKey> {
        std::mem::take(&mut held(&self.0).links[process].inbox)
    }

    /// Cuts the connection of a process, which opens a new one. Answers under way are lost,
    /// requests are lost or arrive late, and waiting clients get an error.
    pub(crate) fn cut(&self, process: usize) {
        let mut state = held(&self.0);
        let all = std::mem::take(&mut state.under_way);
        for ((at, number), message) in all {
            match message {
                Message {
                    process: of,
                    content,
                } if of == process => {
                    if let Content::Request(request, Some(_)) = content
                        && state.rng.bool()
                    {
                        let late = at + LATE_MAX.mul_f64(state.rng.f64());
                        state.post(late, process, Content::Request(request, None));
                    }
                }
                message => {
                    state.under_way.insert((at, number), message);
                }
            }
        }
        let now = state.now;
        let link = &mut state.links[process];
        (link.last_request, link.last_answer) = (now, now);
    }

    /// Drops all messages from and to a process until `until`.
    pub(crate) fn silence(&self, process: usize, until: Time) {
        held(&self.0).links[process].silent_until = until;
    }

    /// Marks a process as dead: the network drops its later messages.
    pub(crate) fn dies(&self, process: usize) {
        held(&self.0).links[process].is_dead = true;
    }

    /// Ends all faults.
    pub(crate) fn heal(&self) {
        let mut state = held(&self.0);
        (state.swallowed, state.shortened) = (0, 0);
        for link in &mut state.links {
            link.silent_until = Time::ZERO;
        }
    }

    pub(crate) fn remove(&self, key: &LockKey) {
        let mut state = held(&self.0);
        let now = state.now;
        if state.server.remove(key, now) {
            state.tell_all(key);
        }
    }

    /// Calls `look` with the server in its present state.
    pub(crate) fn server<T>(&self, look: impl FnOnce(&Server) -> T) -> T {
        let mut state = held(&self.0);
        let now = state.now;
        state.server.expire(now);
        look(&state.server)
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network").finish_non_exhaustive()
    }
}

impl State {
    /// Returns the arrival of a message that is sent now, not before `other`.
    fn arrival(&mut self, other: Time) -> Time {
        (self.now + self.latency.mul_f64(self.rng.f64())).max(other)
    }

    fn post(&mut self, arrives: Time, process: usize, content: Content) {
        self.messages += 1;
        let message = Message { process, content };
        self.under_way.insert((arrives, self.messages), message);
    }

    fn is_swallowed(&mut self, process: usize) -> bool {
        self.is_silent(process) || self.rng.u32(..1000) < self.swallowed
    }

    fn is_silent(&self, process: usize) -> bool {
        self.now < self.links[process].silent_until
    }

    fn arrive(&mut self, message: Message) {
        let Message { process, content } = message;
        match content {
            Content::Request(request, sender) => {
                let answer = self.serve(request);
                match sender {
                    Some(sender) if self.is_swallowed(process) => self.silenced.push(sender),
                    Some(sender) => {
                        let last = self.links[process].last_answer;
                        let arrives = self.arrival(last);
                        self.links[process].last_answer = arrives;
                        self.post(arrives, process, Content::Answer(answer, sender));
                    }
                    None => {}
                }
            }
            // The client may have gone.
            Content::Answer(answer, sender) => drop(sender.send(answer)),
            Content::Changed(key) => self.links[process].inbox.push(key),
        }
    }

    fn serve(&mut self, request: Request) -> Answer {
        let now = self.now;
        match request {
            Request::Take(hold) => Answer::Taken(self.server.take(&hold, now)),
            Request::Renew(holds) => {
                let renew = |hold| self.renew(hold, now);
                Answer::Renewed(holds.iter().map(renew).collect())
            }
            Request::Shorten(hold, left) => Answer::Released(self.server.shorten(&hold, left, now)),
            Request::Release(hold) => {
                let released = self.server.release(&hold, now);
                if released {
                    self.tell_all(hold.key());
                }
                Answer::Released(released)
            }
        }
    }

    fn renew(&mut self, hold: &HoldId, now: Time) -> Option<Duration> {
        let is_shortened = self.rng.u32(..1000) < self.shortened;
        let share = if is_shortened { self.rng.f64() } else { 1.0 };
        let ttl = hold.ttl().mul_f64(share).max(SHORT.min(hold.ttl())) + hold.reserve();
        // A store with minimum holds keeps them.
        let ttl = ttl.max(hold.min_hold());
        self.server.renew(hold, ttl, now).then_some(ttl)
    }

    fn tell_all(&mut self, key: &LockKey) {
        for process in 0..self.links.len() {
            if !self.is_swallowed(process) {
                let arrives = self.arrival(Time::ZERO);
                self.post(arrives, process, Content::Changed(key.clone()));
            }
        }
    }
}
