//! A holder in another process, as other clients see it.

use lock_core::{Mode, Wait};
use tokio::task::block_in_place;

use super::SLACK;
use crate::bench::Bench;
use crate::cases::inspection::seen;
use crate::client::release;
use crate::eventually::within;
use crate::processes::Role;

pub(crate) async fn a_holder_in_another_process_is_seen(bench: Bench) {
    let client = bench.client().await;
    let request = bench.brief("elsewhere", Mode::Exclusive);
    let request = request.labelled("child").expect("a label");
    let (mut child, token) = bench.holder(&request, Role::Hold);
    let info = seen(&bench, &client, "elsewhere").await;
    let [found] = &info.holders[..] else {
        panic!("there is one holder: {info:?}");
    };
    assert_eq!(found.token.map(|token| token.value()), Some(token));
    assert_eq!(found.pid, Some(child.pid()), "the process of the holder");
    assert_eq!(found.label.as_deref(), Some("child"), "{found:?}");
    block_in_place(|| child.kill());
    let what = "the lock of a killed holder back";
    let next = client.acquire(request.with_wait(Wait::Forever));
    let next = within(bench.short() + SLACK, what, next).await;
    release(next.expect("no end")).await;
}
