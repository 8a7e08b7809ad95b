//! ZooKeeper's four-letter words: a question of four letters, answered in text.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// A server that accepts a connection before it serves anybody never answers.
const LIMIT: Duration = Duration::from_millis(500);

/// Asks the server on `port`.
pub(super) fn ask(port: u16, word: &str) -> io::Result<String> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, LIMIT)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.write_all(word.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
