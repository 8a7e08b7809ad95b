//! The tables: access, creation and removal, and rows of new names.

mod access;
mod dropped;
mod new_names;
mod old_tables;
mod tables;
