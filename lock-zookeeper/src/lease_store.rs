//! Renews and releases holds.

use async_trait::async_trait;
use lock_core::backend::{HoldId, LeaseStore, Released, Renewal};
use lock_core::{KeyInfo, LockKey, Result};

use crate::client::Client;

#[async_trait]
impl LeaseStore for Client {
    async fn renew(&self, holds: &[HoldId]) -> Result<Vec<Renewal>> {
        self.renew_holds(holds)
            .await
            .map_err(|error| self.at_server(error))
    }

    async fn release(&self, hold: &HoldId) -> Result<Released> {
        self.release_claim(hold)
            .await
            .map_err(|error| self.at_server(error))
    }

    async fn inspect(&self, key: &LockKey) -> Result<KeyInfo> {
        self.inspect_key(key)
            .await
            .map_err(|error| self.at_server(error))
    }

    async fn ping(&self) -> Result<()> {
        self.confirm_a_session()
            .await
            .map_err(|error| self.at_server(error))
    }
}
