//! The platform's certificate roots, as the driver takes them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// All of them in PEM. What cannot be read is left out: a server that needs it is refused.
pub(crate) fn platform_roots() -> Vec<u8> {
    let found = rustls_native_certs::load_native_certs();
    for error in found.errors {
        tracing::debug!(%error, "some of the platform's certificate roots cannot be read");
    }
    let in_pem = |certificate| {
        let text = STANDARD.encode(certificate);
        format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
    };
    let roots: String = found.certs.iter().map(in_pem).collect();
    roots.into_bytes()
}
