//! The script for batches, called as the client calls it.

use lock_testkit::servers::{RedisServer, Reply, RespClient};

const BATCH: &str = concat!(
    include_str!("../../src/commands/mint.lua"),
    include_str!("../../src/commands/foreign.lua"),
    include_str!("../../src/commands/waits.lua"),
    include_str!("../../src/commands/take.lua"),
    include_str!("../../src/commands/batch.lua"),
);

/// Runs the script for `asked`: each a lock, an owner mark, and a ttl to take or nothing to
/// release.
fn batch(server: &mut RespClient, asked: &[[&'static str; 3]]) -> Vec<Reply> {
    let count = (2 * asked.len() + 1).to_string();
    let waits: Vec<String> = asked
        .iter()
        .map(|[lock, ..]| format!("{lock} waits"))
        .collect();
    let mut command = vec!["EVAL", BATCH, &count];
    command.extend(asked.iter().map(|[lock, ..]| *lock));
    command.extend(waits.iter().map(|waits| &**waits));
    command.push("counter");
    let arguments = |[_, mark, ttl]: &[&'static str; 3]| match ttl.is_empty() {
        true => [*mark, *ttl, ""],
        false => [*mark, *ttl, "host=a"],
    };
    command.extend(asked.iter().flat_map(arguments));
    command.push("client");
    match server.command(&command).expect("the server runs") {
        Reply::Array(answers) => answers,
        answer => panic!("{answer:?}"),
    }
}

fn number(server: &mut RespClient, key: &str) -> i64 {
    let reply = server.command(&["GET", key]).expect("the server runs");
    reply.text().and_then(|text| text.parse().ok()).unwrap_or(0)
}

#[test]
fn a_resend_in_a_batch_gets_the_same_token() {
    let server = RedisServer::start();
    let mut server = server.client();
    let first = batch(&mut server, &[["k", "a:", "5000"], ["l", "b:", "5000"]]);
    let grants = number(&mut server, "counter");
    let again = batch(
        &mut server,
        &[
            ["l", "b:", "60000"],
            ["m", "c:", "5000"],
            ["k", "a:", "60000"],
        ],
    );
    assert_eq!([&again[2], &again[0]], [&first[0], &first[1]]);
    assert_eq!(number(&mut server, "counter"), grants + 1);
    let left = server.command(&["PTTL", "k"]).unwrap().integer();
    assert!(
        left > Some(50_000),
        "the lease counts from the resend, which the client measures"
    );
}

#[test]
fn a_take_and_its_clean_up_leave_nothing() {
    let server = RedisServer::start();
    let mut server = server.client();
    let asked = [
        ["k", "a:", "5000"],
        ["k", "a:", ""],
        ["k", "b:", "5000"],
        ["k", "a:", ""],
    ];
    let answers = batch(&mut server, &asked);
    let integers: Vec<i64> = answers.iter().filter_map(Reply::integer).collect();
    assert!(
        matches!(integers[..], [first, 1, second, 0] if second > first),
        "{answers:?}"
    );
    let text = server.command(&["GET", "k"]).unwrap().text();
    assert_eq!(text, Some(format!("b:{} host=a", integers[2])));
    let left = server.command(&["PTTL", "k"]).unwrap().integer();
    assert!(left > Some(0), "a lock without an end: {left:?}");
}

#[test]
fn refusals_use_up_no_grants() {
    let server = RedisServer::start();
    let mut server = server.client();
    server
        .command(&["SET", "held", "of somebody else", "PX", "5000"])
        .unwrap();
    server
        .command(&["ZADD", "shared", "1", "s0123456789abcdef0123456789abcdef"])
        .unwrap();
    let only_refused = [["held", "a:", "5000"], ["held", "b:", "5000"]];
    let answers = batch(&mut server, &only_refused);
    assert!(
        answers.iter().all(|answer| answer.integer() < Some(0)),
        "{answers:?}"
    );
    assert_eq!(number(&mut server, "counter"), 0, "a refusal writes");
    let first = batch(&mut server, &[["k", "a:", "5000"]]);
    let mixed = [
        ["shared", "b:", "5000"],
        ["l", "c:", "5000"],
        ["held", "d:", "5000"],
        ["m", "e:", "5000"],
    ];
    let answers = batch(&mut server, &mixed);
    let granted: Vec<i64> = answers
        .iter()
        .filter_map(Reply::integer)
        .filter(|answer| *answer > 0)
        .collect();
    let before = first[0].integer().unwrap();
    assert_eq!(granted, [before + 1, before + 2], "{answers:?}");
    assert_eq!(
        number(&mut server, "counter"),
        before + 2,
        "numbers were not given back"
    );
}
