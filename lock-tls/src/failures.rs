//! The meaning of failed handshakes and broken TLS connections.

use std::io;

use lock_core::{Error, ErrorKind};
use rustls::{AlertDescription, CertificateError, Error as TlsError};

/// Returns kind and advice for a failed connection; `None` if it failed for another reason than
/// TLS.
///
/// A certificate that either side rejects is [`ErrorKind::Denied`], which is not retried. A peer
/// that does not speak TLS, or a handshake cut off halfway, is [`ErrorKind::Unavailable`].
pub fn meaning(error: &io::Error) -> Option<(ErrorKind, &'static str)> {
    let cause = error.get_ref()?.downcast_ref::<TlsError>()?;
    Some(match cause {
        TlsError::InvalidMessage(_) => (
            ErrorKind::Unavailable,
            "the server does not seem to speak TLS there: use its TLS port, or a url without TLS",
        ),
        TlsError::AlertReceived(
            AlertDescription::DecodeError
            | AlertDescription::BadRecordMac
            | AlertDescription::RecordOverflow
            | AlertDescription::UnexpectedMessage
            | AlertDescription::InternalError,
        )
        | TlsError::DecryptError => (
            ErrorKind::Unavailable,
            "data arrived damaged: check that the server runs, and what is between it and the client",
        ),
        TlsError::InvalidCertificate(certificate) => {
            (ErrorKind::Denied, advice_on_server_certificate(certificate))
        }
        TlsError::AlertReceived(alert) => (ErrorKind::Denied, advice_on_client_certificate(*alert)),
        _ => (ErrorKind::Denied, LOOK_AT_THE_LOG),
    })
}

/// Translates a failed connection to an error by its [`meaning`].
///
/// # Errors
///
/// Returns `error` itself if it failed for another reason than TLS.
pub fn explain(error: io::Error) -> Result<Error, io::Error> {
    let Some((kind, advice)) = meaning(&error) else {
        return Err(error);
    };
    Ok(Error::new(kind, format!("TLS: {error}: {advice}")).with_source(error))
}

const LOOK_AT_THE_LOG: &str = "look at the server's log, and which TLS versions it allows";

/// Returns the advice for a server's certificate that is not trusted.
fn advice_on_server_certificate(error: &CertificateError) -> &'static str {
    match error {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "set tls_ca to the certificate of the authority that the server's comes from"
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "renew the server's certificate"
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "check the clocks of both machines"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "use a host name in the url that the server's certificate is for"
        }
        _ => "replace the server's certificate",
    }
}

/// Returns the advice for an alert by which the server rejects this client.
fn advice_on_client_certificate(alert: AlertDescription) -> &'static str {
    match alert {
        AlertDescription::CertificateRequired => {
            "the server demands a client certificate: set tls_cert and tls_key"
        }
        AlertDescription::BadCertificate
        | AlertDescription::CertificateExpired
        | AlertDescription::CertificateRevoked
        | AlertDescription::CertificateUnknown
        | AlertDescription::DecryptError
        | AlertDescription::UnknownCA
        | AlertDescription::UnsupportedCertificate => {
            "the server refuses the client certificate, or demands one: check tls_cert and tls_key, and which authorities the server trusts"
        }
        AlertDescription::HandshakeFailure => {
            "look at the server's log; if it demands a client certificate, set tls_cert and tls_key"
        }
        _ => LOOK_AT_THE_LOG,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(cause: TlsError) -> Option<ErrorKind> {
        let error = io::Error::new(io::ErrorKind::InvalidData, cause);
        meaning(&error).map(|(kind, _)| kind)
    }

    #[test]
    fn what_arrived_broken_may_be_tried_again_and_what_is_refused_may_not() {
        for alert in [
            AlertDescription::DecodeError,
            AlertDescription::BadRecordMac,
        ] {
            let kind = kind(TlsError::AlertReceived(alert));
            assert_eq!(kind, Some(ErrorKind::Unavailable), "{alert:?}");
        }
        assert_eq!(kind(TlsError::DecryptError), Some(ErrorKind::Unavailable));
        for alert in [
            AlertDescription::UnknownCA,
            AlertDescription::HandshakeFailure,
            AlertDescription::ProtocolVersion,
        ] {
            let kind = kind(TlsError::AlertReceived(alert));
            assert_eq!(kind, Some(ErrorKind::Denied), "{alert:?}");
        }
    }
}
