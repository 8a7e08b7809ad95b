//! A user with the documented permissions only.

use lock_testkit::servers::RedisServer;

const DOCUMENTED: &str = include_str!("../../src/permissions.md");

/// Creates `user`, whose password is `password`, for the locks of `namespace`.
pub(crate) fn create_locker(server: &RedisServer, user: &str, namespace: &str) {
    let command = DOCUMENTED
        .split("```")
        .find_map(|part| part.strip_prefix("text\n"))
        .expect("the documentation shows the command");
    let words: Vec<String> = command
        .split_whitespace()
        .map(|word| match word {
            "locker" => user.to_owned(),
            "~shop:*" => format!("~{namespace}:*"),
            _ => word.to_owned(),
        })
        .collect();
    let reply = server.client().command(&words).expect("the server runs");
    assert_eq!(reply.text().as_deref(), Some("OK"), "{reply:?}");
}
