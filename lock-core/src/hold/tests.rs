use tokio::runtime::Handle;

use super::*;
use crate::keeper::releases::Releases;
use crate::{LockRequest, Mode};

/// A keeper that notes whether tries are held back when it learns of an end.
#[derive(Default)]
struct Observer {
    releases: Arc<Releases>,
    held_back: OnceLock<bool>,
}

impl HoldKeeper for Observer {
    fn attend_at(self: Arc<Self>, _hold: &Arc<Hold>, _due: Moment) {}

    fn hold_tries_back(&self, id: &HoldId) -> OneRelease {
        self.releases.begin(id)
    }

    fn ended(&self, hold: &Hold, _reason: LossReason) {
        assert!(hold.has_ended(), "everybody sees the end by now");
        let held_back = self.releases.may_free(hold.id.key(), Mode::Exclusive);
        self.held_back.set(held_back).expect("it ends once");
    }

    fn keep_until(&self, _part: Part, _until: Moment) {}
}

/// Otherwise a try that sees the end asks the store before the release is registered.
#[tokio::test]
async fn tries_are_held_back_from_the_end_until_its_release_is_registered() {
    const LIMIT: Duration = Duration::from_millis(1);
    let request = LockRequest::exclusive("k").unwrap();
    let id = HoldId::new(&request, Handle::current().id()).unwrap();
    let observer = Arc::new(Observer::default());
    let keeper = Arc::clone(&observer);
    let hold = Hold::new(id, Clock::Boot, keeper);
    let sent = Clock::Boot.now();
    hold.start(sent, Duration::from_secs(30), Some(LIMIT));
    Clock::Boot.sleep_until(sent.plus(LIMIT * 5)).await;
    assert_eq!(hold.expire_if_due(), Err(LossReason::TooLong));
    assert_eq!(observer.held_back.get(), Some(&true));
    assert!(!observer.releases.may_free(hold.id.key(), Mode::Exclusive));
}
