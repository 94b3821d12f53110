use crate::Certainty;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// The part of Surefoot that a finding comes from: one per capability, and the watch itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Room {
    /// Lost time of cores.
    Stall,
    /// Memory errors.
    Memory,
    /// Checkpoints of jobs, and the drives beneath them.
    Checkpoint,
    /// Network interfaces.
    Nic,
    /// Injected disturbances.
    Disturb,
    /// Remedies and their cases.
    Remedy,
    /// Surefoot's own watch: sources that fail, data that are late, records that were dropped.
    Watch,
}

impl Room {
    /// Every room, in the order of the page.
    pub const ALL: [Room; 7] =
        [Room::Stall, Room::Memory, Room::Checkpoint, Room::Nic, Room::Disturb, Room::Remedy, Room::Watch];

    /// The room of a finding's key; `None` if it begins with the name of none.
    pub fn of_key(key: &str) -> Option<Room> {
        let (name, _) = key.split_once('/')?;
        Room::ALL.into_iter().find(|room| room.as_str() == name)
    }

    /// The name in JSON, URLs, metrics and keys.
    pub fn as_str(self) -> &'static str {
        match self {
            Room::Stall => "stall",
            Room::Memory => "memory",
            Room::Checkpoint => "checkpoint",
            Room::Nic => "nic",
            Room::Disturb => "disturb",
            Room::Remedy => "remedy",
            Room::Watch => "watch",
        }
    }

    /// The words for people.
    pub fn label(self) -> &'static str {
        match self {
            Room::Stall => "Lost time",
            Room::Memory => "Memory errors",
            Room::Checkpoint => "Checkpoints",
            Room::Nic => "Network interfaces",
            Room::Disturb => "Disturbances",
            Room::Remedy => "Remedies",
            Room::Watch => "Surefoot itself",
        }
    }
}

impl fmt::Display for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What kind of thing a finding is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SubjectKind {
    /// The whole machine.
    Host,
    /// A core, by the kernel's number.
    Core,
    /// A memory module, by [`crate::Dimm::id`]: its serial number where that is certain, otherwise its place.
    Dimm,
    /// A drive, by the kernel's name.
    Drive,
    /// A job that keeps checkpoints, by its name.
    Job,
    /// A network interface, by its name.
    Interface,
    /// An experiment that disturbs the host, by its name.
    Experiment,
    /// A case of the remedies, by its number.
    Case,
    /// A source of events, by its name.
    Source,
}

impl SubjectKind {
    /// The name in JSON and keys, which is also the word for people.
    pub fn as_str(self) -> &'static str {
        match self {
            SubjectKind::Host => "host",
            SubjectKind::Core => "core",
            SubjectKind::Dimm => "dimm",
            SubjectKind::Drive => "drive",
            SubjectKind::Job => "job",
            SubjectKind::Interface => "interface",
            SubjectKind::Experiment => "experiment",
            SubjectKind::Case => "case",
            SubjectKind::Source => "source",
        }
    }
}

/// What a finding is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Subject {
    /// The kind of thing.
    pub kind: SubjectKind,
    /// Which one; empty for the host.
    pub name: String,
}

impl Subject {
    /// The whole machine.
    pub fn host() -> Self {
        Subject { kind: SubjectKind::Host, name: String::new() }
    }

    /// A thing of this kind and name.
    pub fn new(kind: SubjectKind, name: impl Into<String>) -> Self {
        Subject { kind, name: name.into() }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.as_str())?;
        if self.name.is_empty() { Ok(()) } else { write!(f, " {}", self.name) }
    }
}

/// How bad a finding is. The order is from well to bad.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// All is well; said so that somebody can see that it was looked at.
    #[default]
    Ok,
    /// Worth knowing; nobody has to act.
    Notice,
    /// Somebody should act, in days.
    Warning,
    /// Somebody must act now: data or work are at stake.
    Critical,
}

impl Severity {
    /// Every severity, from well to bad.
    pub const ALL: [Severity; 4] = [Severity::Ok, Severity::Notice, Severity::Warning, Severity::Critical];

