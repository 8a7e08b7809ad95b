//! Measurements for benchmarks of locks: times, round trips, processor time and memory.
//!
//! ```
//! use std::time::Duration;
//!
//! use lock_testkit::measure::Stopwatch;
//!
//! let mut stopwatch = Stopwatch::new();
//! for milliseconds in 1..=100 {
//!     stopwatch.note(Duration::from_millis(milliseconds));
//! }
//! assert!(stopwatch.quantile(0.5).as_millis().abs_diff(50) <= 1);
//! ```

mod detour;
mod stopwatch;
mod usage;

pub use detour::Detour;
pub use stopwatch::Stopwatch;
pub use usage::{memory, processor_time};
