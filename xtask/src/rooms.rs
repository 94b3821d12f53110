//! What a new room touches outside its own folders: eleven files or fewer, which ARCHITECTURE.md lists.
//!
//! The proof is the room that moved in last. Every shipped file that names it is counted, and the list must be that of the
//! document, so that neither grows unseen.

use crate::rust_text;
use crate::workspace::{Checked, Workspace};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The room that is looked for. Lost time was there before there were rooms, and its words are the whole tool's.
const ROOM: &str = "disturb";

/// How code names it. The bare word is in sentences and in the names of programs that disturb nothing.
const NAMES: &[&str] = &[
    "surefoot-disturb",
    "surefoot_disturb",
    "crates/disturb",
    "rooms: [\"disturb\"]",
    "room::disturb",
    "rooms/disturb",
    "event::disturb",
    "disturbevent",
    "disturbcommand",
    "mod disturb;",
    "disturb as ",
    "disturb::disturb",
    "experimentbegan",
];

/// The most files outside of its own folders.
const FILES_MAX: usize = 11;

/// Where rooms are wired: elsewhere stand the libraries that know no rooms, tests, documents, and the developer's commands.
const WIRED: &[&str] = &[
    "Cargo.toml",
    "crates/cli",
    "crates/daemon",
    "crates/model",
    "crates/rooms",
    "crates/store",
    "ui/src",
    "xtask/src/layers.rs",
];

/// The room's own types, in files with names of their own.
const OWN: &[&str] = &["crates/model/src/disturb.rs"];

/// What names every room of the design already, tenants or not, so that none adds a line; and what is generated.
const ASIDE: &[&str] = &["crates/model/src/finding.rs", "ui/src/types.ts"];

/// The document, and the heading of its list.
const DOCUMENT: &str = "ARCHITECTURE.md";
const HEADING: &str = "## A seventh room";

/// Compares the files that name the room with the list.
pub fn check(workspace: &Workspace) -> Result<Checked, String> {
    let Some(files) = workspace.files() else {
        return Ok(Checked::NotRun("this is not a git checkout, and the files are listed by git".into()));
    };
    let wired = files.iter().filter(|file| is_wired(file));
    let tests: Vec<PathBuf> =
        files.iter().flat_map(|file| tests_of(file, &workspace.text(file).unwrap_or_default())).collect();
    let shipped = wired.filter(|file| !tests.iter().any(|test| file.with_extension("").starts_with(test)));
    let naming = shipped.filter(|file| workspace.text(file).is_some_and(|text| names(file, &text)));
    let naming: BTreeSet<String> = naming.map(|file| file.display().to_string()).collect();
    let document = workspace.text(Path::new(DOCUMENT)).unwrap_or_default();
    let summary = format!("a room touches {} files outside its own folders, as {DOCUMENT} says", naming.len());
    Ok(Checked::from_faults(faults(&naming, &document), summary))
}

/// Whether a room could be wired there, and the file is not the room's own.
fn is_wired(file: &Path) -> bool {
    let under = |places: &[&str]| places.iter().any(|place| file.starts_with(place));
    let is_own = file.with_extension("").components().any(|part| part.as_os_str() == ROOM);
    let is_test = file.components().any(|part| part.as_os_str() == "tests");
    under(WIRED) && !under(OWN) && !under(ASIDE) && !is_own && !is_test
}

/// The modules in files of their own that a file declares for tests only, without the ending of their files.
fn tests_of(file: &Path, text: &str) -> Vec<PathBuf> {
    let is_rust = file.extension().is_some_and(|extension| extension == "rs");
    let is_root = file.file_stem().is_some_and(|stem| ["lib", "main", "mod"].iter().any(|root| stem == *root));
    let folder = if is_root { file.parent().unwrap_or(file).to_path_buf() } else { file.with_extension("") };
    let declared = |(gate, module): (&str, &str)| {
        let name = module.trim().strip_prefix("mod ")?.strip_suffix(';')?;
        (gate.trim() == "#[cfg(test)]").then(|| folder.join(name))
    };
    let pairs = text.lines().zip(text.lines().skip(1)).filter(|_| is_rust);
    pairs.filter_map(declared).collect()
}

