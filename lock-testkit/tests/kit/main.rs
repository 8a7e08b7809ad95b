//! Tests of the conformance cases themselves, with a store of this test: the *shelf*.
//!
//! The shelf passes every case. With a `Fault`, it fails the cases that are about this fault.

mod admission;
mod bites;
mod bites_elsewhere;
mod caught;
mod client;
mod conversion;
mod fault;
mod inspect;
mod lease;
mod listener;
mod remote;
mod rules;
mod server;
mod stalls;
mod store;
mod summary;

lock_testkit::roles!(remote::connect);

/// A backend with all capabilities, on a store with all optional operations.
mod capable {
    use lock_testkit::{Case, Outcome, cases, run};

    use crate::client::everything;
    use crate::fault::Fault;
    use crate::store::Shelf;

    async fn new_store(_case: Case) -> Shelf {
        Shelf::new(Fault::Nothing, everything())
    }

    lock_testkit::conformance!(new_store);

    #[test]
    fn nothing_is_skipped() {
        let mut needs = Vec::new();
        for case in cases() {
            if case.needs.iter().any(|need| !needs.contains(need)) {
                needs.extend(case.needs);
                assert_eq!(run(case, new_store), Outcome::Proved, "{case}");
            }
        }
    }
}

/// A backend with exclusive locks only, on a store without optional operations.
mod modest {
    use std::sync::Arc;

    use lock_core::DistributedLock;
    use lock_testkit::{Case, Need, Outcome, Store, async_trait, cases, run};

    use crate::client::modest;
    use crate::fault::Fault;
    use crate::store::Shelf;

    struct Bare(Shelf);

    #[async_trait]
    impl Store for Bare {
        async fn client(&self) -> Arc<dyn DistributedLock> {
            self.0.client().await
        }

        async fn residue(&self) -> Vec<String> {
            self.0.residue().await
        }
    }

    async fn new_store(_case: Case) -> Bare {
        Bare(Shelf::new(Fault::Nothing, modest()))
    }

    lock_testkit::conformance!(new_store);

    #[test]
    fn what_cannot_be_tried_is_told() {
        for case in cases().into_iter().filter(|case| !case.needs.is_empty()) {
            let outcome = run(case, new_store);
            match case.needs[0] {
                Need::Shutdown => assert_eq!(outcome, Outcome::Proved, "{case}"),
                need @ (Need::Shared
                | Need::Permits
                | Need::Upgrades
                | Need::LockDelay
                | Need::MinHold
                | Need::Inspect) => {
                    assert_eq!(outcome, Outcome::Unsupported(need), "{case}");
                }
                need => assert_eq!(outcome, Outcome::Skipped(need), "{case}"),
            }
        }
    }
}
