//! Where blocking calls may be made.

use lock_core::MemoryLock;
use lock_core::backend::Released;
use lock_core::blocking::Client;

use crate::support::{MOMENT, client, current_thread, multi_thread};

/// Takes and releases locks in every mode, and finds them held in between.
fn take_and_release(locks: &Client) {
    let guard = locks.lock("k").expect("the store answers");
    assert!(guard.is_held());
    assert!(locks.try_lock("k").expect("the store answers").is_none());
    assert!(
        locks
            .lock_within("k", MOMENT)
            .expect("the store answers")
            .is_none()
    );
    assert!(
        locks
            .lock_shared_within("k", MOMENT)
            .expect("the store answers")
            .is_none()
    );
    assert_eq!(
        guard.release().expect("the store answers"),
        Released::Released
    );

    let readers = [locks.lock_shared("k"), locks.lock_shared("k")];
    let readers = readers.map(|reader| reader.expect("the store answers"));
    assert!(readers[0].token() < readers[1].token());
    assert!(locks.try_lock("k").expect("the store answers").is_none());
    for reader in readers {
        assert_eq!(
            reader.release().expect("the store answers"),
            Released::Released
        );
    }

    let permits = [locks.permit("k", 2), locks.permit("k", 2)];
    assert!(
        locks
            .try_permit("k", 2)
            .expect("the store answers")
            .is_none()
    );
    assert!(
        locks
            .permit_within("k", 2, MOMENT)
            .expect("the store answers")
            .is_none()
    );
    for permit in permits {
        assert_eq!(
            permit
                .expect("the store answers")
                .release()
                .expect("the store answers"),
            Released::Released
        );
    }
    assert!(
        locks
            .try_lock_shared("k")
            .expect("the store answers")
            .is_some()
    );
}

#[test]
fn calls_need_no_runtime() {
    take_and_release(&client(&MemoryLock::new()));
}

#[test]
fn calls_work_in_spawn_blocking() {
    let locks = client(&MemoryLock::new());
    let runtime = multi_thread();
    let call = runtime.spawn_blocking(move || take_and_release(&locks));
    runtime.block_on(call).unwrap();
}

#[test]
fn calls_work_in_a_task_of_a_current_thread_runtime() {
    let locks = client(&MemoryLock::new());
    let runtime = current_thread();
    let spawned = locks.clone();
    let task = runtime.spawn(async move { take_and_release(&spawned) });
    runtime.block_on(async move {
        task.await.unwrap();
        take_and_release(&locks);
    });
}

#[test]
fn calls_work_on_the_worker_of_a_runtime() {
    let locks = client(&MemoryLock::new());
    let runtime = multi_thread();
    let task = runtime.spawn(async move { take_and_release(&locks) });
    runtime.block_on(task).unwrap();
}
