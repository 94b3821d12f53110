//! One judge: severity is decided in Rust, and nothing is decided by the text of a sentence.
//!
//! Three rules. The page displays severities and never names one: it neither gives a row a severity nor compares one. And no
//! condition in the crates depends on prose: sentences are for people, and who rewords one must not change what is done.
//! Every finding is made from a rule that docs/findings.md lists.
//! Readers of text that other programs write have no choice; they are in the table, with the writer of that text.

use crate::patterns::{is_in_matches, is_listed_and_compared, is_matched};
use crate::rust_text;
use crate::workspace::Workspace;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Severities that only `severity.ts` may name; that all is well is no judgement.
const SEVERITIES: &[&str] = &["notice", "warning", "critical"];
/// The file that knows their order, and what it is made from.
const ORDER: &[&str] = &["ui/src/severity.ts", "ui/src/types.ts"];

/// Files that use the name of a severity for something else, how often, and for what.
const SIGNS: &[(&str, usize, &str)] = &[
    ("ui/src/components/header.tsx", 2, "the sign of the page's own trouble"),
    ("ui/src/rooms/checkpoint/components/decisions.tsx", 1, "the sign of a failure"),
    ("ui/src/rooms/checkpoint/components/live.tsx", 3, "signs of the states of a generation"),
    ("ui/src/rooms/stall/components/trust.tsx", 2, "signs of what works on this host"),
    ("ui/src/rooms/stall/components/who.tsx", 1, "the sign of a remark"),
];

/// What compares a text with another. What follows is looked at.
const COMPARES: &[&str] = &[
    ".contains(",
    ".starts_with(",
    ".ends_with(",
    ".strip_prefix(",
    ".strip_suffix(",
    ".trim_start_matches(",
    ".trim_end_matches(",
    ".split_once(",
    ".rsplit_once(",
    ".eq_ignore_ascii_case(",
    ".eq(",
    ".ne(",
    ".find(",
    ".rfind(",
    ".matches(",
    ".match_indices(",
    "==",
    "!=",
];

/// Crates that only tests use.
const FREE: &[&str] = &["crates/testkit"];

const KERNEL: &str = "text of the kernel";
const LOG: &str = "logs that other programs wrote";
const CAUSE: &str = "names of causes and raisers in the ledger and in recordings, which are no sentences";
const WORDING: &str = "our own words; they only choose how a report is worded";
/// Files whose conditions look at prose, how often, and whose words these are.
const READERS: &[(&str, usize, &str)] = &[
    ("crates/checkpoint/src/session/ranks/settings.rs", 1, "the name of a setting, which ranks compare"),
    ("crates/checkpoint/src/session/restart.rs", 1, WORDING),
    ("crates/cli/src/stall/audit.rs", 1, WORDING),
    ("bench/src/checkpoint/program.rs", 1, "what mpirun says of itself"),
    ("crates/memory/src/import/rasdaemon.rs", 1, "rasdaemon's database"),
    ("crates/memory/src/owner.rs", 2, KERNEL),
    ("crates/rooms/src/stall/phrase.rs", 2, CAUSE),
    ("crates/disturb/src/disturbance/guest/mod.rs", 1, "QEMU's names of threads"),
    ("crates/outside/src/http.rs", 1, "answers of other servers"),
    ("crates/foreign/src/words.rs", 1, "the standard library's text of an error"),
    ("crates/hostfs/src/identity/hypervisor.rs", 5, "signatures of hypervisors"),
    ("crates/hostfs/src/tracefs/format.rs", 1, KERNEL),
    ("crates/memory/src/bmc/sources.rs", 1, WORDING),
    ("crates/memory/src/doctor/log.rs", 7, KERNEL),
    ("crates/memory/src/follow/instance.rs", 1, KERNEL),
    ("crates/memory/src/follow/decode/cxl.rs", 1, KERNEL),
    ("crates/memory/src/follow/decode/memory_controller.rs", 1, KERNEL),
    ("crates/memory/src/import/kernel_log.rs", 21, LOG),
    ("crates/memory/src/import/kernel_time.rs", 2, LOG),
    ("crates/memory/src/import/mcelog.rs", 3, LOG),
    ("crates/memory/src/import/sel.rs", 14, LOG),
    ("crates/memory/src/reports/mod.rs", 3, "EDAC's words for an unknown label"),
    ("crates/memory/src/reports/mc_event.rs", 1, KERNEL),
    ("crates/model/src/journal.rs", 1, "journals of older releases, which wrote no outcome"),
    ("crates/probes/src/load.rs", 2, "libbpf's log, with a mark of ours in it"),
    ("crates/remedy/src/act/drain/slurm.rs", 3, "Slurm's answers"),
    ("crates/remedy/src/act/ipmi.rs", 2, "ipmitool's answers"),
    ("crates/remedy/src/act/stress.rs", 2, "stressapptest's summary"),
    ("crates/who/src/advice/evidence.rs", 2, CAUSE),
    ("crates/who/src/advice/tasks.rs", 2, CAUSE),
    ("crates/who/src/advice/timers.rs", 1, "the kernel's lines about an interrupt, as the report keeps them"),
    ("crates/store/src/history/write.rs", 1, "the name of a row of the history"),
];

