//! Turns the names of locks and claims into paths of nodes.

use std::fmt::Write;

use lock_core::backend::HoldId;
use lock_core::{LockKey, Mode, Namespace};

/// The paths of a client's locks.
#[derive(Clone, Debug)]
pub(crate) struct Paths {
    /// The node above all locks, which is never deleted; empty for the root.
    chroot: String,
    /// The node of the namespace, below the chroot.
    base: String,
}

impl Paths {
    /// Makes the paths below a checked `chroot`: empty, or with a slash at its beginning and none
    /// at its end.
    pub(crate) fn new(chroot: &str, namespace: &Namespace) -> Self {
        let chroot = chroot.to_owned();
        let base = match namespace.as_str() {
            Some(name) => format!("{chroot}/{}", escaped(name, true)),
            None => chroot.clone(),
        };
        Self { chroot, base }
    }

    /// Returns the node of a lock, which has the claims as children: `/namespace/key` below the
    /// chroot. Each `/` of the key begins a level of its own.
    pub(crate) fn lock(&self, key: &LockKey) -> String {
        let mut path = self.base.clone();
        for segment in key.as_str().split('/') {
            let is_top = path.len() == self.chroot.len();
            path.push('/');
            path.push_str(&escaped(segment, is_top));
        }
        path
    }

    /// Returns the levels of a lock's node from the top, each with true if it belongs to the
    /// chroot.
    pub(crate) fn levels<'a>(&self, lock: &'a str) -> impl Iterator<Item = (&'a str, bool)> {
        let kept = self.chroot.len();
        let ends = lock.match_indices('/').skip(1).map(|(end, _)| end);
        ends.chain([lock.len()])
            .map(move |end| (&lock[..end], end <= kept))
    }

    /// Returns the level above `node`, if it may be deleted.
    pub(crate) fn parent<'a>(&self, node: &'a str) -> Option<&'a str> {
        let (above, _) = node.rsplit_once('/')?;
        (above.len() > self.chroot.len()).then_some(above)
    }
}

/// Returns the name of a claim up to its sequence number, in the format of Curator. The mode comes
/// before `-lock-`, so that other clients count each claim of this library as exclusive.
pub(crate) fn claim_prefix(hold: &HoldId) -> String {
    let claim = hold.claim().to_string();
    let mut name = "_c_".to_owned();
    for (index, digit) in claim.chars().enumerate() {
        if [8, 12, 16, 20].contains(&index) {
            name.push('-');
        }
        name.push(digit);
    }
    name.push_str(&match hold.mode() {
        Mode::Shared => "-shared-lock-".to_owned(),
        Mode::Permit { of } => format!("-permit-{of}-lock-"),
        _ => "-lock-".to_owned(),
    });
    name
}