/// Whether the code names the room. Comments may speak of it, and tests may use it.
fn names(file: &Path, text: &str) -> bool {
    let (shipped, comments): (Cow<str>, &[&str]) = match file.extension().and_then(|extension| extension.to_str()) {
        Some("rs") => (rust_text::without_tests(text).into(), &["//"]),
        Some("toml") => (text.into(), &["#"]),
        Some("ts" | "tsx" | "css") => (text.into(), &["//", "/*", "*"]),
        _ => return false,
    };
    let code = shipped.lines().filter(|line| !comments.iter().any(|comment| line.trim_start().starts_with(comment)));
    code.map(str::to_lowercase).any(|line| NAMES.iter().any(|name| line.contains(name)))
}

fn faults(naming: &BTreeSet<String>, document: &str) -> Vec<String> {
    let listed = listed(document);
    let mut faults: Vec<String> = Vec::new();
    if naming.len() > FILES_MAX {
        let list: Vec<&str> = naming.iter().map(String::as_str).collect();
        faults.push(format!("{} files name the room {ROOM}, over {FILES_MAX}: {}", naming.len(), list.join(", ")));
    }
    let unlisted =
        naming.difference(&listed).map(|file| format!("{file} names the room {ROOM}; {DOCUMENT} lists it not"));
    let unnamed = listed.difference(naming).map(|file| format!("{DOCUMENT} lists {file}, which does not name {ROOM}"));
    faults.extend(unlisted.chain(unnamed));
    faults
}

/// The files in the first column of the table below the heading.
fn listed(document: &str) -> BTreeSet<String> {
    let section =
        document.lines().skip_while(|line| *line != HEADING).skip(1).take_while(|line| !line.starts_with("## "));
    section.filter_map(|line| line.strip_prefix("| `")?.split('`').next()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "# A\n| `x.rs` | |\n## A seventh room\n\n| file | line |\n|---|---|\n| `a.rs` | x |\n| `b.rs` | `c.rs` |\n## More\n| `d.rs` | |\n";

    fn files<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
        names.map(str::to_owned).into()
    }

    #[test]
    fn the_list_is_that_of_the_section() {
        assert_eq!(listed(LIST), files(["a.rs", "b.rs"]));
        assert_eq!(faults(&files(["a.rs", "b.rs"]), LIST), Vec::<String>::new());
    }

    #[test]
    fn a_file_too_many_on_either_side_is_a_fault() {
        let found = faults(&files(["a.rs", "c.rs"]), LIST);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("c.rs names") && found[1].contains("lists b.rs"), "{found:?}");
        let many: BTreeSet<String> = (0..=FILES_MAX).map(|number| format!("{number}.rs")).collect();
        assert!(faults(&many, LIST)[0].starts_with("12 files name the room disturb, over 11: 0.rs, 1.rs, 10.rs"));
    }

    #[test]
    fn modules_for_tests_are_known() {
        let text = "mod rooms;\n#[cfg(test)]\nmod schema;\nmod server;\n#[cfg(test)]\nmod tests {\n";
        assert_eq!(tests_of(Path::new("crates/a/src/lib.rs"), text), [PathBuf::from("crates/a/src/schema")]);
        assert_eq!(tests_of(Path::new("crates/a/src/b.rs"), text), [PathBuf::from("crates/a/src/b/schema")]);
        assert!(tests_of(Path::new("a.md"), text).is_empty());
    }

    #[test]
    fn only_shipped_code_outside_of_the_rooms_own_folders_counts() {
        for own in [
            "crates/disturb/src/lib.rs",
            "crates/daemon/src/rooms/disturb/mod.rs",
            "crates/rooms/src/disturb/state.rs",
            "crates/cli/src/rooms/disturb.rs",
            "crates/daemon/tests/daemon/disturb.rs",
            "crates/model/src/disturb.rs",
            "xtask/src/tidy.rs",
        ] {
            assert!(!is_wired(Path::new(own)), "{own}");
        }
        assert!(is_wired(Path::new("crates/daemon/src/rooms/mod.rs")) && is_wired(Path::new("Cargo.toml")));
        let named = |file: &str, text: &str| names(Path::new(file), text);
        assert!(named("a.rs", "let a = Event::Disturb(_);") && named("Cargo.toml", "surefoot-disturb = 1"));
        assert!(named("views.ts", "  rooms: [\"disturb\"],") && named("layers.rs", "folder: \"crates/disturb\","));
        assert!(!named("a.rs", "/// Event::Disturb.\n#[cfg(test)]\nmod tests { surefoot_disturb }\n"));
        assert!(
            !named("a.rs", "use surefoot_probes::disturbance; tell(\"disturb\")")
                && !named("a.ts", " * rooms/disturb\n")
        );
    }
}
