//! Free ports for servers.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Mutex, PoisonError};

/// How many ports are tried for a server in case someone else is faster.
pub(super) const ATTEMPTS: u32 = 5;

/// A port of the loopback interface that nobody listens on, and that was not given out before: where a server has been
/// killed, its clients must not find another one.
///
/// It is below the range that the system takes the ports of outgoing connections from, so that none
/// of those can be there first. Another process may still be: whoever starts a server tries again
/// with another port when the server ends at once.
///
/// # Panics
///
/// When a thousand ports in a row are taken or were given out before.
pub(crate) fn free_port() -> u16 {
    static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    (0..1000)
        .map(|_| fastrand::u16(10_000..32_000))
        .filter(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .find(|port| given.insert(*port))
        .expect("a free port below 32000")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_given_out_once() {
        let ports: BTreeSet<u16> = (0..1000).map(|_| free_port()).collect();
        assert_eq!(ports.len(), 1000);
    }
}
