//! Network faults between a client and its server: delays, silence, cut connections, lost replies.
//!
//! A [`Proxy`] on the loopback interface forwards to a server, and a test sets faults on chosen
//! [`Connections`] at any time. The proxy runs on a thread of its own, so a blocked or paused test
//! runtime does not stop it.
//!
//! ```no_run
//! use std::time::Duration;
//! use lock_testkit::faults::Proxy;
//! use lock_testkit::servers::RedisServer;
//!
//! let server = RedisServer::start();
//! let proxy = Proxy::before(server.port());
//! println!("connect to redis://127.0.0.1:{}", proxy.port());
//! proxy.all().to_client().delay(Duration::from_millis(20));
//! proxy.opened_with("TRACKING").reset(); // only one connection of a client
//! proxy.nth(0).lose_next_reply_and_cut(); // the server acts, the client gets no reply
//! proxy.all().hold(); // no bytes and no closed connections, as if the network were gone
//! proxy.all().pass(); // held bytes arrive late
//! ```

mod board;
mod connection;
mod connections;
mod proxy;
mod pump;
mod rules;

pub use connections::Connections;
pub use proxy::Proxy;
