//! Configuration from serde formats, valid and invalid.

use std::time::Duration;

use polylock::{Config, MySqlHold};

#[test]
fn toml_json_and_url_give_the_same_configuration() {
    let from_toml: Config = toml::from_str(
        "url = 'memory://'\nnamespace = 'shop'\nttl = '1m 30s'\nrequest_wait = '500ms'\nlock_delay = '5s'\nhand_off = '0s'\n\
         keeper = 'caller'\ntls_ca = '/ca.pem'\ntls_cert = '/cert.pem'\ntls_key = '/key.pem'\n\
         hold = 'row'\ntable = 'app.locks'\ncreate_table = false\npurge_after = '0s'\nconnections = 12",
    )
    .unwrap();
    let from_json: Config = serde_json::from_str(
        r#"{"url":"memory://","namespace":"shop","ttl":"90s","request_wait":"500ms","lock_delay":"5s","hand_off":"0s",
            "keeper":"caller","tls_ca":"/ca.pem","tls_cert":"/cert.pem","tls_key":"/key.pem",
            "hold":"row","table":"app.locks","create_table":"false","purge_after":"0s",
            "connections":"12"}"#,
    )
    .unwrap();
    assert_eq!(from_toml, from_json);
    assert_eq!(from_toml.ttl, Some(Duration::from_secs(90)));
    assert_eq!(from_toml.lock_delay, Some(Duration::from_secs(5)));
    assert_eq!(from_toml.request_wait, Some(Duration::from_millis(500)));
    assert_eq!(from_toml.tls_key, Some("/key.pem".into()));
    assert_eq!(from_toml.hold, Some(MySqlHold::Row));
    assert_eq!(from_toml.table.as_deref(), Some("app.locks"));
    assert_eq!(from_toml.create_table, Some(false));
    assert_eq!(from_toml.purge_after, Some(Duration::ZERO));
    assert_eq!(from_toml.connections, Some(12));
    let without: Config = serde_json::from_str(r#"{"url":"memory://","hold":null}"#).unwrap();
    assert_eq!(without, Config::new("memory://"));
}

#[test]
fn an_unknown_field_is_named_together_with_the_known_ones() {
    let error = toml::from_str::<Config>("url = 'memory://'\ntll = '5s'")
        .unwrap_err()
        .to_string();
    assert!(error.contains("unknown field `tll`"), "{error}");
    let known = "url namespace ttl request_wait lock_delay hand_off keeper tls_ca tls_cert tls_key hold table create_table \
                 purge_after connections";
    for known in known.split_whitespace() {
        assert!(error.contains(&format!("`{known}`")), "{error}");
    }
}

#[test]
fn a_wrong_value_names_its_field_and_what_is_possible() {
    for (line, part) in [
        ("hold = 'rows'", "hold: unknown way to hold a lock \"rows\""),
        ("hold = 'rows'", "known are \"lease\", \"row\""),
        ("create_table = 'maybe'", "known are \"true\", \"false\""),
        ("create_table = 1", "create_table: unknown value \"1\""),
        ("purge_after = 60", "purge_after: malformed duration \"60\""),
        (
            "purge_after = '5ms'",
            "5ms is too short: choose at least 1s",
        ),
        ("purge_after = '5ms'", "\"0s\" for never"),
        ("connections = 0", "connections: malformed number \"0\""),
        ("connections = -3", "write a whole number from 1"),
        ("connections = 1.5", "write a whole number from 1"),
        ("connections = 'many'", "write a whole number from 1"),
        ("connections = 4294967296", "to 4294967295"),
        ("connections = [1]", "a single value"),
    ] {
        let error = toml::from_str::<Config>(&format!("url = 'mysql://u@h/d'\n{line}"));
        let error = error.unwrap_err().to_string();
        assert!(error.contains(part), "{line}: {error}");
    }
}

#[test]
fn text_stands_in_quotation_marks() {
    for (line, part) in [
        (
            "namespace = 1.50",
            "namespace: 1.5 is no text: write it in quotation marks",
        ),
        ("table = true", "table: true is no text"),
        ("tls_ca = 5", "tls_ca: 5 is no text"),
        ("ttl = ['5s']", "a single value"),
        ("[namespace]\na = 'b'", "a single value"),
        ("[lock.a]\nurl = 'memory://'", "unknown field `lock`"),
        ("settings.a = [1]", "a single value"),
    ] {
        let error = toml::from_str::<Config>(&format!("url = 'mysql://u@h/d'\n{line}"));
        let error = error.unwrap_err().to_string();
        assert!(error.contains(part), "{line}: {error}");
    }
    let singular = toml::from_str::<Config>("[lock.a]\nurl = 'memory://'").unwrap_err();
    let singular = singular.to_string();
    assert!(singular.contains("unknown field `lock`"), "{singular}");
    let twice = r#"{"url":"memory://","ttl":"5s","ttl":"6s"}"#;
    let error = serde_json::from_str::<Config>(twice)
        .unwrap_err()
        .to_string();
    assert!(error.contains("duplicate field `ttl`"), "{error}");
}

#[test]
fn a_malformed_duration_says_how_to_write_one() {
    for value in ["'30'", "30", "1.5", "'soon'", "''"] {
        let error = toml::from_str::<Config>(&format!("url = 'memory://'\nttl = {value}"))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("malformed duration") && error.contains("\"30s\""),
            "{error}"
        );
    }
}

#[test]
fn secrets_of_other_lines_stay_out_of_errors() {
    let redis = "redis://user:s3cret@host";
    let own = "box://user:s3cret@host";
    for text in [
        format!("url = '{redis}'\ntll = '5s'"),
        format!("tll = '5s'\nurl = '{redis}'"),
        format!("ttl = '5s'\ntll = '5s'\nurl = '{redis}'"),
        format!("url = '{redis}'\nttl = '5'"),
        format!("url = '{redis}'\nttl = ['5s']"),
        format!("url = '{redis}'\n[lock.a]\nurl = 'memory://'"),
        format!("[locks.a]\nurl = '{redis}'\ntll = '5s'"),
        format!("[locks.a]\ntll = '5s'\nurl = '{redis}'"),
        format!("locks.a.url = '{redis}'\ntll = '5s'"),
        format!("locks.a.url = '{redis}'\nlocks.a.tll = '5s'"),
        format!("locks.a.tll = '5s'\nlocks.a.url = '{redis}'"),
        format!("locks.a = {{url = '{redis}'}}\ntll = '5s'"),
        format!("tll = '5s'\nlocks.a = {{url = '{redis}'}}"),
        format!("[lock.a]\nurl = '{redis}'\n[routes]\n'*' = 'a'"),
        format!("url = '{own}'\ntll = ['5s']"),
        format!("tll = ['5s']\nurl = '{own}'"),
    ] {
        let error = toml::from_str::<Config>(&text).unwrap_err();
        let shown = format!("{error} {}", error.message());
        assert!(!shown.contains("s3cret"), "{text}: {shown}");
    }
}
