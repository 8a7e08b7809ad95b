//! The commands on keys of the headquarters, for instances without Redis.

use async_trait::async_trait;

use super::{Command, Commands, Outcome};
use crate::coupon::client::Client;
use crate::stage::problem::Problem;

/// A client that lets the headquarters execute the commands.
pub(crate) struct RemoteCommands(Client);

impl RemoteCommands {
    pub(crate) fn of(headquarters: Client) -> Self {
        Self(headquarters)
    }
}

#[async_trait]
impl Commands for RemoteCommands {
    async fn run(&self, command: Command) -> Result<Outcome, Problem> {
        self.0.command(command).await
    }
}
