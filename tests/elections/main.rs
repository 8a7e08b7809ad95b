//! Elections on real servers and a network that fails: the work of a leader is over before the next
//! candidate leads.
//!
//! `ELECTION_ROUNDS` is the number of rounds per trouble and store, 4 by default.

#![cfg(any(
    feature = "etcd",
    feature = "mysql",
    feature = "redis",
    feature = "zookeeper"
))]

mod leader;
mod round;
mod servers;
