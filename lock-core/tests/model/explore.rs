//! Breadth-first search of all states of a model, with the shortest way to each.
//!
//! Own code, because it answers the main question after a fault: can a client acquire the lock
//! again from every state of a cyclic graph?

use std::collections::{HashMap, VecDeque};
use std::fmt::Debug;
use std::hash::Hash;

/// A state machine.
pub(crate) trait Model {
    type State: Clone + Eq + Hash;
    type Step: Clone + Debug;

    fn first(&self) -> Self::State;

    /// Returns all steps from `state`, with the states that they lead to.
    fn steps(&self, state: &Self::State) -> Vec<(Self::Step, Self::State)>;
}

/// All states of a model, in the order of their distance from the first.
pub(crate) struct Explored<M: Model> {
    states: Vec<M::State>,
    /// The predecessor and step by which each state was first reached.
    origins: Vec<Option<(usize, M::Step)>>,
    /// The states from which each state is one step away.
    predecessors: Vec<Vec<usize>>,
}

/// Visits all states, or stops at the first one for which `ends` is true.
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

    /// Returns the shortest way to a state for which `is_meant` is true.
    pub(crate) fn way_to(&self, is_meant: impl Fn(&M::State) -> bool) -> Option<Vec<M::Step>> {
        let end = self.states.iter().position(is_meant)?;
        Some(self.way(end))
    }

    /// Returns the shortest way to a state from which no state with `is_meant` is reachable.
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
