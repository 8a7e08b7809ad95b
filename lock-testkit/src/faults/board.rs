//! The state that the test and the thread of the proxy share: the rules and the connections.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::connection::{Connection, End};
use super::rules::{Fault, Rule, Rules, Way, Which};

#[derive(Debug, Default)]
pub(super) struct Board {
    rules: Mutex<Rules>,
    connections: Mutex<Vec<Arc<Connection>>>,
    /// Notifies the tasks of the proxy to read the board again.
    changed: watch::Sender<()>,
}

impl Board {
    pub(super) fn accepted(&self) -> Arc<Connection> {
        let mut connections = locked(&self.connections);
        let connection = Arc::new(Connection::new(connections.len()));
        connections.push(Arc::clone(&connection));
        connection
    }

    /// Returns the chosen connections so far, closed connections included.
    pub(super) fn chosen(&self, which: &Which) -> Vec<Arc<Connection>> {
        let connections = locked(&self.connections);
        let chosen = connections.iter().filter(|connection| which.is(connection));
        chosen.cloned().collect()
    }

    pub(super) fn set(&self, which: &Which, ways: &[Way], fault: Fault) {
        locked(&self.rules).set(which, ways, fault);
        self.changed.send_replace(());
    }

    pub(super) fn rule(&self, connection: &Connection, way: Way) -> Option<Rule> {
        locked(&self.rules).of(connection, way)
    }

    pub(super) fn strike_off(&self, rule: &Rule) -> bool {
        locked(&self.rules).strike_off(rule.number)
    }

    pub(super) fn end(&self, which: &Which, end: End) {
        self.chosen(which)
            .iter()
            .for_each(|connection| connection.end_by(end));
        self.changed.send_replace(());
    }

    pub(super) fn end_ways(&self, which: &Which, ways: &[Way]) {
        for connection in self.chosen(which) {
            ways.iter().for_each(|way| connection.end_one_way(*way));
        }
        self.changed.send_replace(());
    }

    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
