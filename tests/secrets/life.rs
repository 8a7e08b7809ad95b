//! What a client lives through, with everything printed that it shows.

use polylock::{Config, DistributedLockExt, LockRequest};

use crate::printed::Printed;

/// What is done to a client from outside.
pub(crate) struct Operator<'a> {
    /// Has the server stop where it stands, go on, and end.
    pub(crate) freeze: &'a dyn Fn(),
    pub(crate) thaw: &'a dyn Fn(),
    pub(crate) kill: &'a dyn Fn(),
    /// Ends the connections of the client's user.
    pub(crate) cut_off: &'a dyn Fn(),
    /// Each denies the user what it could do until then.
    pub(crate) denials: &'a [&'a dyn Fn()],
}

/// Connects, reconnects, is cut off, is denied what it had, and sees the end of the server. The url
/// has a short ttl.
pub(crate) async fn live_through_everything(printed: &Printed, url: &str, operator: Operator<'_>) {
    let locks = polylock::connect(url).await.expect("the right password");
    printed.show(&Config::new(url));
    let request = LockRequest::exclusive("k").expect("a key");
    printed.show(&request);
    let guard = locks.acquire(request).await.expect("connected");
    let guard = guard.expect("free");
    printed.show(&locks);
    printed.show(&guard);
    printed.show(&guard.watch());

    (operator.cut_off)();
    drop(locks.lock("other").await.expect("connected"));
    (operator.freeze)();
    printed.show_error(&locks.try_lock("other").await.expect_err("refused"));
    // No renewal is answered until then, and that is logged.
    printed.show(&guard.lost().await);
    (operator.thaw)();
    let guard = locks.lock("again").await.expect("connected");
    for deny in operator.denials {
        deny();
        printed.show_error(&locks.lock("other").await.expect_err("refused"));
    }
    printed.show(&guard.lost().await);
    printed.show(&guard);
    if let Err(error) = guard.release().await {
        printed.show_error(&error);
    }
    (operator.kill)();
    printed.show_error(&locks.try_lock("other").await.expect_err("refused"));
    printed.show(&locks);
}
