//! The parameters of a measurement, with all defaults filled in.

use std::time::Duration;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

use super::arguments::{Arguments, Shape};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) shape: Shape,
    /// Tasks of each process; for `held`, the number of locks.
    pub(crate) tasks: u32,
    pub(crate) processes: u32,
    /// Time for which polylock is measured.
    pub(crate) lasting: Duration,
}

impl Plan {
    /// Creates the plan. Ends the program with the usage if the arguments contradict each other.
    pub(crate) fn of(arguments: &Arguments) -> Self {
        let shape = arguments.shape;
        let (tasks, processes, seconds) = match shape {
            Shape::Free => (1, 1, 5.0),
            Shape::Hot => (64, 1, 5.0),
            Shape::Handover => (1, 2, 5.0),
            Shape::Held => (10_000, 1, 20.0),
            Shape::Procs => (16, 4, 5.0),
        };
        let plan = Self {
            shape,
            tasks: arguments.tasks.unwrap_or(tasks),
            processes: arguments.processes.unwrap_or(processes),
            lasting: Duration::from_secs_f64(arguments.seconds.unwrap_or(seconds)),
        };
        match shape {
            Shape::Free | Shape::Held if plan.processes > 1 => {
                contradiction("--processes: this shape has one process; --shape procs has several")
            }
            Shape::Handover if plan.processes != 2 => {
                contradiction("--processes: a lock is handed over between two")
            }
            Shape::Handover if plan.tasks != 1 => {
                contradiction("--tasks: a lock is handed over between two processes of one task")
            }
            Shape::Free | Shape::Hot | Shape::Handover | Shape::Held | Shape::Procs => plan,
        }
    }
}

fn contradiction(message: &str) -> ! {
    /// The command that the error's usage shows.
    #[derive(Parser)]
    #[command(name = "polylock bench")]
    struct Bench {
        #[command(flatten)]
        _arguments: Arguments,
    }
    Bench::command()
        .error(ErrorKind::ArgumentConflict, message)
        .exit()
}