    /// The name in JSON and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Ok => "ok",
            Severity::Notice => "notice",
            Severity::Warning => "warning",
            Severity::Critical => "critical",
        }
    }

    /// What the label `severity` of other people's alerting rules says; `None` where the word is not known.
    pub fn of_label(word: &str) -> Option<Self> {
        match word.to_ascii_lowercase().as_str() {
            "critical" | "page" | "emergency" | "fatal" | "disaster" => Some(Severity::Critical),
            "warning" | "warn" | "error" | "major" | "high" => Some(Severity::Warning),
            "notice" | "info" | "informational" | "information" | "minor" | "low" | "none" | "ok" => {
                Some(Severity::Notice)
            }
            _ => None,
        }
    }

    /// Whether somebody should act.
    pub fn needs_action(self) -> bool {
        self >= Severity::Warning
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The one statement that every room makes. The headline, the page's overview, `health.json`, metrics, alerts and
/// remedies are folds over findings and know nothing else of a room.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(remote = "Finding")]
pub struct Finding {
    /// Identifies the finding for as long as it lasts, across restarts: room, rule and subject, joined by
    /// [`Finding::key_of`].
    pub key: String,
    /// The room that found it.
    pub room: Room,
    /// The rule of that room, such as `lost-time`.
    #[serde(default)]
    pub rule: String,
    /// What it is about.
    pub subject: Subject,
    /// How bad it is.
    pub severity: Severity,
    /// How sure it is.
    pub certainty: Certainty,
    /// One sentence for people, with its full stop.
    pub sentence: String,
    /// What it rests on, a line each; may be empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<String>,
    /// Since when it holds, `CLOCK_REALTIME`; 0 where that is not known.
    pub since_realtime_ns: u64,
    /// The user whose files say so; `None` where the host itself does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// The same for users who may not know who runs what on the host; `None` where everybody may read it as it is.
    #[serde(skip)]
    pub public: Option<Box<PublicFinding>>,
}

/// What a finding says to every user.
#[derive(Debug, Clone, PartialEq)]
pub struct PublicFinding {
    /// The key of this subject.
    pub key: String,
    /// What it is about, without a name that is not for everybody.
    pub subject: Subject,
    /// As [`Finding::sentence`].
    pub sentence: String,
    /// As [`Finding::evidence`].
    pub evidence: Vec<String>,
}

/// Text from the machine on one line, as a terminal may show it: controls, line separators and marks that turn the
/// direction of writing become `?`.
pub fn one_line(text: &str) -> String {
    text.chars().map(|letter| if is_harmful(letter) { '?' } else { letter }).collect()
}

/// The beginning of such a text, on one line.
pub fn clipped(text: &str, characters_max: usize) -> String {
    one_line(&text.chars().take(characters_max).collect::<String>())
}

/// A count of things, `1 job` or `2 jobs`.
pub fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Whether a letter commands a terminal (C0, C1), ends a line, turns the direction of writing, or is not seen at all and so
/// makes two names look like one.
pub fn is_harmful(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{feff}')
        || matches!(letter, '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{fff9}'..='\u{fffb}')
        || matches!(letter, '\u{e0000}'..='\u{e007f}')
}

impl Serialize for Finding {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Finding::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for Finding {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut finding = Finding::deserialize(deserializer)?;
        if finding.rule.is_empty() {
            finding.rule = Finding::rule_in(&finding.key).to_owned();
        }
        Ok(finding)
    }
}

impl Finding {
    /// The key of what a rule of a room says of a subject: `stall/lost-time/host`, `checkpoint/stale/job/train`.
    pub fn key_of(room: Room, rule: &str, subject: &Subject) -> String {
        let kind = subject.kind.as_str();
        match subject.name.as_str() {
            "" => format!("{room}/{rule}/{kind}"),
            name => format!("{room}/{rule}/{kind}/{name}"),
        }
    }

    /// The rule that a key names, for findings of releases that wrote it nowhere else.
    pub fn rule_in(key: &str) -> &str {
        key.split('/').nth(1).unwrap_or_default()
    }

    /// A certain finding without evidence, whose beginning is not known.
    ///
    /// Names and sentences may hold what strangers wrote, and are shown in terminals: they become [`one_line`].
    pub fn new(room: Room, rule: &str, subject: Subject, severity: Severity, sentence: impl Into<String>) -> Self {
        let subject = Subject { name: one_line(&subject.name), ..subject };
        Finding {
            key: Finding::key_of(room, rule, &subject),
            room,
            rule: rule.to_owned(),
            subject,
            severity,
            certainty: Certainty::Certain,
            sentence: one_line(&sentence.into()),
            evidence: Vec::new(),
            since_realtime_ns: 0,
            uid: None,
            public: None,
        }
    }

    /// The same, said to everybody in the words of another finding and under its subject.
    pub fn with_public(self, other: &Finding) -> Self {
        let said = |of: &Finding| PublicFinding {
            key: of.key.clone(),
            subject: of.subject.clone(),
            sentence: of.sentence.clone(),
            evidence: of.evidence.clone(),
        };
        let public = said(other);
        let is_same = said(&self) == public;
        Finding { public: (!is_same).then(|| Box::new(public)), ..self }
    }

    /// The same in the words that everybody may read.
    pub fn for_everybody(mut self) -> Self {
        if let Some(public) = self.public.take() {
            let PublicFinding { key, subject, sentence, evidence } = *public;
            self = Finding { key, subject, sentence, evidence, ..self };
        }
        self
    }

    /// The same, resting on what this user wrote.
    pub fn of_user(self, uid: Option<u32>) -> Self {
        Finding { uid, ..self }
    }

    /// The same with this certainty.
    pub fn with_certainty(self, certainty: Certainty) -> Self {
        Finding { certainty, ..self }
    }

    /// The same with this evidence.
    pub fn with_evidence(self, evidence: Vec<String>) -> Self {
        Finding { evidence: evidence.iter().map(|line| one_line(line)).collect(), ..self }
    }

    /// The same, holding since this time, `CLOCK_REALTIME`.
    pub fn since(self, since_realtime_ns: u64) -> Self {
        Finding { since_realtime_ns, ..self }
    }
}

/// The worst first; of equals the surer, then by room, then the older, then by key: the order in which people read findings.
pub fn by_urgency(a: &Finding, b: &Finding) -> std::cmp::Ordering {
    let order = |finding: &Finding| {
        (std::cmp::Reverse(finding.severity), finding.certainty, finding.room, finding.since_realtime_ns)
    };
    order(a).cmp(&order(b)).then_with(|| a.key.cmp(&b.key))
}

/// What a host says in one sentence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Headline {
    /// That of the worst finding.
    pub severity: Severity,
    /// The sentence of the worst finding, and how many others are above `ok`.
    pub sentence: String,
    /// What the host's cores lost, where the sentence says something else; `None` also where nothing is known of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_time: Option<String>,
}

