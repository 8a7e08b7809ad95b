//! Pools of the driver that name the server.

use std::time::Duration;

use lock_core::{DistributedLock, DistributedLockExt, ErrorKind};
use lock_mysql::sqlx::MySqlPool;
use lock_mysql::sqlx::mysql::{MySqlConnectOptions, MySqlPoolOptions, MySqlSslMode};
use lock_mysql::{MySqlConfig, MySqlHold, MySqlLock};
use lock_testkit::servers::{SqlServer, SqlVendor};
use lock_testkit::{answered, assert_excluded, steady};
use tokio::time::Instant;

use crate::{BOTH, PROMPT, connect_with, take};

fn options(server: &SqlServer) -> MySqlConnectOptions {
    server.url().parse().expect("a url of the driver")
}

/// Returns a pool with one connection, which it opens when it is used.
fn pool(options: MySqlConnectOptions) -> MySqlPool {
    let pool = MySqlPoolOptions::new().max_connections(1);
    pool.connect_lazy_with(options)
}

fn config(table: &str, hold: MySqlHold) -> MySqlConfig {
    let config = MySqlConfig::default();
    config.with_table(table).with_hold(hold)
}

async fn open(pool: &MySqlPool, config: MySqlConfig) -> MySqlLock {
    answered(|| MySqlLock::from_pool(pool, config.clone())).await
}

async fn refusal(options: MySqlConnectOptions, config: MySqlConfig) -> String {
    let refused = MySqlLock::from_pool(&pool(options), config).await;
    let error = refused.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    error.to_string()
}

/// The settings of the pool's sessions are not those of polylock's, whatever they are.
#[test]
fn locks_of_a_pool_and_of_a_url_exclude_each_other() {
    steady(async || {
        for hold in BOTH {
            let server = SqlServer::shared(SqlVendor::MariaDb);
            let table = format!("from_pool_{hold:?}").to_lowercase();
            let odd = options(server)
                .charset("latin1")
                .collation("latin1_swedish_ci")
                .timezone(Some("+05:00".to_owned()));
            let locks = open(&pool(odd), config(&table, hold)).await;
            let by_url = MySqlConfig::new(server.url());
            let others = connect_with(by_url.with_table(&table).with_hold(hold)).await;
            for key in ["k", "schlüssel", "钥匙"] {
                let guard = take(&locks, key, PROMPT).await;
                let token = guard.token();
                assert_excluded!(others.try_lock(key).await.unwrap().is_none());
                guard.release().await.unwrap();
                let next = others.lock_within(key, PROMPT).await.unwrap();
                assert!(next.expect("free").token() > token);
            }
        }
    });
}

#[test]
fn a_pool_that_the_application_has_exhausted_delays_no_lock() {
    steady(async || {
        for hold in BOTH {
            let server = SqlServer::shared(SqlVendor::MariaDb);
            let pool = pool(options(server));
            let taken = pool.acquire().await.unwrap();
            let table = format!("exhausted_pool_{hold:?}").to_lowercase();
            let locks = open(&pool, config(&table, hold)).await;
            let guard = take(&locks, "k", Duration::from_secs(1)).await;
            let begun = Instant::now();
            let lost = tokio::time::timeout(Duration::from_secs(3), guard.lost()).await;
            assert!(lost.is_err(), "{lost:?} after {:?}", begun.elapsed());
            assert!(locks.try_lock("other").await.unwrap().is_some());
            guard.release().await.unwrap();
            drop(taken);
        }
    });
}

#[tokio::test]
async fn what_cannot_be_kept_is_refused() {
    let options = || {
        let options = MySqlConnectOptions::new().host("h").username("u");
        options.database("d").password("hush")
    };
    let lease = || config("locks", MySqlHold::Lease);
    let url = MySqlConfig::new("mysql://u@h/d");
    for (options, config, part) in [
        (options(), url, "leave the url empty"),
        (options().database(""), lease(), "names no database"),
        (options().socket("/run/mysqld.sock"), lease(), "Unix socket"),
        (
            options().ssl_mode(MySqlSslMode::Required),
            lease(),
            "without verifying the server",
        ),
        (
            options().ssl_mode(MySqlSslMode::VerifyCa),
            lease(),
            "without verifying the server",
        ),
        (options(), lease().with_connections(0), "connections 0"),
        (options(), lease().with_table("a`b"), "table"),
    ] {
        let error = refusal(options, config).await;
        assert!(error.contains(part), "{error}");
        assert!(!error.contains("hush"), "{error}");
    }
    let error = MySqlLock::connect(MySqlConfig::default())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
}

#[test]
fn a_missing_server_is_named() {
    steady(async || {
        let missing = MySqlConnectOptions::new().host("127.0.0.1").port(1);
        let missing = pool(missing.username("u").database("d"));
        let locks = MySqlLock::from_pool(&missing, config("locks", MySqlHold::Lease)).await;
        let error = locks.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert_eq!(error.server(), Some("127.0.0.1:1"), "{error}");
    });
}

#[test]
fn certificates_of_the_configuration_verify_the_server() {
    use lock_core::Tls;
    use lock_testkit::servers::Authority;

    steady(async || {
        let authority = Authority::new();
        let server = SqlServer::start_with_tls::<&str>(SqlVendor::MariaDb, &authority, &[]);
        let requires = options(&server).ssl_mode(MySqlSslMode::Required);
        let trusting = config("locks", MySqlHold::Lease);
        let trusting = trusting.with_tls(Tls::new().with_ca(authority.ca()));
        let locks = open(&pool(requires.clone()), trusting).await;
        assert!(locks.capabilities().shared);
        assert!(locks.try_lock("k").await.unwrap().is_some());
        let own = requires
            .ssl_mode(MySqlSslMode::VerifyIdentity)
            .ssl_ca(authority.ca());
        let locks = open(&pool(own), config("locks", MySqlHold::Lease)).await;
        assert!(locks.try_lock("k").await.unwrap().is_some());
    });
}
