//! A private key, and the possible mistakes with its file.

use std::fs;
use std::path::{Path, PathBuf};

use lock_testkit::servers::{Authority, Identity};

use crate::printed::{ENCODED, Printed, WRONG};

pub(crate) struct Keys {
    own: Identity,
    key: String,
    truncated: PathBuf,
    garbled: PathBuf,
}

impl Keys {
    /// Issues a certificate of `authority`; writes the broken key files to `directory`.
    pub(crate) fn new(authority: &Authority, directory: &Path) -> Self {
        let own = authority.issue("DNS:client", 1);
        let key = fs::read_to_string(&own.key).expect("a key file");
        let truncated = directory.join("truncated.pem");
        fs::write(&truncated, &key[..key.len() / 2]).expect("a directory");
        let garbled = directory.join("garbled.pem");
        fs::write(&garbled, key.replacen('\n', "\n?", 1)).expect("a directory");
        Self {
            own,
            key,
            truncated,
            garbled,
        }
    }

    /// Returns the URL with certificate and key.
    pub(crate) fn shown_in(&self, url: &str) -> String {
        self.with_key(url, &self.own.key)
    }

    /// Returns the URL with a different mistake each time.
    pub(crate) fn mistakes(&self, url: &str) -> [String; 6] {
        [
            url.to_owned(),
            self.shown_in(&url.replace(ENCODED, WRONG)),
            self.with_key(url, &self.own.cert),
            self.with_key(url, &self.truncated),
            self.with_key(url, &self.garbled),
            // The text of the key instead of a path, as from an environment variable.
            self.with_key(url, Path::new(&percent_encoded(&self.key))),
        ]
    }

    fn with_key(&self, url: &str, key: &Path) -> String {
        let cert = self.own.cert.display();
        format!("{url}&tls_cert={cert}&tls_key={}", key.display())
    }

    pub(crate) fn assert_hidden(&self, printed: &Printed) {
        let text = printed.text();
        for line in self.key.lines().filter(|line| !line.starts_with('-')) {
            assert!(!text.contains(&line[8..]), "the private key: {text}");
        }
    }
}

/// Encodes all bytes, so that the text can be part of a URL.
fn percent_encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}
