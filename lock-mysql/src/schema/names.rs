//! The names of the tables, and of locks as rows in them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lock_core::{LockKey, Result};

use crate::MySqlConfig;
use crate::error::config_error;
use crate::schema::literals::hexadecimal;

/// Maximum length of a table's name: MySQL's names have 64 characters, and `_holders` is appended.
const TABLE_LENGTH_MAX: usize = 56;

/// The names of the tables, and the mapping from keys to rows.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    prefix: String,
    /// The database of the tables, if it is not the connection's.
    pub(crate) database: Option<String>,
    /// The plain name of the locks table.
    pub(crate) table: String,
    /// The quoted name of the locks table, which has a row for each key.
    pub(crate) locks: String,
    /// The quoted name of the table of holders that share a key.
    pub(crate) holders: String,
    /// A random id of this client, as a literal.
    pub(crate) me: String,
    /// True if both tables have the latest columns, which earlier versions did not create.
    has_latest_columns: Arc<AtomicBool>,
}

impl Names {
    pub(crate) fn new(config: &MySqlConfig) -> Result<Self> {
        let (database, table) = match config.table.split_once('.') {
            Some((database, table)) => (Some(database), table),
            None => (None, config.table.as_str()),
        };
        if !is_name(table, TABLE_LENGTH_MAX) || !database.is_none_or(|name| is_name(name, 64)) {
            return Err(config_error(format!(
                "table {:?} is malformed: use letters, digits and _, at most {TABLE_LENGTH_MAX}, perhaps behind the name of a database and a dot",
                config.table
            )));
        }
        let place = database.map_or_else(String::new, |name| format!("`{name}`."));
        Ok(Self {
            prefix: config.namespace.prefix(':'),
            database: database.map(str::to_owned),
            table: table.to_owned(),
            locks: format!("{place}`{table}`"),
            holders: format!("{place}`{table}_holders`"),
            me: hexadecimal(&fastrand::u128(..).to_be_bytes()),
            has_latest_columns: Arc::default(),
        })
    }

    /// Returns true if takes store who holds the key, and the slot of a permit.
    pub(crate) fn has_latest_columns(&self) -> bool {
        self.has_latest_columns.load(Ordering::Relaxed)
    }

    pub(crate) fn set_latest_columns(&self, are_there: bool) {
        self.has_latest_columns.store(are_there, Ordering::Relaxed);
    }

    /// Returns the row of a lock: `namespace:key`, with colons of the namespace escaped, or the
    /// bare key.
    pub(crate) fn row(&self, key: &LockKey) -> Vec<u8> {
        format!("{}{key}", self.prefix).into_bytes()
    }

    /// Returns the row of a lock, as a literal.
    pub(crate) fn key(&self, key: &LockKey) -> String {
        hexadecimal(&self.row(key))
    }

    /// Returns the row that counts row-lock grants while the server's clock is behind the last
    /// grant.
    ///
    /// No text contains its first byte, so this row is no lock's row.
    pub(crate) fn counter(&self, key: &LockKey) -> String {
        hexadecimal(&[&[0xFF], self.row(key).as_slice()].concat())
    }
}

fn is_name(name: &str, length_max: usize) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    // A name of digits alone would be read as a number.
    (1..=length_max).contains(&name.len())
        && name.chars().all(is_plain)
        && !name.chars().all(|c| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use lock_core::Namespace;

    use super::*;

    fn names(namespace: &str, table: &str) -> Result<Names> {
        let config = MySqlConfig::new("mysql://h/d").with_table(table);
        Names::new(&config.with_namespace(Namespace::new(namespace).unwrap()))
    }

    #[test]
    fn namespaces_never_meet() {
        let at = |namespace: &str, key: &str| {
            let names = names(namespace, "locks").unwrap();
            names.row(&LockKey::new(key).unwrap())
        };
        assert_eq!(at("a:b", "c"), b"a%3Ab:c");
        assert_ne!(at("a", "b:c"), at("a:b", "c"));
        assert_ne!(at("a%3Ab", "c"), at("a:b", "c"));
    }

    #[test]
    fn tables_are_named_plainly() {
        let long = "t".repeat(TABLE_LENGTH_MAX);
        for good in ["locks", "L_1", "app.locks", &long] {
            assert!(names("n", good).is_ok(), "{good}");
        }
        let quoted = names("n", "app.locks").unwrap();
        assert_eq!(quoted.holders, "`app`.`locks_holders`");
        let too_long = "t".repeat(TABLE_LENGTH_MAX + 1);
        for bad in [
            "", "a b", "a`b", "a;b", "a.b.c", ".a", "a.", "12", "é", &too_long,
        ] {
            assert!(names("n", bad).is_err(), "{bad}");
        }
    }
}
