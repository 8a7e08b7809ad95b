//! How a claim knows without a look that nobody stands before it.
//!
//! Whoever held a lock as the first of its line, has removed that claim and gets the number right behind it is the
//! first again: nobody has joined the line in between. Numbers begin again only when the lock's node is made
//! anew. Then each claim up to the same number is a transaction, since clients make claims one by one (servers do not
//! tell which transaction a multi was, ZOOKEEPER-4026), and servers count their transactions. So the number is to be
//! trusted as long as there were no more of them than that.

use crate::line::sequence_of;
use crate::session::Node;

/// How many claims in a row have to have been right behind each other before the next one is expected to be so, too: where
/// it is not, the look at the line is a round trip late.
const RUN_MIN: u32 = 8;

/// An exclusive hold of this client that was the first of its line, and has been removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Predecessor {
    sequence: i32,
    czxid: i64,
    /// How many claims of this client in a row were right behind the one before, this one included.
    run: u32,
}

impl Predecessor {
    /// Nothing where the number has rolled over.
    pub(crate) fn new(node: &Node, run: u32) -> Option<Self> {
        let sequence = sequence_of(node.name()).filter(|sequence| *sequence >= 0)?;
        Some(Self {
            sequence,
            czxid: node.czxid,
            run,
        })
    }

    /// For a claim that was made after the predecessor had been removed: how many in a row were right behind the one
    /// before, `node` included; `None` where somebody may stand before it.
    pub(crate) fn run_with(&self, node: &Node) -> Option<u32> {
        self.is_right_before(node)
            .then_some(self.run.saturating_add(1))
    }

    fn is_right_before(&self, node: &Node) -> bool {
        let expected = self.sequence.checked_add(1);
        let transactions = node.czxid.checked_sub(self.czxid);
        expected.is_some()
            && sequence_of(node.name()) == expected
            && epoch(node.czxid) == epoch(self.czxid)
            && transactions.is_some_and(|count| (1..=i64::from(self.sequence)).contains(&count))
    }

    /// Whether the next claim is likely to be right behind, when `newest` is the last transaction that is known: until it is
    /// made, as many may come again as there were since the predecessor was made.
    pub(crate) fn next_is_likely(&self, newest: i64) -> bool {
        let since = newest.saturating_sub(self.czxid);
        self.run >= RUN_MIN && since.saturating_mul(2) < i64::from(self.sequence)
    }
}

/// The leader's, of a transaction: each begins to count anew.
fn epoch(zxid: i64) -> i64 {
    zxid >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(sequence: &str, czxid: i64) -> Node {
        let path = format!("/k/_c_0f0e0d0c-0b0a-0908-0706-050403020100-lock-{sequence}");
        Node { path, czxid }
    }

    fn predecessor(sequence: &str, czxid: i64) -> Predecessor {
        Predecessor::new(&node(sequence, czxid), RUN_MIN).unwrap()
    }

    #[test]
    fn the_next_number_is_trusted_while_the_line_cannot_have_begun_anew() {
        let last = predecessor("0000000007", 1000);
        assert!(last.is_right_before(&node("0000000008", 1002)));
        assert!(last.is_right_before(&node("0000000008", 1007)));
        for (sequence, czxid) in [
            ("0000000009", 1002),
            ("0000000007", 1002),
            // Eight claims on a new node are eight transactions, and the node is one.
            ("0000000008", 1008),
            // From a copy of the data.
            ("0000000008", 1000),
            ("0000000008", 900),
            // Another leader.
            ("0000000008", 1002 + (1 << 32)),
        ] {
            assert!(
                !last.is_right_before(&node(sequence, czxid)),
                "{sequence} {czxid}"
            );
        }
        let before_the_election = predecessor("0000000007", (1 << 32) - 1);
        assert!(!before_the_election.is_right_before(&node("0000000008", (1 << 32) + 1)));
    }

    #[test]
    fn numbers_that_roll_over_are_not_trusted() {
        let last = predecessor("2147483647", 1000);
        assert!(!last.is_right_before(&node("-2147483648", 1002)));
        assert_eq!(Predecessor::new(&node("-2147483648", 1002), RUN_MIN), None);
    }

    #[test]
    fn a_claim_is_expected_after_a_run_and_not_long_after() {
        let mut last = predecessor("0000000100", 1000);
        assert!(last.next_is_likely(1000) && last.next_is_likely(1049));
        assert!(
            !last.next_is_likely(1050),
            "as many again, and the number is not trusted"
        );
        last.run = RUN_MIN - 1;
        assert!(!last.next_is_likely(1000));
        let run = |sequence| last.run_with(&node(sequence, 1010));
        assert_eq!(run("0000000101"), Some(RUN_MIN));
        assert_eq!(run("0000000102"), None);
    }
}
