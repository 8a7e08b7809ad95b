//! The network of the simulated world, with the server behind it: what is on its way, and what becomes of it.

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

/// How late the requests of a connection that was cut may still arrive.
pub(crate) const LATE_MAX: Duration = Duration::from_millis(150);

/// What a renewal is shortened to at least: enough to hear of that in a world where all is answered.
const SHORT: Duration = Duration::from_millis(10);

/// Carries the requests of each process to the server in order, and the answers back; tells every process
/// that a key was given back, mostly.
pub(crate) struct Network(Mutex<State>);

#[derive(Debug)]
struct State {
    rng: Rng,
    now: Time,
    server: Server,
    /// What arrives when.
    under_way: BTreeMap<(Time, u64), Message>,
    /// How many messages there were.
    messages: u64,
    links: Vec<Link>,
    /// How long a message is on its way at most.
    latency: Duration,
    /// How many of 1000 answers and of 1000 wake-ups are swallowed.
    swallowed: u32,
    /// How many of 1000 renewals are granted for less than was asked for.
    shortened: u32,
    /// Answers that never come, while the connection stays open.
    silenced: Vec<oneshot::Sender<Answer>>,
}

/// The connection of one process.
#[derive(Debug, Default)]
struct Link {
    /// Messages in one direction do not overtake each other.
    last_request: Time,
    last_answer: Time,
    /// What it was told: keys that were given back or removed.
    inbox: Vec<LockKey>,
    /// Until when everything is swallowed.
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
    /// `None`: nobody waits for the answer any more.
    Request(Request, Option<oneshot::Sender<Answer>>),
    Answer(Answer, oneshot::Sender<Answer>),
    Changed(LockKey),
}

#[derive(Debug)]
pub(crate) enum Request {
    Take(HoldId),
    Renew(Vec<HoldId>),
    Release(HoldId),
}

/// What the server says: to a take the number of the grant, to a renewal for each hold for how long it is still
/// there, if it is, to a release whether it was.
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

    /// Connects a process that is new.
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

    /// Time goes on to `now`: delivers what has arrived by then, and says at which processes.
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

    /// When something arrives next.
    pub(crate) fn next_arrival(&self) -> Option<Time> {
        held(&self.0).under_way.keys().next().map(|(at, _)| *at)
    }

    /// What a process was told since it was asked last.
    pub(crate) fn inbox(&self, process: usize) -> Vec<LockKey> {
        std::mem::take(&mut held(&self.0).links[process].inbox)
    }

    /// Cuts the connection of a process, which opens a new one. Answers on their way are lost, requests
    /// are lost or arrive late, and whoever waits is told.
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

    /// Nothing comes from or to a process any more, until then.
    pub(crate) fn silence(&self, process: usize, until: Time) {
        held(&self.0).links[process].silent_until = until;
    }

    /// The process is no more: what it sends from now on goes nowhere.
    pub(crate) fn dies(&self, process: usize) {
        held(&self.0).links[process].is_dead = true;
    }

    /// Nothing is swallowed any more.
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

    /// Looks at the server, as it is now.
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
    /// When a message arrives that is sent now behind another one.
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
            // Whoever asked may have gone.
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
        let ttl = hold.ttl().mul_f64(share).max(SHORT.min(hold.ttl()));
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
