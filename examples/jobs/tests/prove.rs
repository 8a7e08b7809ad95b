//! The proof at a small size: each planned time has one run, on every store with minimum holds.

use std::process::Command;

fn prove(more: &[&str]) {
    let proof = Command::new(env!("CARGO_BIN_EXE_jobs"))
        .args(["prove", "--instances", "4"])
        .args(more)
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&proof.stdout);
    assert!(proof.status.success(), "{said}{proof:?}");
    assert_eq!(said.lines().count(), 4, "{said}");
}

#[test]
fn a_short_job_runs_once_per_planned_time() {
    prove(&["--ticks", "64", "--every", "30", "--apart", "200"]);
}

#[test]
fn instances_that_fire_at_the_same_time_run_a_job_once() {
    prove(&["--ticks", "64", "--every", "30", "--apart", "0"]);
}

#[test]
fn a_job_whose_process_is_killed_right_after_it_ran_runs_once() {
    prove(&[
        "--ticks", "16", "--every", "200", "--apart", "200", "--kill",
    ]);
}
