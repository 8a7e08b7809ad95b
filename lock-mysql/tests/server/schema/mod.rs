//! The tables: created, refused, dropped, and rows for new names.

mod access;
mod dropped;
mod new_names;
mod tables;
