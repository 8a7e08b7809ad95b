//! Checks that the server is able to hold locks.

use std::borrow::Cow;
use std::collections::HashMap;

use lock_core::{Error, ErrorKind, Result};

use crate::MySqlHold;
use crate::connection::session::StatementResults;
use crate::error::{BACKEND, takes_no_writes};

/// Minimum versions, which support `SKIP LOCKED`.
const MARIADB_MIN: (u32, u32) = (10, 6);
const MYSQL_MIN: (u32, u32) = (8, 0);

/// Selects the settings that decide. Not every server has all of them.
pub(crate) const DESCRIBE: &str = "SHOW VARIABLES WHERE Variable_name IN ('version', 'read_only', 'super_read_only', 'innodb_read_only', 'offline_mode', 'log_bin', 'binlog_format', 'wsrep_on', 'group_replication_single_primary_mode')";

macro_rules! refusal {
    () => {
        "CASE /*!80000 WHEN @@GLOBAL.super_read_only THEN 'super_read_only' */ WHEN CAST(@@GLOBAL.read_only AS CHAR) NOT IN ('0', 'OFF') THEN 'read_only' WHEN @@GLOBAL.innodb_read_only THEN 'innodb_read_only' /*!80000 WHEN @@GLOBAL.offline_mode THEN 'offline_mode' */ ELSE NULL END"
    };
}

/// The name of the setting that forbids writes at the moment, or NULL. A server that may not write
/// may not grant either.
///
/// A demoted server keeps its connections, and accepts writes of privileged users. MariaDB has more
/// than two values of `read_only`, and neither `super_read_only` nor `offline_mode`.
pub(crate) const REFUSAL: &str = refusal!();

/// Fails on a server that may not write, so that the rest of the packet is not executed. Setting a
/// variable to its present value costs the server the least, and needs no right.
pub(crate) const MAY_WRITE: &str = concat!(
    "SET SESSION completion_type = COALESCE(CONCAT('polylock may not write: ', ",
    refusal!(),
    "), 'NO_CHAIN')"
);

/// Returns the server's version, or an error if the server cannot hold locks of the kind `hold`.
pub(crate) fn check(description: &StatementResults, hold: MySqlHold) -> Result<String> {
    let mut settings = HashMap::new();
    for row in description.nth_back(0)?.rows() {
        settings.insert(
            row.value::<String>(0)?.to_ascii_lowercase(),
            row.value::<String>(1)?,
        );
    }
    let is = |name: &str, value: &str| {
        let found = settings.get(name);
        found.is_some_and(|found| found.eq_ignore_ascii_case(value))
    };
    let version = settings.get("version").map_or("", String::as_str);
    if let Some(min) = too_old(version) {
        return Err(unfit(format!(
            "the server's version is {version}, and polylock needs {min} or later"
        )));
    }
    for setting in [
        "super_read_only",
        "read_only",
        "innodb_read_only",
        "offline_mode",
    ] {
        if settings.contains_key(setting) && !is(setting, "OFF") {
            return Err(takes_no_writes(setting));
        }
    }
    if is("log_bin", "ON") && is("binlog_format", "STATEMENT") {
        return Err(unfit(
            "binlog_format STATEMENT does not support READ COMMITTED transactions: set it to ROW or MIXED",
        ));
    }
    if hold == MySqlHold::Row && is("wsrep_on", "ON") {
        return Err(unfit(
            "row locks are local to one node of a Galera cluster, so two nodes would grant the same lock: use hold = \"lease\"",
        ));
    }
    if hold == MySqlHold::Row && is("group_replication_single_primary_mode", "OFF") {
        return Err(unfit(
            "row locks are local to one primary of a group, so two primaries would grant the same lock: use hold = \"lease\", or a group with a single primary",
        ));
    }
    Ok(version.to_owned())
}

/// Returns the minimum version, if the server's version is older.
fn too_old(version: &str) -> Option<&'static str> {
    let mut numbers = version
        .split(['.', '-'])
        .map_while(|part| part.parse::<u32>().ok());
    let found = (numbers.next()?, numbers.next()?);
    if version.contains("MariaDB") {
        (found < MARIADB_MIN).then_some("MariaDB 10.6")
    } else {
        (found < MYSQL_MIN).then_some("MySQL 8.0")
    }
}

fn unfit(what: impl Into<Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::Unsupported, what).with_backend(BACKEND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_servers_are_told_what_is_needed() {
        for fit in [
            "10.6.0-MariaDB",
            "11.8.6-MariaDB-deb13u1",
            "8.0.11",
            "9.7.4-2",
            "8.4.0-log",
        ] {
            assert_eq!(too_old(fit), None, "{fit}");
        }
        assert_eq!(too_old("10.5.29-MariaDB"), Some("MariaDB 10.6"));
        assert_eq!(too_old("5.7.44-log"), Some("MySQL 8.0"));
    }
}
