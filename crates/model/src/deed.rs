//! What Surefoot does, as opposed to what it sees: every change of a machine and every decision about one, in the same words.
//!
//! Whatever acts appends its deeds to a journal; the watch follows the journals, so page, history, recordings and terminal show
//! actions the same way they show observations.

use crate::weight::texts;
use crate::{Carried, Happened, HappenedBody, Observed, Room, Subject};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Something that Surefoot did, is about to do, or decided not to do.
///
/// One action has several deeds: one when it begins and one when it ends. They share room, subject, action and
/// [`Deed::begun_realtime_ns`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Deed {
    /// When it was written down, `CLOCK_REALTIME`.
    pub at_realtime_ns: u64,
    /// When the action began, `CLOCK_REALTIME`; [`Deed::at_realtime_ns`] of an end whose beginning is unknown.
    pub begun_realtime_ns: u64,
    /// The capability that acts.
    pub room: Room,
    /// What it acts on.
    pub subject: Subject,
    /// Who acts.
    pub actor: Actor,
    /// What is done.
    pub action: DeedAction,
    /// The part of the subject, or the setting, that is changed.
    pub target: DeedTarget,
    /// Why.
    pub reason: DeedReason,
    /// What came of it, as observed.
    pub outcome: DeedOutcome,
}

/// Who acts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Actor {
    /// A command that this user ran.
    Command {
        /// The user.
        uid: u32,
    },
    /// A job's checkpoint session.
    Session {
        /// The job.
        job: String,
    },
    /// The agent of the remedies on this host, by order of a controller.
    Agent {
        /// This host.
        host: String,
    },
    /// A controller of remedies.
    Controller {
        /// Its name.
        name: String,
    },
    /// Unknown: the journal is of a release that did not say.
    Unknown,
    /// Known, and not shown to this viewer.
    NotShown,
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Actor::Command { uid: 0 } => f.write_str("root's command"),
            Actor::Command { uid } => write!(f, "a command of UID {uid}"),
            Actor::Session { job } => write!(f, "job {job}"),
            Actor::Agent { host } => write!(f, "the agent of {host}"),
            Actor::Controller { name } => write!(f, "controller {name}"),
            Actor::Unknown => f.write_str("an unknown actor"),
            Actor::NotShown => Ok(()),
        }
    }
}

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DeedAction {
    /// The driver is asked, through a health reporter, to recover the part that failed.
    ReporterRecover,
    /// The interface is switched off and on.
    LinkCycle,
    /// The PCI function is reset.
    FunctionReset,
    /// A setting of the kernel is changed: the polling interval, console logging.
    ChangeSetting,
    /// A checkpoint is saved, or it is decided that none is.
    Checkpoint,
    /// A checkpoint's copy on the way to a durable tier.
    MakeDurable,
    /// A checkpoint is restored.
    Restore,
    /// A host or workload is disturbed on purpose.
    Experiment,
    /// It is asked whether a fault still holds.
    Recheck,
    /// A host is taken out of service.
    Drain,
    /// A host is brought back into service.
    Return,
    /// A systemd unit is restarted.
    RestartUnit,
    /// A network interface is reset.
    ResetInterface,
    /// Pages of memory are taken offline.
    OfflinePage,
    /// The reporting of corrected errors is tuned.
    TuneReporting,
    /// A setting of the firmware is changed.
    SetFirmware,
    /// The host is rebooted.
    Reboot,
    /// The host's memory is tested under load.
    Stress,
    /// The debug mode of error reporting is switched on.
    DebugMode,
    /// The rows that report errors are collected.
    CollectErrors,
    /// Rows are repaired until the next loss of power.
    SoftRepair,
    /// Rows are repaired for good.
    HardRepair,
    /// A hook is run.
    RunHook,
    /// A ticket is filed.
    FileTicket,
    /// A setting is set back to its value before the case.
    RestoreSetting,
    /// A person closes the fault of a DIMM: it was repaired in place or reseated.
    FaultRepaired,
    /// A person closes the fault of a DIMM: another DIMM is in its slot.
    FaultReplaced,
    /// A person closes the fault of a DIMM: it is harmless.
    FaultCleared,
    /// All that a job has in one of its tiers is removed.
    RemoveCheckpoints,
}

