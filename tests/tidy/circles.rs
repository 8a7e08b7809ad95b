//! Finds circles of files in a crate, by their imports.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The files of one crate by module path, with the imports of each.
pub(crate) struct Imports(BTreeMap<String, BTreeSet<String>>);

impl Imports {
    /// Reads the files of the crate `package`: their paths with their texts.
    pub(crate) fn of(package: &str, files: &[(impl AsRef<Path>, String)]) -> Self {
        let root = Path::new(package).join("src");
        let modules: BTreeMap<String, String> = files
            .iter()
            .filter_map(|(path, text)| {
                Some((module(path.as_ref().strip_prefix(&root).ok()?), code(text)))
            })
            .collect();
        let exports = exports(&modules);
        let imports = modules.iter().map(|(module, text)| {
            let paths = uses(text).into_iter().chain(inline_paths(text));
            let targets = paths.filter_map(|path| {
                let path = absolute(module, &path)?;
                let found = resolve(&path, &modules, &exports)?;
                (found != *module).then_some(found)
            });
            (module.clone(), targets.collect())
        });
        Self(
            imports
                .filter(|(module, _): &(String, _)| !module.is_empty())
                .collect(),
        )
    }

    /// Returns the groups of files that need each other, directly or through other files.
    pub(crate) fn circles(&self) -> Vec<Vec<&str>> {
        let reach: BTreeMap<&str, BTreeSet<&str>> = self
            .0
            .keys()
            .map(|module| (module.as_str(), self.reach(module)))
            .collect();
        let mut circles: Vec<Vec<&str>> = Vec::new();
        for (module, reached) in &reach {
            let is_told = circles.iter().any(|circle| circle.contains(module));
            if reached.contains(module) && !is_told {
                let both =
                    |other: &&&str| reach.get(**other).is_some_and(|back| back.contains(module));
                circles.push(reached.iter().filter(both).copied().collect());
            }
        }
        circles
    }

    fn reach(&self, from: &str) -> BTreeSet<&str> {
        let mut reached = BTreeSet::new();
        let mut next: Vec<&str> = self.targets(from).collect();
        while let Some(module) = next.pop() {
            if reached.insert(module) {
                next.extend(self.targets(module));
            }
        }
        reached
    }

    fn targets(&self, module: &str) -> impl Iterator<Item = &str> {
        self.0.get(module).into_iter().flatten().map(String::as_str)
    }
}

/// Converts a path to a module path: `hold/mod.rs` to `hold`, `lib.rs` to the empty path.
fn module(path: &Path) -> String {
    let path = path.with_extension("");
    let mut names: Vec<_> = path
        .iter()
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    if names
        .last()
        .is_some_and(|last| last == "mod" || last == "lib")
    {
        names.pop();
    }
    names.join("::")
}

/// Returns the text without comments and unit tests.
fn code(text: &str) -> String {
    let text = text
        .split("\n#[cfg(test)]\nmod ")
        .next()
        .unwrap_or_default();
    let lines = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the paths of all `use` declarations, one by one.
fn uses(text: &str) -> Vec<String> {
    let declarations = text.split(';').filter_map(|statement| {
        let line = statement.trim_start().lines().last()?;
        let start = statement.rfind("use ").filter(|_| !line.is_empty())?;
        let before = statement[..start].trim_end();
        let is_declaration =
            before.is_empty() || before.ends_with(['}', ']', ')', ';']) || before.ends_with("pub");
        is_declaration.then(|| statement[start + 4..].to_owned())
    });
    declarations.flat_map(|tree| expand(&tree, "")).collect()
}

fn expand(tree: &str, prefix: &str) -> Vec<String> {
    let (mut depth, mut part, mut parts) = (0_usize, String::new(), Vec::new());
    for letter in tree.chars() {
        match letter {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if letter == ',' && depth == 0 {
            parts.push(std::mem::take(&mut part));
        } else {
            part.push(letter);
        }
    }
    parts.push(part);
    let mut paths = Vec::new();
    for part in parts
        .iter()
        .map(|part| part.trim())
        .filter(|part| !part.is_empty())
    {
        match part.split_once('{') {
            Some((before, rest)) => {
                let inner = rest.rsplit_once('}').map_or(rest, |(inner, _)| inner);
                paths.extend(expand(inner, &format!("{prefix}{}", before.trim())));
            }
            None => {
                let name = part.split(" as ").next().unwrap_or_default();
                paths.push(format!("{prefix}{}", name.trim()));
            }
        }
    }
    paths
}

/// Returns the paths that are written without a `use`.
fn inline_paths(text: &str) -> Vec<String> {
    let is_path = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
    let words = text.split(|letter: char| !is_path(letter));
    let paths = words.filter(|word| word.starts_with("crate::") || word.starts_with("super::"));
    paths
        .map(|path| path.trim_end_matches(':').to_owned())
        .collect()
}

/// Returns the items that each module exports from other modules, by their full paths.
fn exports(modules: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut exports = BTreeMap::new();
    for (module, text) in modules {
        for statement in text.split(';') {
            let Some((_, tree)) = statement.trim_start().rsplit_once("pub use ").or_else(|| {
                statement
                    .rsplit_once("pub(crate) use ")
                    .or_else(|| statement.rsplit_once("pub(super) use "))
            }) else {
                continue;
            };
            for path in expand(tree, "") {
                let full = absolute(module, &path).unwrap_or_else(|| join(module, &path));
                let name = full.rsplit("::").next().unwrap_or_default().to_owned();
                exports.insert(join(module, &name), full);
            }
        }
    }
    exports
}

fn join(module: &str, path: &str) -> String {
    match module {
        "" => path.to_owned(),
        module => format!("{module}::{path}"),
    }
}

/// Returns the path from the root of the crate; `None` for a path of another crate.
fn absolute(module: &str, path: &str) -> Option<String> {
    if let Some(path) = path.strip_prefix("crate::") {
        return Some(path.to_owned());
    }
    if let Some(path) = path.strip_prefix("self::") {
        return Some(join(module, path));
    }
    let (mut parent, mut rest) = (module, path.strip_prefix("super::")?);
    loop {
        parent = parent.rsplit_once("::").map_or("", |(parent, _)| parent);
        match rest.strip_prefix("super::") {
            Some(further) => rest = further,
            None => return Some(join(parent, rest)),
        }
    }
}

fn resolve(
    path: &str,
    modules: &BTreeMap<String, String>,
    exports: &BTreeMap<String, String>,
) -> Option<String> {
    let mut path = path;
    for _ in 0..5 {
        match exports.get(path) {
            Some(full) if full != path => path = full,
            _ => break,
        }
    }
    loop {
        if modules.contains_key(path) {
            return Some(path.to_owned()).filter(|module| !module.is_empty());
        }
        path = path.rsplit_once("::")?.0;
    }
}

#[test]
fn a_circle_is_found() {
    let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
    let files = [
        file(
            "x/src/lib.rs",
            "mod one;\nmod two;\nmod three;\npub use two::Two;\n",
        ),
        file(
            "x/src/one.rs",
            "use crate::{\n    Two,\n    three::Three,\n};\n",
        ),
        file(
            "x/src/two.rs",
            "use std::fmt;\nuse crate::one::{self, One};\n",
        ),
        file(
            "x/src/three.rs",
            "// use crate::one::One;\nfn three() {}\n#[cfg(test)]\nmod tests {\n    use crate::one::One;\n}\n",
        ),
    ];
    assert_eq!(Imports::of("x", &files).circles(), [["one", "two"]]);
}