/// Returns true if the name ends like a sequence number, as the claims of all clients do.
pub(crate) fn is_claim(name: &str) -> bool {
    let tail = name.len().checked_sub(10).and_then(|at| name.get(at..));
    tail.is_some_and(|tail| {
        let digits = tail.strip_prefix('-').unwrap_or(tail);
        digits.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// Returns a unique node name for `segment`.
///
/// Escapes percent signs, characters and names that ZooKeeper forbids, and names that look like a
/// claim: the nodes of nested keys are siblings of claims.
fn escaped(segment: &str, is_top: bool) -> String {
    match segment {
        // No other segment becomes a percent sign alone.
        "" => return "%".to_owned(),
        "." => return "%2E".to_owned(),
        ".." => return "%2E%2E".to_owned(),
        // The server uses this node.
        "zookeeper" if is_top => return "%7Aookeeper".to_owned(),
        _ => {}
    }
    let mut name = String::with_capacity(segment.len());
    for character in segment.chars() {
        if is_plain(character) {
            name.push(character);
        } else {
            let mut bytes = [0; 4];
            character
                .encode_utf8(&mut bytes)
                .bytes()
                .for_each(|byte| push_escape(&mut name, byte));
        }
    }
    if !is_top && is_claim(&name) {
        let last = name.pop().map_or(0, |digit| digit as u8);
        push_escape(&mut name, last);
    }
    name
}

fn push_escape(name: &mut String, byte: u8) {
    write!(name, "%{byte:02X}").expect("a string takes everything");
}

/// Returns true if a node's name may contain `character`. The server checks UTF-16 units, so it
/// also forbids characters of two units.
fn is_plain(character: char) -> bool {
    let forbidden = [
        0x00..=0x1F,
        0x7F..=0x9F,
        0xD800..=0xF8FF,
        0xFFF0..=0x0010_FFFF,
    ];
    let code = u32::from(character);
    !matches!(character, '%' | '/') && !forbidden.iter().any(|range| range.contains(&code))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn lock(key: &str) -> String {
        let paths = Paths::new("/app", &Namespace::new("shop").unwrap());
        paths.lock(&LockKey::new(key).unwrap())
    }

    #[test]
    fn ordinary_names_stay_as_they_are() {
        for key in ["a", "a/b", "A", "a ", "锁/订单:42", "order-42", "zookeeper"] {
            assert_eq!(lock(key), format!("/app/shop/{key}"));
        }
        let bare = Paths::new("", &Namespace::none());
        let node = |key| bare.lock(&LockKey::new(key).unwrap());
        assert_eq!(node("a/b"), "/a/b");
        assert_eq!(node("1234567890"), "/1234567890", "nothing is beside it");
        assert_eq!(node("zookeeper/quota"), "/%7Aookeeper/quota");
    }

    #[test]
    fn what_the_server_forbids_is_escaped() {
        assert_eq!(lock("a%2Fb"), "/app/shop/a%252Fb");
        assert_eq!(lock("/"), "/app/shop/%/%");
        assert_eq!(lock("./.."), "/app/shop/%2E/%2E%2E");
        assert_eq!(lock("\0\u{7f}\u{9f}"), "/app/shop/%00%7F%C2%9F");
        assert_eq!(lock("🔒\u{ffff}"), "/app/shop/%F0%9F%94%92%EF%BF%BF");
        let slashes = Paths::new("", &Namespace::new("a/b").unwrap());
        assert_eq!(slashes.lock(&LockKey::new("c").unwrap()), "/a%2Fb/c");
    }

    #[test]
    fn no_nested_name_looks_like_a_claim() {
        assert_eq!(lock("order/1234567890"), "/app/shop/order/123456789%30");
        assert_eq!(lock("x--000000005"), "/app/shop/x--00000000%35");
        assert_eq!(lock("123456789"), "/app/shop/123456789");
        assert!(is_claim("_c_x-lock-0000000001") && is_claim("x-000000001"));
        assert!(!is_claim("锁-订单") && !is_claim("123456789"));
    }

    #[test]
    fn different_names_are_different_nodes() {
        let keys = [
            "a",
            "A",
            "a ",
            "a/b",
            "a%2Fb",
            "a//b",
            "a/%/b",
            "/a",
            "a/",
            "",
            "%",
            ".",
            "%2E",
            "..",
            "\0",
            "%00",
            "🔒",
            "%F0%9F%94%92",
            "1234567890",
            "123456789%30",
        ];
        let keys = keys.iter().filter_map(|key| LockKey::new(key).ok());
        let nodes: Vec<String> = keys.map(|key| lock(key.as_str())).collect();
        assert_eq!(nodes.iter().collect::<HashSet<_>>().len(), nodes.len());
    }

    #[test]
    fn levels_go_down_to_the_lock_and_up_to_the_chroot() {
        let paths = Paths::new("/app/locks", &Namespace::new("shop").unwrap());
        let node = paths.lock(&LockKey::new("a/b").unwrap());
        let levels: Vec<_> = paths.levels(&node).collect();
        assert_eq!(
            levels,
            [
                ("/app", true),
                ("/app/locks", true),
                ("/app/locks/shop", false),
                ("/app/locks/shop/a", false),
                ("/app/locks/shop/a/b", false),
            ]
        );
        assert_eq!(paths.parent(&node), Some("/app/locks/shop/a"));
        assert_eq!(paths.parent("/app/locks/shop"), None);
        assert_eq!(Paths::new("", &Namespace::none()).parent("/a"), None);
    }
}
