//! Random draws, all from one seed.

use std::hash::{DefaultHasher, Hash, Hasher};

use fastrand::Rng;

/// Returns random numbers for one purpose, the same for the same seed.
pub(crate) fn draws(seed: u64, purpose: impl Hash) -> Rng {
    let mut hasher = DefaultHasher::new();
    (seed, purpose).hash(&mut hasher);
    Rng::with_seed(hasher.finish())
}

/// A bag of items, each of which is drawn as often as any other.
#[derive(Debug)]
pub(crate) struct Bag<T> {
    all: Vec<T>,
    left: Vec<T>,
}

impl<T: Copy> Bag<T> {
    pub(crate) fn new(all: Vec<T>) -> Self {
        let left = Vec::new();
        Self { all, left }
    }

    /// Draws an item; `None` only if the bag never had any.
    pub(crate) fn draw(&mut self, rng: &mut Rng) -> Option<T> {
        if self.left.is_empty() {
            self.left.clone_from(&self.all);
            rng.shuffle(&mut self.left);
        }
        self.left.pop()
    }
}
