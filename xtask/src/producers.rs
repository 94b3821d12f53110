//! Every variant of every event has a producer: a place outside of `model` and outside of tests that makes one.
//!
//! A word that nothing says leads to folds, findings and cards that wait for ever. The check reads text and not types: a name such as
//! `DisturbEvent::Gone` counts as made where it is no pattern.

use crate::patterns::{after_group, is_in_matches, is_listed_and_compared, is_matched};
use crate::rust_text;
use crate::workspace::{Checked, Workspace};
use std::path::Path;

/// Where the events are defined.
const MODEL: &str = "crates/model/src";
/// The enums whose variants are events, or say what an event is about.
const EVENTS: &[&str] = &[
    "Event",
    "CheckpointEvent",
    "MemoryEvent",
    "InterfaceEvent",
    "DisturbEvent",
    "JournalEvent",
    "DeedAction",
    "DeedOutcome",
    "DeedReason",
    "Withheld",
    "Observed",
    "Actor",
];
/// Deeds of journals that `model` itself reads as deeds: what their lines say is made where the lines are.
const READ_IN_MODEL: &[&str] = &["crates/model/src/journal.rs", "crates/model/src/disturb.rs"];
/// What `model` itself puts in the place of what a viewer may not see.
const MADE_IN_MODEL: &[&str] = &["NotShown"];

/// Looks for variants that nothing makes.
pub fn check(workspace: &Workspace) -> Result<Checked, String> {
    let Some(files) = workspace.files() else {
        return Ok(Checked::NotRun("this is not a git checkout, and the files are listed by git".into()));
    };
    let is_rust = |file: &&std::path::PathBuf| file.extension().is_some_and(|extension| extension == "rs");
    let is_source = |file: &Path| {
        let is_in_model = file.starts_with(MODEL) && !READ_IN_MODEL.iter().any(|read| file == Path::new(read));
        let is_product = file.starts_with("crates") || file.starts_with("bindings");
        let is_test = file.components().any(|part| part.as_os_str() == "tests" || part.as_os_str() == "testkit")
            || file.file_stem().is_some_and(|stem| stem == "tests" || stem.to_string_lossy().ends_with("_tests"));
        is_product && !is_in_model && !is_test
    };
    let code =
        |file: &Path| rust_text::code_with_quotes(&rust_text::without_tests(&workspace.text(file).unwrap_or_default()));
    let (mut defined, mut sources) = (String::new(), String::new());
    for file in files.iter().filter(is_rust) {
        if file.starts_with(MODEL) {
            defined += &code(file);
        }
        if is_source(file) {
            sources += &code(file);
        }
    }
    let mut faults = Vec::new();
    let mut count = 0;
    for name in EVENTS {
        let variants = variants_of(&defined, name);
        if variants.is_empty() {
            faults.push(format!("{MODEL} has no enum {name}"));
        }
        count += variants.len();
        let asked = variants.iter().filter(|variant| !MADE_IN_MODEL.contains(&variant.as_str()));
        let unmade = asked.filter(|variant| !is_made(&sources, &format!("{name}::{variant}")));
        faults.extend(unmade.map(|variant| format!("nothing outside of model and tests makes {name}::{variant}")));
    }
    Ok(Checked::from_faults(faults, format!("each of {count} variants of events is made somewhere")))
}

/// The variants of an enum, by the indentation that rustfmt gives them.
fn variants_of(code: &str, name: &str) -> Vec<String> {
    let head = format!("pub enum {name} {{");
    let lines = code.lines().skip_while(|line| line.trim_end() != head).skip(1).take_while(|line| *line != "}");
    let variant = |line: &str| {
        let rest = line.strip_prefix("    ")?;
        let word: String = rest.chars().take_while(|letter| letter.is_alphanumeric()).collect();
        word.starts_with(|letter: char| letter.is_ascii_uppercase()).then_some(word)
    };
    lines.filter_map(variant).collect()
}

