//! Repeated takes after a lost answer, which must not become a second grant.
//!
//! The client or a driver repeats them. The tests call the scripts as the client calls them.

use lock_testkit::servers::{RedisServer, Reply, RespClient};

const TAKE_EXCLUSIVE: &str = concat!(
    include_str!("../../src/commands/mint.lua"),
    include_str!("../../src/commands/foreign.lua"),
    include_str!("../../src/commands/waits.lua"),
    include_str!("../../src/commands/take.lua"),
    include_str!("../../src/commands/take_exclusive.lua"),
);

const CONVERT: &str = concat!(
    include_str!("../../src/commands/mint.lua"),
    include_str!("../../src/commands/holders.lua"),
    include_str!("../../src/commands/convert.lua"),
);

const TAKE_MANY: &str = concat!(
    include_str!("../../src/commands/mint.lua"),
    include_str!("../../src/commands/foreign.lua"),
    include_str!("../../src/commands/waits.lua"),
    include_str!("../../src/commands/holders.lua"),
    include_str!("../../src/commands/take_many.lua"),
);

const METADATA: &str = "host=a pid=1 since=1";

fn take(server: &mut RespClient, mark: &str, ttl: &str) -> Reply {
    // The marks of exclusive claims are 32 digits and a colon, other marks a letter and 32 digits.
    let mark = &if mark.ends_with(':') {
        format!("{mark:0>33}")
    } else {
        let (kind, digits) = mark.split_at(1);
        format!("{kind}{digits:0>32}")
    };
    let reply = if mark.ends_with(':') {
        server.command(&[
            "EVAL",
            TAKE_EXCLUSIVE,
            "3",
            "k",
            "waits",
            "counter",
            mark,
            ttl,
            "client",
            "",
            METADATA,
        ])
    } else {
        server.command(&[
            "EVAL", TAKE_MANY, "4", "k", "tokens", "waits", "counter", mark, ttl, "client", "",
            METADATA, "2",
        ])
    };
    reply.expect("the server runs")
}

/// Returns the grant number, which a permit gets together with its slot; else what a refusal says.
fn number(reply: &Reply) -> Option<i64> {
    match reply {
        Reply::Array(parts) => parts.first()?.integer(),
        reply => reply.integer(),
    }
}

fn counter(server: &mut RespClient) -> Option<i64> {
    let text = server
        .command(&["GET", "counter"])
        .expect("the server runs")
        .text();
    text.and_then(|text| text.parse().ok())
}

fn assert_resend_is_harmless(own: &str, other: &str) {
    let server = RedisServer::start();
    let mut server = server.client();
    let first = take(&mut server, own, "5000");
    let grants = counter(&mut server);
    assert_eq!(number(&first), grants, "{first:?}");

    assert_eq!(
        take(&mut server, own, "60000"),
        first,
        "a resend answers the same token"
    );
    assert_eq!(counter(&mut server), grants, "a resend counts as a grant");
    let left = server
        .command(&["PTTL", "k"])
        .expect("the server runs")
        .integer();
    assert!(
        left > Some(50_000),
        "the lease counts from the resend, which the client measures"
    );

    let left = number(&take(&mut server, other, "5000"));
    assert!(
        left < Some(-50_000) && left > Some(-60_003),
        "a refusal says for how long: {left:?}"
    );
    assert_eq!(counter(&mut server), grants, "a refusal counts as a grant");
}

#[test]
fn an_exclusive_resend_gets_the_same_token() {
    assert_resend_is_harmless("0123:", "4567:");
}

#[test]
fn a_shared_resend_gets_the_same_token() {
    assert_resend_is_harmless("s0123", "p4567");
}

#[test]
fn a_permit_resend_takes_one_permit_only() {
    assert_resend_is_harmless("p0123", "s4567");
    let server = RedisServer::start();
    let mut server = server.client();
    for _ in 0..3 {
        assert!(number(&take(&mut server, "pa", "5000")) > Some(0));
    }
    assert!(
        number(&take(&mut server, "pb", "5000")) > Some(0),
        "resends used both permits up"
    );
    assert!(number(&take(&mut server, "pc", "5000")) < Some(0));
}

#[test]
fn a_repeated_change_of_the_mode_keeps_its_token() {
    let server = RedisServer::start();
    let mut server = server.client();
    let convert = |server: &mut RespClient, from: &str, to: &str| {
        let arguments = [
            "EVAL", CONVERT, "3", "k", "tokens", "counter", from, to, "60000", "host=a",
        ];
        server
            .command(&arguments)
            .expect("the server runs")
            .integer()
    };
    let mark = |kind: &str, claim: &str| format!("{kind}{claim:0>32}");
    let (reader, writer) = (mark("s", "3"), mark("", "2") + ":");
    take(&mut server, "u1", "5000");
    let upgraded = convert(&mut server, &mark("u", "1"), &writer);
    assert_eq!(upgraded, counter(&mut server));
    assert_eq!(convert(&mut server, &mark("u", "1"), &writer), upgraded);
    let downgraded = convert(&mut server, &writer, &reader);
    assert!(downgraded > upgraded);
    assert_eq!(convert(&mut server, &writer, &reader), downgraded);
    assert_eq!(counter(&mut server), downgraded);
    let left = server.command(&["PTTL", "k"]).expect("the server runs");
    assert!(left.integer() > Some(50_000), "{left:?}");
    let gone = convert(&mut server, &mark("s", "9"), &mark("", "8"));
    assert_eq!(gone, Some(0), "neither claim is there");
}

#[test]
fn a_late_release_leaves_another_upgradeable_holder_alone() {
    const RELEASE: &str = concat!(
        include_str!("../../src/commands/waits.lua"),
        include_str!("../../src/commands/holders.lua"),
        include_str!("../../src/commands/release_many.lua"),
    );
    let server = RedisServer::start();
    let mut server = server.client();
    let second = take(&mut server, "u2", "5000");
    assert!(number(&second) > Some(0));
    let late = format!("u{:0>32}", "1");
    let arguments = [
        "EVAL", RELEASE, "3", "k", "tokens", "waits", &late, "client",
    ];
    let released = server.command(&arguments).expect("the server runs");
    assert_eq!(released.integer(), Some(0), "it was not there");
    assert!(number(&take(&mut server, "u3", "5000")) < Some(0));
}
