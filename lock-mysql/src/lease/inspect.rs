//! The holders of a key, as its rows tell.

use std::time::Duration;

use lock_core::{HolderInfo, KeyInfo, LockKey, Mode, Result};

use crate::acquire::REPLY_LIMIT;
use crate::client::Client;
use crate::connection::session::{Fields, StatementResults};
use crate::error::Failure;
use crate::schema::literals::digits;
use crate::server_checks::MAY_WRITE;

impl Client {
    /// Reads the leases of `key` on a connection for requests that never wait.
    pub(crate) async fn inspect_leases(&self, key: &LockKey) -> Result<KeyInfo> {
        let mut answer = self.ask_for_holders(key).await;
        if let Err(Failure::NoColumn(_)) = answer {
            self.names.set_latest_columns(false);
            answer = self.ask_for_holders(key).await;
        }
        let answer = answer.map_err(Failure::into_error)?;
        let rows = answer.nth_back(0)?.rows();
        Ok(KeyInfo::new(rows.map(read_holder).collect::<Result<_>>()?))
    }

    async fn ask_for_holders(&self, key: &LockKey) -> Result<StatementResults, Failure> {
        let statements = format!("{MAY_WRITE};{}", self.names.holders_of(key));
        let background = self.background()?;
        background.keeping.ask(statements, REPLY_LIMIT).await
    }
}

fn read_holder(row: Fields<'_>) -> Result<HolderInfo> {
    let (mode, owner) = (row.value::<Option<String>>(0)?, row.value::<&[u8]>(1)?);
    let left = u64::try_from(row.value::<i64>(3)?).unwrap_or_default();
    let holder = HolderInfo::new()
        .with_grant(row.value(2)?)
        .with_ttl_left(Duration::from_micros(left));
    let holder = match mode.as_deref() {
        Some("x") => holder.with_mode(Mode::Exclusive),
        Some("s") => holder.with_mode(Mode::Shared),
        // The number of permits is in the metadata.
        Some(_) | None => holder,
    };
    let stored = row.value::<Option<Vec<u8>>>(4)?.unwrap_or_default();
    let stored = String::from_utf8_lossy(&stored);
    Ok(match stored.split_once(' ') {
        // A client of an earlier version leaves the description of the holder before it.
        Some((claim, metadata)) if claim == digits(owner) => holder.with_metadata(metadata),
        Some(_) | None => holder,
    })
}
