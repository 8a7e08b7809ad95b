//! An instance of the service: answers its submissions, all at the same time.

use std::sync::Arc;

use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::coupon::claim::{Claim, Failure};
use crate::coupon::client::Client;
use crate::coupon::protocol::{Call, Reply};
use crate::coupon::strategies;
use crate::coupon::submissions::Submission;
use crate::coupon::tools::Tools;
use crate::stage::crash::{Crash, CrashBy, End};
use crate::stage::problem::Problem;
use crate::stage::{Instance, Transport};

/// The service that sells the coupons.
pub(crate) struct CouponShop;

impl Instance for CouponShop {
    type Call = Call;
    type Reply = Reply;

    async fn serve(
        number: u32,
        headquarters: Arc<dyn Transport<Call, Reply>>,
        crash_by: CrashBy,
    ) -> Result<End, Problem> {
        serve(number, Client::over(headquarters), crash_by).await
    }
}

/// Serves instance `number` until all its submissions are answered or it crashes.
async fn serve(number: u32, headquarters: Client, crash_by: CrashBy) -> Result<End, Problem> {
    let job = headquarters.apply(number).await?;
    let tools = Arc::new(Tools::connect(&job, headquarters).await?);
    tools.headquarters.ready().await?;
    let crashed = Arc::new(Notify::new());
    let mut claims = JoinSet::new();
    for submission in job.submissions {
        let (tools, crashed) = (Arc::clone(&tools), Arc::clone(&crashed));
        claims.spawn(answer(submission, tools, crash_by, crashed));
    }
    loop {
        tokio::select! {
            () = crashed.notified() => return Ok(End::Crashed),
            answered = claims.join_next() => match answered {
                Some(answered) => answered??,
                None => return Ok(End::Finished),
            },
        }
    }
}

async fn answer(
    submission: Submission,
    tools: Arc<Tools>,
    crash_by: CrashBy,
    crashed: Arc<Notify>,
) -> Result<(), Problem> {
    let crash = Crash::new(crash_by);
    let claim = Claim {
        id: submission.id,
        user: submission.user,
        tools: Arc::clone(&tools),
        crash: crash.clone(),
    };
    let Some(result) = crash.survived_by(strategies::buy(&claim)).await else {
        crashed.notify_one();
        return std::future::pending().await;
    };
    match result {
        Ok(_) | Err(Failure::Business) => {}
        Err(Failure::LockLost(error)) => eprintln!("coupon: {error}"),
        Err(Failure::Broken(problem)) => return Err(problem),
    }
    tools.headquarters.answered(submission.id).await
}