impl DeedAction {
    /// Every action.
    pub const ALL: [DeedAction; 29] = [
        DeedAction::ReporterRecover,
        DeedAction::LinkCycle,
        DeedAction::FunctionReset,
        DeedAction::ChangeSetting,
        DeedAction::Checkpoint,
        DeedAction::MakeDurable,
        DeedAction::Restore,
        DeedAction::Experiment,
        DeedAction::Recheck,
        DeedAction::Drain,
        DeedAction::Return,
        DeedAction::RestartUnit,
        DeedAction::ResetInterface,
        DeedAction::OfflinePage,
        DeedAction::TuneReporting,
        DeedAction::SetFirmware,
        DeedAction::Reboot,
        DeedAction::Stress,
        DeedAction::DebugMode,
        DeedAction::CollectErrors,
        DeedAction::SoftRepair,
        DeedAction::HardRepair,
        DeedAction::RunHook,
        DeedAction::FileTicket,
        DeedAction::RestoreSetting,
        DeedAction::FaultRepaired,
        DeedAction::FaultReplaced,
        DeedAction::FaultCleared,
        DeedAction::RemoveCheckpoints,
    ];

    /// The name in JSON and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            DeedAction::ReporterRecover => "reporter_recover",
            DeedAction::LinkCycle => "link_cycle",
            DeedAction::FunctionReset => "function_reset",
            DeedAction::ChangeSetting => "change_setting",
            DeedAction::Checkpoint => "checkpoint",
            DeedAction::MakeDurable => "make_durable",
            DeedAction::Restore => "restore",
            DeedAction::Experiment => "experiment",
            DeedAction::Recheck => "recheck",
            DeedAction::Drain => "drain",
            DeedAction::Return => "return",
            DeedAction::RestartUnit => "restart_unit",
            DeedAction::ResetInterface => "reset_interface",
            DeedAction::OfflinePage => "offline_page",
            DeedAction::TuneReporting => "tune_reporting",
            DeedAction::SetFirmware => "set_firmware",
            DeedAction::Reboot => "reboot",
            DeedAction::Stress => "stress",
            DeedAction::DebugMode => "debug_mode",
            DeedAction::CollectErrors => "collect_errors",
            DeedAction::SoftRepair => "soft_repair",
            DeedAction::HardRepair => "hard_repair",
            DeedAction::RunHook => "run_hook",
            DeedAction::FileTicket => "file_ticket",
            DeedAction::RestoreSetting => "restore_setting",
            DeedAction::FaultRepaired => "fault_repaired",
            DeedAction::FaultReplaced => "fault_replaced",
            DeedAction::FaultCleared => "fault_cleared",
            DeedAction::RemoveCheckpoints => "remove_checkpoints",
        }
    }

    /// The words for people.
    pub fn label(self) -> &'static str {
        match self {
            DeedAction::ReporterRecover => "recover through the health reporter",
            DeedAction::LinkCycle => "switch the link off and on",
            DeedAction::FunctionReset => "reset the PCI function",
            DeedAction::ChangeSetting => "change a setting",
            DeedAction::Checkpoint => "save a checkpoint",
            DeedAction::MakeDurable => "copy a checkpoint to the SSD",
            DeedAction::Restore => "restore a checkpoint",
            DeedAction::Experiment => "run an experiment",
            DeedAction::Recheck => "check whether the fault persists",
            DeedAction::Drain => "drain the host",
            DeedAction::Return => "return the host to service",
            DeedAction::RestartUnit => "restart a unit",
            DeedAction::ResetInterface => "reset a network interface",
            DeedAction::OfflinePage => "take pages offline",
            DeedAction::TuneReporting => "tune error reporting",
            DeedAction::SetFirmware => "change a firmware setting",
            DeedAction::Reboot => "reboot the host",
            DeedAction::Stress => "test the memory under load",
            DeedAction::DebugMode => "switch to debug reporting",
            DeedAction::CollectErrors => "collect the failing rows",
            DeedAction::SoftRepair => "repair rows until power-off",
            DeedAction::HardRepair => "repair rows permanently",
            DeedAction::RunHook => "run a hook",
            DeedAction::FileTicket => "file a ticket",
            DeedAction::RestoreSetting => "restore a setting",
            DeedAction::FaultRepaired => "close the fault as repaired",
            DeedAction::FaultReplaced => "close the fault as replaced",
            DeedAction::FaultCleared => "close the fault as harmless",
            DeedAction::RemoveCheckpoints => "remove checkpoints",
        }
    }
}

