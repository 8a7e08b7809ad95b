//! One of many candidates leads, and its work ends before the next one leads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use lock_core::backend::Keeper;
use lock_core::{Election, HoldWatch};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::assert_excluded;
use crate::bench::Bench;
use crate::client::Client;
use crate::eventually::within;

pub(crate) const NAME: &str = "leader";

pub(crate) fn candidate(client: &Client, ttl: Duration) -> Election {
    let election = Election::new(client.locks(), NAME).expect("a valid name");
    election.with_ttl(ttl)
}

/// Sets a flag when it is dropped.
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// What a leader tells of each of its terms: the hold, and whether its work was dropped.
type Told = (HoldWatch, Arc<AtomicBool>);

/// Leads until the first term is lost, and tells of each term. A second term ends at once, so that
/// the other candidate leads.
async fn lead(election: Election, told: UnboundedSender<Told>) {
    let mut terms = 0;
    let leading = election.lead(move |term| {
        terms += 1;
        let is_first = terms == 1;
        let dropped = Arc::<AtomicBool>::default();
        let flag = Dropped(Arc::clone(&dropped));
        let told = told.send((term, dropped)).is_ok();
        async move {
            let _flag = flag;
            if told && is_first {
                std::future::pending::<()>().await;
            }
        }
    });
    leading.await.expect("a candidate campaigns again");
}

async fn next_term(bench: &Bench, terms: &mut UnboundedReceiver<Told>) -> Told {
    let told = within(bench.prompt(), "a leader", terms.recv()).await;
    told.expect("the candidate lives")
}

/// Asserts that a candidate leads after a freeze that is longer than the term, and that the work of
/// the leader before is over by then.
///
/// The work `may_stay`, without being polled, if nothing can drop it.
async fn another_leads_after_a_freeze(
    bench: &Bench,
    client: &Client,
    before: &Told,
    may_stay: bool,
) {
    let (held, dropped) = before;
    let next = candidate(client, bench.short());
    if !bench.freeze().await {
        return;
    }
    // Every renewal that is confirmed from now on was sent before.
    let after_the_term = Instant::now() + bench.short() * 3 / 2;
    if let Ok(Ok(term)) = timeout_at(after_the_term, next.campaign()).await {
        assert_excluded!(!held.is_held(), "two leaders on a frozen store");
        drop(term);
    }
    sleep_until(after_the_term).await;
    assert_excluded!(
        !held.is_held(),
        "two leaders: one leads {:?} after its last renewal",
        bench.short() * 3 / 2
    );
    bench.thaw().await;
    let limit = bench.short() + 2 * bench.prompt();
    let term = within(limit, "the next leader after a thaw", async {
        loop {
            match next.campaign().await {
                Ok(term) => return term,
                Err(error) => assert!(error.is_retryable(), "{error:?}"),
            }
        }
    })
    .await;
    assert_excluded!(!held.is_held(), "two leaders after a freeze");
    assert_excluded!(
        may_stay || dropped.load(Ordering::SeqCst),
        "the work of a leader still exists while the next one leads"
    );
    assert!(term.token() > held.token());
    within(bench.prompt(), "an answer to a resignation", term.resign())
        .await
        .expect("resigned");
}

pub(crate) async fn a_leader_resigns_when_its_work_is_done(bench: Bench) {
    let [first, second] = bench.clients().await;
    let election = candidate(&first, bench.short());
    let number = election.lead(async |term: HoldWatch| term.token());
    let number = within(bench.prompt(), "a leader", number)
        .await
        .expect("it leads");
    let next = candidate(&second, bench.short());
    let term = within(bench.prompt(), "the next leader", next.campaign()).await;
    let term = term.expect("it leads");
    assert!(term.token() > number);
    assert!(
        within(
            2 * bench.prompt(),
            "an answer",
            election.campaign_within(Duration::ZERO)
        )
        .await
        .expect("an answer")
        .is_none(),
        "two leaders"
    );
    term.resign().await.expect("resigned");
    bench.nothing_is_left().await;
}

pub(crate) async fn the_work_of_a_leader_ends_before_the_next_one_leads(bench: Bench) {
    let [first, second] = bench.clients().await;
    let (told, mut terms) = unbounded_channel();
    let mut leading = JoinSet::new();
    leading.spawn(lead(candidate(&first, bench.short()), told));
    let before = next_term(&bench, &mut terms).await;
    another_leads_after_a_freeze(&bench, &second, &before, false).await;
    leading.shutdown().await;
    bench.nothing_is_left().await;
}

/// Each candidate leads three times, in turn.
pub(crate) async fn observers_see_terms_with_growing_numbers(bench: Bench) {
    let [first, second, observer] = bench.clients().await;
    let candidates = [(&first, "first"), (&second, "second")].map(|(client, name)| {
        let election = candidate(client, bench.short());
        (election.identity(name).expect("a name"), name)
    });
    let mut leaders = candidate(&observer, bench.short()).observe();
    let mut before = None;
    for (election, name) in candidates.iter().cycle().take(6) {
        let term = within(bench.prompt(), "a leader", election.campaign()).await;
        let term = term.expect("it leads");
        let leader = within(bench.prompt(), "a leader observed", leaders.next()).await;
        let leader = leader.expect("no end").expect("the store answers");
        assert!(Some(leader.number) > before, "{leader:?} after {before:?}");
        assert_eq!(leader.number, term.number(), "another term: {leader:?}");
        assert_eq!(leader.identity.as_deref(), Some(*name), "{leader:?}");
        before = Some(leader.number);
        term.resign().await.expect("resigned");
    }
    // A term that is over does not come again.
    let again = tokio::time::timeout(bench.short(), leaders.next()).await;
    assert!(again.is_err(), "nobody leads: {again:?}");
    bench.nothing_is_left().await;
}

/// Another task blocks the only thread of the leader's runtime.
pub(crate) async fn a_blocked_thread_does_not_keep_a_leader(bench: Bench) {
    let [first, second] = bench.clients().await;
    let (told, mut terms) = unbounded_channel();
    let (block, blocked) = std::sync::mpsc::channel::<()>();
    let election = candidate(&first, bench.short());
    let leader = thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime for the leader");
        runtime.block_on(async {
            let (begun, mut begins) = unbounded_channel();
            let mut leading = JoinSet::new();
            leading.spawn(lead(election, begun));
            let term = begins.recv().await.expect("the candidate lives");
            told.send(term).expect("the case listens");
            // Blocks this thread until the case is over.
            let _over = blocked.recv();
        });
    });
    let before = next_term(&bench, &mut terms).await;
    let locks = first.locks();
    let may_stay = !locks.keeper().is_some_and(Keeper::has_own_thread);
    another_leads_after_a_freeze(&bench, &second, &before, may_stay).await;
    drop(block);
    tokio::task::block_in_place(|| leader.join()).expect("the leader's thread");
}
