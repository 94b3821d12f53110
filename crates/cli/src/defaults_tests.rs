//! Makes docs/defaults.md: every default of an option, every setting, and every limit and interval in the sources.

#![allow(clippy::unwrap_used)]

use crate::args::Arguments;
use clap::CommandFactory;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use surefoot_checkpoint::config::{SETTINGS, memory_default};
use surefoot_checkpoint::settings::{Settings, Surroundings};

const HEAD: &str = "# Defaults, intervals and limits\n\n\
<!-- Made from the sources: SUREFOOT_UPDATE=1 cargo test -p surefoot-cli --bin surefoot defaults -->\n\n\
What you can set stands first: [options](#options), [settings of the watch](#settings-of-the-watch) and [settings of checkpoints](#settings-of-checkpoints). Policies and checks of \
remedies have theirs in [the guide](guide/remedy-policies.md). The last part lists [the limits and intervals in the sources](#limits-and-intervals), \
which are set there alone.\n";

/// Words in the names of constants that say that they limit or time something.
const WORDS: &[&str] = &[
    "MAX", "MIN", "LIMIT", "PERIOD", "INTERVAL", "TIMEOUT", "PATIENCE", "RETRY", "WAIT", "WAITING", "EVERY",
    "DEADLINE", "STALE", "KEPT", "GRACE", "RECENT", "DEFAULT", "REST", "PAUSE", "CAPACITY", "DEPTH", "DELAY", "BUDGET",
    "ONCE",
];
/// The types of numbers and times.
const TYPES: &[&str] = &["Duration", "u8", "u16", "u32", "u64", "usize", "i32", "i64", "f64"];
/// Crates that only tests use.
const FOR_TESTS: &[&str] = &["testkit", "fuzz"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A text as a cell of a table.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

/// The first sentence of a text.
fn first_sentence(text: &str) -> &str {
    text.find(". ").map_or(text, |end| &text[..end]).trim_end_matches('.')
}

fn options(command: &clap::Command, name: &str, text: &mut String) {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        options(below, &format!("{name} {}", below.get_name()), text);
    }
    for option in command.get_arguments().filter(|option| !option.is_hide_set()) {
        let defaults: Vec<_> = option.get_default_values().iter().map(|one| one.to_string_lossy()).collect();
        // A switch is off.
        let (Some(long), false) = (option.get_long(), defaults.is_empty() || defaults == ["false"]) else { continue };
        let help = option.get_help().map(ToString::to_string).unwrap_or_default();
        writeln!(text, "| `{name}` | `--{long}` | `{}` | {} |", defaults.join(" "), cell(first_sentence(&help)))
            .unwrap();
    }
}

fn settings(text: &mut String) {
    let mut settings = Settings::of(&Surroundings::default(), "", memory_default()).unwrap();
    settings.set("durable", "/ssd").unwrap();
    settings.set("shared", "/shared").unwrap();
    let told = settings.told();
    for (name, meaning) in SETTINGS {
        let value = match *name {
            // The number of the user who asks.
            "memory" => "/dev/shm/surefoot-UID",
            "durable" | "shared" => "none",
            name => told.iter().find(|told| told.name == name).map_or("", |told| told.value.as_str()),
        };
        writeln!(text, "| `{name}` | `{value}` | {} |", cell(meaning)).unwrap();
    }
}

/// A constant that limits or times something.
struct Limit {
    name: String,
    value: String,
    meaning: String,
    file: String,
}

