//! The figures of one strategy.

use serde::Serialize;

use crate::coupon::headquarters::Headquarters;
use crate::coupon::strategy::Strategy;

/// One row of the report.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figures {
    #[serde(skip)]
    pub(crate) strategy: Strategy,
    name: &'static str,
    pub(crate) sold: u32,
    pub(crate) oversold: u32,
    pub(crate) lost_updates: u32,
    pub(crate) double_orders: u32,
    pub(crate) stuck: u32,
    pub(crate) claims_per_s: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
}

impl Figures {
    /// Reads the figures from the books after the last answer.
    pub(crate) fn of(strategy: Strategy, headquarters: &Headquarters, stuck: bool) -> Self {
        headquarters.inspect(|shop, register| Self {
            strategy,
            name: strategy.name(),
            sold: shop.sold(),
            oversold: shop.oversold(),
            lost_updates: shop.lost_updates(),
            double_orders: shop.double_orders(),
            stuck: stuck.into(),
            claims_per_s: rounded(register.per_second()),
            p50_ms: rounded(register.milliseconds_at(0.50)),
            p99_ms: rounded(register.milliseconds_at(0.99)),
        })
    }

    /// Returns true if exactly the `stock` was sold without an error.
    pub(crate) fn is_clean(&self, stock: u32) -> bool {
        let errors = [
            self.oversold,
            self.lost_updates,
            self.double_orders,
            self.stuck,
        ];
        self.sold == stock && errors == [0; 4]
    }
}

fn rounded(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}
