//! The role of a leader, whose process may be stopped for longer than its term.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use lock_core::backend::Clock;
use lock_core::{DistributedLock, Election, HoldWatch, LockRequest};

use super::parent::say;

/// Sends the end of a term when it is dropped.
struct TellsEnd {
    late_polls: AtomicU32,
}

impl Drop for TellsEnd {
    fn drop(&mut self) {
        let late = self.late_polls.load(Ordering::SeqCst);
        say(format!("over {late}"));
    }
}

/// Leads again and again.
pub(super) async fn lead(locks: Arc<dyn DistributedLock>, request: &LockRequest) {
    let election = Election::new(locks, request.key.as_str()).expect("it was a key");
    let ttl = request.ttl();
    let mut election = election.with_ttl(ttl);
    if let Some(label) = request.label() {
        election = election.identity(label).expect("it was a label");
    }
    let leading = election.lead(|term: HoldWatch| {
        say(term.token());
        let ends = TellsEnd {
            late_polls: AtomicU32::new(0),
        };
        async move {
            let mut before = Clock::Boot.now();
            loop {
                let now = Clock::Boot.now();
                if now.since(before) > ttl {
                    ends.late_polls.fetch_add(1, Ordering::SeqCst);
                } else {
                    before = now;
                }
                // So rarely that the process can be stopped between two polls.
                tokio::time::sleep(ttl / 3).await;
            }
        }
    });
    let () = leading.await.expect("a candidate campaigns again");
}
