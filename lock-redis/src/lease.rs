//! Keeping holds and giving them back.

use async_trait::async_trait;
use lock_core::{HoldId, LeaseStore, Released, Renewal, Result};

use crate::client::Client;

#[async_trait]
impl LeaseStore for Client {
    async fn renew(&self, holds: &[HoldId]) -> Result<Vec<Renewal>> {
        Client::renew(self, holds)
            .await
            .map_err(|error| error.with_operation("renew"))
    }

    async fn release(&self, hold: &HoldId) -> Result<Released> {
        Client::release(self, hold)
            .await
            .map_err(|error| error.with_operation("release").with_key(hold.key()))
    }
}
