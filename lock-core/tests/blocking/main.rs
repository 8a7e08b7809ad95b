//! Locks for threads without async.

mod contexts;
mod errors;
mod guards;
mod process_end;
mod sets;
mod support;
mod waits;
mod work;
