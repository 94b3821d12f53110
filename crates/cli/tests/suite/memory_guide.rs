//! The commands of docs/guide/memory.md on fixtures: what they print is what stands there.
#![allow(clippy::unwrap_used)]

use super::guide::{is_shown, page, shown};
use std::path::Path;
use std::process::Command;
use surefoot_testkit::HostTree;

const PAGE: &str = "memory.md";

/// Runs a command beside the unpacked fixture that it names.
fn printed(command: &[String]) -> Vec<String> {
    let place = command.iter().position(|word| word == "--host-root").unwrap() + 1;
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../memory/tests/fixtures");
    let tree = HostTree::unpacked(fixtures.join(format!("{}.tree", command[place])));
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(tree.path(), folder.path().join(&command[place])).unwrap();
    let mut run = Command::new(env!("CARGO_BIN_EXE_surefoot"));
    let output = run.args(command).current_dir(folder.path()).output().unwrap();
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn the_page_shows_what_the_commands_print() {
    let page = page(PAGE);
    let shown = shown(&page, |command| command.contains("--host-root"));
    assert!(shown.len() >= 3, "{shown:?}");
    for (command, output) in shown {
        is_shown(&output, &printed(&command)).unwrap_or_else(|why| panic!("{command:?}: {why}"));
    }
}

#[test]
fn every_rule_is_on_the_page() {
    let page = page(PAGE);
    for rule in surefoot_memory::doctor::rule_names() {
        assert!(page.contains(&format!("| `{rule}` |")), "{rule}");
    }
}