/// The constants of a source file, without those of its tests.
fn limits_in(file: &str, source: &str) -> Vec<Limit> {
    let source = source.find("#[cfg(test)]\nmod ").map_or(source, |tests| &source[..tests]);
    let mut found = Vec::new();
    let mut meaning = String::new();
    let mut lines = source.lines();
    while let Some(line) = lines.next() {
        let code = line.trim_start();
        if let Some(words) = code.strip_prefix("///") {
            meaning = format!("{meaning} {}", words.trim());
            continue;
        }
        let declared = code.split_once("const ").filter(|(before, _)| before.is_empty() || before.starts_with("pub"));
        if let Some((name, (kind, mut value))) = declared.and_then(|(_, rest)| {
            let (name, rest) = rest.split_once(": ")?;
            Some((name, rest.split_once(" =").map(|(kind, value)| (kind, value.trim_start().to_owned()))?))
        }) {
            while !value.ends_with(';') {
                let Some(more) = lines.next() else { break };
                value = format!("{value} {}", more.trim()).trim_start().to_owned();
            }
            let is_limit = name.split('_').any(|word| WORDS.contains(&word)) && TYPES.contains(&kind);
            if is_limit {
                let value = said(name, value.trim_end_matches(';'));
                let meaning = cell(first_sentence(meaning.trim()));
                found.push(Limit { name: name.to_owned(), value, meaning, file: file.to_owned() });
            }
        }
        if !code.starts_with("#[") {
            meaning.clear();
        }
    }
    found
}

/// A value as people say it where it is plain, else as it stands in the source.
fn said(name: &str, value: &str) -> String {
    let duration = |unit: &str| {
        let inside = value.strip_prefix(&format!("Duration::from_{unit}("))?.strip_suffix(')')?;
        number(inside)
    };
    let unit = name.rsplit('_').find(|word| ["NS", "US", "MS", "S", "BYTES"].contains(word));
    let told = match (duration("secs"), duration("millis"), duration("micros"), number(value), unit) {
        (Some(s), ..) => Some(time(s.saturating_mul(1_000_000_000))),
        (_, Some(ms), ..) => Some(time(ms.saturating_mul(1_000_000))),
        (_, _, Some(us), ..) => Some(time(us.saturating_mul(1_000))),
        (.., Some(bytes), Some("BYTES")) => Some(size(bytes)),
        (.., Some(ns), Some("NS")) => Some(time(ns)),
        (.., Some(us), Some("US")) => Some(time(us.saturating_mul(1_000))),
        (.., Some(ms), Some("MS")) => Some(time(ms.saturating_mul(1_000_000))),
        (.., Some(s), Some("S")) => Some(time(s.saturating_mul(1_000_000_000))),
        (.., Some(count), _) => Some(count.to_string()),
        _ => None,
    };
    told.unwrap_or_else(|| format!("`{}`", cell(value)))
}

/// A product or shift of numbers.
fn number(value: &str) -> Option<u64> {
    let plain = |text: &str| {
        let digits: String = text.trim().chars().filter(|letter| *letter != '_').collect();
        digits.parse::<u64>().ok()
    };
    match value.split_once("<<") {
        Some((left, right)) => number(left)?.checked_shl(u32::try_from(plain(right)?).ok()?),
        None => value.split('*').map(plain).try_fold(1u64, |product, factor| product.checked_mul(factor?)),
    }
}

fn time(ns: u64) -> String {
    const UNITS: [(u64, &str); 7] = [
        (86_400_000_000_000, "d"),
        (3_600_000_000_000, "h"),
        (60_000_000_000, "min"),
        (1_000_000_000, "s"),
        (1_000_000, "ms"),
        (1_000, "us"),
        (1, "ns"),
    ];
    let fits = UNITS.iter().find(|(unit, _)| ns >= *unit && ns.is_multiple_of(*unit));
    fits.map_or("0".to_owned(), |(unit, name)| format!("{} {name}", ns / unit))
}

fn size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let fits = UNITS.iter().find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit));
    fits.map_or(format!("{bytes} bytes"), |(unit, name)| format!("{} {name}", bytes / unit))
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let (path, name) = (entry.path(), entry.file_name().into_string().unwrap());
        if path.is_dir() && name != "tests" {
            sources(&path, found);
        } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
            found.push(path);
        }
    }
}

