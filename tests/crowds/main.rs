//! Crowds of waiters on one key, through the facade.
//!
//! No hold is lost, no wait fails, and waiting costs the store next to nothing.
//!
//! `LOCK_CROWD` sets the number of waiters (default: 200), and `LOCK_CROWD_PROCESSES` the number of
//! processes (default: 3). `scripts/crowds` runs the large sizes and prints the measurements.
#![cfg(any(
    feature = "etcd",
    feature = "mysql",
    feature = "redis",
    feature = "zookeeper"
))]

mod child;
mod crowd;
mod report;
mod store;
mod waiting;

/// Defines the tests of one store.
macro_rules! crowds {
    ($store:ident, $start:expr) => {
        mod $store {
            mod handed_on {
                use crate::crowd::{many_processes, one_process};
                use crate::waiting::Kind;

                #[test]
                fn exclusive() {
                    one_process($start, Kind::Exclusive, "");
                }

                #[test]
                fn readers() {
                    one_process($start, Kind::Shared, "");
                }

                #[test]
                fn permits() {
                    one_process($start, Kind::Permit, "");
                }

                #[test]
                fn processes() {
                    many_processes($start);
                }
            }

            mod each_on_the_store {
                use crate::crowd::one_process;
                use crate::waiting::Kind;

                #[test]
                fn exclusive() {
                    one_process($start, Kind::Exclusive, "hand_off=0s");
                }

                #[test]
                fn readers() {
                    one_process($start, Kind::Shared, "hand_off=0s");
                }

                #[test]
                fn permits() {
                    one_process($start, Kind::Permit, "hand_off=0s");
                }
            }
        }
    };
}

#[cfg(feature = "redis")]
crowds!(redis, crate::store::redis);
#[cfg(feature = "mysql")]
crowds!(mysql_leases, crate::store::mysql_leases);
#[cfg(feature = "mysql")]
crowds!(mysql_rows, crate::store::mysql_rows);
#[cfg(feature = "etcd")]
crowds!(etcd, crate::store::etcd);
#[cfg(feature = "zookeeper")]
crowds!(zookeeper, crate::store::zookeeper);
