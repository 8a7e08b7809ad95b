//! Chooses the timeout of a hold's session. Few timeouts are in use, since each session is a
//! connection.

use std::ops::RangeInclusive;
use std::time::Duration;

/// The timeouts of sessions, in seconds. Longer timeouts are whole multiples of the last.
const CLASSES: [u64; 16] = [1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 40, 60, 90, 120, 180];

/// Returns the timeout of the session for a hold with this ttl and lock delay, which keeps the key
/// for `least`.
///
/// That is the longest class up to the sum of ttl and lock delay, within the `bounds` of the
/// server. If that is less than `least`, it is the shortest class from there on.
pub(crate) fn class(
    ttl: Duration,
    lock_delay: Duration,
    least: Duration,
    bounds: &RangeInclusive<Duration>,
) -> Duration {
    let class = class_up_to(ttl, lock_delay, bounds);
    if class >= least {
        return class;
    }
    let longer = CLASSES.map(Duration::from_secs).into_iter();
    let mut longer = longer.filter(|class| (least..=*bounds.end()).contains(class));
    longer.next().unwrap_or(least)
}

/// Returns the longest class up to the sum of `ttl` and `lock_delay`, within `bounds`. If the class
/// leaves less than half of the ttl, as with a long lock delay, returns the exact sum.
fn class_up_to(ttl: Duration, lock_delay: Duration, bounds: &RangeInclusive<Duration>) -> Duration {
    let wanted = (ttl + lock_delay).min(*bounds.end());
    if wanted == *bounds.end() {
        return wanted;
    }
    let [.., longest] = CLASSES;
    let seconds = if wanted.as_secs() >= longest {
        wanted.as_secs() / longest * longest
    } else {
        let fitting = CLASSES
            .iter()
            .rev()
            .find(|class| **class <= wanted.as_secs());
        fitting.copied().unwrap_or_default()
    };
    let class = Duration::from_secs(seconds).max(*bounds.start());
    if class > wanted || class.saturating_sub(lock_delay) < ttl / 2 {
        return wanted;
    }
    class
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const NONE: Duration = Duration::ZERO;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn usual() -> RangeInclusive<Duration> {
        seconds(4)..=seconds(40)
    }

    #[test]
    fn many_ttls_are_few_classes_and_never_longer() {
        let mut classes = BTreeSet::new();
        for milliseconds in (4_000..=100_000).step_by(37) {
            let ttl = Duration::from_millis(milliseconds);
            let class = class(ttl, NONE, NONE, &usual());
            assert!(
                class <= ttl && usual().contains(&class),
                "{ttl:?}: {class:?}"
            );
            assert!(class * 3 >= ttl.min(seconds(40)) * 2, "{ttl:?}: {class:?}");
            classes.insert(class);
        }
        assert!(classes.len() <= 9, "{classes:?}");
        let wide = seconds(1)..=seconds(3_600);
        assert_eq!(class(seconds(500), NONE, NONE, &wide), seconds(360));
    }

    #[test]
    fn usual_ttls_are_classes_themselves() {
        for ttl in CLASSES.map(seconds) {
            assert_eq!(class(ttl, NONE, NONE, &(seconds(1)..=seconds(200))), ttl);
        }
    }

    #[test]
    fn no_class_is_shorter_than_what_the_server_gives() {
        let shortest = Duration::from_millis(1_500);
        let bounds = shortest..=seconds(15);
        assert_eq!(
            class(Duration::from_millis(1_700), NONE, NONE, &bounds),
            shortest
        );
        // The pool refuses this timeout, with the shortest timeout in the error.
        assert_eq!(class(seconds(1), NONE, NONE, &bounds), seconds(1));
    }

    #[test]
    fn a_lock_delay_does_not_take_the_ttl() {
        assert_eq!(class(seconds(20), seconds(12), NONE, &usual()), seconds(30));
        assert_eq!(class(seconds(4), seconds(35), NONE, &usual()), seconds(39));
        assert_eq!(class(seconds(10), seconds(7), NONE, &usual()), seconds(15));
    }

    #[test]
    fn a_minimum_hold_is_never_cut() {
        let minimum = |least| class(seconds(4), NONE, least, &usual());
        assert_eq!(minimum(seconds(3)), seconds(4));
        assert_eq!(minimum(seconds(7)), seconds(8));
        assert_eq!(minimum(Duration::from_millis(30_001)), seconds(40));
        let odd = seconds(4)..=seconds(39);
        assert_eq!(class(seconds(4), NONE, seconds(35), &odd), seconds(35));
    }
}
