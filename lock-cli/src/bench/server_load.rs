//! Reads a server's own counter of requests, which includes those of other clients.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::store::{Location, Store};

/// Maximum time that a server may take to answer.
const LIMIT: Duration = Duration::from_secs(2);

/// Returns how many requests the server has received; `None` if the server does not say.
///
/// The unit depends on the store: commands, statements, messages or packets.
pub(crate) async fn received(store: &Store) -> Option<u64> {
    let location = store.location();
    let asking = async {
        match location.scheme.as_str() {
            #[cfg(feature = "redis")]
            "redis" => of_redis(&location).await,
            #[cfg(feature = "mysql")]
            "mysql" => of_mysql(&location).await,
            "etcd" => of_etcd(&location).await,
            "zookeeper" => of_zookeeper(&location).await,
            _ => None,
        }
    };
    timeout(LIMIT, asking).await.ok().flatten()
}

/// Returns the number of commands; each command of a script counts.
#[cfg(feature = "redis")]
async fn of_redis(location: &Location) -> Option<u64> {
    use polylock::redis::redis::{Client, cmd};

    let client = Client::open(location.url.as_str()).ok()?;
    let mut connection = client.get_multiplexed_async_connection().await.ok()?;
    let mut info = cmd("INFO");
    let text: String = info.arg("stats").query_async(&mut connection).await.ok()?;
    number_behind(&text, "total_commands_processed:")
}

#[cfg(feature = "mysql")]
async fn of_mysql(location: &Location) -> Option<u64> {
    use polylock::mysql::sqlx::mysql::MySqlConnectOptions;
    use polylock::mysql::sqlx::{ConnectOptions, Executor, Row};

    let options: MySqlConnectOptions = location.url.parse().ok()?;
    let mut connection = options.disable_statement_logging().connect().await.ok()?;
    let row = connection.fetch_one("SHOW GLOBAL STATUS LIKE 'Questions'");
    let text: String = row.await.ok()?.try_get(1).ok()?;
    text.parse().ok()
}

/// Returns the number of messages in all calls and streams.
async fn of_etcd(location: &Location) -> Option<u64> {
    let mut sum = 0;
    for address in location.addresses(2379) {
        let request = format!("GET /metrics HTTP/1.0\r\nHost: {address}\r\n\r\n");
        let metrics = talk(&address, &request).await?;
        let lines = metrics.lines();
        sum += lines
            .filter(|line| line.starts_with("grpc_server_msg_received_total{"))
            .filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok())
            .sum::<f64>() as u64;
    }
    Some(sum)
}

/// Returns the number of packets, by the command `srvr`, which servers allow by default.
async fn of_zookeeper(location: &Location) -> Option<u64> {
    let mut sum = 0;
    for address in location.addresses(2181) {
        sum += number_behind(&talk(&address, "srvr").await?, "Received: ")?;
    }
    Some(sum)
}

/// Sends a request, and reads until the server closes the connection.
async fn talk(address: &str, request: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    Some(answer)
}

fn number_behind(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_found_behind_its_name() {
        let text = "a:1\r\ntotal_commands_processed:42\r\nb:2\r\n";
        assert_eq!(number_behind(text, "total_commands_processed:"), Some(42));
        assert_eq!(number_behind(text, "missing:"), None);
    }
}