/// The files that make findings: elsewhere one would be missing in docs/findings.md.
const MAKERS: &[&str] = &["crates/rooms/src/rules.rs", "crates/model/src/check.rs"];

fn without_rule(file: &Path, text: &str) -> Option<String> {
    let is_maker = MAKERS.iter().any(|name| file == Path::new(name));
    (!is_maker && text.contains("Finding::new("))
        .then(|| format!("{}: makes a finding without a rule of crates/rooms/src/rules.rs", file.display()))
}

/// What breaks any of them.
pub fn faults(workspace: &Workspace, files: &[PathBuf]) -> Vec<String> {
    let sources: Vec<(&PathBuf, String)> = files
        .iter()
        .filter(|file| is_source(file))
        .filter_map(|file| Some((file, rust_text::without_tests(&workspace.text(file)?))))
        .collect();
    let texts: BTreeMap<&Path, &str> = sources.iter().map(|(file, text)| (file.as_path(), text.as_str())).collect();
    let is_test = |file: &Path| {
        let (Some(folder), Some(stem)) = (file.parent(), file.file_stem()) else { return false };
        let declares = format!("#[cfg(test)]\nmod {};", stem.to_string_lossy());
        let above = [folder.join("mod.rs"), folder.join("lib.rs"), folder.with_extension("rs")];
        above.iter().any(|above| texts.get(above.as_path()).is_some_and(|text| text.contains(&declares)))
    };
    let sources: Vec<&(&PathBuf, String)> = sources.iter().filter(|(file, _)| !is_test(file)).collect();
    let mut sentences: BTreeMap<PathBuf, BTreeSet<String>> = BTreeMap::new();
    for (file, text) in sources.iter().copied() {
        sentences.entry(crate_of(file)).or_default().extend(named_sentences(text));
    }
    let mut faults = Vec::new();
    for (file, text) in sources.iter().copied() {
        let found = conditions(text, &sentences[&crate_of(file)]);
        faults.extend(held_to(file, found, READERS, "a condition depends on prose", PROSE_ADVICE));
        faults.extend(without_rule(file, text));
    }
    for file in files.iter().filter(|file| is_page(file)) {
        let named = workspace.text(file).map_or_else(Vec::new, |text| severities(&text));
        faults.extend(held_to(file, named, SIGNS, "names a severity", PAGE_ADVICE));
    }
    let is_gone = |row: &&(&str, usize, &str)| !files.iter().any(|file| file == Path::new(row.0));
    faults.extend(
        READERS.iter().chain(SIGNS).filter(is_gone).map(|row| format!("{}: in xtask/src/judge.rs, and gone", row.0)),
    );
    faults
}

