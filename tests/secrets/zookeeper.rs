//! Secrets on ZooKeeper.

use lock_testkit::servers::{Authority, ZooKeeperServer};
use lock_testkit::steady;
use polylock::zookeeper::zookeeper_client::{
    Acl, Acls, AuthId, Client, CreateMode, Error as ZooKeeperError, Permission,
};
use polylock::zookeeper::{ZooKeeperConfig, ZooKeeperLock};
use tokio::runtime::Handle;
use tokio::task::block_in_place;

use crate::keys::Keys;
use crate::life::{Operator, live_through_everything};
use crate::printed::{ENCODED, PASSWORD, Printed, WRONG};

/// Connects a client with the user's password.
async fn operator(server: &ZooKeeperServer) -> Client {
    let client = Client::connect(&server.address()).await;
    let client = client.expect("the server runs");
    let user = format!("u:{PASSWORD}");
    let known = client.auth("digest", user.as_bytes()).await;
    known.expect("the server knows all users");
    client
}

/// Creates the chroot of the locks.
async fn make_chroot(server: &ZooKeeperServer) {
    let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
    let operator = operator(server).await;
    let made = operator.create("/locks", &[], &options).await;
    made.expect("the server runs");
}

/// Deletes all locks, and the right to create others.
async fn deny(server: &ZooKeeperServer) {
    let operator = operator(server).await;
    let to_look = [Acl::new(Permission::READ, AuthId::anyone())];
    let locks = operator.list_children("/locks").await;
    let locks = locks.expect("it is there");
    let locks = locks.iter().map(|name| format!("/locks/{name}"));
    for node in ["/locks".to_owned()].into_iter().chain(locks) {
        let claims = operator.list_children(&node).await.unwrap_or_default();
        for claim in claims.iter().filter(|name| name.contains("-lock-")) {
            match operator.delete(&format!("{node}/{claim}"), None).await {
                // The claim's session may have ended in the meantime.
                Ok(()) | Err(ZooKeeperError::NoNode) => {}
                Err(error) => panic!("{claim} stays: {error}"),
            }
        }
        match operator.set_acl(&node, &to_look, None).await {
            // The server removes a lock without claims.
            Ok(_) | Err(ZooKeeperError::NoNode) => {}
            Err(error) => panic!("{node} stays as it is: {error}"),
        }
    }
}

/// Returns invalid URLs, each wrong in its own way.
fn mistakes(port: u16) -> Vec<String> {
    let at = format!("127.0.0.1:{port}");
    let good = format!("zookeeper://u:{ENCODED}@{at}/locks");
    [
        format!("zookeeper://:{WRONG}@{at}/locks"),
        format!("zookeeper://u%3A:{WRONG}@{at}/locks"),
        format!("zookeeper://u:{PASSWORD}@{at}/locks"),
        format!("u:{WRONG}@{at}/locks"),
        format!("zookeeper:{WRONG}@{at}/locks"),
        format!("zookeeper://u:{ENCODED}@127.0.0.1:port/locks"),
        format!("zookeeper://u:{ENCODED}@/locks"),
        format!("zookeeper://u:{ENCODED}@{at},/locks"),
        format!("zookeeper://u:{ENCODED}@{at}/app//locks"),
        format!("{good}?ttl=soon"),
        format!("{good}?hold=lease"),
        format!("{good}?tls_ca=/nowhere.pem"),
        format!("{good}?password={WRONG}"),
        format!("{good}#{WRONG}"),
        format!("zookeeper://u:1/{WRONG}@{at}"),
        format!("zookeeper://u:1#{WRONG}@{at}"),
        format!("zookeeper://u:%ff{WRONG}@{at}/locks"),
        format!("zookeeper://{at}/{WRONG}@127.0.0.1/locks"),
        format!("zookeeper://u:{ENCODED}@127.0.0.1:1/locks"),
        format!("zookeepers://u:{ENCODED}@{at}/locks"),
        format!("zookeepers://u:{ENCODED}@{at}/locks?tls_cert=/cert.pem"),
        format!("redis://u:{ENCODED}@{at}/locks"),
        format!("memory://u:{ENCODED}@{at}/locks"),
    ]
    .to_vec()
}

async fn make_every_mistake(printed: &Printed, server: &ZooKeeperServer) {
    for url in mistakes(server.member(0).port()) {
        printed.show_refusal(&url).await;
    }
    let own = |auth: &str| ZooKeeperConfig::new(server.address()).with_auth(auth);
    for config in [
        own(WRONG),
        own(&format!("u:{PASSWORD}")).with_chroot("locks"),
        ZooKeeperConfig::new("127.0.0.1:1").with_auth(format!("u:{PASSWORD}")),
    ] {
        printed.show(&config);
        match ZooKeeperLock::connect(config).await {
            Ok(locks) => panic!("connected to {locks:?}"),
            Err(error) => printed.show_error(&error),
        }
    }
}

/// Puts a client through all events; the server is gone afterwards.
async fn live(printed: &Printed, url: &str, server: &ZooKeeperServer) {
    make_chroot(server).await;
    let member = server.member(0);
    let operator = Operator {
        freeze: &|| member.freeze(),
        thaw: &|| member.thaw(),
        kill: &|| member.kill(),
        cut_off: &|| member.restart(),
        denials: &[&|| block_in_place(|| Handle::current().block_on(deny(server)))],
    };
    live_through_everything(printed, url, operator).await;
}

async fn live_over_tls(printed: &Printed) {
    let authority = Authority::new();
    let server = ZooKeeperServer::start_with_tls(&authority, &["ssl.clientAuth=need"]);
    let keys = Keys::new(&authority, server.member(0).directory());
    let address = server.tls_address().expect("it was started with TLS");
    let url = format!("zookeepers://u:{ENCODED}@{address}/locks?ttl=1s");
    let url = format!("{url}&tls_ca={}", authority.ca().display());
    let [nothing, _no_password, others @ ..] = keys.mistakes(&url);
    for url in others.iter().chain([&nothing]) {
        printed.show_refusal(url).await;
    }
    live(printed, &keys.shown_in(&url), &server).await;
    keys.assert_hidden(printed);
}

#[test]
fn no_password_is_printed_or_logged() {
    steady(async || {
        let printed = Printed::with_all_that_is_logged();
        let server = ZooKeeperServer::start();
        make_every_mistake(printed, &server).await;
        let address = server.address();
        let url = format!("zookeeper://u:{ENCODED}@{address}/locks?ttl=1s");
        live(printed, &url, &server).await;
        live_over_tls(printed).await;
        printed.assert_no_secret();
        printed.assert_has(&["DEBUG", "zookeeper_client", "WARN", "lock lost"]);
    });
}
