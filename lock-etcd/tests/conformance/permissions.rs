//! A user with the documented permissions only.

use lock_testkit::servers::EtcdCluster;

const DOCUMENTED: &str = include_str!("../../src/permissions.md");

/// Creates `user`, whose password is `password`, for the locks below `prefix`.
pub(crate) fn create_locker(cluster: &EtcdCluster, user: &str, prefix: &str) {
    let mut commands = DOCUMENTED.split("```");
    let commands = commands.find_map(|part| part.strip_prefix("sh\n"));
    for command in commands.expect("the documentation shows them").lines() {
        let words: Vec<String> = command
            .split_whitespace()
            .skip(1)
            .map(|word| word.replace("locker", user).replace("shop/", prefix))
            .collect();
        cluster.control(&words);
    }
}
