//! Which module of a folder may use which: its storeys, written down from the ground up, and the check that keeps them.

use crate::layers::TEST_FILES;
use crate::rust_text;
use std::path::Path;

/// A folder of modules, of which each uses only those below it, and what puts them together.
struct House {
    folder: &'static str,
    /// The modules from the ground up.
    storeys: &'static [&'static str],
    /// The type that owns them, which none of them knows.
    owner: &'static str,
    /// The files that implement it. They may use all modules.
    written_in: &'static [&'static str],
}

const HOUSES: &[House] = &[House {
    folder: "crates/checkpoint/src/session",
    storeys: &[
        "bytes",
        "clock",
        "files",
        "outcomes",
        "ranks",
        "run",
        "regions",
        "scale",
        "journal",
        "nodes",
        "tiers",
        "redundancy",
        "reach",
        "resized",
        "schedule",
        "ahead",
    ],
    owner: "Checkpointer",
    written_in: &["finish.rs", "mod.rs", "open.rs", "restart.rs", "save.rs"],
}];

/// What is wrong with a source file of a folder with storeys; nothing is with tests, or with files of other folders.
pub fn faults_in(file: &Path, text: &str) -> Vec<String> {
    HOUSES
        .iter()
        .filter_map(|house| Some(house.faults(file, file.strip_prefix(house.folder).ok()?, text)))
        .flatten()
        .collect()
}

impl House {
    /// `inside` is the file's path within the folder.
    fn faults(&self, file: &Path, inside: &Path, text: &str) -> Vec<String> {
        let parts: Vec<&str> = inside.iter().filter_map(|part| part.to_str()).collect();
        let (Some(first), Some(last)) = (parts.first(), parts.last()) else { return Vec::new() };
        if *first == "tests" || TEST_FILES.contains(last) || self.written_in.contains(first) {
            return Vec::new();
        }
        let module = first.trim_end_matches(".rs");
        let at = |line: usize, why: String| format!("{}:{line}: {why}", file.display());
        let Some(storey) = self.storeys.iter().position(|name| *name == module) else {
            return vec![at(1, format!("'{module}' has no storey in xtask/src/storeys.rs"))];
        };
        let code = rust_text::code_only(&rust_text::without_tests(text));
        let mut faults = Vec::new();
        for (line, name) in names_of(&code, self.owner) {
            faults.push(at(line, format!("'{name}': {module} knows nothing of {}, which calls it", self.owner)));
        }
        // The path of the folder's own module: as the crate sees it, and from within the file.
        let in_crate = self.folder.split_once("/src/").map_or("", |(_, path)| path);
        let up = parts.len() - usize::from(*last == "mod.rs" && parts.len() > 1);
        for prefix in [format!("crate::{}::", in_crate.replace('/', "::")), "super::".repeat(up)] {
            for (line, name) in names_after(&code, &prefix) {
                let below = self.storeys[..=storey].contains(&name) || name == "super";
                if !below && name != self.owner {
                    faults.push(at(line, format!("'{prefix}{name}': {module} may only use the modules below it")));
                }
            }
        }
        faults
    }
}

/// Where a name stands as a whole word.
fn names_of<'a>(code: &'a str, name: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
    let is_whole = move |at: &usize| {
        let (before, after) = (&code[..*at], &code[at + name.len()..]);
        !before.ends_with(is_of_name) && !after.starts_with(is_of_name)
    };
    code.match_indices(name).map(|(at, _)| at).filter(is_whole).map(move |at| (line_of(code, at), name))
}

