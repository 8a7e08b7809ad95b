//! Secrets on etcd.

use lock_testkit::servers::{Authority, EtcdCluster};
use lock_testkit::steady;
use polylock::etcd::{EtcdConfig, EtcdLock};

use crate::keys::Keys;
use crate::life::{Operator, live_through_everything};
use crate::printed::{ENCODED, PASSWORD, Printed, WRONG};

/// Gives `u` all rights, and requires passwords of all clients.
fn demand_passwords(cluster: &EtcdCluster) {
    add_user(cluster);
    cluster.enable_authentication();
}

fn add_user(cluster: &EtcdCluster) {
    cluster.control(&["user", "add", &format!("u:{PASSWORD}")]);
    cluster.control(&["user", "grant-role", "u", "root"]);
}

/// Revokes all leases, with all keys under them.
fn revoke_leases(cluster: &EtcdCluster) {
    let listed = cluster.control(&["lease", "list"]);
    for lease in listed.lines().skip(1) {
        // The lease may have ended in the meantime.
        let revoking = cluster
            .control_command()
            .args(["lease", "revoke", lease])
            .output();
        revoking.expect("it starts");
    }
}

/// Returns invalid URLs, each wrong in its own way.
fn mistakes(port: u16) -> Vec<String> {
    let at = format!("127.0.0.1:{port}");
    let good = format!("etcd://u:{ENCODED}@{at}");
    [
        format!("etcd://u:{WRONG}@{at}"),
        format!("etcd://:{WRONG}@{at}"),
        format!("etcd://nobody:{ENCODED}@{at}"),
        format!("etcd://u:{PASSWORD}@{at}"),
        format!("u:{WRONG}@{at}"),
        format!("etcd:{WRONG}@{at}"),
        format!("etcd://u:{ENCODED}@127.0.0.1:port"),
        format!("etcd://u:{ENCODED}@/"),
        format!("etcd://u:{ENCODED}@{at},"),
        format!("{good}?ttl=soon"),
        format!("{good}?hold=lease"),
        format!("{good}?tls_ca=/nowhere.pem"),
        format!("{good}?password={WRONG}"),
        format!("{good}#{WRONG}"),
        format!("etcd://u:1/{WRONG}@{at}"),
        format!("etcd://u:1#{WRONG}@{at}"),
        format!("etcd://u:%ff{WRONG}@{at}"),
        format!("etcd://{at}/{WRONG}@127.0.0.1"),
        format!("etcd://u:{ENCODED}@127.0.0.1:1"),
        format!("etcds://u:{ENCODED}@{at}"),
        format!("etcds://u:{ENCODED}@{at}?tls_cert=/cert.pem"),
        format!("redis://u:{ENCODED}@{at}/locks"),
        format!("memory://u:{ENCODED}@{at}"),
    ]
    .to_vec()
}

async fn make_every_mistake(printed: &Printed, port: u16) {
    for url in mistakes(port) {
        printed.show_refusal(&url).await;
        printed.show(&EtcdConfig::new(&url));
        match EtcdLock::connect(EtcdConfig::new(&url)).await {
            Ok(locks) => panic!("connected to {locks:?} by {url}"),
            Err(error) => printed.show_error(&error),
        }
    }
}

/// Puts a client through all events; the cluster is gone afterwards.
async fn live(printed: &Printed, url: &str, cluster: &EtcdCluster) {
    printed.show(&EtcdConfig::new(url));
    let server = cluster.first();
    let deny = || {
        cluster.control(&["user", "delete", "u"]);
        revoke_leases(cluster);
    };
    let operator = Operator {
        freeze: &|| server.freeze(),
        thaw: &|| server.thaw(),
        kill: &|| server.kill(),
        cut_off: &|| server.restart(),
        denials: &[&deny],
    };
    live_through_everything(printed, url, operator).await;
}

async fn live_over_tls(printed: &Printed) {
    let authority = Authority::new();
    let ca = authority.ca().display().to_string();
    let demanding = ["--client-cert-auth", "--trusted-ca-file", &ca];
    let cluster = EtcdCluster::start_with_tls(&authority, &demanding);
    add_user(&cluster);
    // The server has no passwords yet, since a certificate names a user, too.
    let keys = Keys::new(&authority, cluster.first().directory());
    cluster.enable_authentication();
    let url = cluster.url().replace("://", &format!("://u:{ENCODED}@"));
    let url = format!("{url}?ttl=1s&tls_ca={ca}");
    for url in keys.mistakes(&url) {
        printed.show_refusal(&url).await;
    }
    live(printed, &keys.shown_in(&url), &cluster).await;
    keys.assert_hidden(printed);
}

#[test]
fn no_password_is_printed_or_logged() {
    steady(async || {
        let printed = Printed::with_all_that_is_logged();
        let cluster = EtcdCluster::start(1);
        demand_passwords(&cluster);
        make_every_mistake(printed, cluster.first().port()).await;
        let url = format!("etcd://u:{ENCODED}@{}?ttl=1s", cluster.endpoints());
        live(printed, &url, &cluster).await;
        live_over_tls(printed).await;
        printed.assert_no_secret();
        printed.assert_has(&["DEBUG", "h2", "WARN", "lock lost"]);
    });
}
