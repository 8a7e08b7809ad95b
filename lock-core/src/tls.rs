//! Which certificates a connection is made with.

use std::path::PathBuf;

use crate::{Error, ErrorKind, Result};

/// The files behind a TLS connection, each in PEM: the same three settings for every backend that
/// has TLS. The URL's scheme turns TLS on (`rediss://`), and the server is always verified.
///
/// ```
/// use lock_core::Tls;
///
/// let tls = Tls::new()
///     .with_ca("/etc/locks/ca.pem")
///     .with_client_certificate("/etc/locks/client.pem", "/etc/locks/client.key");
/// assert!(tls.check().is_ok());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tls {
    /// The certificates of the authorities that the server's certificate may come from, and no
    /// others. Default: those that the platform trusts.
    pub ca: Option<PathBuf>,
    /// Our own certificate for servers that demand one, followed by its intermediates. Default:
    /// none.
    pub cert: Option<PathBuf>,
    /// The private key of [`cert`](Self::cert). Default: none.
    pub key: Option<PathBuf>,
}

impl Tls {
    /// Verifies the server by the platform's roots and has no certificate of its own.
    pub fn new() -> Self {
        Self::default()
    }

    /// Trusts the authorities in the file `ca` instead of the platform's.
    #[must_use]
    pub fn with_ca(mut self, ca: impl Into<PathBuf>) -> Self {
        self.ca = Some(ca.into());
        self
    }

    /// Shows the certificate in the file `cert`, whose private key is in the file `key`, to a server
    /// that asks for one.
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

    /// The name of a setting that is given, as it is written in configurations; `None` when all are
    /// left out.
    pub fn first_given(&self) -> Option<&'static str> {
        let settings = [
            ("tls_ca", &self.ca),
            ("tls_cert", &self.cert),
            ("tls_key", &self.key),
        ];
        let given = settings.iter().find(|(_, path)| path.is_some());
        given.map(|(name, _)| *name)
    }

    /// Looks whether the settings fit together; no file is read.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] for a certificate without its key, or a key without its certificate.
    pub fn check(&self) -> Result<()> {
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
    fn what_is_given_is_named() {
        assert_eq!(Tls::new().first_given(), None);
        assert_eq!(Tls::new().with_ca("ca").first_given(), Some("tls_ca"));
        let certificate = Tls::new().with_client_certificate("c", "k");
        assert_eq!(certificate.first_given(), Some("tls_cert"));
    }
}
