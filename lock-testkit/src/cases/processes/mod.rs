//! Holders and leaders in other processes: stopped, killed, or with many names.

mod endings;
mod inspected;
mod killed;
mod leaders;

use std::time::Duration;

use lock_core::{Mode, Wait};
use tokio::task::block_in_place;
use tokio::time::sleep;

pub(crate) use self::endings::*;
pub(crate) use self::inspected::*;
pub(crate) use self::killed::*;
pub(crate) use self::leaders::*;
use crate::bench::Bench;
use crate::client::release;
use crate::eventually::within;
use crate::processes::Role;

/// Maximum time, besides the ttl, until a waiter is granted after the end of a holder.
///
/// Some stores look for expired leases once or twice a second, some waiters look again each second,
/// and machines are busy.
pub(super) const SLACK: Duration = Duration::from_secs(2);

/// A resource behind a lock, which refuses a token lower than the highest that it has seen.
#[derive(Default)]
struct FencedRegister {
    highest: u64,
}

impl FencedRegister {
    fn write(&mut self, token: u64) -> bool {
        let accepted = token >= self.highest;
        self.highest = self.highest.max(token);
        accepted
    }
}

pub(crate) async fn a_process_that_stood_still_knows_at_once_and_its_late_write_is_refused(
    bench: Bench,
) {
    let [client, other] = bench.clients().await;
    let mut register = FencedRegister::default();
    let request = bench.brief("stopped", Mode::Exclusive);
    let (mut child, token) = bench.holder(&request, Role::Watch);
    assert!(register.write(token));

    block_in_place(|| child.freeze());
    let next = bench.exclusive("stopped");
    let waiting = client.acquire(next.clone().with_wait(Wait::Forever));
    let limit = bench.short() + SLACK;
    let what = "a holder that stands still waited out";
    let guard = within(limit, what, waiting).await.expect("no end");
    assert!(register.write(guard.token().value()), "tokens go back");
    sleep(bench.short()).await;
    block_in_place(|| child.thaw());

    let mut says = || block_in_place(|| child.says());
    assert_eq!(says(), "false", "its first look says that it is held");
    assert_eq!(says(), "true", "its loss is not told at the first poll");
    assert_eq!(says(), "true", "time remains");
    child.nudge();
    let late = block_in_place(|| child.token());
    assert_eq!(late, token);
    assert!(!register.write(late), "the late write was accepted");
    assert_eq!(block_in_place(|| child.says()), "AlreadyLost");
    other.is_refused_beside(&guard, &next).await;
    release(guard).await;
}

/// Runs in a process of its own, since other cases use the memory of this process.
pub(crate) async fn used_names_leave_no_memory_behind(bench: Bench) {
    const NAMES: usize = 8_000;
    /// The kilobytes that an allocator and the names of the last second may need. A name has 200
    /// bytes.
    const NOISE: usize = 1_500;
    let request = bench.exclusive("first");
    let (mut child, _) = bench.holder(&request, Role::UseNames(NAMES));
    let grown = block_in_place(|| child.growth());
    assert!(
        grown < NOISE,
        "{grown} kB more after {NAMES} more names that were used once"
    );
}