impl Headline {
    /// The rule of [`Room::Stall`] that says of the whole host what its cores lost.
    pub const LOST_TIME: &'static str = "lost-time";

    /// A headline that is not of a host's findings.
    pub fn new(severity: Severity, sentence: impl Into<String>) -> Self {
        Headline { severity, sentence: sentence.into(), lost_time: None }
    }

    /// The headline of these findings; without any, that nothing is known yet.
    pub fn of(findings: &[Finding]) -> Self {
        let Some(worst) = findings.iter().min_by(|a, b| by_urgency(a, b)) else {
            return Headline::new(Severity::Notice, "There are no data yet.");
        };
        let is_lost_time = |one: &Finding| one.room == Room::Stall && one.rule == Headline::LOST_TIME;
        let lost_time = findings.iter().find(|one| is_lost_time(one) && one.subject.kind == SubjectKind::Host);
        let others = findings.iter().filter(|one| one.severity > Severity::Ok && one.key != worst.key).count();
        let more = match (worst.severity, others) {
            (Severity::Ok, _) | (_, 0) => String::new(),
            (_, 1) => " One more finding.".to_owned(),
            (_, others) => format!(" {others} more findings."),
        };
        Headline {
            severity: worst.severity,
            sentence: format!("{}{more}", worst.sentence),
            lost_time: lost_time.filter(|one| one.key != worst.key).map(|one| one.sentence.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn finding(rule: &str, severity: Severity) -> Finding {
        Finding::new(Room::Stall, rule, Subject::host(), severity, format!("It is {rule}."))
    }

    #[test]
    fn keys_name_room_rule_and_subject() {
        let job = Subject::new(SubjectKind::Job, "a/b");
        assert_eq!(Finding::key_of(Room::Checkpoint, "stale", &job), "checkpoint/stale/job/a/b");
        assert_eq!(finding("lost-time", Severity::Ok).key, "stall/lost-time/host");
        assert_eq!(job.to_string(), "job a/b");
    }

    #[test]
    fn a_finding_of_an_older_release_gets_its_rule_from_its_key() {
        let job = Subject::new(SubjectKind::Job, "a/b");
        let finding = Finding::new(Room::Checkpoint, "stale", job, Severity::Warning, "It is stale.");
        let mut json = serde_json::to_value(&finding).unwrap();
        assert_eq!(json["rule"], "stale");
        json["rule"] = "newer".into();
        assert_eq!(serde_json::from_value::<Finding>(json.clone()).unwrap().rule, "newer");
        json.as_object_mut().unwrap().remove("rule");
        assert_eq!(serde_json::from_value::<Finding>(json).unwrap(), finding);
    }

    #[test]
    fn a_name_from_a_stranger_stays_on_its_line() {
        let subject = Subject::new(SubjectKind::Job, "x\n\u{1b}[2J\u{202e}y");
        let finding = Finding::new(Room::Checkpoint, "damaged", subject, Severity::Critical, "Job 'x\r\nAll is well.'")
            .with_evidence(vec!["a\u{9b}b".to_owned()]);
        assert_eq!(finding.key, "checkpoint/damaged/job/x??[2J?y");
        assert_eq!((finding.sentence.as_str(), finding.evidence[0].as_str()), ("Job 'x??All is well.'", "a?b"));
    }

    #[test]
    fn the_headline_is_the_worst_finding_and_counts_the_others() {
        assert_eq!(Headline::of(&[]).severity, Severity::Notice);
        let quiet = [finding("quiet", Severity::Ok), finding("calm", Severity::Ok)];
        assert_eq!(Headline::of(&quiet).sentence, "It is calm.");
        let mut all = vec![finding("quiet", Severity::Ok), finding("late", Severity::Notice)];
        assert_eq!(Headline::of(&all).sentence, "It is late.");
        all.push(finding("lost", Severity::Critical));
        assert_eq!(Headline::of(&all).sentence, "It is lost. One more finding.");
        all.push(finding("worn", Severity::Warning));
        let headline = Headline::of(&all);
        assert_eq!((headline.severity, &*headline.sentence), (Severity::Critical, "It is lost. 2 more findings."));
    }

    #[test]
    fn what_was_lost_stands_beside_a_worse_finding_of_another_room() {
        let lost = finding(Headline::LOST_TIME, Severity::Notice);
        let core = Subject::new(SubjectKind::Core, "1");
        let of_a_core = Finding::new(Room::Stall, Headline::LOST_TIME, core, Severity::Ok, "It is core 1.");
        let fan = Finding::new(Room::Remedy, "check", Subject::host(), Severity::Warning, "A fan stands still.");
        let headline = Headline::of(&[of_a_core.clone(), lost.clone(), fan.clone()]);
        assert_eq!(headline.sentence, "A fan stands still. One more finding.");
        assert_eq!(headline.lost_time.as_deref(), Some("It is lost-time."));
        // Said once, and not made up where nobody measured it.
        assert_eq!(Headline::of(&[of_a_core.clone(), lost]).lost_time, None);
        assert_eq!(Headline::of(&[of_a_core, fan]).lost_time, None);
    }

    #[test]
    fn of_equally_bad_findings_the_surer_and_then_the_older_comes_first() {
        let guess = finding("guess", Severity::Warning).with_certainty(Certainty::Probable).since(1);
        let young = finding("young", Severity::Warning).since(9);
        let old = finding("old", Severity::Warning).since(5);
        let mut all = [guess, young, old];
        all.sort_by(by_urgency);
        let rules: Vec<&str> = all.iter().map(|one| one.sentence.as_str()).collect();
        assert_eq!(rules, ["It is old.", "It is young.", "It is guess."]);
    }

    #[test]
    fn the_words_of_enums_are_those_of_their_json() {
        // Serde's own words, read from the debug form of its tokens, would need a format; the names are compared instead.
        for room in Room::ALL {
            assert_eq!(format!("{room:?}").to_lowercase(), room.as_str());
        }
        for severity in Severity::ALL {
            assert_eq!(format!("{severity:?}").to_lowercase(), severity.as_str());
        }
    }
}
