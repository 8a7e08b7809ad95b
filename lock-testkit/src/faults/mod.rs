//! Faults between a client and its server, as networks have them: delays, silence, connections that
//! are cut, answers that get lost.
//!
//! A [`Proxy`] stands in front of a server on the loopback interface and does to chosen
//! [`Connections`] what the test says, at any time. It runs on a thread of its own, so a test
//! runtime that is blocked or paused does not stop it.
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
//! proxy.opened_with("TRACKING").reset(); // one connection of a client only
//! proxy.nth(0).lose_next_reply_and_cut(); // the server did what the client never hears of
//! proxy.all().hold(); // nothing arrives, nothing is closed: a network that is gone
//! proxy.all().pass(); // what was held arrives now, late
//! ```

mod board;
mod connection;
mod connections;
mod proxy;
mod pump;
mod rules;

pub use connections::Connections;
pub use proxy::Proxy;
