//! The rules of all rooms: the one list of what a finding can say, from which docs/findings.md is made.
//!
//! A finding is made from its rule alone, so none is missing in the list.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use surefoot_model::{Finding, Room, Severity, Subject};

/// What one kind of finding means, for whoever gets it.
#[derive(Debug)]
pub struct Rule {
    /// The room that finds it.
    pub room: Room,
    /// As in [`Finding::rule`]. One that ends with `-` is followed by the name of what it is about.
    pub name: &'static str,
    /// How bad it can be, the least first.
    pub severities: &'static [Severity],
    /// What holds when it is found: a sentence or more, with the limits that decide.
    pub meaning: &'static str,
    /// What its `since` is; empty where a finding of it gives none.
    pub since: &'static str,
    /// What a person does about it; empty where nothing is to be done.
    pub to_do: &'static str,
    /// The command to run next, and what it changes. `{name}` stands for the subject's name, `{cores}` for the list of cores.
    pub next: Option<(&'static str, &'static str)>,
}

/// The command that goes on from a finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Next {
    /// As a shell takes it.
    pub command: String,
    /// What running it changes, and what it shows.
    pub effect: String,
}

/// What to run next on account of a finding, on a host with these cores; `None` where no command helps.
pub fn next(finding: &Finding, cores: &str) -> Option<Next> {
    let (command, effect) = of(finding)?.next.filter(|_| finding.severity > Severity::Ok)?;
    let command = command.replace("{cores}", &in_shell(cores)).replace("{name}", &in_shell(&finding.subject.name));
    Some(Next { command, effect: effect.to_owned() })
}

/// The rule that a finding was made from; `None` for one of another release.
pub fn of(finding: &Finding) -> Option<&'static Rule> {
    let is_named = |rule: &Rule| match rule.name.strip_suffix('-') {
        Some(_) => finding.rule.starts_with(rule.name),
        None => finding.rule == rule.name,
    };
    // A rule's own name goes before one that only begins like it: `problems-left-out` before `problems-`.
    let own = all().filter(|rule| rule.room == finding.room && is_named(rule));
    own.max_by_key(|rule| (!rule.name.ends_with('-'), rule.name.len()))
}

