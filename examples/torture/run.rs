//! Runs workers, faults and records together.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use lock_testkit::history::{Happening, History, Recorder, Rules, Verdict};
use polylock::{Capabilities, MySqlHold};
use tempfile::TempDir;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::arguments::Arguments;
use crate::bag::draws;
use crate::calm::Times;
use crate::faults::Lane;
use crate::headquarters::Headquarters;
use crate::protocol::{Job, Work};
use crate::proxies::Way;
use crate::registers::Updates;
use crate::server::Server;
use crate::stage::problem::Problem;
use crate::stage::{progress, run_instances};
use crate::torments;
use crate::worker::Worker;
use crate::workers::Workers;

/// The ttl, short so that faults have consequences.
const TTL: Duration = Duration::from_secs(2);

/// Time for which the workers continue after the last fault.
const CALM: Duration = Duration::from_secs(1);

/// Time limit for the last locks, besides several ttls: each waiter is to be served.
const END_LIMIT: Duration = Duration::from_secs(15);

/// Maximum number of pictures.
const PICTURES: usize = 10;

/// The outcome of a run.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) seed: u64,
    pub(crate) verdict: Verdict,
    /// Other problems, as text.
    pub(crate) complaints: Vec<String>,
    pub(crate) fenced: Updates,
    /// The directory of the records and pictures, if they were kept.
    pub(crate) kept: Option<PathBuf>,
}

impl Outcome {
    pub(crate) fn violations(&self) -> usize {
        self.verdict.violations.len() + self.complaints.len()
    }
}

pub(crate) async fn run(arguments: &Arguments) -> Result<Outcome, Problem> {
    // Any reader of JSON can represent numbers below 2^53.
    let seed = arguments.seed.unwrap_or_else(|| fastrand::u64(..1 << 53));
    let site = Site::new(arguments, seed, Work::All, TTL).await?;
    let stalls = site.recorder.watch_stalls();
    let ended = site.run(arguments, seed).await?;
    drop(stalls);
    site.recorder.note(Recorder::now(), Happening::End);
    let history = History::read(site.records.path())?;
    let mut rules = Rules::new(&site.capabilities);
    rules.handed_on = !arguments.hand_off.is_zero();
    let verdict = history.check(&rules);
    let mut complaints = Vec::new();
    if !ended.all {
        complaints.push("some workers did not come to an end in time".to_owned());
    }
    let excuse = 2 * site.ttl;
    let is_excused = |at: Instant| {
        // Where locks end with their connections, a removal may happen at any time.
        if site.connections_are_locks {
            return true;
        }
        let just_before = |removal: &Instant| *removal <= at && at < *removal + excuse;
        ended.removals.iter().any(just_before)
    };
    let together = site.headquarters.collisions(is_excused);
    if together > 0 {
        complaints.push(format!(
            "{together} times two holders were at a register together"
        ));
    }
    let (_, fenced) = site.headquarters.updates();
    if fenced.lost > 0 {
        let lost = fenced.lost;
        complaints.push(format!(
            "{lost} updates were lost although tokens were checked"
        ));
    }
    let mut outcome = Outcome {
        seed,
        verdict,
        complaints,
        fenced,
        kept: None,
    };
    if outcome.violations() > 0 || arguments.records.is_some() {
        draw(&history, &outcome.verdict, site.records.path())?;
        outcome.kept = Some(site.records.keep());
    }
    Ok(outcome)
}

fn draw(history: &History, verdict: &Verdict, directory: &Path) -> Result<(), Problem> {
    for (number, violation) in (1..=PICTURES).zip(&verdict.violations) {
        let file = directory.join(format!("violation-{number}.svg"));
        std::fs::write(file, history.picture(violation))?;
    }
    Ok(())
}

/// The directory of a run's records.
#[derive(Debug)]
enum Records {
    Passing(TempDir),
    Kept(PathBuf),
}

impl Records {
    fn new(wanted: Option<&Path>) -> Result<Self, Problem> {
        let Some(directory) = wanted else {
            return Ok(Self::Passing(
                tempfile::Builder::new().prefix("torture-").tempdir()?,
            ));
        };
        std::fs::create_dir_all(directory)?;
        if std::fs::read_dir(directory)?.next().is_some() {
            let directory = directory.display();
            return Err(format!("{directory} is not empty: choose another directory").into());
        }
        Ok(Self::Kept(directory.to_owned()))
    }

    fn path(&self) -> &Path {
        match self {
            Self::Passing(directory) => directory.path(),
            Self::Kept(directory) => directory,
        }
    }

    fn keep(self) -> PathBuf {
        match self {
            Self::Passing(directory) => directory.keep(),
            Self::Kept(directory) => directory,
        }
    }
}

/// The parts of a run, prepared before it begins.
pub(crate) struct Site {
    pub(crate) capabilities: Capabilities,
    pub(crate) ttl: Duration,
    pub(crate) recorder: Recorder,
    records: Records,
    pub(crate) headquarters: Arc<Headquarters>,
    pub(crate) are_processes: bool,
    ways: Vec<Way>,
    connections_are_locks: bool,
    server: Option<Arc<Server>>,
}

