//! Runs a case: creates a runtime and a store, runs the steps, and checks that nothing is left.

mod apart;
mod report;
mod selection;
pub(crate) mod summary;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use lock_core::{DistributedLockExt, ErrorKind, LockRequest, Mode, Wait};

use crate::bench::{Bench, permit};
use crate::eventually::within;
use crate::excluded::Attempt;
use crate::steady::{message, run_again_after_stalls};
use crate::{Case, Group, Need, Outcome, Store};

/// Maximum time of a case, so that a case that hangs fails with its name.
const CASE_LIMIT: Duration = Duration::from_secs(120);

/// The environment variable that sets the seed of a case.
const SEED: &str = "LOCK_TESTKIT_SEED";

/// Runs `case` on the store that `new_store` creates for it, on a new runtime with two workers.
///
/// Virtual machines stall while their host is busy. If a case fails and no thread of this process
/// ran for 100 ms or more, it may only have been late. That is printed, and the case runs again on
/// a new store, up to three times in all. Cases about exclusion, modes and fencing fail at once,
/// since their results do not depend on time.
///
/// A case that sends a thousand requests at once never runs in a process together with a case that
/// measures short times. The second case waits for the first.
///
/// [`conformance!`](crate::conformance) calls this function for every case. Call it from a test
/// that needs the [`Outcome`], outside of any runtime.
///
/// # Panics
///
/// If the case fails. The panic message contains the reason and the seed of the random numbers. The
/// seed is random, unless the environment variable `LOCK_TESTKIT_SEED` sets it.
///
/// # Examples
///
/// ```
/// # use std::sync::Arc;
/// # use lock_core::{DistributedLock, MemoryLock};
/// # use lock_testkit::{Case, Store};
/// # struct Memory(MemoryLock);
/// # #[lock_testkit::async_trait]
/// # impl Store for Memory {
/// #     async fn client(&self) -> Arc<dyn DistributedLock> { Arc::new(self.0.new_client()) }
/// #     async fn residue(&self) -> Vec<String> { self.0.claims() }
/// # }
/// # async fn new_store(_: Case) -> Memory { Memory(MemoryLock::new()) }
/// use lock_testkit::{Group, Outcome, cases, run};
///
/// for case in cases().into_iter().filter(|case| case.group == Group::Residue) {
///     assert_eq!(run(case, new_store), Outcome::Proved, "{case}");
/// }
/// ```
pub fn run<M, F, S>(case: Case, new_store: M) -> Outcome
where
    M: Fn(Case) -> F,
    F: Future<Output = S>,
    S: Store,
{
    let _permission = apart::permission(case);
    let seed = seed();
    let attempt = || run_once(case, &new_store, seed);
    let outcome = if is_about_time(case) {
        run_again_after_stalls(&case.to_string(), attempt, |reason| reason.as_str())
    } else {
        attempt().0
    };
    outcome.unwrap_or_else(|reason| {
        panic!("{case} failed: {reason}\n({SEED}={seed} repeats its random choices)")
    })
}

fn is_about_time(case: Case) -> bool {
    !matches!(case.group, Group::Exclusion | Group::Modes | Group::Fencing)
}

/// Returns the outcome of a case, or the reason of its failure.
fn run_once<M, F, S>(case: Case, new_store: &M, seed: u64) -> (Result<Outcome, String>, Attempt)
where
    M: Fn(Case) -> F,
    F: Future<Output = S>,
    S: Store,
{
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime for the case");
    let attempt = Attempt::on(&runtime);
    let store: Arc<dyn Store> = Arc::new(runtime.block_on(new_store(case)));
    let task = runtime.spawn(perform(case, Arc::clone(&store), seed));
    let outcome = runtime.block_on(task);
    // A store that stays frozen cannot be shut down.
    runtime.block_on(store.thaw());
    let inside = runtime.enter();
    drop(store);
    drop(inside);
    runtime.shutdown_timeout(Duration::from_secs(1));
    let outcome = outcome.map_err(|failure| {
        let panic = failure.try_into_panic().ok();
        let reason = panic.as_deref().map_or("it was cancelled", message);
        reason.to_owned()
    });
    if let Ok(Outcome::Skipped(need)) = outcome {
        eprintln!("{case} skipped: {need}");
    }
    (outcome, attempt)
}

