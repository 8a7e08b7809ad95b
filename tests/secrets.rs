//! Nothing that is printed or logged gives a password away.

#![cfg(feature = "redis")]

use std::error::Error as StdError;
use std::fmt::Debug;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lock_testkit::servers::RedisServer;
use polylock::redis::{RedisConfig, RedisLock};
use polylock::{Config, DistributedLockExt, LockRequest};

/// Everything in it that has a meaning in a url, and a part that has none.
const PASSWORD: &str = "hush/7Gq@x?y#z%41:w";
const ENCODED: &str = "hush%2F7Gq%40x%3Fy%23z%2541%3Aw";
const WRONG: &str = "hush7Gq-wrong";

/// No output has any of these.
const SECRETS: [&str; 4] = ["hush", "7Gq", "x?y", "x%3Fy"];

/// All that is logged in this process, and all that the test prints.
#[derive(Clone, Default)]
struct Printed(Arc<Mutex<Vec<u8>>>);

impl Printed {
    fn show(&self, shown: &dyn Debug) {
        let text = format!("{shown:?}\n{shown:#?}\n");
        self.0
            .lock()
            .expect("nobody panics with it")
            .extend_from_slice(text.as_bytes());
    }

    fn show_error(&self, error: &polylock::Error) {
        self.show(error);
        let mut cause: Option<&dyn StdError> = Some(error);
        while let Some(error) = cause {
            self.show(&format!("{error}"));
            self.show(&error);
            cause = error.source();
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().expect("nobody panics with it")).into_owned()
    }
}

impl io::Write for Printed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0
            .lock()
            .expect("nobody panics with it")
            .extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn assert_no_secret(printed: &Printed) {
    let text = printed.text();
    for line in text.lines() {
        for secret in SECRETS {
            assert!(!line.contains(secret), "{secret} in {line}");
        }
    }
}

fn log_everything() -> Printed {
    let printed = Printed::default();
    let writer = printed.clone();
    tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .init();
    printed
}

fn add_user(server: &RedisServer) {
    let mut admin = admin(server);
    let password = format!(">{PASSWORD}");
    let user = ["ACL", "SETUSER", "u", "on", &password, "~*", "+@all"];
    assert_eq!(
        admin
            .command(&user)
            .expect("the server runs")
            .text()
            .as_deref(),
        Some("OK")
    );
}

fn admin(server: &RedisServer) -> lock_testkit::servers::RespClient {
    let mut admin = server.client();
    admin.command(&["AUTH", PASSWORD]).expect("the server runs");
    admin
}

/// Urls that do not work, each for a reason of its own.
fn mistakes(port: u16) -> Vec<String> {
    let at = format!("127.0.0.1:{port}");
    [
        format!("redis://u:{WRONG}@{at}"),
        format!("redis://:{WRONG}@{at}"),
        format!("redis://u:{PASSWORD}@{at}"),
        format!("u:{WRONG}@{at}"),
        format!("redis:{WRONG}@{at}"),
        format!("redis://u:{ENCODED}@127.0.0.1:port"),
        format!("redis://u:{ENCODED}@{at}/database"),
        format!("redis://u:{ENCODED}@/0"),
        format!("redis://u:{ENCODED}@{at}?ttl=soon"),
        format!("redis://u:{ENCODED}@{at}?tls_ca=/ca.pem"),
        format!("redis://u:1/{WRONG}@{at}"),
        format!("redis://u:1#{WRONG}@{at}"),
        format!("redis://u:%ff{WRONG}@{at}"),
        format!("redis://u:{ENCODED}@127.0.0.1:1"),
        format!("rediss://u:{ENCODED}@{at}"),
        format!("rediss://u:{ENCODED}@{at}?tls_cert=/cert.pem"),
        format!("mysql://u:{ENCODED}@{at}"),
        format!("memory://u:{ENCODED}@{at}"),
        format!("unix:///nowhere?user=u&pass={WRONG}"),
        format!("redis://{at}?password={WRONG}"),
    ]
    .to_vec()
}

async fn make_every_mistake(printed: &Printed, port: u16) {
    for url in mistakes(port) {
        printed.show(&Config::new(&url));
        printed.show(&RedisConfig::new(&url));
        match polylock::connect(&url).await {
            Ok(locks) => panic!("connected to {locks:?} by {url}"),
            Err(error) => printed.show_error(&error),
        }
        match RedisLock::connect(RedisConfig::new(&url)).await {
            // Here a query means nothing.
            Ok(locks) => printed.show(&locks),
            Err(error) => printed.show_error(&error),
        }
    }
}

