//! A foreign client that continues the session of this client, as only its password allows.

use std::io::ErrorKind;
use std::time::Duration;

use lock_core::backend::Released;
use lock_core::{DistributedLock, Mode};
use lock_testkit::servers::ZooKeeperServer;
use lock_testkit::{eventually, steady};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::{PROMPT, admin, children, connect, request, take};

const TTL: Duration = Duration::from_secs(4);

#[test]
fn a_session_that_somebody_else_goes_on_with_is_taken_back_and_costs_no_lock() {
    steady(async || {
        let server = ZooKeeperServer::start();
        let locks = connect(&server, "/takeover").await;
        let wanted = || request("k", Mode::Exclusive).with_ttl(TTL);
        let guard = take(&locks, wanted()).await;
        let admin = admin(&server).await;
        let claim = children(&admin, "/takeover/k").await.remove(0);
        let path = format!("/takeover/k/{claim}");
        let stat = admin.check_stat(&path).await.unwrap().expect("it is held");
        for _ in 0..3 {
            let mut thief = go_on_with(&server, stat.ephemeral_owner).await;
            // A session has one connection, the latest. The client reconnects, and the server
            // closes the thief's connection.
            let mut more = Vec::new();
            let taken_back = tokio::time::timeout(TTL, thief.read_to_end(&mut more)).await;
            let is_there_too = || connections_of(&server, stat.ephemeral_owner) == 2;
            assert!(taken_back.is_ok() || is_there_too(), "ours stays away");
            assert!(guard.is_held());
            let tried = connect(&server, "/takeover").await;
            let tried = tried.acquire(wanted().without_waiting()).await.unwrap();
            lock_testkit::assert_excluded!(tried.is_none());
        }
        assert_eq!(guard.release().await.unwrap(), Released::Released);
        eventually(PROMPT, "the claim has gone", || async {
            admin.check_stat(&path).await.unwrap().is_none()
        })
        .await;
    });
}

/// Opens a connection that the server assigns to the session.
///
/// If the client takes the session back before the connection is open, the function tries again.
async fn go_on_with(server: &ZooKeeperServer, session: i64) -> TcpStream {
    for _ in 0..100 {
        // The server may keep both connections if they come at the same moment.
        let ours_is_there = || async { connections_of(server, session) == 1 };
        eventually(PROMPT, "ours is there", ours_is_there).await;
        match greet(server, session).await {
            Ok(connection) => return connection,
            Err(error) => assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "{error}"),
        }
    }
    panic!("it was always taken back before it was open");
}

fn connections_of(server: &ZooKeeperServer, session: i64) -> usize {
    let connections = server.member(0).word("cons");
    connections.matches(&format!("sid={session:#x},")).count()
}

async fn greet(server: &ZooKeeperServer, session: i64) -> std::io::Result<TcpStream> {
    let mut connection = TcpStream::connect(server.address()).await?;
    let mut asked = Vec::new();
    asked.extend(0i32.to_be_bytes()); // the protocol's version
    asked.extend(0i64.to_be_bytes()); // the last transaction that was seen
    asked.extend((TTL.as_millis() as i32).to_be_bytes());
    asked.extend(session.to_be_bytes());
    let password = password(session);
    asked.extend((password.len() as i32).to_be_bytes());
    asked.extend(password);
    asked.push(0); // not read-only
    connection.write_i32(asked.len() as i32).await?;
    connection.write_all(&asked).await?;
    let _length = connection.read_i32().await?;
    let _version = connection.read_i32().await?;
    let timeout = connection.read_i32().await?;
    assert!(timeout > 0, "the server does not know the session");
    assert_eq!(connection.read_i64().await?, session);
    Ok(connection)
}

/// Returns the password that a server without a secret of its own gives to a session.
///
/// The password is the first 16 bytes of Java's generator, seeded with the number of the session
/// and a constant (`ZooKeeperServer.generatePasswd`).
fn password(session: i64) -> [u8; 16] {
    const CONSTANT: i64 = 0xB341_5C00;
    const MULTIPLIER: u64 = 0x5_DEEC_E66D;
    const MASK: u64 = (1 << 48) - 1;
    let mut state = ((session ^ CONSTANT) as u64 ^ MULTIPLIER) & MASK;
    let mut next = || {
        state = state.wrapping_mul(MULTIPLIER).wrapping_add(0xB) & MASK;
        ((state >> 16) as u32).to_le_bytes()
    };
    let words = [next(), next(), next(), next()];
    *words.as_flattened().first_chunk().expect("16 bytes")
}
