//! What the command line promises to those who call it: fields, exit codes, complaints; on memory and on
//! real servers.

mod complaints;
mod memory;
mod program;
mod servers;
