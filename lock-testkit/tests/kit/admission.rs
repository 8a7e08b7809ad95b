//! The decision which claims may hold a key together, correct or with a fault.

use lock_core::Mode;
use lock_core::backend::blocking_claim;

use crate::fault::Fault;
use crate::rules::Entry;

/// Returns true if the claim at `index` of the queue may hold the key.
pub(crate) fn admits(fault: Fault, queue: &[Entry], index: usize) -> bool {
    let modes: Vec<Mode> = queue.iter().map(|entry| entry.id.mode()).collect();
    let entry = &queue[index];
    let earlier = &queue[..index];
    let is_permit = |mode: Mode| matches!(mode, Mode::Permit { .. });
    let beside = |wrong: fn(Mode) -> bool| {
        let mut others = modes[..=index].to_vec();
        let own = others.pop();
        others.retain(|mode| !wrong(*mode));
        others.extend(own);
        blocking_claim(&others, others.len() - 1).is_none()
    };
    match (fault, entry.id.mode()) {
        (Fault::GrantsEverything, _) => true,
        (Fault::LetsItselfIn, _) if earlier.iter().any(|other| other.client == entry.client) => {
            true
        }
        (Fault::ReadsBesideWriter, Mode::Shared) => beside(|mode| mode == Mode::Exclusive),
        (Fault::WritesBesideReader, Mode::Exclusive) => beside(|mode| mode == Mode::Shared),
        (Fault::PermitBesideWriter, mode) if is_permit(mode) => {
            beside(|mode| mode == Mode::Exclusive)
        }
        (Fault::PermitBesideReader, mode) if is_permit(mode) => beside(|mode| mode == Mode::Shared),
        (Fault::UpgradeableBesideAnother, Mode::Upgradeable) => {
            beside(|mode| mode == Mode::Upgradeable)
        }
        (Fault::ReadersExclude, Mode::Shared) => index == 0,
        (Fault::ReadersOvertake, Mode::Shared) => queue
            .iter()
            .all(|other| other.grant.is_none() || other.id.mode() == Mode::Shared),
        (Fault::ReadersOvertake, Mode::Exclusive) => {
            queue.iter().all(|other| other.grant.is_none())
        }
        (Fault::OnePermitTooMany, Mode::Permit { of }) => {
            earlier.iter().all(|other| is_permit(other.id.mode()))
                && earlier.len() <= of.get() as usize
        }
        (Fault::FirstPermitCounts, Mode::Permit { .. }) => match modes[0] {
            Mode::Permit { of } => index < of.get() as usize,
            _ => false,
        },
        (Fault::PermitsOvertake, Mode::Permit { of }) => {
            earlier.iter().all(|other| is_permit(other.id.mode())) && index < of.get() as usize
        }
        _ => blocking_claim(&modes, index).is_none(),
    }
}
