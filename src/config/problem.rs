//! What is wrong with a configuration: everything at once, each with its name and what would work.

use std::fmt;

/// One thing to mend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The key or variable as it was written.
    pub name: String,
    /// Where it stands: `environment variable X`, `file Y`, `command line`.
    pub source: String,
    /// What is wrong and what would work.
    pub message: String,
}

/// All that is wrong; never empty.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ConfigErrors(pub Vec<Problem>);

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.0.len();
        write!(f, "the configuration has {count} problem{}:", if count == 1 { "" } else { "s" })?;
        for Problem { name, source, message } in &self.0 {
            write!(f, "\n  {name} ({source}): {message}")?;
        }
        Ok(())
    }
}

/// The name that a mistyped one probably meant, or nothing if none is near.
pub fn nearest<'a>(wrong: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let limit = wrong.len().div_ceil(4).min(4);
    names.map(|name| (distance(wrong, name), name)).filter(|(far, _)| *far <= limit).min().map(|(_, name)| name)
}

/// Edits (insert, delete, replace) between two names.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_name_finds_its_neighbour() {
        let names = ["server.listen", "server.max_body_bytes", "log.level"];
        for (wrong, meant) in [
            ("server.listne", Some("server.listen")),
            ("server.max_body_byte", Some("server.max_body_bytes")),
            ("loglevel", Some("log.level")),
            ("something.else", None),
            ("", None),
        ] {
            assert_eq!(nearest(wrong, names.into_iter()), meant, "{wrong}");
        }
    }
}
