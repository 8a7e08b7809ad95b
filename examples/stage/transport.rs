//! How an instance reaches the headquarters: within one process by a call, between processes as a line of
//! JSON.

use async_trait::async_trait;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::problem::Problem;

/// What can be a call or a reply.
pub(crate) trait Message: Serialize + DeserializeOwned + Send + 'static {}

impl<T: Serialize + DeserializeOwned + Send + 'static> Message for T {}

/// The way from an instance to the headquarters.
#[async_trait]
pub(crate) trait Transport<C, R>: Send + Sync {
    async fn exchange(&self, call: C) -> Result<R, Problem>;
}
