//! MariaDB and MySQL as child processes.

mod client;
mod mariadb;
mod mysql;
mod server;
mod session;
mod template;
mod vendor;

pub use server::SqlServer;
pub use session::SqlSession;
pub use vendor::SqlVendor;
