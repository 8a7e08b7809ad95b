//! The processes of a bench that want one key; each is another run of this program.
//!
//! A single worker is a task of this process. On memory, where each process would have its own
//! store, several workers are threads, each with its own runtime and client.

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

/// Time between the order for a rush and its begin, so that all workers begin together.
const LEAD: Duration = Duration::from_millis(20);

/// Maximum time without an answer from a worker, beyond the time that its order takes.
const SILENCE_LIMIT: Duration = Duration::from_secs(60);

/// The workers. Dropping this value ends them.
pub(crate) struct Crew {
    members: Vec<Member>,
    tasks: u32,
}

struct Member {
    link: Link,
    _host: Host,
}

/// The place where a worker runs, with the handle that ends it.
enum Host {
    Task(#[expect(dead_code, reason = "ends the task")] JoinSet<()>),
    /// The thread ends when its link does.
    Thread,
    Process(#[expect(dead_code, reason = "ends the process")] Box<Child>),
}

/// The outcome of a rush of all workers.
pub(crate) struct Rush {
    pub(crate) rushed: Vec<Rushed>,
    /// From the begin of the rush until the last task had its last lock.
    pub(crate) lasted: Duration,
}

/// Runs the worker in a process that a bench has started.
pub(crate) async fn work_for_parent() -> Result<(), Problem> {
    // The worker runs in a task, like the raw commands and like services. `block_on` would add a
    // thread switch.
    let mut task = JoinSet::new();
    task.spawn(work::serve(Link::new(
        tokio::io::stdin(),
        tokio::io::stdout(),
    )));
    task.join_next().await.unwrap_or(Ok(Ok(())))?
}

impl Crew {
    /// Starts `processes` workers with `tasks` each, ready to take the hot key of `store`.
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

    /// Makes all workers connect anew.
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

    /// Makes all tasks of all workers take the key again and again, for `lasting`.
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

    /// Makes one worker request the key.
    pub(crate) async fn ask(&mut self, member: usize) -> Result<(), Problem> {
        self.members[member].link.send(&Order::Ask).await
    }

    /// Waits until a worker holds the requested key; returns the token and the time of the grant.
    pub(crate) async fn has(&mut self, member: usize) -> Result<(u64, u64), Problem> {
        match self.members[member].answer(Duration::ZERO).await? {
            Answer::Has { token, at } => Ok((token, at)),
            other => Err(unexpected(&other)),
        }
    }

    /// Makes a worker release the key; returns the time just before the release.
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
            // The link reports a failure to the bench.
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
                // The link reports a failure to the bench.
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

    /// Waits for the worker's answer to an order that takes `lasting`.
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
