//! The events in a client's life, with all output that they cause.

use polylock::{Config, DistributedLockExt, LockRequest};

use crate::printed::Printed;

/// The operator's actions against a client.
pub(crate) struct Operator<'a> {
    /// These three stop the server, let it continue, and end it.
    pub(crate) freeze: &'a dyn Fn(),
    pub(crate) thaw: &'a dyn Fn(),
    pub(crate) kill: &'a dyn Fn(),
    /// Ends the connections of the client's user.
    pub(crate) cut_off: &'a dyn Fn(),
    /// Each of them takes a right from the user.
    pub(crate) denials: &'a [&'a dyn Fn()],
}

/// Connects, reconnects, loses its connections and its rights, and sees the end of the server.
///
/// The ttl in `url` has to be short.
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
    // No renewal is answered until the loss, and the client logs that.
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
