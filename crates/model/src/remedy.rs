use crate::weight::texts;
use crate::{MachineId, Observed, Part, Room, Severity};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Who told of an alert.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AlertOrigin {
    /// A finding of a host's own rooms and checks.
    Finding,
    /// Alertmanager's webhook.
    Alertmanager,
}

/// Trouble of one host, as the remedies take it in: a finding, or an alert of Alertmanager. One host and [`Alert::key`] are one alert,
/// however often it is told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Alert {
    /// The host that is in trouble.
    pub host: String,
    /// Names the same trouble of the same host for as long as it lasts: a finding's key, or Alertmanager's fingerprint.
    pub key: String,
    /// The service that the host works for; empty where nobody said one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub service: String,
    /// What is wrong, in the word that policies and people use: room and rule of a finding (`memory/rate`), or the name of an alert.
    pub fault: String,
    /// What it is about, such as `dimm A1`; empty for the host.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub subject: String,
    /// The room that says so, where one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub room: Option<Room>,
    /// How bad it is.
    pub severity: Severity,
    /// One sentence for people.
    pub sentence: String,
    /// What it rests on, a line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<String>,
    /// The labels of an alert; empty for a finding.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Who told it.
    pub origin: AlertOrigin,
    /// Whether it holds; `false` tells that it is over.
    pub is_firing: bool,
    /// Since when it holds, or since when it is over, `CLOCK_REALTIME`; of two that tell of the same alert the later one counts.
    pub since_realtime_ns: u64,
}

impl Alert {
    /// The severity that somebody said; `None` where an alert has none, or a word that is not known.
    pub fn said_severity(&self) -> Option<Severity> {
        match self.origin {
            AlertOrigin::Alertmanager => Severity::of_label(self.labels.get("severity")?),
            AlertOrigin::Finding => Some(self.severity),
        }
    }
}

/// Where a case stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CaseState {
    /// Its next step waits for a limit, a window of maintenance, a cool-down or another case of the host.
    Waiting,
    /// A person is to approve its next step.
    NeedsApproval,
    /// A step is being done.
    Running,
    /// Somebody paused it.
    Paused,
    /// The remedies are at their end: it is a person's now, by ticket, and what was changed still stands.
    WithPerson,
    /// All steps are done, and the host works again.
    Returned,
    /// The trouble was gone before anything was changed.
    Cleared,
    /// Somebody ended it.
    Cancelled,
}

impl CaseState {
    /// Every state, in the order of a board.
    pub const ALL: [CaseState; 8] = [
        CaseState::Waiting,
        CaseState::NeedsApproval,
        CaseState::Running,
        CaseState::Paused,
        CaseState::WithPerson,
        CaseState::Returned,
        CaseState::Cleared,
        CaseState::Cancelled,
    ];

    /// The word in JSON and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            CaseState::Waiting => "waiting",
            CaseState::NeedsApproval => "needs_approval",
            CaseState::Running => "running",
            CaseState::Paused => "paused",
            CaseState::WithPerson => "with_person",
            CaseState::Returned => "returned",
            CaseState::Cleared => "cleared",
            CaseState::Cancelled => "cancelled",
        }
    }

    /// Whether the case goes on: its host may be out of service.
    pub fn is_open(self) -> bool {
        !matches!(self, CaseState::Returned | CaseState::Cleared | CaseState::Cancelled)
    }
}

/// What a case waits for, where programs must tell it apart; [`Case::waits_for`] has the words.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CaseWait {
    /// Everything is paused.
    AllPaused,
    /// The policy file no longer has its policy.
    NoPolicy,
    /// A limit of its policy: hosts at once, share of the service, cases per hour.
    Limit,
    /// Anything else, or nothing.
    #[default]
    #[serde(other)]
    Other,
}

impl CaseWait {
    fn is_other(&self) -> bool {
        *self == CaseWait::Other
    }
}

/// How far a step has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum StepState {
    /// Not begun.
    #[default]
    Pending,
    /// Begun; whether it had its effect is not known until its end is written.
    Running,
    /// Begun by a controller that died or lost its store: what became of it is being found out.
    InDoubt,
    /// Done.
    Done,
    /// It failed, and is not tried again.
    Failed,
    /// It was left out, before or after an attempt, or it had nothing to do, see [`CaseStep::is_not_needed`].
    Skipped,
}

