//! The life of a child, from its start to its end.

use std::sync::Arc;

use lock_core::DistributedLock;
use lock_core::backend::Clock;
use tokio::runtime::{Builder, Runtime};

use super::parent::{CONNECTED, Parent};
use super::part::Part;
use super::{Flavor, Role, end, lead, names, tell, watch};

/// Plays the role of this process; does nothing if the process is not a child.
pub fn play<L: DistributedLock>(connect: impl AsyncFn(String) -> L) {
    let Some(part) = Part::of_this_process() else {
        return;
    };
    let parent = Parent::listen();
    let runtime = runtime(part.role);
    if part.role == Role::Lead {
        return runtime.block_on(async {
            let locks = connect(part.store).await;
            parent.say(CONNECTED);
            lead::lead(Arc::new(locks), &part.request).await;
        });
    }
    let (locks, guard) = runtime.block_on(async {
        let locks = connect(part.store.clone()).await;
        parent.say(CONNECTED);
        let guard = locks.acquire(part.request.clone()).await;
        (locks, guard.expect("the store runs").expect("no limit"))
    });
    let taken = Clock::Boot.now();
    parent.say(guard.token());
    match part.role {
        Role::Hold | Role::Lead => parent.wait_for_nudge(),
        Role::Watch => watch::watch(&parent, &runtime, guard, taken, part.request.ttl()),
        Role::Tell => tell::tell(&parent, &guard),
        Role::Abort => std::process::abort(),
        Role::End(_, ending) => end::end(&parent, runtime, locks, guard, ending),
        Role::UseNames(count) => runtime.block_on(async {
            guard.release().await.expect("the store runs");
            let clients = [locks, connect(part.store).await];
            names::use_names(&parent, clients, count).await;
        }),
    }
}

fn runtime(role: Role) -> Runtime {
    let mut builder = match role {
        Role::End(Flavor::CurrentThread, _) => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    builder.enable_all().build().expect("a runtime")
}
