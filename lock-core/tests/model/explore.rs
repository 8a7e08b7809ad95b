//! Every state that a model can come to, breadth first, and how it comes there.
//!
//! A page of our own, because it answers what matters most after an accident: whether from every state, in a graph
//! full of cycles, the lock can be had again.

use std::collections::{HashMap, VecDeque};
use std::fmt::Debug;
use std::hash::Hash;

/// Something that goes from state to state.
pub(crate) trait Model {
    type State: Clone + Eq + Hash;
    type Step: Clone + Debug;

    fn first(&self) -> Self::State;

    /// Everything that may happen next.
    fn steps(&self, state: &Self::State) -> Vec<(Self::Step, Self::State)>;
}

/// All states of a model, in the order of their distance from the first.
pub(crate) struct Explored<M: Model> {
    states: Vec<M::State>,
    /// From which state each was reached first, and how.
    origins: Vec<Option<(usize, M::Step)>>,
    /// From which states each can be reached in one step.
    predecessors: Vec<Vec<usize>>,
}

/// Visits all states, or those up to the first one that `ends` the search.
pub(crate) fn explore<M: Model>(model: &M, ends: impl Fn(&M::State) -> bool) -> Explored<M> {
    let first = model.first();
    let mut numbers = HashMap::from([(first.clone(), 0)]);
    let mut all = Explored::<M> {
        states: vec![first],
        origins: vec![None],
        predecessors: vec![Vec::new()],
    };
    let mut next = 0;
    while next < all.states.len() && !ends(&all.states[next]) {
        for (step, state) in model.steps(&all.states[next]) {
            let number = *numbers.entry(state).or_insert_with_key(|state| {
                all.states.push(state.clone());
                all.origins.push(Some((next, step)));
                all.predecessors.push(Vec::new());
                all.states.len() - 1
            });
            all.predecessors[number].push(next);
        }
        next += 1;
    }
    all
}

impl<M: Model> Explored<M> {
    pub(crate) fn len(&self) -> usize {
        self.states.len()
    }

    /// The shortest way to a state that `is_meant`.
    pub(crate) fn way_to(&self, is_meant: impl Fn(&M::State) -> bool) -> Option<Vec<M::Step>> {
        let end = self.states.iter().position(is_meant)?;
        Some(self.way(end))
    }

    /// The shortest way to a state from which none that `is_meant` can be reached any more.
    pub(crate) fn way_to_the_end_of(
        &self,
        is_meant: impl Fn(&M::State) -> bool,
    ) -> Option<Vec<M::Step>> {
        let mut reaches: Vec<bool> = self.states.iter().map(is_meant).collect();
        let meant = (0..self.len()).filter(|state| reaches[*state]);
        let mut queue: VecDeque<usize> = meant.collect();
        while let Some(state) = queue.pop_front() {
            for before in &self.predecessors[state] {
                if !std::mem::replace(&mut reaches[*before], true) {
                    queue.push_back(*before);
                }
            }
        }
        let end = reaches.iter().position(|reaches| !reaches)?;
        Some(self.way(end))
    }

    fn way(&self, end: usize) -> Vec<M::Step> {
        let mut steps = Vec::new();
        let mut state = end;
        while let Some((before, step)) = &self.origins[state] {
            steps.push(step.clone());
            state = *before;
        }
        steps.reverse();
        steps
    }
}