/// One step of a case.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct CaseStep {
    /// The step in the words of the policy, such as `drain` or `run:/usr/lib/surefoot/hooks/repair`.
    pub step: String,
    /// How far it has come.
    pub state: StepState,
    /// How often it was begun.
    pub attempt_count: u32,
    /// Whether a person is to approve it before it is begun: what the policy said when the case was opened.
    #[serde(default)]
    pub needs_approval: bool,
    /// Who approved it; empty for nobody.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub approved_by: String,
    /// When it was begun last, `CLOCK_REALTIME`; 0 for never.
    #[serde(default)]
    pub begun_realtime_ns: u64,
    /// When it ended, `CLOCK_REALTIME`; 0 for not yet.
    #[serde(default)]
    pub ended_realtime_ns: u64,
    /// Not begun again before this time, `CLOCK_REALTIME`; 0 for at once.
    #[serde(default)]
    pub not_before_realtime_ns: u64,
    /// Whether an attempt found that there was nothing to do, and did nothing. A step that was left out after an attempt may have done
    /// something.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_not_needed: bool,
    /// What came of it, in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub outcome: String,
    /// What was observed when it was done; `None` for a step that is not done, or that an earlier release did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<Observed>,
    /// What the step must know to go on after a restart or to be taken back: settings that were saved, how far a stress came. JSON.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub memo: String,
}

/// The controller that does a case's step, and until when it may: by the clock of the store.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Lease {
    /// The controller's name; empty for none.
    pub owner: String,
    /// `CLOCK_REALTIME`.
    pub until_realtime_ns: u64,
    /// Goes up each time a step is begun; whoever brings the end of a step names it, and an old one is refused.
    pub fence: u64,
}

/// A part that was replaced, as a person told or the host's own reports did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Replaced {
    /// When that was told, `CLOCK_REALTIME`.
    pub at_realtime_ns: u64,
    /// What took its place, in the words of whoever told it, or by its serial number; empty where nobody said.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub by: String,
    /// When it was told that the old part tested good, `CLOCK_REALTIME`; 0 for never.
    #[serde(default)]
    pub tested_good_realtime_ns: u64,
}

/// A fault of one host, from the alert to the host's return.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Case {
    /// Its number, given by the store.
    pub id: u64,
    /// The host.
    pub host: String,
    /// The service; empty where nobody said one.
    pub service: String,
    /// See [`Alert::fault`].
    pub fault: String,
    /// See [`Alert::subject`].
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub subject: String,
    /// The alert that opened it, see [`Alert::key`].
    pub alert_key: String,
    /// The worst that its alert was.
    pub severity: Severity,
    /// The sentence of its alert.
    pub sentence: String,
    /// The evidence of its alert.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<String>,
    /// The policy that it follows, by its name; the steps are those that the policy had when the case was opened.
    pub policy: String,
    /// Where it stands.
    pub state: CaseState,
    /// Its steps, in order.
    pub steps: Vec<CaseStep>,
    /// What it waits for, in words; empty for nothing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub waits_for: String,
    /// The kind of that.
    #[serde(default, skip_serializing_if = "CaseWait::is_other")]
    pub wait: CaseWait,
    /// Whether its alert still holds.
    pub is_firing: bool,
    /// Whether the host was taken out of service by this case and is not back.
    pub is_drained: bool,
    /// Its ticket, once it is a person's; empty for none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub ticket: String,
    /// The part that it is about, as it was when the case was opened; `None` where its serial number was not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<Part>,
    /// The part that it is about was replaced; `None` where nobody said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced: Option<Replaced>,
    /// When it was opened, `CLOCK_REALTIME`.
    pub since_realtime_ns: u64,
    /// When it came into its state, `CLOCK_REALTIME`.
    pub state_since_realtime_ns: u64,
    /// When it first did something to its host, `CLOCK_REALTIME`; 0 for not yet. From then on it counts for the limits of its policy.
    #[serde(default)]
    pub began_realtime_ns: u64,
    /// Since when its alert is known to be over, `CLOCK_REALTIME`; 0 while it holds.
    #[serde(default)]
    pub quiet_since_realtime_ns: u64,
    /// What it becomes when the steps that are left are done, where that is decided already: it was cancelled, or its remedies came to
    /// their end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_as: Option<CaseState>,
    /// Whether its steps are only told, and not done.
    #[serde(default)]
    pub is_dry_run: bool,
    /// Who does its step.
    #[serde(default)]
    pub lease: Lease,
    /// Goes up with every change; a change of an older one is refused.
    pub revision: u64,
}

impl CaseStep {
    /// Whether it is still to be begun, or to go on.
    pub fn is_waiting(&self) -> bool {
        matches!(self.state, StepState::Pending | StepState::Running | StepState::InDoubt)
    }
}

impl Case {
    /// The first step that has not ended; `None` when all have.
    pub fn current(&self) -> Option<(usize, &CaseStep)> {
        self.steps.iter().enumerate().find(|(_, step)| step.is_waiting())
    }

    /// Whether a person has to act for the case to go on.
    pub fn needs_person(&self) -> bool {
        // The ticket of one that is on its way to a person may not get through.
        let is_theirs = matches!(self.state, CaseState::NeedsApproval | CaseState::WithPerson);
        self.state.is_open() && (is_theirs || self.ends_as == Some(CaseState::WithPerson))
    }

