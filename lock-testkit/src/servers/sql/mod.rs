//! MariaDB and MySQL as child processes: one kind of server, two vendors.

mod client;
mod mariadb;
mod mysql;
mod server;
mod template;
mod vendor;

pub use server::SqlServer;
pub use vendor::SqlVendor;
