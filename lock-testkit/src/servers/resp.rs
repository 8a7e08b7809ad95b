//! A minimal client for inspecting a Redis server, without a driver.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

/// Maximum time for a reply.
const REPLY_LIMIT: Duration = Duration::from_secs(5);

/// A blocking connection to a Redis server, with the protocol RESP2.
///
/// A test uses it to inspect the server and to act as its operator, beside the client under test.
///
/// ```no_run
/// use lock_testkit::servers::{RedisServer, Reply};
///
/// # fn main() -> std::io::Result<()> {
/// let server = RedisServer::start();
/// let mut client = server.client();
/// client.command(&["SET", "coupon/42", "someone"])?;
/// assert_eq!(client.command(&["DBSIZE"])?, Reply::Integer(1));
/// assert_eq!(client.command(&["KEYS", "*"])?.texts(), ["coupon/42"]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct RespClient {
    stream: BufReader<TcpStream>,
}

impl RespClient {
    /// Connects to the server on `port` of the loopback interface. A reply may take 5 seconds.
    ///
    /// # Errors
    ///
    /// If no server listens on the port.
    pub fn connect(port: u16) -> io::Result<Self> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(REPLY_LIMIT))?;
        stream.set_write_timeout(Some(REPLY_LIMIT))?;
        Ok(Self {
            stream: BufReader::new(stream),
        })
    }

    /// Sends a command, its name and arguments each as an item, and waits for the reply.
    ///
    /// An error that the server returns is a [`Reply::Error`].
    ///
    /// # Errors
    ///
    /// If the connection is closed or the reply is late. Use a new connection then.
    pub fn command<A: AsRef<[u8]>>(&mut self, arguments: &[A]) -> io::Result<Reply> {
        let mut request = format!("*{}\r\n", arguments.len()).into_bytes();
        for argument in arguments {
            let argument = argument.as_ref();
            request.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
            request.extend_from_slice(argument);
            request.extend_from_slice(b"\r\n");
        }
        self.stream.get_mut().write_all(&request)?;
        self.reply()
    }

    fn reply(&mut self) -> io::Result<Reply> {
        let mut line = Vec::new();
        self.stream.read_until(b'\n', &mut line)?;
        let text = line
            .strip_suffix(b"\r\n")
            .ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
        let text = String::from_utf8_lossy(text);
        let (kind, rest) = text.split_at_checked(1).unwrap_or_default();
        match kind {
            "+" => Ok(Reply::Text(rest.as_bytes().to_vec())),
            "-" => Ok(Reply::Error(rest.to_owned())),
            ":" => Ok(Reply::Integer(number(rest)?)),
            "$" => match usize::try_from(number(rest)?) {
                Ok(length) => self.bulk(length),
                Err(_) => Ok(Reply::Nil),
            },
            "*" => match usize::try_from(number(rest)?) {
                Ok(length) => (0..length)
                    .map(|_| self.reply())
                    .collect::<io::Result<_>>()
                    .map(Reply::Array),
                Err(_) => Ok(Reply::Nil),
            },
            _ => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("not RESP2: {text}"),
            )),
        }
    }

    fn bulk(&mut self, length: usize) -> io::Result<Reply> {
        let mut bytes = vec![0; length + 2];
        self.stream.read_exact(&mut bytes)?;
        bytes.truncate(length);
        Ok(Reply::Text(bytes))
    }
}

fn number(text: &str) -> io::Result<i64> {
    text.parse()
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// A reply of a Redis server; [`RespClient`] has an example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// No value.
    Nil,
    /// A number.
    Integer(i64),
    /// A status such as `OK`, or a value.
    Text(Vec<u8>),
    /// A list.
    Array(Vec<Reply>),
    /// An error; the text begins with a code such as `NOAUTH`.
    Error(String),
}

impl Reply {
    /// Returns the number of an integer reply; `None` for other replies.
    pub fn integer(&self) -> Option<i64> {
        match self {
            Self::Integer(number) => Some(*number),
            _ => None,
        }
    }

    /// Returns the text of a text reply, with � for invalid UTF-8; `None` for other replies.
    pub fn text(&self) -> Option<String> {
        match self {
            Self::Text(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            _ => None,
        }
    }

    /// Returns the texts of a list; empty for other replies.
    pub fn texts(&self) -> Vec<String> {
        match self {
            Self::Array(items) => items.iter().filter_map(Self::text).collect(),
            _ => Vec::new(),
        }
    }
}
