//! Tests of the news for the waiters of one client, in any order of events.

use super::*;
use lock_core::Mode::{Exclusive, Shared};

fn enter(
    wait: &Arc<SharedWait>,
    (created, key): (i64, &str),
    seen: QueueSnapshot,
) -> oneshot::Receiver<TurnNews> {
    let (tell, told) = oneshot::channel();
    let waiter = TurnWaiter {
        key: key.into(),
        tell,
    };
    wait.enter(created, waiter, Some(seen));
    told
}

#[test]
fn a_list_that_was_overtaken_is_no_error() {
    let wait = SharedWait::new("queue");
    let first = &[(1, "1", Exclusive), (2, "2", Exclusive)];
    let _told = enter(&wait, (2, "2"), QueueSnapshot::of(2, first));
    wait.mark_stale();
    let (before, sent) = (wait.revision(), Clock::Boot.now());
    let all = &[
        (1, "1", Exclusive),
        (2, "2", Exclusive),
        (3, "3", Exclusive),
    ];
    let _told = enter(&wait, (3, "3"), QueueSnapshot::of(3, all));
    wait.note_list(QueueSnapshot::of(2, first), before, sent)
        .unwrap();
    assert!(matches!(
        wait.advance(),
        WaitStep::Watch(Blocker::One(_, 1), 3)
    ));
}

#[test]
fn a_list_of_a_store_that_went_back_is_an_error() {
    let wait = SharedWait::new("queue");
    let claims = &[(1, "1", Exclusive), (2, "2", Exclusive)];
    let _told = enter(&wait, (2, "2"), QueueSnapshot::of(2, claims));
    let (before, sent) = (wait.revision(), Clock::Boot.now());
    let past = QueueSnapshot::of(1, &[(1, "1", Exclusive)]);
    wait.note_list(past, before, sent).unwrap_err();
}

#[test]
fn what_was_heard_is_not_forgotten_for_what_was_seen_before() {
    let wait = SharedWait::new("queue");
    let mut first = enter(
        &wait,
        (2, "2"),
        QueueSnapshot::of(2, &[(1, "1", Exclusive), (2, "2", Shared)]),
    );
    wait.note_gone(b"1", 4);
    assert!(matches!(wait.advance(), WaitStep::End));
    assert!(matches!(first.try_recv(), Ok(TurnNews::Next)));
    // The answer to the take was delayed for longer than the news.
    let seen = QueueSnapshot::of(
        3,
        &[(1, "1", Exclusive), (2, "2", Shared), (3, "3", Shared)],
    );
    let _second = enter(&wait, (3, "3"), seen);
    assert!(matches!(wait.advance(), WaitStep::List(_)));
}

/// Another process releases its claim `x` during a look, and uses the key of `x` again.
#[test]
fn a_look_takes_out_only_the_claim_that_it_looked_for() {
    let wait = SharedWait::new("q/");
    let mut first = enter(
        &wait,
        (15, "w"),
        QueueSnapshot::of(15, &[(10, "x", Exclusive), (15, "w", Exclusive)]),
    );
    assert!(matches!(
        wait.advance(),
        WaitStep::Watch(Blocker::One(_, 10), _)
    ));
    let looks = wait.looks();
    assert_eq!(looks.len(), 2);
    // Revision 18 deletes x, and 20 creates x again, behind w. In 30 a second waiter of this client
    // enters, and the answer to its take is this list.
    let seen = QueueSnapshot::of(
        30,
        &[
            (15, "w", Exclusive),
            (20, "x", Exclusive),
            (30, "b", Exclusive),
        ],
    );
    let mut second = enter(&wait, (30, "b"), seen);
    // The look is answered in revision 30: w is there as created in 15, x is not there as created
    // in 10.
    wait.note_looks(
        &looks,
        &[(30, Some(Exclusive)), (30, None)],
        Clock::Boot.now(),
    );
    assert!(matches!(
        wait.advance(),
        WaitStep::Watch(..) | WaitStep::List(_)
    ));
    assert!(matches!(first.try_recv(), Ok(TurnNews::Next)), "w is next");
    // The holder of w releases: now x may hold the key.
    wait.note_gone(b"w", 35);
    let _step = wait.advance();
    let told = second.try_recv();
    assert!(
        !matches!(told, Ok(TurnNews::Next)),
        "b is let in while x, created before it, holds the key"
    );
}

/// A claim that a look found missing counts as deleted, like a claim whose deletion was reported.
#[test]
fn what_a_look_found_gone_is_not_waited_for_again() {
    let wait = SharedWait::new("q/");
    let mut first = enter(
        &wait,
        (15, "w"),
        QueueSnapshot::of(15, &[(10, "x", Exclusive), (15, "w", Shared)]),
    );
    let looks = wait.looks();
    wait.note_looks(&looks, &[(40, Some(Shared)), (40, None)], Clock::Boot.now());
    let _step = wait.advance();
    assert!(matches!(first.try_recv(), Ok(TurnNews::Next)));
    // An answer that was delayed for longer.
    let seen = QueueSnapshot::of(
        17,
        &[(10, "x", Exclusive), (15, "w", Shared), (17, "b", Shared)],
    );
    let _second = enter(&wait, (17, "b"), seen);
    let step = wait.advance();
    assert!(
        matches!(step, WaitStep::List(_))
            || matches!(&step, WaitStep::Watch(Blocker::One(key, _), _) if key == b"w"),
        "it waits for x again"
    );
}
