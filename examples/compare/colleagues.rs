//! Runs the coupon rush and the refunds: this program contains both, and starts itself by their
//! names.

use std::path::Path;
use std::process::Stdio;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::process::Command;

use crate::stage::problem::Problem;

/// Another example that this program contains.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Colleague {
    Coupon,
    Refund,
}

impl Colleague {
    const ALL: [Self; 2] = [Self::Coupon, Self::Refund];

    fn name(self) -> &'static str {
        match self {
            Self::Coupon => "coupon",
            Self::Refund => "refund",
        }
    }

    /// Returns the example by whose name this process was started.
    pub(crate) fn of_this_process() -> Option<Self> {
        let called = std::env::args_os().next()?;
        let called = Path::new(&called).file_name()?;
        Self::ALL.into_iter().find(|one| called == one.name())
    }

    /// Runs the example; returns its report, and true if it exited with success.
    async fn run<R: DeserializeOwned>(self, arguments: &[&str]) -> Result<(R, bool), Problem> {
        let mut program = Command::new(std::env::current_exe()?);
        program
            .arg0(self.name())
            .arg("--json")
            .args(arguments)
            .stdin(Stdio::null())
            .kill_on_drop(true);
        let output = program.output().await?;
        let report = serde_json::from_slice(&output.stdout).map_err(|_| {
            let message = String::from_utf8_lossy(&output.stderr);
            format!("{} did not report: {}", self.name(), message.trim())
        })?;
        Ok((report, output.status.success()))
    }
}

/// The outcome of the coupon rush.
#[derive(Debug, Serialize)]
pub(crate) struct Coupons {
    /// True if exactly the stock was sold, one coupon a user, and the lock is free at the end.
    pub(crate) clean: bool,
    #[serde(flatten)]
    pub(crate) row: CouponRow,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CouponRow {
    pub(crate) claims_per_s: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
}

/// The outcome of the refunds by one mechanism.
#[derive(Debug, Serialize)]
pub(crate) struct Refunds {
    /// True if each refund was paid once, with the pauses of the banks, and in order if that is
    /// promised.
    pub(crate) clean: bool,
    #[serde(flatten)]
    pub(crate) row: RefundRow,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RefundRow {
    pub(crate) name: String,
    pub(crate) at_once: u32,
    pub(crate) in_turn: u32,
    pub(crate) by_compensation: u32,
    pub(crate) blocked_ms: Option<f64>,
    pub(crate) round_trips: Option<f64>,
    pub(crate) refunds_per_s: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
}

/// Sells coupons under the locks of the store at `url`.
pub(crate) async fn sell_coupons(url: &str, more: &[&str]) -> Result<Coupons, Problem> {
    #[derive(Deserialize)]
    struct Report {
        strategies: [CouponRow; 1],
    }

    let arguments = [&["--lock", url, "--strategy", "polylock"], more].concat();
    let (report, clean) = Colleague::Coupon.run::<Report>(&arguments).await?;
    let [row] = report.strategies;
    Ok(Coupons { clean, row })
}

/// Pays refunds by one mechanism under the locks of the store at `url`.
pub(crate) async fn pay_refunds(
    url: &str,
    mechanism: &str,
    more: &[&str],
) -> Result<Refunds, Problem> {
    #[derive(Deserialize)]
    struct Report {
        mechanisms: [RefundRow; 1],
    }

    let arguments = [&["--lock", url, "--mechanism", mechanism], more].concat();
    let (report, clean) = Colleague::Refund.run::<Report>(&arguments).await?;
    let [row] = report.mechanisms;
    Ok(Refunds { clean, row })
}
