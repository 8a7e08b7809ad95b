//! The processes of a bench that want one key: this program again, started by itself.
//!
//! A single one is a task of this process. On memory, which each process has for itself, several are
//! threads, each with a runtime and a client of its own.

mod wire;
mod work;

use std::process::Stdio;
use std::time::Duration;

use tokio::process::{Child, Command};
use tokio::task::JoinSet;
use tokio::time::timeout;

pub(crate) use self::wire::Rushed;
use self::wire::{Answer, Job, Link, Order};
use super::clock;
use super::store::Store;
use crate::problem::Problem;

/// How long after it was told a rush begins, so that all begin together.
const LEAD: Duration = Duration::from_millis(20);

/// A worker that says nothing for so long, beyond what it was told to do, is given up.
const SILENCE_LIMIT: Duration = Duration::from_secs(60);

/// The workers. They end with this value.
pub(crate) struct Crew {
    members: Vec<Member>,
    tasks: u32,
}

struct Member {
    link: Link,
    _host: Host,
}

/// Where a worker is, as far as that has to be kept.
enum Host {
    Task(#[expect(dead_code, reason = "ends the task")] JoinSet<()>),
    /// Which ends when its link does.
    Thread,
    Process(#[expect(dead_code, reason = "ends the process")] Box<Child>),
}

/// What came of a rush of all.
pub(crate) struct Rush {
    pub(crate) rushed: Vec<Rushed>,
    /// From its begin until the last task of all had its last lock.
    pub(crate) lasted: Duration,
}

/// What a process does that a bench has started.
pub(crate) async fn work_for_parent() -> Result<(), Problem> {
    // In a task, as the raw commands are sent and as services work: whoever blocks on a future is a thread more.
    let mut task = JoinSet::new();
    task.spawn(work::serve(Link::new(
        tokio::io::stdin(),
        tokio::io::stdout(),
    )));
    task.join_next().await.unwrap_or(Ok(Ok(())))?
}

impl Crew {
    /// `processes` of them with `tasks` each, ready to take `key` of `store`.
    pub(crate) async fn start(store: &Store, processes: u32, tasks: u32) -> Result<Self, Problem> {
        let mut members = Vec::new();
        for _ in 0..processes {
            members.push(match processes {
                1 => Member::task(),
                _ if store.is_memory() => Member::thread()?,
                _ => Member::process()?,
            });
        }
        let mut crew = Self { members, tasks };
        crew.prepare(store).await?;
        Ok(crew)
    }

    /// Has all connect anew.
    pub(crate) async fn prepare(&mut self, store: &Store) -> Result<(), Problem> {
        let has_rivals = self.members.len() > 1;
        for member in &mut self.members {
            let job = Job {
                url: store.url.clone(),
                hand_off: store.hand_off,
                key: store.key("hot"),
                tasks: self.tasks,
                has_rivals,
            };
            member.link.send(&Order::Prepare(job)).await?;
        }
        for member in &mut self.members {
            match member.answer(Duration::ZERO).await? {
                Answer::Ready => {}
                other => return Err(unexpected(&other)),
            }
        }
        Ok(())
    }

    /// Has all tasks of all take the key for a while.
    pub(crate) async fn rush(&mut self, lasting: Duration) -> Result<Rush, Problem> {
        let after = |time: Duration| clock::now() + u64::try_from(time.as_nanos()).unwrap_or(0);
        let begins = after(LEAD);
        let ends = after(LEAD + lasting);
        for member in &mut self.members {
            member.link.send(&Order::Rush { begins, ends }).await?;
        }
        let mut rushed = Vec::new();
        for member in &mut self.members {
            match member.answer(lasting).await? {
                Answer::Rushed(one) => rushed.push(one),
                other => return Err(unexpected(&other)),
            }
        }
        let ended = rushed.iter().map(|one| one.ended).max();
        Ok(Rush {
            lasted: clock::between(begins, ended.unwrap_or(ends)),
            rushed,
        })
    }

    /// Has one begin to ask for the key.
    pub(crate) async fn ask(&mut self, member: usize) -> Result<(), Problem> {
        self.members[member].link.send(&Order::Ask).await
    }

    /// Waits until one that has asked has the key: its token, and since when.
    pub(crate) async fn has(&mut self, member: usize) -> Result<(u64, u64), Problem> {
        match self.members[member].answer(Duration::ZERO).await? {
            Answer::Has { token, at } => Ok((token, at)),
            other => Err(unexpected(&other)),
        }
    }

    /// Has one give the key back, and tells when it was about to.
    pub(crate) async fn release(&mut self, member: usize) -> Result<u64, Problem> {
        let member = &mut self.members[member];
        member.link.send(&Order::Release).await?;
        match member.answer(Duration::ZERO).await? {
            Answer::Released { at } => Ok(at),
            other => Err(unexpected(&other)),
        }
    }
}

impl Member {
    fn task() -> Self {
        let [link, end] = Link::pair();
        let mut task = JoinSet::new();
        task.spawn(async move {
            // The bench is told by the link.
            let _told = work::serve(end).await;
        });
        Self {
            link,
            _host: Host::Task(task),
        }
    }

    fn thread() -> Result<Self, Problem> {
        let [link, end] = Link::pair();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?;
        std::thread::Builder::new()
            .name("polylock-bench-worker".into())
            .spawn(move || {
                // The bench is told by the link.
                let _told = runtime.block_on(runtime.spawn(work::serve(end)));
            })?;
        Ok(Self {
            link,
            _host: Host::Thread,
        })
    }

    fn process() -> Result<Self, Problem> {
        let mut process = Command::new(std::env::current_exe()?)
            .arg("bench-worker")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let pipes = process.stdout.take().zip(process.stdin.take());
        let (reader, writer) = pipes.ok_or("a process without pipes")?;
        Ok(Self {
            link: Link::new(reader, writer),
            _host: Host::Process(Box::new(process)),
        })
    }

    /// What it says after it was told to do something for `lasting`.
    async fn answer(&mut self, lasting: Duration) -> Result<Answer, Problem> {
        let limit = lasting + SILENCE_LIMIT;
        match timeout(limit, self.link.receive()).await {
            Ok(Ok(Some(Answer::Failed(problem)))) => Err(problem.into()),
            Ok(Ok(Some(answer))) => Ok(answer),
            Ok(Ok(None)) => Err("a process of the bench has ended by itself".into()),
            Ok(Err(problem)) => Err(problem),
            Err(_) => Err(format!("a process of the bench has said nothing for {limit:?}").into()),
        }
    }
}

fn unexpected(answer: &Answer) -> Problem {
    format!("a process of the bench has answered something else: {answer:?}").into()
}
