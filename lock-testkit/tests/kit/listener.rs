//! The shelf's server for clients in other processes, with one line per request and per answer.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use lock_core::backend::{HoldId, Released};
use lock_core::{LockRequest, Mode};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;

use crate::client::ShelfLock;
use crate::fault::Fault;
use crate::rules::Standing;
use crate::server::Server;

/// Listens on a free port until the runtime ends, and returns the address.
///
/// `new_client` makes a client for each connection.
pub(crate) fn listen(
    server: Arc<Server>,
    new_client: impl Fn() -> ShelfLock + Send + 'static,
) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.set_nonblocking(true).expect("a socket");
    let address = listener.local_addr().expect("it is bound").to_string();
    let listener = TcpListener::from_std(listener).expect("inside of a runtime");
    Handle::current().spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let connection = Connection {
                server: Arc::clone(&server),
                client: new_client(),
                ids: HashMap::new(),
            };
            Handle::current().spawn(connection.serve(stream));
        }
    });
    address
}

struct Connection {
    server: Arc<Server>,
    /// Makes ids for the claims of the other process: a `HoldId` cannot be sent over a connection.
    client: ShelfLock,
    /// The ids made in this process, by the claim ids of the other process.
    ids: HashMap<String, HoldId>,
}

impl Connection {
    async fn serve(mut self, mut stream: TcpStream) {
        stream.set_nodelay(true).expect("a socket");
        let (reader, mut writer) = stream.split();
        let mut questions = BufReader::new(reader).lines();
        while let Ok(Some(question)) = questions.next_line().await {
            let answer = format!("{}\n", self.answer(&question));
            if writer.write_all(answer.as_bytes()).await.is_err() {
                break;
            }
        }
        // A process that has ended waits no longer, but its holds last until their ttl ends.
        if self.server.fault != Fault::KilledWaitersStay {
            let mut rules = self.server.rules();
            self.ids.values().for_each(|id| rules.leave(id));
        }
    }

    fn answer(&mut self, question: &str) -> String {
        let words: Vec<&str> = question.splitn(8, ' ').collect();
        match words[..] {
            ["take", owner, waits, mode, ttl, delay, minimum, key] => {
                let id = self
                    .client
                    .new_id(&request(mode, [ttl, delay, minimum], key));
                self.ids.insert(owner.to_owned(), id.clone());
                let number = self.client.number;
                let standing = self.server.rules().take(&id, number, waits == "true");
                grant(standing)
            }
            ["describe", owner, ..] => {
                let (_, metadata) = question
                    .split_once(&format!("{owner} "))
                    .unwrap_or_default();
                self.server.rules().describe(&self.ids[owner], metadata);
                "described".to_owned()
            }
            ["look", owner] => grant(self.server.rules().look(&self.ids[owner])),
            ["renew", owner] => match self.server.rules().renew(&self.ids[owner], false) {
                true => "held".to_owned(),
                false => "lost".to_owned(),
            },
            ["release", owner] => {
                let Some(id) = self.ids.remove(owner) else {
                    return "lost".to_owned();
                };
                let released = self.server.rules().release(&id);
                self.server.push(id.key().as_str());
                match released {
                    Released::Released => "released".to_owned(),
                    Released::AlreadyLost => "lost".to_owned(),
                }
            }
            _ => panic!("no such question: {question}"),
        }
    }
}

fn request(mode: &str, [ttl, delay, minimum]: [&str; 3], key: &str) -> LockRequest {
    let duration = |text: &str| Duration::from_millis(text.parse().expect("a number"));
    let mode = match mode.parse().expect("a number") {
        0 => Mode::Exclusive,
        -1 => Mode::Shared,
        -2 => Mode::Upgradeable,
        of => Mode::permit(u32::try_from(of).expect("a few")).expect("at least one"),
    };
    LockRequest::new(key.try_into().expect("a key"), mode)
        .with_ttl(duration(ttl))
        .with_lock_delay(duration(delay))
        .holding_at_least(duration(minimum))
}

fn grant(standing: Standing) -> String {
    match standing {
        Standing::Granted(grant) => grant.number.to_string(),
        Standing::Waiting(_) | Standing::Absent => "not yet".to_owned(),
    }
}
