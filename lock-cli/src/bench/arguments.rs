//! The command line of `polylock bench`.

use std::time::Duration;

use clap::{Args, ValueEnum, value_parser};

/// Measure the cost of locks on a store, against the least commands that could do the same.
///
/// polylock and the raw commands take turns in one run, over the same client library. So a slower
/// machine slows both; compare their ratio. The keys of the locks begin with "polylock-bench/".
///
/// Exits with 0 on success, with 1 if the store failed or two tasks held one lock at once, with 2
/// for wrong arguments.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The store, such as redis://127.0.0.1:6379, mysql://root@127.0.0.1/database?hold=row,
    /// etcd://127.0.0.1:2379, zookeeper://127.0.0.1:2181 or memory://
    #[arg(long, value_name = "URL")]
    pub(crate) lock: String,

    /// The workload to measure
    #[arg(long, value_enum, default_value_t = Shape::Free)]
    pub(crate) shape: Shape,

    /// Number of tasks in each process, or of locks to hold. Default: 1 for free, 64 for hot, 16
    /// for procs, 10000 for held; always 1 for handover
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=1_000_000))]
    pub(crate) tasks: Option<u32>,

    /// Number of processes. Default: 4 for procs, 2 for handover, 1 otherwise; free and held allow
    /// no more. On memory:// each is a thread with its own client
    #[arg(long, value_name = "P", value_parser = value_parser!(u32).range(1..=256))]
    pub(crate) processes: Option<u32>,

    /// Number of seconds for which polylock is measured; the raw commands take additional time.
    /// Default: 5, and 20 for held, which renews each lock once in a third of its ttl (30 s, or
    /// ?ttl= in the URL)
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub(crate) seconds: Option<f64>,

    /// Maximum time that a hot key is handed on within a process; 0s: no hand-off. Default: the
    /// value in the URL, or else 10ms
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub(crate) hand_off: Option<Duration>,

    /// Print one JSON object and nothing else. Counts and times (in microseconds) are integers,
    /// figures that a shape does not have are null; rates are per second, and process_shares are
    /// parts of 1
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shape {
    /// Each task has a key of its own; times are those of a lock and its release
    Free,
    /// All tasks want one key; times are from request to grant, the raw commands are sent by a
    /// single task
    Hot,
    /// Two processes alternate; times are from a release to the other's grant, raw is one round
    /// trip
    Handover,
    /// A number of locks is held and renewed; rate is the server's number of requests a second,
    /// times are those of a free lock meanwhile
    Held,
    /// Like hot, over several processes
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
