//! The instance's view of the headquarters.

use std::sync::Arc;

use crate::coupon::accident::{Mishap, Point};
use crate::coupon::commands::{Command, Outcome};
use crate::coupon::protocol::{Call, Job, Reply};
use crate::coupon::shop::User;
use crate::stage::Transport;
use crate::stage::problem::Problem;

/// A client of the headquarters, in this process or in another.
#[derive(Clone)]
pub(crate) struct Client(Arc<dyn Transport<Call, Reply>>);

impl Client {
    pub(crate) fn over(transport: Arc<dyn Transport<Call, Reply>>) -> Self {
        Self(transport)
    }

    pub(crate) async fn apply(&self, instance: u32) -> Result<Job, Problem> {
        match self.0.exchange(Call::Apply { instance }).await? {
            Reply::Job(job) => Ok(job),
            other => Err(unexpected(&other)),
        }
    }

    pub(crate) async fn ready(&self) -> Result<(), Problem> {
        self.done(Call::Ready).await
    }

    pub(crate) async fn answered(&self, submission: usize) -> Result<(), Problem> {
        self.done(Call::LastReply { submission }).await
    }

    pub(crate) async fn come_by(&self, point: Point, user: User) -> Result<Mishap, Problem> {
        match self.0.exchange(Call::ComeBy { point, user }).await? {
            Reply::Mishap(mishap) => Ok(mishap),
            other => Err(unexpected(&other)),
        }
    }

    pub(crate) async fn read_stock(&self) -> Result<u32, Problem> {
        match self.0.exchange(Call::ReadStock).await? {
            Reply::Stock(stock) => Ok(stock),
            other => Err(unexpected(&other)),
        }
    }

    pub(crate) async fn write_stock(&self, stock: u32) -> Result<(), Problem> {
        self.done(Call::WriteStock { stock }).await
    }

    pub(crate) async fn decrement_if_positive(&self) -> Result<bool, Problem> {
        self.yes(Call::DecrementIfPositive).await
    }

    pub(crate) async fn has_order(&self, user: User) -> Result<bool, Problem> {
        self.yes(Call::HasOrder { user }).await
    }

    pub(crate) async fn write_order(&self, user: User) -> Result<(), Problem> {
        self.done(Call::WriteOrder { user }).await
    }

    pub(crate) async fn command(&self, command: Command) -> Result<Outcome, Problem> {
        match self.0.exchange(Call::Command(command)).await? {
            Reply::Command(outcome) => Ok(outcome),
            other => Err(unexpected(&other)),
        }
    }

    async fn done(&self, call: Call) -> Result<(), Problem> {
        match self.0.exchange(call).await? {
            Reply::Done => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    async fn yes(&self, call: Call) -> Result<bool, Problem> {
        match self.0.exchange(call).await? {
            Reply::Yes(yes) => Ok(yes),
            other => Err(unexpected(&other)),
        }
    }
}

fn unexpected(reply: &Reply) -> Problem {
    format!("the headquarters gave an answer to another question: {reply:?}").into()
}
