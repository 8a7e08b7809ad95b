//! The slots of permits. A claim that is let in writes a free slot into its node, and reads the
//! nodes of all holders after that.

use std::sync::Arc;
use std::time::Duration;

use lock_core::Result;
use lock_core::backend::{WrittenSlot, free_slot, holders, keeps_slot};
use zookeeper_client::{Error as ZooKeeperError, MultiReadResult};

use crate::claim::node::ClaimNode;
use crate::claim::position::QueuePosition;
use crate::error::DriverResult;
use crate::queue::QueueListing;
use crate::session::node::Node;
use crate::session::requests::Session;

/// The word before the metadata in the node of a claim that has written its slot.
const SLOT: &str = "slot:";

/// The pause after which a claim looks for a slot again. Others have written one that they do not
/// keep.
const PAUSE: Duration = Duration::from_millis(5);

/// Returns the data of a node with a slot.
fn data_of(slot: u32, metadata: &str) -> String {
    format!("{SLOT}{slot} {metadata}")
}

/// Returns the slot and the metadata in the data of a node.
pub(crate) fn read_data(data: &str) -> (Option<u32>, &str) {
    let with_slot = data.strip_prefix(SLOT).and_then(|rest| {
        let (slot, metadata) = rest.split_once(' ')?;
        Some((Some(slot.parse().ok()?), metadata))
    });
    with_slot.unwrap_or((None, data))
}

/// The outcome of the choice of a slot.
pub(crate) enum SlotChoice {
    Slot(u32),
    /// The user may not read the node of a holder or write its own one, so there are no slots.
    Unreadable,
    /// Look at the queue again.
    Again,
}

/// The slots of the holders in the order of their queue.
struct HolderSlots {
    slots: Vec<Option<WrittenSlot>>,
    /// The index of the client's own claim.
    own: usize,
    /// The version of the data of the client's own node.
    version: i32,
}

impl ClaimNode<'_> {
    /// Chooses the slot of a claim with the number `of`, after a look that showed no blocking claim.
    pub(crate) async fn choose_slot(
        &mut self,
        look: &QueuePosition,
        of: u32,
        metadata: &str,
    ) -> Result<SlotChoice> {
        if look.index == 0 && !self.has_written_slot {
            return Ok(SlotChoice::Slot(0));
        }
        let (session, Some(node)) = (&*look.session, self.node()) else {
            return Ok(SlotChoice::Again);
        };
        let mut queue = Arc::clone(&look.queue);
        // The slot that was in the node before the queue was listed.
        let mut before: Option<WrittenSlot> = None;
        loop {
            let found = match holder_slots(session, &self.lock, &queue, &node).await {
                Err(ZooKeeperError::NoAuth) => return Ok(SlotChoice::Unreadable),
                found => self.retry_or_fail(session, found)?.flatten(),
            };
            let Some(found) = found else {
                return Ok(SlotChoice::Again);
            };
            let own = found.slots[found.own].filter(|_| keeps_slot(&found.slots, found.own));
            if let Some(own) = own
                && before == Some(own)
            {
                return Ok(SlotChoice::Slot(own.slot));
            }
            // The server answers in order, so the list has all claims that wrote a slot before.
            let listing = match (own, free_slot(&found.slots, found.own, of)) {
                (Some(own), _) => {
                    before = Some(own);
                    session.list(&self.lock).await
                }
                (None, Some(slot)) => {
                    self.has_written_slot = true;
                    let data = data_of(slot, metadata);
                    let writing = session.write(&node, &data, found.version);
                    let (written, listing) = tokio::join!(writing, session.list(&self.lock));
                    let written = match written {
                        Err(ZooKeeperError::NoAuth) => return Ok(SlotChoice::Unreadable),
                        written => self.retry_or_fail(session, written)?.flatten(),
                    };
                    before = written.map(|written| WrittenSlot { slot, written });
                    listing
                }
                (None, None) => {
                    tokio::time::sleep(PAUSE).await;
                    session.list(&self.lock).await
                }
            };
            let Some(children) = self.retry_or_fail(session, listing)? else {
                return Ok(SlotChoice::Again);
            };
            queue = Arc::new(QueueListing::new(children));
        }
    }
}

/// Reads the nodes of all holders in `queue`; `None` if the client's own node is gone.
async fn holder_slots(
    session: &Session,
    lock: &str,
    queue: &QueueListing,
    own: &Node,
) -> DriverResult<Option<HolderSlots>> {
    let holding = holders(queue.modes().iter().copied());
    let nodes = session.read_claims(lock, queue, 0..holding).await?;
    let (mut slots, mut found) = (Vec::with_capacity(holding), None);
    for (index, node) in nodes.into_iter().enumerate() {
        let (data, stat) = match node {
            MultiReadResult::Data { data, stat } => (data, stat),
            MultiReadResult::Error { err } if err != ZooKeeperError::NoNode => return Err(err),
            // The holder has just gone.
            _ => continue,
        };
        if queue.name(index) == own.name() {
            found = Some((slots.len(), stat.version));
        }
        let (slot, _) = read_data(std::str::from_utf8(&data).unwrap_or_default());
        let written = stat.mzxid;
        slots.push(slot.map(|slot| WrittenSlot { slot, written }));
    }
    Ok(found.map(|(own, version)| HolderSlots {
        slots,
        own,
        version,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_read_back() {
        let metadata = "host=a pid=1 since=1 label=slot:3";
        assert_eq!(read_data(&data_of(7, metadata)), (Some(7), metadata));
        assert_eq!(read_data(metadata), (None, metadata));
        for other in ["", "slot:", "slot:x host=a"] {
            assert_eq!(read_data(other), (None, other));
        }
    }
}