/// The part of the subject, or the setting, that a deed changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum DeedTarget {
    /// The subject as a whole.
    Subject,
    /// A part of the subject, by the kernel's or the vendor's name: a health reporter, a PCI function, a unit, an adapter.
    Part {
        /// Its name.
        name: String,
    },
    /// A setting.
    Setting {
        /// The file or attribute.
        name: String,
        /// Its value before; `None` where it is not known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<String>,
        /// The new value.
        to: String,
    },
    /// An executable.
    Hook {
        /// Its path.
        path: String,
    },
    /// A checkpoint, by its number.
    Generation {
        /// Its number.
        generation: u64,
        /// Where it lies.
        tier: DeedTier,
    },
    /// A memory module, as it was found when its fault was closed.
    Module(Box<ClosedModule>),
    /// Known, and not shown to this viewer.
    NotShown,
}

/// A memory module at the moment at which its fault was closed: who it was, and what its counters had.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct ClosedModule {
    /// Its slot label; empty if it has none.
    pub label: String,
    /// Its place among the kernel's counters, such as `mc0/dimm3`; empty if no counter has it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub place: String,
    /// Its serial number; `None` if it could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// Its part number, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// Boot in which the counters were read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    /// Corrected errors in the kernel's counters; `None` if they could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counter_corrected: Option<u64>,
    /// Uncorrected errors, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counter_uncorrected: Option<u64>,
    /// All corrected errors that were known of it.
    pub corrected_count: u64,
    /// All uncorrected errors that were known of it.
    pub uncorrected_count: u64,
}

impl ClosedModule {
    fn held_bytes(&self) -> usize {
        let some = [&self.serial, &self.part, &self.boot_id];
        let some = some.into_iter().flatten().map(String::len).sum::<usize>();
        size_of_val(self) + self.label.len() + self.place.len() + some
    }
}

impl fmt::Display for ClosedModule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slot = [&self.label, &self.place].into_iter().find(|name| !name.is_empty());
        match (slot, &self.serial) {
            (Some(slot), Some(serial)) => write!(f, "{slot}, serial number {serial}"),
            (Some(slot), None) => write!(f, "{slot}, serial number unknown"),
            (None, Some(serial)) => write!(f, "serial number {serial}"),
            (None, None) => f.write_str("serial number unknown"),
        }
    }
}

impl fmt::Display for DeedTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeedTarget::Subject | DeedTarget::NotShown => Ok(()),
            DeedTarget::Part { name } => f.write_str(name),
            DeedTarget::Setting { name, from: Some(from), to } => write!(f, "{name}: {from} -> {to}"),
            DeedTarget::Setting { name, from: None, to } => write!(f, "{name} = {to}"),
            DeedTarget::Hook { path } => f.write_str(path),
            DeedTarget::Generation { generation, tier } => write!(f, "{generation} in {}", tier.label()),
            DeedTarget::Module(module) => module.fmt(f),
        }
    }
}

