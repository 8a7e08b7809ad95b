//! Tests of the check of histories: correct histories pass, and each broken promise is reported.

mod exclusion;
mod figures;
mod order;
mod recorded;
mod recovery;
mod tokens;
mod written;
