//! Free ports for servers.

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use super::ground;

/// Maximum number of ports tried for a server, since another process may take a port first.
pub(super) const ATTEMPTS: u32 = 5;

/// The range of ports, below the range that the system uses for outgoing connections.
///
/// So no outgoing connection can take a port first.
const PORTS: Range<u16> = 10_000..32_000;

/// Number of ports that a process claims at once: enough for most test programs.
const BLOCK: u16 = 1000;

/// The ports of this process.
static OURS: Mutex<Ports> = Mutex::new(Ports {
    left: 0..0,
    claims: Vec::new(),
});

/// The ports that no other process uses, and the ports that are left.
struct Ports {
    left: Range<u16>,
    /// Files whose locks claim the blocks. Held until the process ends.
    claims: Vec<File>,
}

/// Returns a free port of the loopback interface that was not returned before.
///
/// No other running process of the same user and temporary directory has got the port either. Why:
/// clients of a killed server must not find another server on its port.
///
/// Other programs may still take the port. If a server ends at once, its start is tried again with
/// another port.
///
/// # Panics
///
/// If other processes have claimed all ports.
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
        // Start at a random block, so that the ports of an ended process stay unused.
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

/// Claims the block that begins at `start`; fails if this or another process has claimed it.
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
