//! The kit itself: a backend that keeps the contract passes every case, and each mistake that a
//! backend can make is caught by the case that is about it.

mod admission;
mod bites;
mod bites_elsewhere;
mod caught;
mod client;
mod fault;
mod lease;
mod listener;
mod remote;
mod rules;
mod server;
mod stalls;
mod store;
mod summary;

lock_testkit::roles!(remote::connect);

/// A backend that declares everything and can be made to do everything.
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

/// A backend that declares nothing but exclusive locks, on a store that can only be used.
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
                need @ (Need::Shared | Need::Permits | Need::LockDelay) => {
                    assert_eq!(outcome, Outcome::Unsupported(need), "{case}");
                }
                need => assert_eq!(outcome, Outcome::Skipped(need), "{case}"),
            }
        }
    }
}
