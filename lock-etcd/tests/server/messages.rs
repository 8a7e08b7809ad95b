//! Errors that name the server and the next step, and say each thing once.

use std::error::Error as StdError;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener};
use std::time::Duration;

use lock_core::{DistributedLockExt, Error, ErrorKind};
use lock_etcd::{EtcdConfig, EtcdLock};
use lock_testkit::servers::EtcdCluster;
use lock_testkit::steady;

use crate::connect;

/// Returns the error and all its sources in one text, as programs print it.
fn report(error: &Error) -> String {
    let first: &dyn StdError = error;
    let chain = std::iter::successors(Some(first), |error| (*error).source());
    let texts: Vec<String> = chain.map(ToString::to_string).collect();
    texts.join(": ")
}

async fn refusal(address: &str) -> Error {
    match EtcdLock::connect(EtcdConfig::new(format!("etcd://{address}"))).await {
        Ok(locks) => panic!("connected to {locks:?}"),
        Err(error) => error,
    }
}

/// Starts a server that sends `says` to each client; returns its address.
fn somebody_else(says: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound").to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming().take(8) {
            let mut stream = stream.expect("a connection");
            // The client may have closed the connection.
            let _heard = stream.read(&mut [0; 1024]);
            let _said = stream.write_all(says);
            let _ended = stream.shutdown(Shutdown::Write);
            // Read the rest: closing a socket with unread bytes would reset the connection.
            let _limited = stream.set_read_timeout(Some(Duration::from_secs(1)));
            let _rest = stream.read_to_end(&mut Vec::new());
        }
    });
    address
}

#[test]
fn connect_errors_name_the_server_and_say_each_thing_once() {
    steady(async || {
        let closed = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = closed.local_addr().expect("it is bound").to_string();
        drop(closed);
        let error = refusal(&address).await;
        let report = report(&error);
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{report}");
        let told = format!("cannot connect to etcd at {address}: Connection refused");
        assert!(report.starts_with(&told), "{report}");
        assert_eq!(report.matches("refused").count(), 1, "{report}");
        assert!(report.contains("check that the servers run and are reachable"));
    });
}

#[test]
fn other_servers_are_recognised() {
    steady(async || {
        let others: [(&[u8], ErrorKind, &str); 5] = [
            (
                b"-ERR unknown command 'PRI', with args beginning with: '*'\r\n",
                ErrorKind::Config,
                "a Redis server answers there: use redis://",
            ),
            (
                b"\x49\0\0\0\x0a8.0.36\0",
                ErrorKind::Config,
                "a MySQL server answers there: use mysql://",
            ),
            (
                b"HTTP/1.1 400 Bad Request\r\n\r\n",
                ErrorKind::Unavailable,
                "a server of HTTP/1 answers there",
            ),
            (
                b"\x15\x03\x01\0\x02\x02\x16",
                ErrorKind::Unavailable,
                "the server speaks TLS there: use etcds://",
            ),
            (b"", ErrorKind::Unavailable, "if it speaks TLS use etcds://"),
        ];
        for (says, kind, advice) in others {
            let address = somebody_else(says);
            let error = refusal(&address).await;
            let report = report(&error);
            assert_eq!(error.kind(), kind, "{report}");
            assert!(report.contains(advice), "{report}");
            assert!(report.starts_with(&format!("cannot connect to etcd at {address}: ")));
        }
    });
}

#[test]
fn lost_connections_name_the_server() {
    steady(async || {
        let cluster = EtcdCluster::start(1);
        let locks = connect(cluster.url()).await;
        let guard = locks.lock("k").await.unwrap();
        cluster.first().kill();
        let at = format!(" on etcd at {}: ", cluster.endpoints());
        let errors = [
            locks.try_lock("other").await.unwrap_err(),
            guard.release().await.unwrap_err(),
        ];
        for error in errors {
            let report = report(&error);
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{report}");
            assert!(report.contains(&at), "{report}");
        }
    });
}
