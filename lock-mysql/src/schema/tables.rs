//! Creation and checks of the tables.

use lock_core::Result;

use crate::connection::session::{Fields, StatementResults};
use crate::error::config_error;
use crate::schema::names::Names;

/// Length of the longest row name: an escaped namespace of 255 bytes, a colon and a key.
const KEY_LENGTH: u64 = 1024;

/// The statement that creates the locks table, as in `permissions.md`.
const LOCKS: &str = include_str!("locks.sql");

/// The statement that creates the table of holders that share a key, as in `permissions.md`.
const HOLDERS: &str = include_str!("locks_holders.sql");

/// The required columns and their types. The column `k` has checks of its own.
const COLUMNS: [(&str, &str); 4] = [
    ("owner", "binary(16)"),
    ("token", "bigint unsigned"),
    ("ttl", "bigint unsigned"),
    ("expires", "datetime(6)"),
];

/// The columns that tables of earlier versions lack, with their types.
const HOLDER: (&str, &str) = ("holder", "VARBINARY(255)");
const SLOT: (&str, &str) = ("slot", "INT UNSIGNED");

impl Names {
    /// Returns the statements that create the tables that `description` lacks.
    pub(crate) fn missing_tables(&self, description: &StatementResults) -> Result<Vec<String>> {
        let mut missing = Vec::new();
        for (table, statement, name, place) in [
            (self.table.clone(), LOCKS, "locks", &self.locks),
            (
                self.holders_table(),
                HOLDERS,
                "locks_holders",
                &self.holders,
            ),
        ] {
            if TableDescription::read(&table, description)?
                .engine
                .is_none()
            {
                let statement = statement.trim().trim_end_matches(';');
                missing.push(statement.replacen(name, place, 1));
            }
        }
        Ok(missing)
    }

    /// Selects the columns, then the primary keys, then the engines of both tables.
    pub(crate) fn describe_tables(&self) -> String {
        let schema = match &self.database {
            Some(database) => format!("'{database}'"),
            None => "DATABASE()".to_owned(),
        };
        let tables = format!("'{0}', '{0}_holders'", self.table);
        // This comparison ignores case. On most servers, though, names that differ in case are
        // different tables.
        let of = format!(
            "TABLE_SCHEMA = {schema} AND TABLE_NAME IN ({tables}) AND (@@lower_case_table_names <> 0 OR CAST(TABLE_NAME AS BINARY) IN ({tables}))"
        );
        format!(
            "SELECT TABLE_NAME, LOWER(COLUMN_NAME), LOWER(COLUMN_TYPE), CAST(COALESCE(CHARACTER_OCTET_LENGTH, 0) AS UNSIGNED) FROM information_schema.COLUMNS WHERE {of};
SELECT TABLE_NAME, LOWER(GROUP_CONCAT(CONCAT(COLUMN_NAME, COALESCE(CONCAT('(', SUB_PART, ')'), '')) ORDER BY SEQ_IN_INDEX)) FROM information_schema.STATISTICS WHERE INDEX_NAME = 'PRIMARY' AND {of} GROUP BY TABLE_NAME;
SELECT TABLE_NAME, COALESCE(ENGINE, 'none') FROM information_schema.TABLES WHERE {of}"
        )
    }

    /// Returns an error if the described tables cannot hold locks safely.
    pub(crate) fn check_tables(&self, description: &StatementResults) -> Result<()> {
        for (table, primary) in [(self.table.clone(), "k"), (self.holders_table(), "k,owner")] {
            let found = TableDescription::read(&table, description)?;
            if let Some(complaint) = found.complaint(primary) {
                return Err(config_error(format!(
                    "the table {table} cannot hold locks, since {complaint}. Create it as documented, or name another one (table)"
                )));
            }
        }
        Ok(())
    }

    /// Returns the statements that add the latest columns to tables of earlier versions.
    ///
    /// An addition waits at most a second for transactions, which delays other requests behind it.
    pub(crate) fn missing_columns(&self, description: &StatementResults) -> Result<Vec<String>> {
        let mut missing = Vec::new();
        for (table, place, latest) in [
            (self.table.clone(), &self.locks, [HOLDER].as_slice()),
            (self.holders_table(), &self.holders, &[HOLDER, SLOT]),
        ] {
            let found = TableDescription::read(&table, description)?;
            let is_there = |name| found.columns.iter().any(|column| column.name == name);
            let added = latest.iter().filter(|(name, _)| !is_there(*name));
            let added: Vec<String> = added
                .map(|(name, kind)| format!("ADD COLUMN {name} {kind} NULL, "))
                .collect();
            if !added.is_empty() {
                missing.push(format!(
                    "SET SESSION lock_wait_timeout = 1;ALTER TABLE {place} {}ALGORITHM = INSTANT",
                    added.concat()
                ));
            }
        }
        Ok(missing)
    }

    fn holders_table(&self) -> String {
        format!("{}_holders", self.table)
    }
}

struct TableDescription {
    engine: Option<String>,
    primary: Option<String>,
    columns: Vec<Column>,
}

struct Column {
    name: String,
    /// The type, without the display width that older servers append to integers.
    kind: String,
    length: u64,
}

impl TableDescription {
    fn read(table: &str, description: &StatementResults) -> Result<Self> {
        // Some servers store names in lower case.
        let is_of = |row: &Fields<'_>| {
            row.value::<String>(0)
                .is_ok_and(|name| name.eq_ignore_ascii_case(table))
        };
        let text = |part: usize| -> Result<Option<String>> {
            let mut rows = description.nth_back(part)?.rows();
            rows.find(is_of).map(|row| row.value(1)).transpose()
        };
        let columns = description.nth_back(2)?.rows().filter(is_of);
        let column = |row: Fields<'_>| {
            Ok(Column {
                name: row.value(1)?,
                kind: row.value::<String>(2)?.replace("bigint(20)", "bigint"),
                length: row.value(3)?,
            })
        };
        Ok(Self {
            engine: text(0)?,
            primary: text(1)?,
            columns: columns.map(column).collect::<Result<_>>()?,
        })
    }

    /// Returns the reason why the table cannot hold locks, if there is one.
    fn complaint(&self, primary: &str) -> Option<String> {
        let Some(engine) = &self.engine else {
            return Some("it is missing, or this user may not see it".to_owned());
        };
        if !engine.eq_ignore_ascii_case("InnoDB") {
            return Some(format!(
                "its engine is {engine}, which has no row locks: two clients would hold a lock at once"
            ));
        }
        let found = self.primary.as_deref().unwrap_or("none");
        if found != primary {
            return Some(format!(
                "its primary key is {found} instead of {primary}: a lock would lock other keys' rows as well"
            ));
        }
        let key = self.columns.iter().find(|column| column.name == "k")?;
        if !key.kind.starts_with("varbinary") || key.length < KEY_LENGTH {
            return Some(format!(
                "its column k is {} instead of varbinary({KEY_LENGTH}): different keys would be the same lock",
                key.kind
            ));
        }
        let is_there = |(name, kind): &(&str, &str)| {
            self.columns
                .iter()
                .any(|column| column.name == *name && column.kind == *kind)
        };
        let missing = COLUMNS.iter().find(|column| !is_there(column));
        missing.map(|(name, kind)| format!("it has no column {name} of type {kind}"))
    }
}