const PROSE_ADVICE: &str =
    "decide by an enum or a field; where another program wrote the text, say so in xtask/src/judge.rs";
const PAGE_ADVICE: &str = "let the answer carry the severity; the page displays it";

/// Faults of a file that has more or fewer such places than its row says.
fn held_to(
    file: &Path,
    places: Vec<(usize, String)>,
    rows: &[(&str, usize, &str)],
    what: &str,
    advice: &str,
) -> Option<String> {
    let allowed = rows.iter().find(|row| file == Path::new(row.0)).map_or(0, |row| row.1);
    let name = file.display();
    match places.len() {
        count if count == allowed => None,
        count if count < allowed => {
            Some(format!("{name}: {what} {count} times; correct the {allowed} in xtask/src/judge.rs"))
        }
        _ => {
            let listed: Vec<String> = places.iter().map(|(line, text)| format!("line {line}: '{text}'")).collect();
            Some(format!("{name}: {what} ({}); {advice}", listed.join(", ")))
        }
    }
}

pub fn is_source(file: &Path) -> bool {
    let is_test = file.file_stem().is_some_and(|stem| {
        let stem = stem.to_string_lossy();
        ["tests", "testing"].iter().any(|test| stem == *test) || stem.ends_with("_tests")
    });
    let has_part = |name: &str| file.components().any(|part| part.as_os_str() == name);
    let is_rust = file.extension().is_some_and(|extension| extension == "rs");
    is_rust
        && !is_test
        && file.starts_with("crates")
        && has_part("src")
        && !has_part("tests")
        && !FREE.iter().any(|free| file.starts_with(free))
}

/// `crates/remedy` of a file in it: a constant is looked for in its own crate, as others have constants of the same name.
fn crate_of(file: &Path) -> PathBuf {
    file.components().take(2).collect()
}

fn is_page(file: &Path) -> bool {
    let is_code = file.extension().is_some_and(|extension| extension == "ts" || extension == "tsx");
    is_code && file.starts_with("ui/src") && !ORDER.iter().any(|known| file == Path::new(known))
}

/// The severities that a file of the page names, with their lines.
fn severities(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        for name in SEVERITIES {
            let count: usize =
                ['"', '\'', '`'].iter().map(|quote| code.matches(&format!("{quote}{name}{quote}")).count()).sum();
            found.extend(std::iter::repeat_n((number + 1, (*name).to_owned()), count));
        }
    }
    found
}

/// A source file, and the same with comments and strings blanked: each byte has its place in both.
pub struct Letters<'a> {
    all: &'a str,
    code: String,
    strings: Vec<Range<usize>>,
}

impl<'a> Letters<'a> {
    pub fn of(all: &'a str) -> Self {
        Letters { all, code: rust_text::code_with_quotes(all), strings: rust_text::code_and_strings(all).1 }
    }

    pub fn line(&self, at: usize) -> usize {
        1 + self.all.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count()
    }

    /// The place of the next letter that is no space or `&`.
    fn next(&self, at: usize) -> usize {
        let gap = self.all.as_bytes()[at..].iter().take_while(|byte| byte.is_ascii_whitespace() || **byte == b'&');
        at + gap.count()
    }

    /// Its strings: where each begins, its inside, where it ends.
    pub fn strings(&self) -> impl Iterator<Item = (usize, String, usize)> {
        self.strings.iter().map(|place| {
            let raw = &self.all[place.clone()];
            let inside = || raw.trim_start_matches(['r', '#']).trim_end_matches('#').trim_matches('"').to_owned();
            (place.start, self.string(place.start).map_or_else(inside, |(inside, _)| inside), place.end)
        })
    }