/// A word as a shell takes it.
fn in_shell(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:@,+".contains(&byte);
    match !word.is_empty() && word.bytes().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

impl Rule {
    /// A finding of this rule.
    pub(crate) fn finding(&self, subject: Subject, severity: Severity, sentence: impl Into<String>) -> Finding {
        debug_assert!(!self.name.ends_with('-'), "{} is about something", self.name);
        self.named(self.name, subject, severity, sentence)
    }

    /// A finding of this rule about a part that has no subject of its own.
    pub(crate) fn finding_about(
        &self,
        part: &str,
        subject: Subject,
        severity: Severity,
        sentence: impl Into<String>,
    ) -> Finding {
        debug_assert!(self.name.ends_with('-'), "{} is about nothing", self.name);
        self.named(&format!("{}{part}", self.name), subject, severity, sentence)
    }

    fn named(&self, name: &str, subject: Subject, severity: Severity, sentence: impl Into<String>) -> Finding {
        debug_assert!(self.severities.contains(&severity), "{name} is never {severity:?}, says docs/findings.md");
        Finding::new(self.room, name, subject, severity, sentence)
    }
}

/// Declares the rules of a room, each as a constant, and all of them as `RULES`.
macro_rules! rules {
    ($room:ident: $($constant:ident = $name:expr, [$($severity:ident),+], $meaning:expr, since $since:expr, to_do $to_do:expr $(, next $command:expr, $effect:expr)?;)+) => {
        $(pub(crate) const $constant: $crate::rules::Rule = $crate::rules::Rule {
            room: surefoot_model::Room::$room,
            name: $name,
            severities: &[$(surefoot_model::Severity::$severity),+],
            meaning: $meaning,
            since: $since,
            to_do: $to_do,
            next: $crate::rules::rules!(@next $($command, $effect)?),
        };)+
        /// Every rule of this room.
        pub(crate) const RULES: &[&$crate::rules::Rule] = &[$(&$constant),+];
    };
    (@next) => { None };
    (@next $command:expr, $effect:expr) => { Some(($command, $effect)) };
}
pub(crate) use rules;

/// Every rule of every room, in the order of the rooms.
pub fn all() -> impl Iterator<Item = &'static Rule> {
    crate::RULES.into_iter().flatten().copied()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::collections::BTreeSet;
    use std::fmt::Write;
    use std::path::{Path, PathBuf};

    fn in_project(path: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
    }

    /// The alerts of Prometheus that a rule can raise.
    fn alerts(rule: &Rule) -> Vec<String> {
        let room = rule.room.as_str();
        let room = format!("{}{}", room[..1].to_uppercase(), &room[1..]);
        let of = |severity: &Severity| match severity {
            Severity::Ok | Severity::Notice => None,
            Severity::Warning => Some(format!("Surefoot{room}Warning")),
            Severity::Critical => Some(format!("Surefoot{room}Critical")),
        };
        rule.severities.iter().filter_map(of).collect()
    }

    fn document() -> String {
        let mut text = "# Findings\n\n\
            <!-- Made from crates/rooms/src/*/rules.rs: SUREFOOT_UPDATE=1 cargo test -p surefoot-rooms --lib rules -->\n\n\
            Every finding that a room can make. The key of a finding is `ROOM/RULE/SUBJECT`, with the name of the subject where it has one: \
            `memory/rate/dimm/A1`. Severities are OK, NOTICE, WARNING and CRITICAL. `contrib/prometheus/surefoot.rules.yml` raises \
            an alert for a WARNING that lasts 5 minutes and for a CRITICAL that lasts 1 minute; below it stands beside its severity. \
            *Since* is what the field `since` holds; in rules without it, the time at which the watch first saw the finding at its present severity.\n"
            .to_owned();
        let mut room = None;
        for rule in all() {
            if room.replace(rule.room) != Some(rule.room) {
                write!(text, "\n## {}\n", rule.room.label()).unwrap();
            }
            let name = if rule.name.ends_with('-') { format!("{}NAME", rule.name) } else { rule.name.to_owned() };
            let mut bad: Vec<String> = rule.severities.iter().map(|one| one.as_str().to_uppercase()).collect();
            bad.extend(alerts(rule).iter().map(|name| format!("alert `{name}`")));
            write!(text, "\n### `{}/{name}`\n\n{}. {}\n", rule.room, bad.join(", "), rule.meaning).unwrap();
            if !rule.since.is_empty() {
                write!(text, "\n*Since:* {}.\n", rule.since).unwrap();
            }
            if !rule.to_do.is_empty() {
                write!(text, "\n*What to do:* {}\n", rule.to_do).unwrap();
            }
            if let Some((command, effect)) = rule.next {
                write!(text, "\n*Run next:* `{command}`. {effect}\n").unwrap();
            }
        }
        text
    }

    #[test]
    fn the_document_lists_every_rule() {
        let path = in_project("docs/findings.md");
        let text = document();
        if std::env::var_os("SUREFOOT_UPDATE").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let hint = "run SUREFOOT_UPDATE=1 cargo test -p surefoot-rooms --lib rules";
        assert!(
            std::fs::read_to_string(&path).unwrap_or_default() == text,
            "docs/findings.md is not up to date; {hint}"
        );
    }

    #[test]
    fn names_are_unique_and_the_alerts_exist() {
        let shipped = std::fs::read_to_string(in_project("contrib/prometheus/surefoot.rules.yml")).unwrap();
        let mut names = BTreeSet::new();
        for rule in all() {
            assert!(names.insert((rule.room, rule.name)), "{}/{} is there twice", rule.room, rule.name);
            assert!(rule.severities.is_sorted(), "{}: the least first", rule.name);
            let is_bad = rule.severities.last() >= Some(&Severity::Warning);
            assert!(!is_bad || !rule.to_do.is_empty(), "{}: what is one to do?", rule.name);
            for alert in alerts(rule) {
                assert!(shipped.contains(&format!("- alert: {alert}\n")), "{alert}");
            }
        }
    }

    #[test]
    fn the_next_command_names_the_subject_as_a_shell_takes_it() {
        let hung = |name: &str, severity| {
            let subject = Subject::new(surefoot_model::SubjectKind::Interface, name);
            Finding::new(Room::Nic, "hung", subject, severity, "It hangs.")
        };
        let command = |finding: &Finding| next(finding, "0-3").unwrap().command;
        let ends = |name: &str| command(&hung(name, Severity::Critical));
        assert_eq!(ends("eth0.7"), "surefoot nic health --interface eth0.7 --recover");
        assert_eq!(ends("a b'$(c)"), r"surefoot nic health --interface 'a b'\''$(c)' --recover");
        assert_eq!(next(&hung("eth0", Severity::Ok), "0"), None, "nothing is wrong");
        let lost = Finding::new(Room::Stall, "lost-time", Subject::host(), Severity::Warning, "It is lost.");
        assert_eq!(command(&lost), "surefoot stall who --cpu 0-3 --duration 10s");
        let foreign = Finding { rule: "of-a-later-release".to_owned(), ..lost };
        assert_eq!(next(&foreign, "0"), None);
    }

    /// `problems-` goes with any name, `problems-left-out` is a rule of its own.
    #[test]
    fn a_finding_is_of_the_rule_that_names_most_of_it() {
        let rule = |name: &str| {
            let finding = Finding::new(Room::Checkpoint, name, Subject::host(), Severity::Notice, "It is.");
            of(&finding).map(|rule| rule.name)
        };
        assert_eq!(rule("problems"), Some("problems"));
        assert_eq!(rule("problems-1000"), Some("problems-"));
        assert_eq!(rule("problems-left-out"), Some("problems-left-out"));
        assert_eq!(rule("problem"), None);
    }

    #[test]
    #[should_panic(expected = "is never Critical")]
    fn a_severity_that_the_document_does_not_know_is_a_bug() {
        let is_it = |rule: &&Rule| rule.severities == [Severity::Ok] && !rule.name.ends_with('-');
        let rule = all().find(is_it).unwrap();
        rule.finding(Subject::host(), Severity::Critical, "It is bad.");
    }
}