/// The end of a run.
struct Ended {
    /// True if every worker ended in time.
    all: bool,
    /// The moments at which the store may have forgotten locks.
    removals: Vec<Instant>,
}

impl Site {
    /// Prepares a run with this ttl, or with the store's minimum if that is longer.
    pub(crate) async fn new(
        arguments: &Arguments,
        seed: u64,
        work: Work,
        ttl: Duration,
    ) -> Result<Self, Problem> {
        let store = &arguments.store;
        let config = store.configuration()?;
        let (server, url) = match arguments.server {
            true => {
                let (server, url) = Server::start(&config.url).await?;
                (Some(Arc::new(server)), url)
            }
            false => (None, config.url.clone()),
        };
        let given = arguments.server.then(|| url.clone());
        let are_processes = store.is_shared_by_processes()?;
        let records = Records::new(arguments.records.as_deref())?;
        let recorder = Recorder::create(records.path().join("headquarters.jsonl"), "headquarters")?;
        let (hand_off, directory) = (arguments.hand_off, records.path());
        let job = |ttl| {
            Job::new(
                seed,
                store.clone(),
                ttl,
                hand_off,
                directory.to_owned(),
                work,
            )
        };
        let asked = job(ttl).by(given.clone()).configuration()?;
        let capabilities = polylock::connect(asked).await?.capabilities();
        let ttl = ttl.max(*capabilities.ttl.start());
        // A configuration of several stores has several URLs, and no proxies are put before them.
        let ways = (0..arguments.processes).map_while(|_| match config.locks.is_empty() {
            true => Way::to(&url),
            false => None,
        });
        let ways: Vec<Way> = ways.collect();
        if are_processes && ways.is_empty() {
            eprintln!(
                "torture: nothing can stand in between here, so connections are left alone; workers are stopped and killed"
            );
        }
        let urls = (0..arguments.processes as usize).map(|worker| {
            ways.get(worker)
                .map(|way| way.url.clone())
                .or(given.clone())
        });
        let workers = Workers::new(arguments.processes, are_processes, recorder.clone());
        let headquarters = Headquarters::new(job(ttl), urls.collect(), Arc::new(workers));
        Ok(Self {
            capabilities,
            ttl,
            recorder,
            records,
            headquarters: Arc::new(headquarters),
            are_processes,
            ways,
            connections_are_locks: config.hold == Some(MySqlHold::Row) || url.contains("hold=row"),
            server,
        })
    }

    async fn run(&self, arguments: &Arguments, seed: u64) -> Result<Ended, Problem> {
        let times = Times::new(arguments.minutes);
        let workers = arguments.processes;
        let running =
            run_instances::<Worker>(workers, self.are_processes, self.headquarters.clone());
        let mut running = std::pin::pin!(running);
        let removals = tokio::select! {
            ended = &mut running => {
                ended?;
                return Err("all workers have ended before their time".into());
            }
            removals = self.torment(times, workers, seed) => removals?,
        };
        self.headquarters.end();
        // Some requests have twice the ttl.
        let limit = END_LIMIT + 10 * self.ttl;
        let all = match timeout(limit, running).await {
            Ok(ended) => ended.map(|()| true)?,
            Err(_) => false,
        };
        Ok(Ended { all, removals })
    }

    /// Torments workers and servers, and returns some time after the last fault.
    async fn torment(
        &self,
        times: Times,
        workers: u32,
        seed: u64,
    ) -> Result<Vec<Instant>, Problem> {
        let lanes = (workers / 2).max(1);
        let lane = |lane: u32| {
            let lane_of_workers = Lane {
                times,
                workers: &self.headquarters.workers,
                numbers: (0..workers)
                    .filter(|worker| worker % lanes == lane)
                    .collect(),
                ways: &self.ways,
                recorder: &self.recorder,
                ttl: self.ttl,
                connections_are_locks: self.connections_are_locks,
            };
            let rng = draws(seed, ("lane", lane));
            async move { lane_of_workers.run(rng).await }
        };
        let harming = try_join_all((0..lanes).map(lane));
        let server = async {
            match &self.server {
                Some(server) => {
                    let rng = draws(seed, "server");
                    torments::run(Arc::clone(server), times, &self.recorder, self.ttl, rng).await
                }
                None => Ok(Vec::new()),
            }
        };
        let (_, removals, ()) = tokio::try_join!(harming, server, self.show(times))?;
        sleep(CALM).await;
        Ok(removals)
    }

    /// Shows the progress until the last fault.
    async fn show(&self, times: Times) -> Result<(), Problem> {
        let left = times.end() - Instant::now();
        let seconds = left.as_secs();
        let bar = progress::bar("torture", usize::try_from(seconds)?, "s")?;
        for second in (0..seconds).rev() {
            sleep_until(times.end() - Duration::from_secs(second)).await;
            bar.inc(1);
            bar.set_message(format!("{} grants", self.headquarters.granted()));
        }
        bar.finish_and_clear();
        sleep_until(times.end()).await;
        Ok(())
    }
}
