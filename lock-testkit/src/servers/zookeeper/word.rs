//! ZooKeeper's four-letter words: requests of four letters, with answers in text.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// Maximum time for an answer: a server that does not serve yet may accept and never answer.
const LIMIT: Duration = Duration::from_millis(500);

/// Sends a four-letter word to the server on `port`, and returns the answer.
pub(super) fn ask(port: u16, word: &str) -> io::Result<String> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, LIMIT)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.write_all(word.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