/// Whether the name stands somewhere as an expression.
fn is_made(code: &str, name: &str) -> bool {
    code.match_indices(name).any(|(at, _)| {
        let (before, after) = (&code[..at], &code[at + name.len()..]);
        let is_longer_name = |letter: char| letter.is_alphanumeric() || letter == '_';
        let is_whole = !after.starts_with(is_longer_name) && !before.ends_with(is_longer_name);
        is_whole && !is_pattern(before, after)
    })
}

/// Whether it is a pattern, or an operand of a comparison.
fn is_pattern(before: &str, after: &str) -> bool {
    let rest = after_group(after).trim_start();
    let line = before.trim_end().trim_end_matches('&').trim_end();
    let compared = ["==", "!="].iter().any(|sign| rest.starts_with(sign) || line.ends_with(sign))
        || [".eq(", ".ne("].iter().any(|call| rest.starts_with(call) || line.ends_with(call))
        || line.ends_with(".contains(");
    compared
        || is_alternative(before.trim_end())
        || is_in_matches(before)
        || is_matched(after)
        || is_listed_and_compared(after)
}

/// Whether the bar before it is that of another pattern, and does not end the parameters of a closure.
fn is_alternative(before: &str) -> bool {
    let Some(rest) = before.strip_suffix('|').filter(|rest| !rest.ends_with('|')) else { return false };
    let line = rest.rsplit('\n').next().unwrap_or(rest);
    line.rsplit_once('|').is_none_or(|(_, between)| between.contains("::"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_are_found_with_and_without_fields() {
        let code = "pub enum Event {\n    #[serde(x)]\n    Host(HostDescription),\n    Gone {\n        job: String,\n    },\n    Idle,\n}\npub enum Other {\n    A,\n}\n";
        assert_eq!(variants_of(code, "Event"), ["Host", "Gone", "Idle"]);
        assert!(variants_of(code, "Missing").is_empty());
    }

    #[test]
    fn an_expression_makes_one_and_a_pattern_does_not() {
        for made in [
            "events.push(Event::A(x));",
            "Event::A { job: name }",
            "let event = Event::A;",
            "map(Event::A)",
            "matches!(x, Some(1)); push(Event::A(x))",
            "|| Event::A(1)",
            "map(|deed| Event::A(deed))",
            "Some(x) => Event::A(x),",
            "Some(x) => Event::A(x),\n    None => Event::B,\n}",
            "x => {\n    Event::A(x)\n}\n\"b\" => 1,",
            "let all = [Event::A, Event::B];\nif all.contains(&x) {}",
            "push(Event::A(x));\nif y {}",
            "x => {\n    Event::A(x)\n}\n_ if y => 1,",
            "Deed { outcome: Event::A, actor }",
            "if Event::B == x { Event::A } else { Event::C }",
        ] {
            assert!(is_made(made, "Event::A"), "{made}");
        }
        for pattern in [
            "Event::A(x) => 1,",
            "Event::A { job, .. } => 1,",
            "Event::A | Event::B => 1,",
            "Event::B | Event::A => 1,",
            "Event::B | Event::C | Event::A => 1,",
            "Event::A(x) if x > 1 => 1,",
            "let Event::A(x) = event else { return };",
            "if let Some(Event::A(x)) = event {",
            "Some(Event::A(_)) => 1,",
            "matches!(event, Event::A(_))",
            "one == Event::A",
            "Event::A == one",
            "[Event::A, Event::B].contains(&one)",
            "[\n    &Event::B,\n    &Event::A(1),\n]\n.contains(one)",
            "[Event::A].iter().any(|known| known == one)",
            "one.eq(&Event::A)",
            "one == &Event::A",
            "Event::A.eq(one)",
            "all.contains(&Event::A)",
            "fn f(Event::A(x): Event) {}",
            "fn f(Made { event: Event::A(x), .. }: Made) {}",
            "map(|(Event::A(x) | Event::B(x))| x)",
            "map(|Made { event: Event::A(x) }| x)",
            "(Event::A(x), y) if y > 1 => 1,",
            "Event::About",
            "MyEvent::A",
        ] {
            assert!(!is_made(pattern, "Event::A"), "{pattern}");
        }
    }
}