/// Where a checkpoint lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DeedTier {
    /// Memory.
    Memory,
    /// The node's own SSD.
    Durable,
    /// The directory that several nodes share.
    Shared,
    /// Unknown: the word is of another release.
    Unknown,
}

impl DeedTier {
    /// The tier of a word in a checkpoint journal: of a place or of a tier.
    pub(crate) fn of_word(word: &str) -> DeedTier {
        match word {
            "memory" | "memory_and_ssd" => DeedTier::Memory,
            "durable" | "ssd" => DeedTier::Durable,
            "shared" => DeedTier::Shared,
            _ => DeedTier::Unknown,
        }
    }

    /// The words for people.
    pub fn label(self) -> &'static str {
        match self {
            DeedTier::Memory => "memory",
            DeedTier::Durable => "the SSD",
            DeedTier::Shared => "the shared directory",
            DeedTier::Unknown => "an unknown tier",
        }
    }
}

/// Why something is done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum DeedReason {
    /// A person or a program asked for it.
    Asked,
    /// What was seen of the subject.
    Seen {
        /// The evidence of the finding, a line each.
        evidence: Vec<String>,
    },
    /// A case of the remedies is at this step.
    Case {
        /// Its number.
        case: u64,
        /// What is wrong, see [`crate::Alert::fault`].
        fault: String,
        /// The service that the host works for; empty where none is known.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        service: String,
    },
    /// What the person who asked for it said.
    Stated {
        /// Their words.
        text: String,
    },
    /// A process that had begun it ended before it was done.
    Unfinished,
    /// Known, and not shown to this viewer.
    NotShown,
}

impl fmt::Display for DeedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeedReason::Asked => f.write_str("as requested"),
            DeedReason::Stated { text } => f.write_str(text),
            DeedReason::Seen { evidence } => f.write_str(&evidence.join("; ")),
            DeedReason::Case { case, fault, .. } => write!(f, "case {case}: {fault}"),
            DeedReason::Unfinished => f.write_str("the process that began it ended early"),
            DeedReason::NotShown => Ok(()),
        }
    }
}

/// What came of an action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum DeedOutcome {
    /// A dry run: it would be done.
    Planned,
    /// It is not done.
    Withheld {
        /// Why not.
        why: Withheld,
    },
    /// It is about to be done.
    Begun,
    /// It is under way, and goes on later.
    GoesOn {
        /// How far it has come.
        note: String,
    },
    /// It was done.
    Done {
        /// What was observed of it.
        observed: Observed,
    },
    /// Nothing had to be done, and nothing was.
    NotNeeded {
        /// Why not.
        why: String,
    },
    /// Its effect was not seen, and the old value was set again.
    TakenBack {
        /// What was seen instead.
        note: String,
    },
    /// It failed.
    Failed {
        /// The error, in the words of whoever refused it.
        error: String,
    },
    /// Whether it was done cannot be told.
    InDoubt {
        /// Why not.
        error: String,
    },
}

impl DeedOutcome {
    /// The name in JSON, history and metrics, which is also the word for people.
    pub fn as_str(&self) -> &'static str {
        match self {
            DeedOutcome::Planned => "planned",
            DeedOutcome::Withheld { .. } => "withheld",
            DeedOutcome::Begun => "begun",
            DeedOutcome::GoesOn { .. } => "goes_on",
            DeedOutcome::Done { .. } => "done",
            DeedOutcome::NotNeeded { .. } => "not_needed",
            DeedOutcome::TakenBack { .. } => "taken_back",
            DeedOutcome::Failed { .. } => "failed",
            DeedOutcome::InDoubt { .. } => "in_doubt",
        }
    }

    /// What there is to add to [`DeedOutcome::as_str`]; empty for nothing.
    pub fn detail(&self) -> String {
        match self {
            DeedOutcome::Planned | DeedOutcome::Begun => String::new(),
            DeedOutcome::Withheld { why } => why.to_string(),
            DeedOutcome::Done { observed } => observed.to_string(),
            DeedOutcome::NotNeeded { why } => why.clone(),
            DeedOutcome::GoesOn { note } | DeedOutcome::TakenBack { note } => note.clone(),
            DeedOutcome::Failed { error } | DeedOutcome::InDoubt { error } => error.clone(),
        }
    }

    /// Whether the machine may have been changed: a step that began and of which no end is known counts.
    pub fn was_tried(&self) -> bool {
        !matches!(self, DeedOutcome::Planned | DeedOutcome::Withheld { .. } | DeedOutcome::NotNeeded { .. })
    }
}

