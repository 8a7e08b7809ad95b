//! Free ports for servers.

use std::net::{Ipv4Addr, TcpListener};

/// How many ports are tried for a server in case someone else is faster.
pub(super) const ATTEMPTS: u32 = 5;

/// A port of the loopback interface that nobody listens on.
///
/// It is below the range that the system takes the ports of outgoing connections from, so that none
/// of those can be there first. Another process may still be: whoever starts a server tries again
/// with another port when the server ends at once.
///
/// # Panics
///
/// When a thousand ports in a row are taken.
pub(crate) fn free_port() -> u16 {
    (0..1000)
        .map(|_| fastrand::u16(10_000..32_000))
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .expect("a free port below 32000")
}
