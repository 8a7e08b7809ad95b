//! The documents: links, configurations, and the two languages of the README.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use polylock::Config;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Returns all documents, with their text.
fn documents() -> Vec<(PathBuf, String)> {
    let root = Path::new(ROOT);
    let mut folders = vec![root.to_owned(), root.join("docs"), root.join("docs/stores")];
    let names = fs::read_dir(root).expect("the workspace");
    folders.extend(
        names
            .map(|entry| entry.expect("an entry").path())
            .filter(|path| path.join("Cargo.toml").exists()),
    );
    let mut documents = Vec::new();
    for folder in folders {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.extension().is_some_and(|extension| extension == "md") {
                let text = fs::read_to_string(&path).expect("a document");
                documents.push((path, text));
            }
        }
    }
    assert!(documents.len() > 15, "{documents:?}");
    documents
}

/// Returns the text outside of code blocks, and the blocks with their languages.
fn split(text: &str) -> (String, Vec<(String, String)>) {
    let (mut prose, mut blocks) = (String::new(), Vec::new());
    for (number, part) in text.split("```").enumerate() {
        if number % 2 == 0 {
            prose.push_str(part);
        } else {
            let (language, code) = part.split_once('\n').expect("a block has lines");
            blocks.push((language.to_owned(), code.to_owned()));
        }
    }
    (prose, blocks)
}

/// Returns the targets of all links to files, without duplicates.
fn links(text: &str) -> BTreeSet<String> {
    let (prose, _) = split(text);
    let targets = prose.split("](").skip(1);
    let targets = targets.filter_map(|rest| Some(rest.split_once(')')?.0.to_owned()));
    targets.filter(|target| !target.contains("://")).collect()
}

/// Returns the anchor of each heading, as repository browsers make it.
fn anchors(text: &str) -> BTreeSet<String> {
    let (prose, _) = split(text);
    let headings = prose.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|heading| {
            let words = heading.trim_start_matches('#').trim().to_lowercase();
            words
                .chars()
                .filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter))
                .map(|letter| if letter == ' ' { '-' } else { letter })
                .collect()
        })
        .collect()
}

#[test]
fn links_lead_somewhere() {
    for (path, text) in documents() {
        for link in links(&text) {
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = match file {
                "" => path.clone(),
                file => path.parent().expect("a folder").join(file),
            };
            assert!(target.exists(), "{}: {link}", path.display());
            if !anchor.is_empty() {
                let text = fs::read_to_string(&target).expect("a document");
                let found = anchors(&text).contains(anchor);
                assert!(found, "{}: no heading {link}", path.display());
            }
        }
    }
}

/// The README and what it links to have to be in the package, where readers of the registry look.
#[test]
fn links_of_the_readme_are_in_the_package() {
    let manifest = fs::read_to_string(Path::new(ROOT).join("Cargo.toml")).expect("a manifest");
    let manifest: toml::Table = manifest.parse().expect("it is TOML");
    let included: Vec<&str> = manifest["package"]["include"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|pattern| pattern.as_str()?.strip_prefix('/'))
        .collect();
    let readme = fs::read_to_string(Path::new(ROOT).join("README.md")).expect("a README");
    for link in links(&readme) {
        let file = link.split('#').next().unwrap_or_default();
        let is_included = included.iter().any(|pattern| {
            Path::new(file).starts_with(pattern)
                || (*pattern == "*.md" && file.ends_with(".md") && !file.contains('/'))
        });
        assert!(is_included, "{file} is not in {included:?}");
    }
}

#[test]
fn configurations_are_valid() {
    let mut count = 0;
    for (path, text) in documents() {
        for (_, code) in split(&text).1.iter().filter(|block| block.0 == "toml") {
            let config: Result<Config, _> = toml::from_str(code);
            assert!(config.is_ok(), "{}: {config:?}\n{code}", path.display());
            count += 1;
        }
    }
    assert!(count >= 8, "{count}");
}

#[test]
fn both_languages_of_the_readme_say_the_same() {
    let read = |name: &str| fs::read_to_string(Path::new(ROOT).join(name)).expect("a README");
    let (english, chinese) = (read("README.md"), read("README.zh-CN.md"));
    let (english_prose, english_blocks) = split(&english);
    let (chinese_prose, chinese_blocks) = split(&chinese);
    assert_eq!(english_blocks, chinese_blocks);
    let others = |text: &str, other: &str| {
        let mut links = links(text);
        assert!(links.remove(other), "no link to {other}");
        links
    };
    assert_eq!(
        others(&english, "README.zh-CN.md"),
        others(&chinese, "README.md")
    );
    let outline = |prose: &str| -> Vec<String> {
        let lines = prose.lines().map(|line| match line.split(' ').next() {
            Some(start @ ("#" | "##" | "|" | "-")) => start.to_owned(),
            _ => String::new(),
        });
        lines.filter(|start| !start.is_empty()).collect()
    };
    assert_eq!(outline(&english_prose), outline(&chinese_prose));
}

/// A sentence over 30 words, or 60 Chinese characters, has to be read twice.
#[test]
fn sentences_of_the_readme_are_short() {
    let read = |name: &str| fs::read_to_string(Path::new(ROOT).join(name)).expect("a README");
    let sentences = |text: &str, ends: &[char]| -> Vec<String> {
        let (prose, _) = split(text);
        let blocks = prose.split("\n\n").flat_map(|block| {
            let block = block.replace("\n- ", "\u{0}").replace("\n|", "\u{0}");
            block
                .split('\u{0}')
                .map(|item| item.replace('\n', " "))
                .collect::<Vec<_>>()
        });
        blocks
            .flat_map(|item| {
                item.split(ends)
                    .map(|sentence| sentence.trim().to_owned())
                    .collect::<Vec<_>>()
            })
            .collect()
    };
    for sentence in sentences(&read("README.md"), &['.', '?', '!', '|']) {
        assert!(sentence.split_whitespace().count() <= 30, "{sentence}");
    }
    for sentence in sentences(&read("README.zh-CN.md"), &['。', '？', '！', '|']) {
        let characters = sentence.chars().filter(|letter| !letter.is_ascii());
        assert!(characters.count() <= 60, "{sentence}");
    }
}