/// The limits of all crates: folder of the crate, and what is in it by file and line.
fn limits() -> Vec<(String, Vec<Limit>)> {
    let mut crates = Vec::new();
    for group in ["crates", "bindings"] {
        for entry in std::fs::read_dir(root().join(group)).unwrap().map(Result::unwrap) {
            let name = entry.file_name().into_string().unwrap();
            let source = entry.path().join("src");
            if !source.is_dir() || FOR_TESTS.contains(&name.as_str()) {
                continue;
            }
            let mut files = Vec::new();
            sources(&source, &mut files);
            files.sort();
            let in_file = |path: &PathBuf| {
                let file = path.strip_prefix(&source).unwrap().to_string_lossy().into_owned();
                limits_in(&file, &std::fs::read_to_string(path).unwrap())
            };
            let found: Vec<Limit> = files.iter().flat_map(in_file).collect();
            if !found.is_empty() {
                crates.push((format!("{group}/{name}"), found));
            }
        }
    }
    crates.sort_by(|one, other| one.0.cmp(&other.0));
    crates
}

fn document() -> String {
    let mut text = HEAD.to_owned();
    text.push_str("\n## Options\n\n| command | option | default | what it is |\n|---|---|---|---|\n");
    let command = Arguments::command();
    options(&command, command.get_name(), &mut text);
    text.push_str("\n## Settings of the watch\n\n");
    text.push_str("Of `surefoot watch`, by the environment or by a file (`/etc/surefoot/surefoot.toml`): [configuration](guide/configuration.md). An option goes before either. What is new takes effect at a reload, or when the watch starts again.\n\n");
    text.push_str("| setting and variable | default | allowed | option | takes effect | what it is |\n|---|---|---|---|---|---|\n");
    for row in crate::config::rows() {
        writeln!(text, "| {} |", row.map(|one| cell(&one)).join(" | ")).unwrap();
    }
    text.push_str("\n## Settings of checkpoints\n\n");
    text.push_str("Set by the program, a file or the environment: [which settings are in force](guide/checkpoint.md#which-settings-are-in-force). The defaults are those of a job with all three tiers.\n\n");
    text.push_str("| setting | default | what it is |\n|---|---|---|\n");
    settings(&mut text);
    text.push_str("\n## Limits and intervals\n");
    for (folder, limits) in limits() {
        write!(text, "\n### {folder}\n\n| constant | value | what it is | in `src/` |\n|---|---|---|---|\n").unwrap();
        for Limit { name, value, meaning, file } in limits {
            writeln!(text, "| `{name}` | {value} | {meaning} | {file} |").unwrap();
        }
    }
    text
}

#[test]
fn the_document_lists_every_default_and_limit() {
    let path = root().join("docs/defaults.md");
    let text = document();
    if std::env::var_os("SUREFOOT_UPDATE").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let first = text.lines().find(|line| !kept.lines().any(|other| other == *line));
    let hint = "run SUREFOOT_UPDATE=1 cargo test -p surefoot-cli --bin surefoot defaults";
    assert!(kept == text, "docs/defaults.md is not up to date; {hint}; the first line that it lacks: {first:?}");
}

#[test]
fn constants_are_found_with_their_meaning_and_said_in_units() {
    let source = "/// How many\n/// there may be. More.\n#[allow(dead_code)]\npub(super) const ROWS_MAX: usize = 4 * 1_024;\n\n\
        const TEXT_BYTES_MAX: u64 = 3 << 20;\nconst PERIOD: Duration = Duration::from_millis(1_500);\nconst RECENT_NS: u64 =\n    60_000_000_000;\n\
        const NAME_MAX: &str = \"no\";\nconst ROWS: usize = 7;\nconst REST: u64 = LONG * 2;\n#[cfg(test)]\nmod tests {\n    const A_MAX: u8 = 1;\n}\n";
    let found = limits_in("a.rs", source);
    let rows: Vec<(&str, &str, &str)> =
        found.iter().map(|limit| (limit.name.as_str(), limit.value.as_str(), limit.meaning.as_str())).collect();
    let expected = [
        ("ROWS_MAX", "4096", "How many there may be"),
        ("TEXT_BYTES_MAX", "3 MiB", ""),
        ("PERIOD", "1500 ms", ""),
        ("RECENT_NS", "1 min", ""),
        ("REST", "`LONG * 2`", ""),
    ];
    assert_eq!(rows, expected);
}
