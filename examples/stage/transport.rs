//! The connection from an instance to the headquarters: a call within a process, or a line of JSON.

use async_trait::async_trait;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::problem::Problem;

/// A call or a reply.
pub(crate) trait Message: Serialize + DeserializeOwned + Send + 'static {}

impl<T: Serialize + DeserializeOwned + Send + 'static> Message for T {}

/// A connection from an instance to the headquarters.
#[async_trait]
pub(crate) trait Transport<C, R>: Send + Sync {
    async fn exchange(&self, call: C) -> Result<R, Problem>;
}
