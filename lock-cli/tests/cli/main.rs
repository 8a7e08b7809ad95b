//! The promises of the command line to scripts: fields, exit codes, errors; on memory and real
//! servers.

mod complaints;
mod memory;
mod program;
mod servers;
