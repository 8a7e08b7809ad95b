//! The promises of the examples, checked with the programs that a reader runs.

mod compare;
mod config;
mod coupon;
mod example;
mod refund;
mod torture;