    /// The inside of the string that begins here, and the place after it.
    pub fn string(&self, at: usize) -> Option<(String, usize)> {
        let rest = self.all.get(at..)?.strip_prefix('"')?;
        let (mut inside, mut is_escaped) = (String::new(), false);
        for (offset, letter) in rest.char_indices() {
            match letter {
                '"' if !is_escaped => return Some((inside, at + 1 + offset + 1)),
                '\\' if !is_escaped => is_escaped = true,
                letter => {
                    inside.push(letter);
                    is_escaped = false;
                }
            }
        }
        None
    }

    /// The last part of the path that begins here: `NAME` of `a::b::NAME`.
    fn name(&self, at: usize) -> &str {
        let is_of_path = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | ':');
        let path = self.code.get(at..).unwrap_or_default();
        let path = &path[..path.find(|letter| !is_of_path(letter)).unwrap_or(path.len())];
        path.rsplit(':').find(|part| !part.is_empty()).unwrap_or_default()
    }
}

/// The constants of a file that are prose.
fn named_sentences(text: &str) -> Vec<String> {
    let letters = Letters::of(text);
    let mut names = Vec::new();
    for (at, _) in letters.code.match_indices("const ") {
        let name = letters.name(at + "const ".len());
        let end = letters.code[at..].find(['=', ';', '{', '(']);
        let value = end.and_then(|end| letters.string(letters.next(at + end + 1)));
        if value.is_some_and(|(value, _)| is_prose(&value)) {
            names.push(name.to_owned());
        }
    }
    names
}

/// The conditions of a file that look at prose, with their lines: texts that are compared, and patterns.
fn conditions(text: &str, sentences: &BTreeSet<String>) -> Vec<(usize, String)> {
    let letters = Letters::of(text);
    let mut found = Vec::new();
    for (at, inside, end) in letters.strings() {
        let (before, after) = (&letters.code[..at], &letters.code[end..]);
        if !is_prose(&inside) {
            continue;
        }
        if is_in_matches(before) || is_matched(after) || is_listed_and_compared(after) {
            found.push((at, inside));
        }
    }
    for words in COMPARES {
        for (at, _) in letters.code.match_indices(words) {
            let place = letters.next(at + words.len());
            let named = Some(letters.name(place)).filter(|name| sentences.contains(*name));
            let inside = letters.string(place).map(|(inside, _)| inside).filter(|inside| is_prose(inside));
            found.extend(inside.or_else(|| named.map(str::to_owned)).map(|inside| (at, inside)));
        }
    }
    found.sort();
    found.into_iter().map(|(at, inside)| (letters.line(at), inside)).collect()
}