/// Why something is not done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Withheld {
    /// Every step was tried, and the interface still hangs.
    Exhausted,
    /// The subject carries traffic that the step would stop.
    InUse {
        /// What it carries.
        carries: Vec<Carried>,
    },
    /// Another interface of the same device carries traffic that the step would stop.
    DeviceInUse {
        /// What it carries.
        carries: Vec<Carried>,
    },
    /// Only unanswered probes say so: the neighbour may be what hangs.
    OnlyProbable,
    /// The limit of steps per hour.
    HourLimit {
        /// Steps tried in the last hour.
        tried: u64,
        /// The limit.
        limit: u64,
    },
    /// The effect of the step before is waited for.
    TooEarly {
        /// Seconds since that step.
        since_s: u64,
        /// Seconds that are waited.
        grace_s: u64,
    },
    /// The checkpoint controller decided against it.
    NotWorthIt {
        /// Why, the deciding reason first.
        reasons: Vec<String>,
    },
    /// Lines of the journal of the last hour cannot be read: each may be a step that the limits have to count.
    Unread {
        /// How many.
        count: u64,
    },
    /// There is no checkpoint to restore.
    NothingThere,
    /// The safety rules refused it.
    Refused {
        /// Why.
        why: String,
    },
    /// A reason in the words of a release that did not use these.
    Other {
        /// The words.
        why: String,
    },
}

impl fmt::Display for Withheld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Withheld::Exhausted => f.write_str("still hung after all steps; manual action needed"),
            Withheld::InUse { carries } => write!(f, "it carries {}; --even-in-use allows it", traffic(carries)),
            Withheld::DeviceInUse { carries } => {
                write!(f, "its device carries {}; --even-in-use allows it", traffic(carries))
            }
            Withheld::OnlyProbable => f.write_str(
                "it is not certain that the interface is hung (see its evidence); --even-if-probable allows the step",
            ),
            Withheld::HourLimit { tried, limit } => write!(f, "{tried} steps in the last hour; the limit is {limit}"),
            Withheld::TooEarly { since_s, grace_s } => {
                write!(f, "the last step was {since_s} s ago; the next one waits {grace_s} s for its effect")
            }
            Withheld::Unread { count } => write!(
                f,
                "unreadable lines in the journal may be steps of the last hour ({count}): check what was done, then wait an hour \
                 or move the journal away"
            ),
            Withheld::NothingThere => f.write_str("there is no checkpoint"),
            Withheld::NotWorthIt { reasons } => f.write_str(&reasons.join("; ")),
            Withheld::Refused { why } | Withheld::Other { why } => f.write_str(why),
        }
    }
}

impl Deed {
    /// The longest line of a deed in a journal, with its line feed.
    pub const LINE_BYTES_MAX: usize = 64 << 10;

    /// The same with another outcome, written down at this time.
    pub fn with_outcome(&self, outcome: DeedOutcome, at_realtime_ns: u64) -> Deed {
        Deed { outcome, at_realtime_ns, ..self.clone() }
    }

