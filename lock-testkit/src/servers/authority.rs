//! Certificates for tests, created by the `openssl` program.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::ground;
use super::process::is_installed;

const PROGRAM: &str = "openssl";

/// A certificate authority for tests. Clients trust it only if they are configured to.
///
/// Each call of [`issue`](Self::issue) takes about 30 ms. Dropping the value removes its files.
///
/// ```no_run
/// use lock_testkit::servers::{Authority, RedisServer};
///
/// let authority = Authority::new();
/// let server = RedisServer::start_with_tls(&authority, &["--tls-auth-clients", "yes"]);
/// let client = authority.issue("DNS:client", 1);
/// println!(
///     "{}?tls_ca={}&tls_cert={}&tls_key={}",
///     server.tls_url().unwrap_or_default(),
///     authority.ca().display(),
///     client.cert.display(),
///     client.key.display(),
/// );
/// ```
#[derive(Debug)]
pub struct Authority {
    directory: TempDir,
}

/// A certificate and its private key, each in a PEM file; [`Authority`] has an example.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Identity {
    /// The file with the certificate.
    pub cert: PathBuf,
    /// The file with the private key.
    pub key: PathBuf,
}

impl Authority {
    /// Creates the key and the certificate of the authority.
    ///
    /// # Panics
    ///
    /// If `openssl` is not installed or fails.
    #[expect(
        clippy::new_without_default,
        reason = "it starts processes and may panic, which nobody expects of a default"
    )]
    pub fn new() -> Self {
        assert!(
            is_installed(PROGRAM),
            "{PROGRAM} is not on the path: `apt-get install openssl` brings it, and scripts/test installs whatever the tests need"
        );
        let directory = ground::directory("authority");
        let arguments = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes \
             -keyout ca.key -out ca.pem -days 2 -addext keyUsage=critical,keyCertSign -subj";
        openssl(
            directory.path(),
            arguments,
            &["/CN=certificate authority of a test"],
        );
        Self { directory }
    }

    /// Returns the file with the certificate of the authority, for clients that have to trust it.
    pub fn ca(&self) -> PathBuf {
        self.directory.path().join("ca.pem")
    }

    /// Creates a certificate for `names` that is valid for `days` from now on; with -1 it has
    /// expired.
    ///
    /// Names have the form `DNS:localhost,IP:127.0.0.1`.
    ///
    /// # Panics
    ///
    /// If `openssl` fails.
    pub fn issue(&self, names: &str, days: i32) -> Identity {
        self.sign(names, days, "-copy_extensions copy")
    }

    /// Creates an X.509 certificate of version 1, which has no extensions and so no names.
    ///
    /// It is the default of `openssl x509 -req`, and TLS libraries refuse it.
    ///
    /// # Panics
    ///
    /// If `openssl` fails.
    pub fn issue_version_1(&self) -> Identity {
        self.sign("DNS:test", 1, "")
    }

    fn sign(&self, names: &str, days: i32, extensions: &str) -> Identity {
        let directory = self.directory.path();
        let name = format!("{:016x}", fastrand::u64(..));
        let request = format!(
            "req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes \
             -keyout {name}.key -out {name}.csr -subj"
        );
        let subject = ["/CN=test", "-addext", &format!("subjectAltName={names}")];
        openssl(directory, &request, &subject);
        let signing = format!(
            "x509 -req -in {name}.csr -out {name}.pem -CA ca.pem -CAkey ca.key \
             -set_serial 0x1{name} {extensions} -days"
        );
        openssl(directory, &signing, &[&days.to_string()]);
        Identity {
            cert: directory.join(format!("{name}.pem")),
            key: directory.join(format!("{name}.key")),
        }
    }
}

fn openssl(directory: &Path, arguments: &str, more: &[&str]) {
    let output = Command::new(PROGRAM)
        .args(arguments.split_whitespace())
        .args(more)
        .current_dir(directory)
        .output()
        .unwrap_or_else(|error| panic!("{PROGRAM} does not start: {error}"));
    assert!(
        output.status.success(),
        "{PROGRAM} {arguments} fails: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}
