//! Histories in files.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use super::claims::History;
use super::event::Event;

const ENDING: &str = "jsonl";

impl History {
    /// Reads all files of a directory whose names end in `.jsonl`.
    ///
    /// The last line of a file may be incomplete, since its process may have been killed.
    ///
    /// # Errors
    ///
    /// - If a file cannot be read.
    /// - If a line is not an [`Event`].
    pub fn read(directory: impl AsRef<Path>) -> io::Result<Self> {
        let mut files: Vec<PathBuf> = Vec::new();
        for entry in fs::read_dir(directory)? {
            files.push(entry?.path());
        }
        files.retain(|file| file.extension().is_some_and(|ending| ending == ENDING));
        // Sort, so that the same files always make the same history.
        files.sort();
        let mut events = Vec::new();
        for file in files {
            read(&file, &mut events).map_err(|error| {
                io::Error::new(error.kind(), format!("{}: {error}", file.display()))
            })?;
        }
        Ok(Self::new(events))
    }
}

fn read(file: &Path, events: &mut Vec<Event>) -> io::Result<()> {
    let mut lines = BufReader::new(File::open(file)?);
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        lines.read_until(b'\n', &mut line)?;
        if line.last() != Some(&b'\n') {
            break;
        }
        let event = serde_json::from_slice(&line)
            .map_err(|error| io::Error::other(format!("line {number}: {error}")))?;
        events.push(event);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRANTED: &str = concat!(
        r#"{"at":1,"worker":"a","event":"invoke","claim":1,"key":"k","mode":"exclusive","ttl_ms":9}"#,
        "\n",
        r#"{"at":2,"worker":"a","event":"grant","claim":1,"token":"7"}"#,
        "\n",
    );

    fn grants(text: &str) -> io::Result<usize> {
        let directory = tempfile::tempdir()?;
        fs::write(directory.path().join("a.jsonl"), text)?;
        fs::write(directory.path().join("picture.svg"), "no history")?;
        let history = History::read(directory.path())?;
        Ok(history.keys()[0]
            .claims
            .iter()
            .filter(|claim| claim.grant.is_some())
            .count())
    }

    #[test]
    fn a_line_that_was_cut_off_by_a_kill_is_left_out() {
        let cut = GRANTED.len() - 4;
        assert_eq!(grants(GRANTED).unwrap(), 1);
        assert_eq!(grants(&GRANTED[..cut]).unwrap(), 0);
    }

    #[test]
    fn a_line_that_is_none_is_told_with_its_place() {
        let error = grants(&GRANTED.replace("grant", "grand")).unwrap_err();
        let message = error.to_string();
        assert!(message.contains("a.jsonl: line 2"), "{message}");
    }
}
