//! The state of a process, as `/proc` shows it.

/// Returns the fields of `/proc/<pid>/stat` from the state letter on; empty if there is no process.
pub(crate) fn state(pid: u32) -> String {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ")
        .map(|(_, rest)| rest.to_owned())
        .unwrap_or_default()
}

pub(crate) fn is_running(pid: u32) -> bool {
    let state = state(pid);
    !state.is_empty() && !state.starts_with('Z')
}
