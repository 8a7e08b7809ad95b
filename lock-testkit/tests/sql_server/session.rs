//! Test of a session: the server's client program, kept open for several statements.

use lock_testkit::servers::{SqlServer, SqlVendor};

#[test]
fn a_session_by_hand_holds_its_locks() {
    for vendor in SqlVendor::available() {
        let server = SqlServer::shared(vendor);
        server.execute("create table held (id int primary key); insert into held values (1)");
        let mut session = server.session();
        assert_eq!(
            session.run("begin; select id from held where id = 1 for update"),
            ["1"]
        );
        let refused = "select id from held where id = 1 for update nowait";
        let error = server.try_execute(refused).unwrap_err();
        let code = match vendor {
            SqlVendor::MariaDb => "ERROR 1205 ",
            SqlVendor::MySql => "ERROR 3572 ",
        };
        assert!(error.starts_with(code), "{error}");
        assert!(session.run("commit").is_empty());
        assert_eq!(server.execute(refused), "1");
    }
}
