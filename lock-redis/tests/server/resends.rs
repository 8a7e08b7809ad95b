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
    assert_eq!(first.integer(), grants, "{first:?}");

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

    let left = take(&mut server, other, "5000").integer();
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
        assert!(take(&mut server, "pa", "5000").integer() > Some(0));
    }
    assert!(
        take(&mut server, "pb", "5000").integer() > Some(0),
        "resends used both permits up"
    );
    assert!(take(&mut server, "pc", "5000").integer() < Some(0));
}
