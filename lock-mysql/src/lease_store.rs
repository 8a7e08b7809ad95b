//! Renewals and releases of holds.

use std::time::Duration;

use async_trait::async_trait;
use lock_core::backend::{Claim, Converted, HoldId, LeaseStore, Released, Renewal};
use lock_core::{Error, ErrorKind, KeyInfo, LockKey, Result};

use crate::MySqlHold;
use crate::acquire::REPLY_LIMIT;
use crate::client::Client;
use crate::server_checks::MAY_WRITE;

/// The reason why row locks are not inspected: servers show the holder of a row to administrators
/// only, and MariaDB only while a transaction waits for the row.
const ROWS_TELL_NOTHING: &str = "inspect is not supported with hold = \"row\", since servers show holders of rows to administrators only: use hold = \"lease\"";

#[async_trait]
impl LeaseStore for Client {
    async fn renew(&self, holds: &[HoldId]) -> Result<Vec<Renewal>> {
        let renewals = match self.hold {
            MySqlHold::Lease => self.renew_leases(holds).await,
            MySqlHold::Row => self.renew_rows(holds).await,
        };
        renewals.map_err(|error| self.at_server(error))
    }

    async fn release(&self, hold: &HoldId) -> Result<Released> {
        let released = match self.hold {
            MySqlHold::Lease => self.release_lease(hold, None).await,
            MySqlHold::Row => self.release_row(hold).await,
        };
        released.map_err(|error| self.at_server(error))
    }

    /// Shortens a lease. A row lock has no minimum hold.
    async fn shorten(&self, hold: &HoldId, left: Duration) -> Result<Released> {
        let shortened = self.release_lease(hold, Some(left)).await;
        shortened.map_err(|error| self.at_server(error))
    }

    /// Converts a lease. A row lock does not change its mode.
    async fn convert(&self, from: &HoldId, to: &Claim) -> Result<Converted> {
        let converted = self.convert_lease(from, to.id()).await;
        converted.map_err(|error| self.at_server(error))
    }

    /// Reads the leases of a key.
    async fn inspect(&self, key: &LockKey) -> Result<KeyInfo> {
        if self.hold == MySqlHold::Row {
            return Err(Error::new(ErrorKind::Unsupported, ROWS_TELL_NOTHING));
        }
        let inspected = self.inspect_leases(key).await;
        inspected.map_err(|error| self.at_server(error))
    }

    /// Asks whether the server may write, on a connection for requests that never wait.
    async fn ping(&self) -> Result<()> {
        let background = self.background()?;
        let asked = background.keeping.ask(MAY_WRITE.to_owned(), REPLY_LIMIT);
        match asked.await {
            Ok(_) => Ok(()),
            Err(failure) => Err(self.at_server(failure.into_error())),
        }
    }
}