    /// One line for people, without the subject.
    pub fn words(&self) -> String {
        let target = match self.target.to_string() {
            target if target.is_empty() => String::new(),
            target => format!(" ({target})"),
        };
        let detail = match self.outcome.detail() {
            detail if detail.is_empty() => String::new(),
            detail => format!(": {detail}"),
        };
        let outcome = self.outcome.as_str().replace('_', " ");
        crate::one_line(&format!("{}{target}: {outcome}{detail}", self.action.label()))
    }

    /// The part that everybody on the host may read: that something was done, to what, and whether it worked. Who asked, for which
    /// case, who is logged in over an interface and what hooks say is for those who see everything.
    pub fn for_everybody(&self) -> Deed {
        let outcome = match &self.outcome {
            DeedOutcome::Withheld { why: Withheld::InUse { carries } } => {
                withheld(Withheld::InUse { carries: public(carries) })
            }
            DeedOutcome::Withheld { why: Withheld::DeviceInUse { carries } } => {
                withheld(Withheld::DeviceInUse { carries: public(carries) })
            }
            DeedOutcome::Withheld {
                why: Withheld::NotWorthIt { .. } | Withheld::Refused { .. } | Withheld::Other { .. },
            } => withheld(Withheld::Other { why: String::new() }),
            DeedOutcome::GoesOn { .. } => DeedOutcome::GoesOn { note: String::new() },
            DeedOutcome::NotNeeded { .. } => DeedOutcome::NotNeeded { why: String::new() },
            DeedOutcome::TakenBack { .. } => DeedOutcome::TakenBack { note: String::new() },
            DeedOutcome::Failed { .. } => DeedOutcome::Failed { error: String::new() },
            DeedOutcome::InDoubt { .. } => DeedOutcome::InDoubt { error: String::new() },
            // No other kind: each would claim something that was not observed.
            DeedOutcome::Done { observed: Observed::Effect { .. } } => {
                DeedOutcome::Done { observed: Observed::Effect { evidence: String::new() } }
            }
            DeedOutcome::Done { observed: Observed::Note { .. } } => {
                DeedOutcome::Done { observed: Observed::Note { text: String::new() } }
            }
            DeedOutcome::Done { observed: Observed::FaultGone { .. } } => {
                DeedOutcome::Done { observed: Observed::FaultGone { evidence: String::new() } }
            }
            // What it shows in words of others, or says of other users' work.
            DeedOutcome::Done { observed: Observed::Unobserved { .. } } => {
                DeedOutcome::Done { observed: Observed::Unobserved { why: String::new() } }
            }
            DeedOutcome::Done { observed: Observed::DryRun { .. } } => {
                DeedOutcome::Done { observed: Observed::DryRun { would: String::new() } }
            }
            DeedOutcome::Done { observed } if !observed.is_public() => {
                DeedOutcome::Done { observed: Observed::Effect { evidence: String::new() } }
            }
            other => other.clone(),
        };
        let (actor, target, reason) = (Actor::NotShown, DeedTarget::NotShown, DeedReason::NotShown);
        Deed { outcome, reason, actor, target, ..self.clone() }
    }

    /// See [`crate::Event::held_bytes`].
    pub(crate) fn held_bytes(&self) -> usize {
        let actor = match &self.actor {
            Actor::Session { job: name } | Actor::Agent { host: name } | Actor::Controller { name } => name.len(),
            Actor::Command { .. } | Actor::Unknown | Actor::NotShown => 0,
        };
        let target = match &self.target {
            DeedTarget::Subject | DeedTarget::Generation { .. } | DeedTarget::NotShown => 0,
            DeedTarget::Part { name } | DeedTarget::Hook { path: name } => name.len(),
            DeedTarget::Module(module) => module.held_bytes(),
            DeedTarget::Setting { name, from, to } => name.len() + from.as_ref().map_or(0, String::len) + to.len(),
        };
        let reason = match &self.reason {
            DeedReason::Seen { evidence } => texts(evidence),
            DeedReason::Case { fault, service, .. } => fault.len() + service.len(),
            DeedReason::Stated { text } => text.len(),
            DeedReason::Asked | DeedReason::Unfinished | DeedReason::NotShown => 0,
        };
        let outcome = match &self.outcome {
            DeedOutcome::Withheld { why: Withheld::InUse { carries } | Withheld::DeviceInUse { carries } } => {
                size_of_val(carries.as_slice()) + Carried::list(carries).len()
            }
            DeedOutcome::Withheld { why: Withheld::NotWorthIt { reasons } } => texts(reasons),
            // Small, or about as long as its words.
            other => other.detail().len(),
        };
        size_of_val(self) + self.subject.name.len() + actor + target + reason + outcome
    }

