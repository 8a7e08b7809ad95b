//! A job that runs once at each planned time, on whichever instance comes first.

use std::time::{Duration, SystemTime};

use humantime::format_rfc3339;

use crate::backend::HumanDuration;
use crate::{Error, ErrorKind, LockKey, LockRequest, Mode, Result};

impl LockRequest {
    /// Creates the request for one run of the job `name` at its planned time `fire_time`.
    ///
    /// The key is the name and the planned time, as in `report@2027-01-31T02:00:00Z`; a route for
    /// it ends in `@*`. It stays closed until twice `within` after `fire_time`, or up to a quarter
    /// of `within` longer. The request does not wait. So at most one instance gets the lock, as
    /// long as their clocks differ by less than `within`. `fire_time` is the time in the schedule,
    /// which is the same for all instances, and not the present time.
    ///
    /// # Errors
    ///
    /// - [`InvalidKey`](ErrorKind::InvalidKey) if name and time have over 255 bytes.
    /// - [`Config`](ErrorKind::Config) if `fire_time` is further away from now than `within`:
    ///   another instance may have run the job already.
    pub fn once(name: &str, fire_time: SystemTime, within: Duration) -> Result<Self> {
        let key = LockKey::new(format!("{name}@{}", rfc3339(fire_time)?))?;
        let left = time_left(fire_time, within).map_err(|error| error.with_key(&key))?;
        let minimum = rounded_up(left.saturating_add(within), within / STEPS);
        let request = Self::new(key, Mode::Exclusive).holding_at_least(minimum);
        Ok(request.without_waiting())
    }
}

/// The number of steps per `within` of a minimum hold. Stores with leases keep one lease for each
/// minimum.
const STEPS: u32 = 4;

fn rounded_up(time: Duration, step: Duration) -> Duration {
    let (nanoseconds, step) = (time.as_nanos(), step.as_nanos().max(1));
    let rounded = nanoseconds.div_ceil(step) * step;
    u64::try_from(rounded).map_or(time, Duration::from_nanos)
}

/// Returns the time until `within` after `fire_time`.
///
/// # Errors
///
/// [`Config`](ErrorKind::Config) if `fire_time` is further away from now than `within`.
pub(crate) fn time_left(fire_time: SystemTime, within: Duration) -> Result<Duration> {
    #[expect(
        clippy::disallowed_methods,
        reason = "schedules are planned by the wall clock"
    )]
    let now = SystemTime::now();
    let (late, early) = match now.duration_since(fire_time) {
        Ok(late) => (late, Duration::ZERO),
        Err(ahead) => (Duration::ZERO, ahead.duration()),
    };
    if late.max(early) > within {
        return Err(out_of_time(late, early, within));
    }
    Ok(within.saturating_add(early).saturating_sub(late))
}

fn rfc3339(time: SystemTime) -> Result<String> {
    let years = |years: u64| Duration::from_secs(years * 365 * 24 * 3600);
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        // The text has room for years of four digits.
        Ok(since) if since < years(8000) => Ok(format_rfc3339(time).to_string()),
        Ok(_) | Err(_) => Err(Error::new(
            ErrorKind::Config,
            "the planned time of a job is before 1970 or after 9969",
        )),
    }
}

fn out_of_time(late: Duration, early: Duration, within: Duration) -> Error {
    let (time, side) = match early.is_zero() {
        true => (late, "ago"),
        false => (early, "ahead"),
    };
    let (time, within) = (HumanDuration(time), HumanDuration(within));
    Error::new(
        ErrorKind::Config,
        format!(
            "the planned time is {time} {side}, further than within ({within}): another instance may have run the job"
        ),
    )
}
