//! The requests for coupons: users, number of requests, and instances.

use serde::{Deserialize, Serialize};

use crate::coupon::shop::User;

/// The first of the impatient users, who send two requests at the same time.
pub(crate) const FIRST_IMPATIENT: User = 0;

/// One request of a user to an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Submission {
    pub(crate) id: usize,
    pub(crate) user: User,
    pub(crate) instance: u32,
}

/// Returns the requests of all users, spread over the instances like by a load balancer.
///
/// Every tenth user is impatient and sends a second request to the next instance. Impatient users
/// come first, so that coupons are left for their second orders.
pub(crate) fn submissions(buyers: u32, instances: u32) -> Vec<Submission> {
    let impatient = (buyers / 10).max(1);
    let first_requests = (FIRST_IMPATIENT..buyers).map(|user| (user, user % instances));
    let mut requests = Vec::new();
    for (user, instance) in first_requests {
        requests.push((user, instance));
        if user < FIRST_IMPATIENT + impatient {
            requests.push((user, (instance + 1) % instances));
        }
    }
    let numbered = requests.into_iter().enumerate();
    numbered
        .map(|(id, (user, instance))| Submission { id, user, instance })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_impatient_ask_twice_through_different_instances() {
        let all = submissions(20, 2);
        assert_eq!(all.len(), 22);
        let twice: Vec<_> = all
            .iter()
            .filter(|one| one.user == FIRST_IMPATIENT)
            .collect();
        assert_eq!(twice.len(), 2);
        assert_ne!(twice[0].instance, twice[1].instance);
        assert!(all.iter().enumerate().all(|(index, one)| one.id == index));
    }
}
