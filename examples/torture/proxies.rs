//! The proxies between a worker and the store.

use std::time::Duration;

use fastrand::Rng;
use lock_testkit::faults::{Connections, Proxy};
use lock_testkit::location::{servers, with_servers};

/// Range of the number of bytes that pass before a connection is cut in the middle of a message.
const BYTES: std::ops::Range<usize> = 1..300;

/// One proxy in front of each server of the store, for one worker.
#[derive(Debug)]
pub(crate) struct Way {
    pub(crate) url: String,
    proxies: Vec<Proxy>,
}

/// A fault of the connections to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mishap {
    /// All data is delayed.
    Delay,
    /// No data arrives for a while, and then all of it.
    Stall,
    /// No data arrives any more.
    Lose,
    /// Connections are closed in order.
    Cut,
    /// A connection is closed in the middle of a message.
    CutMidway,
    /// Connections are reset, as by a host that does not know them.
    Reset,
    /// One direction of the connections is closed, the other stays open.
    HalfClose,
    /// The store performs the request, and the answer is lost with the connection.
    SwallowReply,
    /// The store performs the request, the answer is lost, and no data arrives any more.
    SwallowReplySilently,
}

impl Mishap {
    pub(crate) const ALL: [Self; 9] = [
        Self::Delay,
        Self::Stall,
        Self::Lose,
        Self::Cut,
        Self::CutMidway,
        Self::Reset,
        Self::HalfClose,
        Self::SwallowReply,
        Self::SwallowReplySilently,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Delay => "delay",
            Self::Stall => "stall",
            Self::Lose => "lose",
            Self::Cut => "cut",
            Self::CutMidway => "cut_midway",
            Self::Reset => "reset",
            Self::HalfClose => "half_close",
            Self::SwallowReply => "swallow_reply",
            Self::SwallowReplySilently => "swallow_reply_silently",
        }
    }

    /// Returns true if the fault ends a connection, at once or later.
    pub(crate) fn ends_connections(self) -> bool {
        !matches!(self, Self::Delay | Self::Stall)
    }

    /// Returns true if the fault lasts until it is ended.
    pub(crate) fn lasts(self) -> bool {
        !matches!(self, Self::Cut | Self::Reset | Self::HalfClose)
    }
}

impl Way {
    /// Creates the proxies for the store at `url`; `None` if its servers cannot be replaced by
    /// proxies.
    pub(crate) fn to(url: &str) -> Option<Self> {
        let proxies: Vec<Proxy> = servers(url)?
            .into_iter()
            .map(Proxy::before_server)
            .collect();
        let stops: Vec<String> = proxies
            .iter()
            .map(|proxy| format!("127.0.0.1:{}", proxy.port()))
            .collect();
        let url = with_servers(url, &stops);
        Some(Self { url, proxies })
    }

    /// Begins a fault on the connections to all servers, or to one of them.
    pub(crate) fn begin(&self, mishap: Mishap, rng: &mut Rng) {
        let one = rng.usize(0..self.proxies.len());
        let all = rng.bool();
        let chosen = self.proxies.iter().enumerate();
        let chosen = chosen.filter(|(number, _)| all || *number == one);
        let ways = rng.u32(0..3);
        for (_, proxy) in chosen {
            let connections = match ways {
                0 => proxy.all().to_server(),
                1 => proxy.all().to_client(),
                _ => proxy.all(),
            };
            begin(mishap, &connections, proxy, rng);
        }
    }

    /// Ends the fault: all data passes again.
    pub(crate) fn end(&self) {
        self.proxies.iter().for_each(|proxy| proxy.all().pass());
    }
}

fn begin(mishap: Mishap, connections: &Connections<'_>, proxy: &Proxy, rng: &mut Rng) {
    match mishap {
        Mishap::Delay => connections.delay(Duration::from_millis(rng.u64(2..250))),
        Mishap::Stall => connections.hold(),
        Mishap::Lose => connections.lose(),
        Mishap::Cut => connections.cut(),
        Mishap::CutMidway => connections.cut_after(rng.usize(BYTES)),
        Mishap::Reset => connections.reset(),
        Mishap::HalfClose if rng.bool() => proxy.all().to_server().half_close(),
        Mishap::HalfClose => proxy.all().to_client().half_close(),
        Mishap::SwallowReply => connections.lose_next_reply_and_cut(),
        Mishap::SwallowReplySilently => connections.lose_next_reply_and_go_silent(),
    }
}
