//! The check of histories: good ones pass, and each promise that is broken is noticed.

mod exclusion;
mod figures;
mod order;
mod recorded;
mod recovery;
mod tokens;
mod written;
