//! The certificates of a TLS connection.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::{Error, ErrorKind, Result};

/// The files of a TLS connection, in PEM: the same settings for every backend with TLS.
///
/// The URL's scheme turns TLS on (`rediss://`). The server's certificate is always verified.
///
/// ```
/// use lock_core::Tls;
///
/// let tls = Tls::new()
///     .with_ca("/etc/locks/ca.pem")
///     .with_client_certificate("/etc/locks/client.pem", "/etc/locks/client.key");
/// assert!(tls.check().is_ok());
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tls {
    /// The trusted certificate authorities, instead of the platform's. Default: the platform's.
    pub ca: Option<PathBuf>,
    /// The client certificate, followed by its intermediates. Default: none.
    pub cert: Option<PathBuf>,
    /// The private key of [`cert`](Self::cert). Default: none.
    pub key: Option<PathBuf>,
}

impl Tls {
    /// Creates settings that trust the platform's authorities, without a client certificate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the file of trusted authorities, instead of the platform's.
    #[must_use]
    pub fn with_ca(mut self, ca: impl Into<PathBuf>) -> Self {
        self.ca = Some(ca.into());
        self
    }

    /// Sets the client certificate in `cert` and its private key in `key`.
    #[must_use]
    pub fn with_client_certificate(
        mut self,
        cert: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
    ) -> Self {
        self.cert = Some(cert.into());
        self.key = Some(key.into());
        self
    }

    /// Returns the configuration name of the first setting that is set; `None` if none is.
    pub fn first_given(&self) -> Option<&'static str> {
        let given = self.settings().into_iter().find(|(_, path)| path.is_some());
        given.map(|(name, _)| name)
    }

    /// Checks that the settings fit together; reads no file.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] for a certificate without its key, a key without its certificate, or
    /// PEM text instead of a path. The PEM text may be a private key, so the error does not repeat
    /// it.
    pub fn check(&self) -> Result<()> {
        let is_text = |(_, path): &(_, Option<&Path>)| path.is_some_and(is_pem);
        if let Some((name, _)) = self.settings().into_iter().find(is_text) {
            return Err(Error::new(
                ErrorKind::Config,
                format!(
                    "{name} is PEM text itself: write it to a file, and set {name} to the file's path"
                ),
            ));
        }
        let (given, missing) = match (&self.cert, &self.key) {
            (Some(_), None) => ("tls_cert", "tls_key"),
            (None, Some(_)) => ("tls_key", "tls_cert"),
            (Some(_), Some(_)) | (None, None) => return Ok(()),
        };
        Err(Error::new(
            ErrorKind::Config,
            format!("{given} is set without {missing}: set both, or neither"),
        ))
    }

    fn settings(&self) -> [(&'static str, Option<&Path>); 3] {
        [
            ("tls_ca", self.ca.as_deref()),
            ("tls_cert", self.cert.as_deref()),
            ("tls_key", self.key.as_deref()),
        ]
    }
}

/// Hides PEM text, which may be a private key that was set instead of its path.
impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Tls");
        for (name, path) in self.settings() {
            let path = path.map(|path| if is_pem(path) { Path::new("***") } else { path });
            shown.field(name, &path);
        }
        shown.finish()
    }
}

fn is_pem(path: &Path) -> bool {
    path.to_string_lossy().contains("-----BEGIN")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_and_its_key_come_together() {
        let both = Tls::new().with_client_certificate("c", "k");
        assert!(both.check().is_ok());
        let [mut no_key, mut no_cert] = [both.clone(), both];
        no_key.key = None;
        no_cert.cert = None;
        let error = no_key.check().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(
            error
                .to_string()
                .contains("tls_cert is set without tls_key"),
            "{error}"
        );
        let error = no_cert.check().unwrap_err().to_string();
        assert!(error.contains("tls_key is set without tls_cert"), "{error}");
    }

    #[test]
    fn the_text_of_a_key_in_the_place_of_its_file_is_refused_and_not_shown() {
        let text = "-----BEGIN PRIVATE KEY-----\nsecret\n-----END PRIVATE KEY-----";
        let tls = Tls::new().with_client_certificate("c", text);
        let error = tls.check().unwrap_err();
        assert!(error.to_string().contains("tls_key is PEM text"), "{error}");
        for shown in [format!("{error} {error:?}"), format!("{tls:?}")] {
            assert!(!shown.contains("secret"), "{shown}");
        }
    }

    #[test]
    fn what_is_given_is_named() {
        assert_eq!(Tls::new().first_given(), None);
        assert_eq!(Tls::new().with_ca("ca").first_given(), Some("tls_ca"));
        let certificate = Tls::new().with_client_certificate("c", "k");
        assert_eq!(certificate.first_given(), Some("tls_cert"));
    }
}
