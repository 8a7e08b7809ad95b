//! Keys of released claims, to be used again.

use std::collections::HashMap;
use std::sync::{Arc, MutexGuard};

use lock_core::Mode;
use lock_core::backend::Mutex;

/// The largest number of keys that are kept, some 200 bytes each.
const KEPT_MAX: usize = 1024;

/// Keys that are not on the servers, and that no request under way can create.
///
/// Until it is compacted, etcd remembers every key that it ever had, and skips each of them when it
/// lists a range. If every claim had a new key, each take would slow down the next take.
#[derive(Default)]
pub(crate) struct KeyPool(Mutex<KeptKeys>);

#[derive(Default)]
struct KeptKeys {
    /// The keys by queue and mode.
    names: HashMap<(String, Mode), Vec<Arc<str>>>,
    count: usize,
    /// The process that the keys belong to: a fork has copies of these keys.
    process: u32,
}

impl KeyPool {
    /// Takes a key for such a claim out of the pool, if the pool has a key for it.
    pub(crate) fn take(&self, queue: &str, mode: Mode) -> Option<Arc<str>> {
        let mut kept = self.lock();
        let of = (queue.to_owned(), mode);
        let names = kept.names.get_mut(&of)?;
        let name = names.pop()?;
        if names.is_empty() {
            kept.names.remove(&of);
        }
        kept.count -= 1;
        Some(name)
    }

    /// Puts the key of a claim that is gone into the pool.
    pub(crate) fn keep(&self, queue: &str, mode: Mode, name: Arc<str>) {
        let mut kept = self.lock();
        if kept.count == KEPT_MAX {
            kept.drop_any();
        }
        let names = kept.names.entry((queue.to_owned(), mode)).or_default();
        names.push(name);
        kept.count += 1;
    }

    fn lock(&self) -> MutexGuard<'_, KeptKeys> {
        let mut kept = self.0.lock();
        let process = std::process::id();
        if kept.process != process {
            *kept = KeptKeys {
                process,
                ..KeptKeys::default()
            };
        }
        kept
    }
}

impl KeptKeys {
    /// Drops the keys of an arbitrary queue. Why not the oldest: a client that cycles through more
    /// locks than the pool has keys would never find a key.
    fn drop_any(&mut self) {
        let any = self.names.keys().next().cloned();
        let dropped = any.and_then(|of| self.names.remove(&of));
        self.count -= dropped.map_or(0, |names| names.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_given_once_and_to_its_like_only() {
        let names = KeyPool::default();
        names.keep("a/", Mode::Exclusive, "a/1".into());
        assert_eq!(names.take("b/", Mode::Exclusive), None);
        assert_eq!(names.take("a/", Mode::Shared), None);
        assert_eq!(names.take("a/", Mode::Exclusive).as_deref(), Some("a/1"));
        assert_eq!(names.take("a/", Mode::Exclusive), None);
        assert!(names.lock().names.is_empty());
    }

    #[test]
    fn a_fork_gives_none_that_its_parent_may_give() {
        let names = KeyPool::default();
        names.keep("a/", Mode::Exclusive, "a/1".into());
        names.lock().process += 1;
        assert_eq!(names.take("a/", Mode::Exclusive), None);
        names.keep("a/", Mode::Exclusive, "a/2".into());
        assert_eq!(names.take("a/", Mode::Exclusive).as_deref(), Some("a/2"));
    }

    #[test]
    fn who_goes_round_more_locks_than_are_kept_finds_some() {
        let names = KeyPool::default();
        let mut found = 0;
        for number in (0..2 * KEPT_MAX).cycle().take(8 * KEPT_MAX) {
            let queue = format!("{number}/");
            found += usize::from(names.take(&queue, Mode::Exclusive).is_some());
            names.keep(&queue, Mode::Exclusive, "name".into());
        }
        assert!(found > KEPT_MAX, "{found}");
    }

    #[test]
    fn there_is_a_limit() {
        let names = KeyPool::default();
        for number in 0..3 * KEPT_MAX {
            names.keep(&format!("{number}/"), Mode::Exclusive, "name".into());
            assert!(names.lock().names.len() <= KEPT_MAX);
        }
        let kept = names.lock();
        assert_eq!(kept.names.len(), kept.count);
    }
}