/// The names that follow a path, alone or in braces, each with its line.
fn names_after<'a>(code: &'a str, prefix: &str) -> Vec<(usize, &'a str)> {
    let mut names = Vec::new();
    for (at, _) in code.match_indices(prefix) {
        if code[..at].ends_with(|c| is_of_name(c) || c == ':') {
            continue;
        }
        let after = at + prefix.len();
        match code[after..].strip_prefix('{') {
            None => names.push((line_of(code, after), name_at(&code[after..]))),
            Some(list) => {
                let (mut depth, mut begins) = (0, true);
                for (offset, letter) in list.char_indices() {
                    match letter {
                        '{' => depth += 1,
                        '}' if depth == 0 => break,
                        '}' => depth -= 1,
                        ',' if depth == 0 => begins = true,
                        _ if depth == 0 && begins && !letter.is_whitespace() => {
                            names.push((line_of(code, after + 1 + offset), name_at(&list[offset..])));
                            begins = false;
                        }
                        _ => {}
                    }
                }
            }
        }
    }
    names
}

/// The name that a text begins with, or its first letter where that is none, as in a glob.
fn name_at(text: &str) -> &str {
    let end = text.find(|c| !is_of_name(c)).unwrap_or(text.len());
    &text[..end.max(text.chars().next().map_or(0, char::len_utf8))]
}

fn is_of_name(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

fn line_of(code: &str, at: usize) -> usize {
    code[..at].matches('\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(inside: &str, text: &str) -> Vec<String> {
        faults_in(&Path::new("crates/checkpoint/src/session").join(inside), text)
    }

    #[test]
    fn a_module_uses_those_below_it_and_what_is_outside() {
        for (inside, line) in [
            ("nodes/mod.rs", "use crate::session::ranks::{Ranks, digest};"),
            ("nodes/placement.rs", "use super::{Host, Nodes};"),
            ("nodes/mod.rs", "use super::ranks;"),
            ("tiers/same.rs", "use crate::session::{clock, nodes::Nodes, ranks::{Message, Ranks}};"),
            ("redundancy/parity/build.rs", "use super::super::Redundancy;"),
            ("redundancy/parity/build.rs", "use super::super::super::nodes::Nodes;"),
            ("ranks/call.rs", "pub(in crate::session) fn of() {}"),
            ("ranks/call.rs", "/// As [`crate::Checkpointer::finish`].\nfn finish() {}"),
            ("ranks/call.rs", "#[cfg(test)]\nmod tests {\n    use crate::Checkpointer;\n}\n"),
            ("ranks/tests.rs", "use crate::session::Checkpointer;"),
            ("tests/clocks.rs", "use crate::session::Checkpointer;"),
            ("restart.rs", "use crate::session::Checkpointer;\nuse super::save;"),
        ] {
            assert_eq!(faults(inside, line), Vec::<String>::new(), "{inside}");
        }
        assert!(faults_in(Path::new("crates/checkpoint/src/lib.rs"), "pub use session::Checkpointer;").is_empty());
    }

    #[test]
    fn a_module_that_uses_one_above_it_or_the_owner_is_a_fault_with_its_line() {
        for (inside, line) in [
            ("ranks/mod.rs", "use crate::session::nodes::Nodes;"),
            ("ranks/mod.rs", "use super::nodes::Nodes;"),
            ("ranks/call.rs", "use super::super::nodes::Nodes;"),
            ("nodes/mod.rs", "fn of(tiers: &crate::session::tiers::Tiers) {}"),
            ("nodes/mod.rs", "use crate::session::{clock, tiers::{Tiers, Which}};"),
            ("tiers/open.rs", "use crate::session::Saved;"),
            ("tiers/open.rs", "use super::super::*;"),
            ("redundancy/parity/build.rs", "use super::super::super::schedule::Schedule;"),
            ("reach/scan.rs", "use crate::session::restart::Attempt;"),
            ("nodes/fetch.rs", "impl Checkpointer {}"),
            ("nodes/fetch.rs", "use crate::{Checkpointer, Config};"),
            ("fetch.rs", "fn fetch() {}"),
        ] {
            let found = faults(inside, &format!("\n{line}\n"));
            assert_eq!(found.len(), 1, "{inside}: {line}: {found:?}");
            let number = if inside == "fetch.rs" { 1 } else { 2 };
            assert!(found[0].starts_with(&format!("crates/checkpoint/src/session/{inside}:{number}: ")), "{found:?}");
        }
    }
}