    /// See [`crate::Event::happened`]. Beginnings and ends are records of their own.
    pub(crate) fn happened(&self) -> Vec<Happened<'_>> {
        let kind = match self.outcome {
            DeedOutcome::Planned => return Vec::new(),
            DeedOutcome::Withheld { .. } => "deed_withheld",
            DeedOutcome::Begun => "deed_begun",
            _ => "deed",
        };
        let (subject, at_realtime_ns) = (self.subject.clone(), self.at_realtime_ns);
        vec![Happened { room: self.room, kind, subject, at_realtime_ns, body: HappenedBody::Deed(self) }]
    }
}

fn withheld(why: Withheld) -> DeedOutcome {
    DeedOutcome::Withheld { why }
}

/// What everybody may read of it.
fn public(carries: &[Carried]) -> Vec<Carried> {
    carries.iter().filter(|one| one.is_public()).cloned().collect()
}

fn traffic(carries: &[Carried]) -> String {
    if carries.is_empty() { "traffic".to_owned() } else { Carried::list(carries) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::CarriedKind;

    #[test]
    fn what_everybody_reads_of_a_deed_claims_nothing_that_was_not_observed() {
        let secret = || "SECRET".to_owned();
        let carries = || {
            let route = Carried::new(CarriedKind::DefaultRoute, "the default route");
            vec![Carried::new(CarriedKind::SshSession, secret()), route]
        };
        let done = |observed| DeedOutcome::Done { observed };
        let cases = [
            (done(Observed::Note { text: secret() }), "done"),
            (done(Observed::Effect { evidence: secret() }), "done"),
            (done(Observed::FaultGone { evidence: secret() }), "done"),
            (done(Observed::ReadBack), "done: the new value reads back"),
            (DeedOutcome::GoesOn { note: secret() }, "goes on"),
            (DeedOutcome::TakenBack { note: secret() }, "taken back"),
            (DeedOutcome::Failed { error: secret() }, "failed"),
            (DeedOutcome::InDoubt { error: secret() }, "in doubt"),
            (withheld(Withheld::Refused { why: secret() }), "withheld"),
            (
                withheld(Withheld::InUse { carries: carries() }),
                "withheld: it carries the default route; --even-in-use allows it",
            ),
            (
                withheld(Withheld::DeviceInUse { carries: carries()[..1].to_vec() }),
                "withheld: its device carries traffic; --even-in-use allows it",
            ),
        ];
        for (outcome, said) in cases {
            let kind = outcome.as_str();
            let deed = Deed {
                at_realtime_ns: 1,
                begun_realtime_ns: 1,
                room: Room::Remedy,
                subject: Subject::host(),
                actor: Actor::Controller { name: secret() },
                action: DeedAction::Drain,
                target: DeedTarget::Part { name: secret() },
                reason: DeedReason::Case { case: 4711, fault: secret(), service: secret() },
                outcome,
            };
            let public = deed.for_everybody();
            assert_eq!(public.words(), format!("drain the host: {said}"));
            assert_eq!((public.outcome.as_str(), public.subject), (kind, deed.subject.clone()));
            let text = serde_json::to_string(&deed.for_everybody()).unwrap();
            assert!(!text.contains("SECRET") && !text.contains("4711") && !text.contains("accepted"), "{text}");
        }
    }
}
