//! The contract, on real servers: leases and row locks, on MariaDB and on MySQL where it is at hand, as
//! they are and with holds kept by the caller, over TLS, and as a user who may do no more than what is
//! documented.

mod lease;
mod place;
mod row;

use std::sync::Arc;

use lock_core::{DistributedLock, Namespace};
use lock_mysql::{MySqlConfig, MySqlLock};

async fn connect(config: MySqlConfig, namespace: &str) -> Arc<dyn DistributedLock> {
    let namespace = Namespace::new(namespace).expect("a case's name is one");
    let locks = MySqlLock::connect(config.with_namespace(namespace)).await;
    Arc::new(locks.expect("the server runs"))
}

mod lease_on_mariadb {
    use lock_testkit::Case;
    use lock_testkit::servers::SqlVendor;

    use crate::lease::LeaseStore;

    async fn new_store(case: Case) -> LeaseStore {
        LeaseStore::for_case(case, SqlVendor::MariaDb)
    }

    lock_testkit::conformance!(new_store);
}

mod row_on_mariadb {
    use lock_testkit::Case;
    use lock_testkit::servers::SqlVendor;

    use crate::row::RowStore;

    async fn new_store(case: Case) -> RowStore {
        RowStore::for_case(case, SqlVendor::MariaDb)
    }

    lock_testkit::conformance!(new_store);
}

mod lease_on_mysql {
    use lock_testkit::Case;
    use lock_testkit::servers::SqlVendor;

    use crate::lease::LeaseStore;

    async fn new_store(case: Case) -> LeaseStore {
        LeaseStore::for_case(case, SqlVendor::MySql)
    }

    lock_testkit::conformance!(new_store);
}

mod row_on_mysql {
    use lock_testkit::Case;
    use lock_testkit::servers::SqlVendor;

    use crate::row::RowStore;

    async fn new_store(case: Case) -> RowStore {
        RowStore::for_case(case, SqlVendor::MySql)
    }

    lock_testkit::conformance!(new_store);
}
