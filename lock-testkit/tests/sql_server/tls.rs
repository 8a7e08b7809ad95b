//! Test of servers with certificates.

use lock_testkit::servers::{Authority, SqlServer, SqlVendor};

use crate::over_tcp;

#[test]
fn a_server_with_tls_shows_a_certificate_of_its_authority() {
    let [authority, other] = [Authority::new(), Authority::new()];
    for vendor in SqlVendor::available() {
        let server = SqlServer::start_with_tls(vendor, &authority, &["--max-connections=18"]);
        assert_eq!(server.execute("select @@max_connections"), "18");
        let cipher = |options: &[String]| {
            let output = over_tcp(&server)
                .args(options)
                .arg("--execute=show status like 'Ssl_cipher'")
                .output();
            let output = output.expect("the client starts");
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            let found = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            output.status.success().then_some(found).ok_or(error)
        };
        let trusting = |authority: &Authority| {
            let ca = format!("--ssl-ca={}", authority.ca().display());
            ["--ssl".into(), "--ssl-verify-server-cert".into(), ca]
        };
        for _ in 0..2 {
            let found = cipher(&trusting(&authority)).expect("it is trusted");
            assert!(found.starts_with("Ssl_cipher\tTLS_"), "{found}");
            let error = cipher(&trusting(&other)).unwrap_err();
            assert!(error.contains("certificate"), "{error}");
            assert_eq!(cipher(&[]).expect("TLS is not demanded"), "Ssl_cipher");
            server.restart();
        }
    }
}
