//! The guide's code is the examples' code, which the other tests compile and run, and its tables name what there is.

use super::build::bindings;
use std::fs;
use surefoot_checkpoint::config::SETTINGS;

const EXAMPLES: [&str; 5] = [
    "examples/checkpoint.c",
    "examples/checkpoint_mpi.c",
    "examples/checkpoint_resized.c",
    "examples/conjugate_gradient.c",
    "examples/stencil.c",
];

fn page(name: &str) -> String {
    fs::read_to_string(bindings().join("../../docs/guide").join(name)).unwrap()
}

/// The blocks of a page in one of these languages.
fn blocks(page: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut block: Option<String> = None;
    for line in page.lines() {
        match (&mut block, line) {
            (None, "```c") => block = Some(String::new()),
            (None, _) => assert!(!line.starts_with("```"), "a block in a language that is not looked at: {line}"),
            (Some(_), "```") => blocks.extend(block.take()),
            (Some(block), _) => *block += &format!("{line}\n"),
        }
    }
    assert!(block.is_none(), "a block does not end");
    blocks
}

#[test]
fn the_code_of_the_pages_is_that_of_the_examples() {
    let examples = EXAMPLES.map(|name| fs::read_to_string(bindings().join(name)).unwrap());
    for (name, count_min) in [("checkpoint-c.md", 5), ("checkpoint-mpi.md", 4)] {
        let blocks = blocks(&page(name));
        assert!(blocks.len() >= count_min, "{name} has {} blocks", blocks.len());
        for block in blocks {
            assert!(examples.iter().any(|example| example.contains(&block)), "{name}: in no example:\n{block}");
        }
    }
}

#[test]
fn the_page_has_a_row_for_each_setting_and_no_other() {
    let page = page("checkpoint-c.md");
    let (_, table) = page.split_once("| name | value | without it |").unwrap();
    let rows = table.lines().skip(2).map_while(|line| line.strip_prefix("| `")?.split('`').next());
    let names: Vec<&str> = SETTINGS.iter().map(|(name, _)| *name).collect();
    assert_eq!(rows.collect::<Vec<_>>(), names);
}
