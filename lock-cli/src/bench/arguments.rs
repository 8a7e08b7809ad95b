//! The command line of `polylock bench`.

use std::time::Duration;

use clap::{Args, ValueEnum, value_parser};

/// Measure what locks cost on a store of yours, against the same commands sent raw.
///
/// Ours and the raw commands take turns in one run, over the same client library, so that what slows the
/// machine slows both; compare their ratio. Locks have names of their own below "polylock-bench/".
///
/// Exits with 0 when all went well, with 1 when the store failed or two held one lock at once, with 2 for
/// wrong arguments.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The store, such as redis://127.0.0.1:6379, mysql://root@127.0.0.1/database?hold=row,
    /// etcd://127.0.0.1:2379, zookeeper://127.0.0.1:2181 or memory://
    #[arg(long, value_name = "URL")]
    pub(crate) lock: String,

    /// What is measured
    #[arg(long, value_enum, default_value_t = Shape::Free)]
    pub(crate) shape: Shape,

    /// How many tasks each process has, or how many locks are held. Default: 1 for free, 64 for hot, 16 for
    /// procs, 10000 for held; handover has one in each of its two processes
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=1_000_000))]
    pub(crate) tasks: Option<u32>,

    /// How many processes. Default: 4 for procs, 2 for handover, 1 otherwise; free and held have no more.
    /// On memory:// each is a thread with a client of its own
    #[arg(long, value_name = "P", value_parser = value_parser!(u32).range(1..=256))]
    pub(crate) processes: Option<u32>,

    /// How long our locks are measured; the raw commands come on top of that. Default: 5, and 20 for held,
    /// where each lock is renewed once in a third of its ttl (30 s, or ?ttl= in the URL)
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub(crate) seconds: Option<f64>,

    /// How long a hot key may be handed on within a process; 0s for not at all. Default: what the URL
    /// says, or else 10ms
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub(crate) hand_off: Option<Duration>,

    /// Print one JSON object and nothing else. Counts and times (in microseconds) are integers, what a
    /// shape does not have is null; rates are per second, and process_shares are parts of 1
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shape {
    /// Each task has a key of its own; times are those of a lock and its release
    Free,
    /// All tasks want one key; times are from asking to having it, the raw commands are one task's alone
    Hot,
    /// Two processes alternate; times are from a release to the other's grant, raw is one round trip
    Handover,
    /// So many locks are held and renewed; rate is what the server is asked a second, times are those of a
    /// free lock meanwhile
    Held,
    /// As hot, over several processes
    Procs,
}

impl Shape {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Hot => "hot",
            Self::Handover => "handover",
            Self::Held => "held",
            Self::Procs => "procs",
        }
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(seconds),
        Ok(_) | Err(_) => Err("a number of seconds from 0.1 to 3600".to_owned()),
    }
}