/// Whether a text has two words side by side.
fn is_prose(text: &str) -> bool {
    let is_word = |part: &str| {
        let word = part.trim_matches(|letter: char| letter.is_ascii_punctuation());
        word.len() > 1 && word.chars().all(|letter| letter.is_ascii_alphabetic() || matches!(letter, '\'' | '-'))
    };
    let parts: Vec<&str> = text.split(' ').collect();
    parts.windows(2).any(|pair| is_word(pair[0]) && is_word(pair[1]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let sentences = named_sentences(text).into_iter().collect();
        conditions(text, &sentences).into_iter().map(|(_, inside)| inside).collect()
    }

    #[test]
    fn a_condition_on_prose_is_found_wherever_it_hides() {
        assert_eq!(found(r#"if why.contains("no table") {}"#), ["no table"]);
        assert_eq!(found("if why.contains(\n    \"an SSH session\",\n) {}"), ["an SSH session"]);
        assert_eq!(found(r#"a == "there was no checkpoint""#), ["there was no checkpoint"]);
        assert_eq!(found(r#"a.strip_prefix("waits for ")"#), ["waits for "]);
        assert_eq!(found(r#"match a { "it is paused" => 1, "paused" => 2, _ => 3 }"#), ["it is paused"]);
        for text in [
            r#"if matches!(why, "it is so") {}"#,
            r#"if matches!(why, Some("paused" | "it is so")) {}"#,
            r#"if ["it is so", "so"].contains(&why) {}"#,
            r#"if why.find("it is so").is_some() {}"#,
            r#"if why.eq("it is so") {}"#,
            r#"match a { "it is so" | "so" => 1, _ => 2 }"#,
            r#"match a { "it is so" if b => 1, _ => 2 }"#,
            r#"match a { (Some("it is so"), 1) => 1, _ => 2 }"#,
            r#"if let Some("it is so") = a {}"#,
            r#"if a.next() == Some('"') {} match a { "it is so" => 1, _ => 2 }"#,
        ] {
            assert_eq!(found(text), ["it is so"], "{text}");
        }
        let named = "pub(super) const PAUSED: &str = \"everything is paused\";\nif a == decide::PAUSED || a.starts_with(PAUSED) {}";
        assert_eq!(found(named), ["PAUSED", "PAUSED"]);
        assert_eq!(conditions("\n\na == \"it is so\"", &BTreeSet::new())[0].0, 3);
    }

    #[test]
    fn words_formats_comments_and_what_is_only_said_are_no_conditions() {
        for text in [
            r#"a == "two_words""#,
            r#"a.contains("critical")"#,
            r#"a.split_once(": ")"#,
            r#"a == format!("case {id} of the same host")"#,
            r#"say("everything is paused")"#,
            r#"// a == "it is so""#,
            r#"let b = "a == \"it is so\"";"#,
            "const A: &str = \"it is so\"; say(A);",
            "const A: u32 = 3; if b == A {}",
            r#"match a { 1 => "it is so", _ => "it is not" }"#,
            r#"say(a, "it is so"); if b {}"#,
            r#"match a { 1 => { "it is so" } "two" => 2 }"#,
            r#"match a { "one " => say("it is so "), "two " | "three " => 2 }"#,
            r#"if a { say("it is so") }  if b {}"#,
        ] {
            assert_eq!(found(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn the_page_names_no_severity() {
        let planted = "const S = { hung: \"critical\" };\nif (severity === \"warning\") go();\n// \"notice\"\nsay(\"ok\", 'notice', `critical`);";
        let found: Vec<_> = severities(planted).into_iter().map(|(line, name)| format!("{line} {name}")).collect();
        assert_eq!(found, ["1 critical", "2 warning", "4 notice", "4 critical"]);
        assert!(is_page(Path::new("ui/src/rooms/nic/order.ts")) && !is_page(Path::new("ui/src/severity.ts")));
        assert!(!is_page(Path::new("ui/test/nic.test.ts")));
    }

    #[test]
    fn more_and_fewer_places_than_the_table_says_are_faults() {
        let place = || (1, "it is so".to_owned());
        let rows = [("a.rs", 1, "why")];
        let of = |count: usize| held_to(Path::new("a.rs"), vec![place(); count], &rows, "does so", "do not");
        assert!(of(0).is_some_and(|fault| fault.contains("correct the 1")));
        assert_eq!(of(1), None);
        assert!(of(2).is_some_and(|fault| fault.ends_with("do not")));
    }

    #[test]
    fn a_finding_without_a_rule_is_a_fault() {
        let text = "fn of() -> Finding { Finding::new(Room::Nic, \"new\", subject, severity, sentence) }";
        assert!(without_rule(Path::new("crates/rooms/src/nic/findings.rs"), text).is_some());
        assert_eq!(without_rule(Path::new(MAKERS[0]), text), None);
        assert_eq!(without_rule(Path::new("crates/cli/src/a.rs"), "rules::NEW.finding(subject)"), None);
    }

    #[test]
    fn tests_and_what_only_tests_use_may_compare_sentences() {
        assert!(is_source(Path::new("crates/remedy/src/decide/mod.rs")));
        for file in [
            "crates/remedy/src/decide_tests.rs",
            "crates/remedy/tests/suite/cases.rs",
            "crates/testkit/src/redfish.rs",
            "xtask/src/judge.rs",
        ] {
            assert!(!is_source(Path::new(file)), "{file}");
        }
    }
}