/// Runs the case `name` as a test of the module `tests`, and counts it for the summary.
///
/// Counts the test as absent if the store is not on this machine.
#[doc(hidden)]
pub fn run_named<M, F, S>(tests: &'static str, name: &str, is_there: fn() -> bool, new_store: M)
where
    M: Fn(Case) -> F,
    F: Future<Output = S>,
    S: Store,
{
    let case = crate::cases()
        .into_iter()
        .find(|case| case.to_string() == name)
        .expect("the macro and the list have the same cases");
    let ending = report::Ending::of(tests, case);
    if is_there() {
        ending.tell(Some(run(case, new_store)));
    } else {
        ending.tell(None);
    }
}

fn seed() -> u64 {
    match std::env::var(SEED) {
        Ok(seed) => seed
            .parse()
            .unwrap_or_else(|_| panic!("{SEED}={seed} is not a number")),
        Err(_) => fastrand::u64(..),
    }
}

async fn perform(case: Case, store: Arc<dyn Store>, seed: u64) -> Outcome {
    let bench = Bench::new(Arc::clone(&store), seed).await;
    let capabilities = bench.capabilities();
    let refused = [
        (Need::Shared, capabilities.shared, Mode::Shared),
        (Need::Permits, capabilities.permits, permit(2)),
        (Need::Upgrades, capabilities.upgrades, Mode::Upgradeable),
    ]
    .into_iter()
    .find(|(need, declared, _)| case.needs(*need) && !declared);
    if let Some((need, _, mode)) = refused {
        assert_unsupported(&bench, mode).await;
        return Outcome::Unsupported(need);
    }
    if case.needs(Need::LockDelay) && capabilities.longest_with_delay.is_zero() {
        let request = bench.exclusive("undeclared");
        assert_refused(&bench, request.with_lock_delay(bench.short())).await;
        return Outcome::Unsupported(Need::LockDelay);
    }
    if case.needs(Need::MinHold) && capabilities.longest_min_hold.is_zero() {
        let request = bench.exclusive("undeclared");
        assert_refused(&bench, request.holding_at_least(bench.short())).await;
        return Outcome::Unsupported(Need::MinHold);
    }
    if case.needs(Need::Inspect) && !capabilities.inspect {
        assert_no_inspect(&bench).await;
        return Outcome::Unsupported(Need::Inspect);
    }
    if case.needs(Need::Shutdown) && !can_be_shut_down(&bench).await {
        return Outcome::Unsupported(Need::Shutdown);
    }
    let promised = [
        (Need::Fair, capabilities.fair),
        (Need::Push, capabilities.push),
        (Need::Slots, capabilities.slots),
        (Need::Turns, store.takes_turns()),
        (Need::Processes, store.address().is_some()),
    ];
    for (need, declared) in promised {
        if case.needs(need) && !declared {
            return Outcome::Skipped(need);
        }
    }
    within(
        CASE_LIMIT,
        "the end of the case",
        (case.steps)(bench.clone()),
    )
    .await;
    store.thaw().await;
    bench.nothing_is_left().await;
    match bench.missing() {
        Some(need) => Outcome::Skipped(need),
        None => Outcome::Proved,
    }
}

async fn can_be_shut_down(bench: &Bench) -> bool {
    let unused = bench.client().await.locks();
    let shutdown = unused.shutdown(bench.prompt()).await;
    !matches!(shutdown, Err(error) if error.kind() == ErrorKind::Unsupported)
}

async fn assert_no_inspect(bench: &Bench) {
    let locks = bench.client().await.locks();
    let answer = within(bench.prompt(), "a refusal", locks.inspect("undeclared")).await;
    match answer {
        Err(error) if error.kind() == ErrorKind::Unsupported => {}
        other => panic!(
            "an inspection is not declared, so it has to be refused as unsupported: {other:?}"
        ),
    }
}

/// Asserts that an undeclared mode is refused as unsupported, not emulated or taken for a conflict.
pub(crate) async fn assert_unsupported(bench: &Bench, mode: Mode) {
    assert_refused(bench, bench.request("undeclared", mode)).await;
}

/// Asserts that an undeclared request is refused as unsupported, with any kind of wait.
pub(crate) async fn assert_refused(bench: &Bench, request: LockRequest) {
    let locks = bench.client().await.locks();
    for wait in [
        Wait::No,
        Wait::within(Duration::from_secs(1)),
        Wait::Forever,
    ] {
        let acquiring = locks.acquire(request.clone().with_wait(wait));
        let answer = within(bench.prompt(), "a refusal", acquiring).await;
        match answer {
            Err(error) if error.kind() == ErrorKind::Unsupported => {}
            other => panic!(
                "{:?} with a ttl of {:?}, a lock delay of {:?} and a minimum hold of {:?} is not declared, so it has to be refused as unsupported: {other:?}",
                request.mode,
                request.ttl(),
                request.lock_delay(),
                request.min_hold()
            ),
        }
    }
}