/// Connects, reconnects, is cut off, and is denied what it had.
async fn live_through_everything(printed: &Printed, url: &str, server: &RedisServer) {
    let locks = polylock::connect(url).await.expect("the right password");
    printed.show(&Config::new(url));
    printed.show(&RedisConfig::new(url));
    let request = LockRequest::exclusive("k").expect("a key");
    let request = request.with_ttl(Duration::from_millis(900));
    printed.show(&request);
    let guard = locks
        .acquire(request)
        .await
        .expect("connected")
        .expect("free");
    printed.show(&locks);
    printed.show(&guard);
    printed.show(&guard.watch());

    let mut admin = admin(server);
    admin
        .command(&["CLIENT", "KILL", "USER", "u"])
        .expect("the server runs");
    drop(locks.lock("other").await.expect("connected"));
    server.freeze();
    printed.show_error(&locks.try_lock("other").await.expect_err("refused"));
    server.thaw();
    admin
        .command(&["ACL", "SETUSER", "u", "-@all"])
        .expect("the server runs");
    printed.show_error(&locks.lock("other").await.expect_err("refused"));
    admin
        .command(&["ACL", "DELUSER", "u"])
        .expect("the server runs");
    printed.show_error(&locks.lock("other").await.expect_err("refused"));
    printed.show(&guard.lost().await);
    printed.show(&guard);
    if let Err(error) = guard.release().await {
        printed.show_error(&error);
    }
    server.kill();
    printed.show_error(&locks.try_lock("other").await.expect_err("refused"));
    printed.show(&locks);
}

async fn live_through_everything_over_tls(printed: &Printed) {
    use lock_testkit::servers::Authority;

    let authority = Authority::new();
    let own = authority.issue("DNS:client", 1);
    let demanding = ["--requirepass", PASSWORD, "--tls-auth-clients", "yes"];
    let server = RedisServer::start_with_tls(&authority, &demanding);
    add_user(&server);
    let key = std::fs::read_to_string(&own.key).expect("a key file");
    let truncated = server.directory().join("truncated.pem");
    std::fs::write(&truncated, &key[..key.len() / 2]).expect("a directory");
    let garbled = server.directory().join("garbled.pem");
    std::fs::write(&garbled, key.replacen("\n", "\n?", 1)).expect("a directory");

    let url = server.tls_url().expect("it was started with TLS");
    let url = url.replace("://", &format!("://u:{ENCODED}@"));
    let (ca, cert) = (authority.ca(), own.cert.display());
    let url = format!("{url}?tls_ca={}", ca.display());
    let mistakes = [
        url.clone(),
        url.replace(ENCODED, WRONG) + &format!("&tls_cert={cert}&tls_key={}", own.key.display()),
        format!("{url}&tls_cert={cert}&tls_key={cert}"),
        format!("{url}&tls_cert={cert}&tls_key={}", truncated.display()),
        format!("{url}&tls_cert={cert}&tls_key={}", garbled.display()),
    ];
    for url in mistakes {
        printed.show(&Config::new(&url));
        match polylock::connect(&url).await {
            Ok(locks) => panic!("connected to {locks:?} by {url}"),
            Err(error) => printed.show_error(&error),
        }
    }
    let url = format!("{url}&tls_cert={cert}&tls_key={}", own.key.display());
    live_through_everything(printed, &url, &server).await;

    let text = printed.text();
    for line in key.lines().filter(|line| !line.starts_with('-')) {
        assert!(!text.contains(&line[8..]), "the private key: {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_password_is_printed_or_logged() {
    let printed = log_everything();
    let server = RedisServer::start_with(&["--requirepass", PASSWORD]);
    add_user(&server);
    make_every_mistake(&printed, server.port()).await;
    let url = format!("redis://u:{ENCODED}@127.0.0.1:{}/0", server.port());
    live_through_everything(&printed, &url, &server).await;
    live_through_everything_over_tls(&printed).await;
    assert_no_secret(&printed);
    let text = printed.text();
    for logged in ["DEBUG", "WARN", "lock lost"] {
        assert!(text.contains(logged), "nothing is logged: {logged}");
    }
}