    /// The case with its number, state, severity and times, without what is wrong, with what, and what is done about it.
    pub fn for_everybody(self) -> Case {
        Case {
            service: String::new(),
            fault: String::new(),
            subject: String::new(),
            alert_key: String::new(),
            sentence: String::new(),
            evidence: Vec::new(),
            policy: String::new(),
            steps: Vec::new(),
            waits_for: String::new(),
            ticket: String::new(),
            part: None,
            replaced: None,
            lease: Lease::default(),
            ..self
        }
    }

    /// About how much memory it holds.
    pub fn held_bytes(&self) -> usize {
        let steps: usize = self
            .steps
            .iter()
            .map(|step| {
                // What was observed is about as long as its words, which the outcome has.
                size_of_val(step) + step.step.len() + step.approved_by.len() + 2 * step.outcome.len() + step.memo.len()
            })
            .sum();
        size_of_val(self)
            + steps
            + self.part.as_ref().map_or(0, |part| part.name.len() + part.place.len() + part.serial.len())
            + self.replaced.as_ref().map_or(0, |replaced| replaced.by.len())
            + texts(&self.evidence)
            + [
                &self.host,
                &self.service,
                &self.fault,
                &self.subject,
                &self.alert_key,
                &self.sentence,
                &self.policy,
                &self.waits_for,
                &self.ticket,
                &self.lease.owner,
            ]
            .iter()
            .map(|text| text.len())
            .sum::<usize>()
    }
}

/// A line of the audit trail: who did what, when and why. Lines are added, never changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct AuditEntry {
    /// When, `CLOCK_REALTIME` of the store.
    pub at_realtime_ns: u64,
    /// The case; 0 for what is of none.
    pub case: u64,
    /// Who: `controller NAME`, `user NAME`, `alertmanager`, `agent HOST`.
    pub actor: String,
    /// What, in one word: `opened`, `begun`, `done`, `failed`, `approved`, `paused`, `refused`, ...
    pub action: String,
    /// The step or thing that it is about; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub target: String,
    /// Reason or outcome.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// What a decision rests on, all of one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CaseWorld {
    /// The time of the store, `CLOCK_REALTIME` nanoseconds: the only clock of decisions, shared by all controllers.
    pub now_realtime_ns: u64,
    /// All open cases.
    pub open: Vec<Case>,
    /// Cases that were closed so lately that a cool-down or a rate may still count them; the newest last.
    pub closed: Vec<Case>,
    /// Alerts without an open case that are not settled: a [`CaseChange::Settle`] settles one until it changes, and until a case of it
    /// is closed, because what still fires then needs another.
    pub alerts: Vec<Alert>,
    /// Hosts that have told of themselves, by service: what a share of a service is a share of.
    pub service_hosts: BTreeMap<String, u64>,
    /// Whether somebody paused everything: nothing new is begun.
    pub is_paused: bool,
    /// Cases that cannot be read, open ones and those that were closed as lately as [`CaseWorld::closed`]: what they did to their hosts is
    /// not known, and an open one holds its host.
    pub unread: Vec<UnreadCase>,
    /// What agents said of the machines of hosts with open cases, by host; as of a moment ago.
    pub machines: BTreeMap<String, KnownMachine>,
}

/// What the agent of a host said of its machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownMachine {
    /// Which machine it is.
    pub machine: MachineId,
    /// The address that its reports come from; empty where unknown.
    pub address: String,
}

/// A case in the store whose text this release cannot read: the row is damaged, or a newer release wrote it. What stands beside the text is
/// known.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct UnreadCase {
    /// Its number.
    pub id: u64,
    /// The host.
    pub host: String,
    /// The service; empty where none is known.
    pub service: String,
    /// The alert that opened it, see [`Alert::key`].
    pub alert_key: String,
    /// Whether it is open.
    pub is_open: bool,
    /// When it came into its state, `CLOCK_REALTIME`.
    pub state_since_realtime_ns: u64,
    /// Why it cannot be read.
    pub why: String,
}

impl UnreadCase {
    /// What holds its host, for people.
    pub fn says(&self) -> String {
        format!("case {} of {} cannot be read ({})", self.id, self.host, self.why)
    }
}

/// One change that a decision makes, or that a person asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum CaseChange {
    /// A new case; its number is given by the store.
    Open(Box<Case>),
    /// The case is this now, with the revision that it was read with; refused unless the store still has that one, and its lease as
    /// it was.
    Update(Box<Case>),
    /// This alert was decided on, and no case follows.
    Settle {
        /// The host.
        host: String,
        /// The alert's key.
        key: String,
    },
}
