//! The acquisition of all keys of a set in one request.

use crate::backend::{Claim, Keeper};
use crate::{FencingToken, LockGuard, LockRequest, Mode, Result};

impl Keeper {
    /// Takes the locks of `requests` in one request to the store, as
    /// [`acquire_together`](crate::DistributedLock::acquire_together) does.
    pub(crate) async fn acquire_together(
        &self,
        requests: &[LockRequest],
    ) -> Result<Option<Vec<LockGuard>>> {
        let is_plain =
            |request: &LockRequest| request.mode == Mode::Exclusive && request.owner.is_none();
        if requests.len() < 2 || !requests.iter().all(is_plain) {
            return Ok(None);
        }
        let taking = self.take_together(requests);
        let taken = self.inner.gate.pass(taking).await;
        taken.map_err(|error| {
            error
                .with_operation("acquire")
                .with_backend(self.inner.capabilities.backend)
        })
    }

    async fn take_together(&self, requests: &[LockRequest]) -> Result<Option<Vec<LockGuard>>> {
        let claims = requests.iter().map(|request| self.claim(request));
        let mut claims: Vec<Claim> = claims.collect::<Result<_>>()?;
        let Some(grants) = self.inner.store.take_together(&mut claims).await? else {
            return Ok(None);
        };
        let guards = claims.into_iter().zip(grants).map(|(claim, granted)| {
            let token = FencingToken::from_grant(granted.grant)?;
            Ok(claim.granted(token, granted.sent, granted.ttl))
        });
        // The guards of a grant that came too late are dropped, which releases their locks.
        guards.collect()
    }
}
