//! Free ports for servers.

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use super::ground;

/// How many ports are tried for a server in case someone else is faster.
pub(super) const ATTEMPTS: u32 = 5;

/// Where ports are taken from: below the range that the system takes the ports of outgoing connections from, so that
/// none of those can be there first.
const PORTS: Range<u16> = 10_000..32_000;

/// As many as a program of tests needs, with some to spare.
const BLOCK: u16 = 1000;

/// The ports of this process.
static OURS: Mutex<Ports> = Mutex::new(Ports {
    left: 0..0,
    claims: Vec::new(),
});

/// The ports that no other process takes meanwhile, and which of them are left.
struct Ports {
    left: Range<u16>,
    /// Files whose locks say that blocks are taken. Held until the process ends.
    claims: Vec<File>,
}

/// A port of the loopback interface that nobody listens on, and that was not given out before, neither here nor in
/// another process of the same user and temporary directory that still runs: where a server has been killed, its
/// clients must not find another one.
///
/// Somebody else may still take it: whoever starts a server tries again with another port when the server ends at once.
///
/// # Panics
///
/// When other processes have all ports.
pub(crate) fn free_port() -> u16 {
    let mut ours = OURS.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
        if let Some(port) = ours.left.find(free) {
            return port;
        }
        ours.claim_block();
    }
}

impl Ports {
    fn claim_block(&mut self) {
        // From anywhere on, so that the ports of a process that has just ended rest.
        let blocks = PORTS.len() as u16 / BLOCK;
        let first = fastrand::u16(0..blocks);
        let (start, claim) = (first..blocks)
            .chain(0..first)
            .map(|block| PORTS.start + block * BLOCK)
            .find_map(|start| Some((start, claim(start).ok()?)))
            .expect("ports that no other process has claimed");
        self.left = start..start + BLOCK;
        self.claims.push(claim);
    }
}

/// Claims the block that begins at `start`; fails where another process has it, or this one.
fn claim(start: u16) -> io::Result<File> {
    let file = File::create(ground::shared().join(format!("ports-{start}")))?;
    file.try_lock()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_port_is_given_out_once() {
        let ports: BTreeSet<u16> = (0..1500).map(|_| free_port()).collect();
        assert_eq!(ports.len(), 1500);
    }

    #[test]
    fn nobody_else_can_claim_what_is_ours() {
        let port = free_port();
        let start = port - port % BLOCK;
        claim(start).unwrap_err();
    }
}
