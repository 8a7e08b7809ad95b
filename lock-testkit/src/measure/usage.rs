//! The processor time and memory of a process, from Linux.

use std::time::Duration;

/// The ticks per second in Linux's figures for processes, on every machine.
const TICKS_PER_SECOND: u64 = 100;

/// Returns the processor time of a process; `None` if it does not exist, or without Linux.
pub fn processor_time(pid: u32) -> Option<Duration> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    ticks(&text).map(|ticks| Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND))
}

/// Returns the resident memory of a process in bytes; `None` like [`processor_time`].
pub fn memory(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    resident(&text)
}

/// Returns the ticks in user mode and in the kernel, which are the 14th and 15th fields.
fn ticks(stat: &str) -> Option<u64> {
    // The second field is the name of the program, which may contain any character.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let kernel: u64 = fields.next()?.parse().ok()?;
    Some(user + kernel)
}

fn resident(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_right_fields_are_read() {
        let stat = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0";
        assert_eq!(ticks(stat), Some(300));
        let status = "Name:\ta\nVmRSS:\t    1024 kB\nVmData:\t 1 kB\n";
        assert_eq!(resident(status), Some(1024 * 1024));
        assert!(memory(std::process::id()).is_some_and(|bytes| bytes > 100_000));
    }
}
