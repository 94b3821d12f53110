//! Memory errors: modules, controllers, what was reported of them, and the fault that it points to.

use crate::{Certainty, Happened, HappenedBody, Room, Severity, Subject, SubjectKind};
use serde::{Deserialize, Serialize};

/// How much of what happened a count holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Fidelity {
    /// Every error that the hardware counted.
    Exact,
    /// At least so many: a counter was full, a record was lost, or a threshold hides what is below it.
    LowerBound,
    /// One for each record, however many errors stand behind it.
    Sampled,
    /// Nothing counts: a count of 0 says nothing.
    Unknown,
}

/// Where a count or a report came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum MemorySource {
    /// Counts of the kernel's EDAC drivers.
    Edac,
    /// Threshold blocks of AMD memory controllers.
    ThresholdBlock,
    /// The tracepoint `ras:mc_event`.
    McEvent,
    /// The tracepoint `mce:mce_record`.
    MceRecord,
    /// The tracepoint `ras:extlog_mem_event`: records of firmware.
    Extlog,
    /// The tracepoint `memory_failure_event`: pages that the kernel took out of use.
    MemoryFailure,
    /// Tracepoints of CXL memory devices.
    CxlEvent,
    /// The event log of the baseboard management controller.
    EventLog,
    /// MemoryMetrics of a Redfish service.
    Redfish,
    /// The kernel's log.
    KernelLog,
    /// The database of rasdaemon.
    Rasdaemon,
    /// The log of mcelog.
    Mcelog,
}

impl MemorySource {
    /// What to call it for people.
    pub fn label(self) -> &'static str {
        match self {
            MemorySource::Edac => "EDAC",
            MemorySource::ThresholdBlock => "threshold block",
            MemorySource::McEvent => "mc_event",
            MemorySource::MceRecord => "mce_record",
            MemorySource::Extlog => "extlog",
            MemorySource::MemoryFailure => "memory_failure",
            MemorySource::CxlEvent => "CXL",
            MemorySource::EventLog => "event log",
            MemorySource::Redfish => "Redfish",
            MemorySource::KernelLog => "kernel log",
            MemorySource::Rasdaemon => "rasdaemon",
            MemorySource::Mcelog => "mcelog",
        }
    }
}

impl FaultMode {
    /// The mode in a word or two, without an article.
    pub fn label(self) -> &'static str {
        match self {
            FaultMode::None => "none",
            FaultMode::Cell => "cell",
            FaultMode::Row => "row",
            FaultMode::Rows => "adjacent rows",
            FaultMode::Column => "column",
            FaultMode::Bank => "bank",
            FaultMode::Banks => "several banks",
            FaultMode::Rank => "rank",
            FaultMode::Undetermined => "undetermined",
        }
    }
}

impl Fidelity {
    /// What to call it for people.
    pub fn label(self) -> &'static str {
        match self {
            Fidelity::Exact => "exact",
            Fidelity::LowerBound => "at least",
            Fidelity::Sampled => "sampled",
            Fidelity::Unknown => "unknown",
        }
    }
}

/// What became of the bits of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ErrorSeverity {
    /// The code put them right.
    Corrected,
    /// They are wrong, and nobody has used them yet.
    Deferred,
    /// They are lost.
    Uncorrected,
}

/// The place of an error in DRAM, as far as the reporter tells it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(default)]
pub struct DramLocation {
    /// Processor socket.
    pub socket: Option<u32>,
    /// Memory controller, by the kernel's number.
    pub controller: Option<u32>,
    /// Channel of the controller.
    pub channel: Option<u32>,
    /// Slot on the channel.
    pub slot: Option<u32>,
    /// Physical rank, or chip select.
    pub rank: Option<u32>,
    /// Bank group.
    pub bank_group: Option<u32>,
    /// Bank, in its group where there is one.
    pub bank: Option<u32>,
    /// Row.
    pub row: Option<u32>,
    /// Column.
    pub column: Option<u32>,
    /// Physical address of the host.
    pub address: Option<u64>,
    /// How many low bits of the address mean nothing.
    pub grain_bits: Option<u8>,
}

/// What hardware, firmware or the kernel said of one memory error, or of several with one place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct ErrorReport {
    /// When, `CLOCK_REALTIME`; 0 where the reporter does not tell.
    pub at_realtime_ns: u64,
    /// When, `CLOCK_MONOTONIC`; `None` for what was recorded before.
    pub at_ns: Option<u64>,
    /// Who says so.
    pub source: MemorySource,
    /// What became of the bits.
    pub severity: ErrorSeverity,
    /// The module, as [`Dimm::id`]; `None` where it cannot be told.
    pub dimm: Option<String>,
    /// The slot label as the reporter gives it; empty where it gives none.
    pub label: String,
    /// How many errors it stands for, 1 or more.
    pub count: u32,
    /// How exact that is.
    pub fidelity: Fidelity,
    /// Where.
    pub location: DramLocation,
    /// The reporter's own words, one line, cut where it is long; of a page that was lost also whose memory it was.
    pub detail: String,
}

/// The part of a module that fails.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FaultMode {
    /// No error was seen.
    #[default]
    None,
    /// One cell, or one word.
    Cell,
    /// Cells of one row.
    Row,
    /// Cells of a few rows of one bank that are near each other, such as those that share a driver.
    Rows,
    /// Cells of one column.
    Column,
    /// Rows and columns of one bank.
    Bank,
    /// Several banks of one rank.
    Banks,
    /// Several ranks, or a whole one.
    Rank,
    /// Not to be told from these data.
    Undetermined,
}

/// Whether a fault stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Persistence {
    /// It was seen once and not again.
    Transient,
    /// It comes back at the same place.
    Permanent,
    /// Not to be told from these data.
    Undetermined,
}

/// What to do with a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum MemoryAction {
    /// Nothing yet.
    Watch,
    /// Take the pages that it covers out of use.
    OfflinePages,
    /// Have firmware replace the row by a spare one, at the next boot.
    PostPackageRepair,
    /// Replace the module.
    Replace,
}

/// A mode that explains the reports as well, with its probability.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct RunnerUp {
    /// The mode.
    pub mode: FaultMode,
    /// From 0 to 1.
    pub probability: f64,
}

/// How many different places errors were seen at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Spread {
    /// Errors with a place.
    pub located_count: u64,
    /// Cells: a row and a column of a bank.
    pub cells: u32,
    /// Rows of a bank.
    pub rows: u32,
    /// Columns of a bank.
    pub columns: u32,
    /// Banks of a rank.
    pub banks: u32,
    /// Ranks.
    pub ranks: u32,
}

/// Errors at one cell of the map that is the evidence for a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct ErrorCell {
    /// Rank; `None` if it was not reported.
    pub rank: Option<u32>,
    /// Bank, with its group: `bank_group * 4 + bank` where there are groups.
    pub bank: u32,
    /// Row.
    pub row: u32,
    /// Column.
    pub column: u32,
    /// Errors there.
    pub count: u64,
}

/// The fault that the errors of a module point to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct DimmFault {
    /// Which part fails.
    pub mode: FaultMode,
    /// Whether it stays.
    pub persistence: Persistence,
    /// How sure that is.
    pub certainty: Certainty,
    /// How probable the mode is among all that were tried, from 0 to 1; `None` where no report tells a row and a column.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
    /// The next best mode with its probability.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner_up: Option<RunnerUp>,
    /// Reports that this rests on.
    #[serde(default)]
    pub report_count: u64,
    /// Why, in one sentence.
    pub evidence: String,
    /// The cells with the most errors.
    pub cells: Vec<ErrorCell>,
    /// Cells beyond those.
    pub cells_left_out: u32,
    /// What to do.
    pub action: MemoryAction,
    /// How soon.
    pub urgency: Severity,
    /// The same for a person, in a sentence or two.
    pub advice: String,
}

/// How a person closed the fault of a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FaultClosing {
    /// Repaired in place by post-package repair, or reseated.
    Repaired,
    /// Another module is in its slot.
    Replaced,
    /// Judged harmless.
    Cleared,
}

impl FaultClosing {
    /// The word in JSON and for people.
    pub fn as_str(self) -> &'static str {
        match self {
            FaultClosing::Repaired => "repaired",
            FaultClosing::Replaced => "replaced",
            FaultClosing::Cleared => "cleared",
        }
    }
}

/// The newest closing of a module's fault, and the errors since. Findings judge only these.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct ClosedFault {
    /// How it was closed.
    pub closing: FaultClosing,
    /// When, `CLOCK_REALTIME`.
    pub closed_realtime_ns: u64,
    /// The person's reason; empty for viewers who may not see it.
    pub reason: String,
    /// Corrected errors since.
    pub corrected_since: u64,
    /// Uncorrected errors since.
    pub uncorrected_since: u64,
    /// How often the fault of this module was closed.
    pub closed_count: u32,
    /// When the first error since was seen, `CLOCK_REALTIME`; `None` if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub back_realtime_ns: Option<u64>,
    /// After how many of these closings errors came back.
    pub back_count: u32,
}

/// A memory module and everything that was reported of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Dimm {
    /// What it is known by: its serial number where the host tells it, otherwise its place.
    pub id: String,
    /// The slot label, as firmware or the driver gives it.
    pub label: String,
    /// Serial number; `None` where the host does not tell it.
    pub serial: Option<String>,
    /// How sure it is that the serial number is that of this place; `None` where none is known. It is the
    /// [`Dimm::id`] only where it is certain.
    #[serde(default)]
    pub serial_certainty: Option<Certainty>,
    /// Part number; `None` where the host does not tell it.
    pub part: Option<String>,
    /// Size; 0 where it is not known.
    pub size_bytes: u64,
    /// The controller that it hangs on, as [`MemoryController::id`]; empty where it is not known.
    pub controller: String,
    /// Corrected errors, all that were ever seen of this module: resets, wraps, reboots and moves do not lower it. `None` where
    /// none was ever seen and not every counter can be read, so that nothing is known.
    pub corrected_count: Option<u64>,
    /// Uncorrected errors, in the same way.
    pub uncorrected_count: Option<u64>,
    /// Corrected errors per second between the two newest readings.
    pub rate_per_s: f64,
    /// The seconds between these readings, from 1 to 3600; 0 where there are no two readings within an hour, so that the rate
    /// is not known.
    #[serde(default)]
    pub rate_window_s: f64,
    /// The highest rate of any window that was seen.
    pub worst_rate_per_s: f64,
    /// How long that window was, seconds; 0 where there was none.
    pub worst_window_s: f64,
    /// Whether the leaky bucket of its rate is over its threshold.
    pub is_over_rate: bool,
    /// How exact the counts are.
    pub fidelity: Fidelity,
    /// Severities of which not every counter of this module can be read now: the true count may be higher than what was seen.
    #[serde(default)]
    pub unread: Vec<ErrorSeverity>,
    /// Severities of which errors were counted for a place with several modules, this one among them: some may be its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unplaced: Vec<ErrorSeverity>,
    /// Where the counts come from, the one that is counted first.
    pub sources: Vec<MemorySource>,
    /// How the errors are spread over it.
    pub spread: Spread,
    /// The fault that they point to.
    pub fault_mode: FaultMode,
    /// The same with its evidence; `None` where no error was seen.
    pub fault: Option<DimmFault>,
    /// The slot where it was before, where it was moved.
    pub moved_from: Option<String>,
    /// Modules that this one cannot be told from and may have changed places with, by [`Dimm::id`]: the counts of each of them may be
    /// another's. Empty where that is out of the question.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mixed_with: Vec<String>,
    /// Where the errors are, in words, where nobody can tell of which module they are: then this is a place, and no module. `None`
    /// for a module.
    #[serde(default)]
    pub only_place: Option<String>,
    /// The newest closing of its fault; `None` if none was ever closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed: Option<ClosedFault>,
}

/// A memory controller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct MemoryController {
    /// The kernel's name, such as `mc0`.
    pub id: String,
    /// The driver's name of it.
    pub name: String,
    /// Corrected errors of all its modules, with those of no known module; `None` where the counter cannot be read.
    pub corrected_count: Option<u64>,
    /// Uncorrected errors in the same way.
    pub uncorrected_count: Option<u64>,
    /// Corrected errors whose module is not known; `None` where the counter cannot be read.
    pub no_information_count: Option<u64>,
    /// Whether its total is that of its modules and of those without one; `None` where the driver gives too little to check it.
    pub adds_up: Option<bool>,
    /// Seconds since its counters were reset, as the kernel says.
    pub reset_s: Option<u64>,
}

/// A memory controller that was there at an earlier look of the same watch and is not any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct GoneController {
    /// The kernel's name, such as `mc0`.
    pub id: String,
    /// The driver's name of it.
    pub name: String,
    /// When it was seen last, `CLOCK_REALTIME`.
    pub seen_realtime_ns: u64,
    /// The controller as which the same hardware is counted now, by the same name with the same modules at the same places; `None`
    /// where there is none, or it cannot be told which.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub now: Option<String>,
}

/// A module in a slot, from when it was first seen there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct SlotStay {
    /// The slot's place among the kernel's counters, such as `mc0/dimm3`.
    pub place: String,
    /// The slot label; empty if it has none.
    pub label: String,
    /// The module, as [`Dimm::id`]; of one that is gone, the name under which its counts are kept.
    pub module: String,
    /// Its serial number; `None` if it could not be read: whether it is the module from before the boot is unknown.
    pub serial: Option<String>,
    /// How sure it is that the serial number is that of this slot.
    pub serial_certainty: Option<Certainty>,
    /// Its part number; `None` if it could not be read.
    pub part: Option<String>,
    /// Its size; 0 if it is unknown.
    pub size_bytes: u64,
    /// When it was first seen there, `CLOCK_REALTIME`.
    pub first_seen_realtime_ns: u64,
    /// When it was last seen there, `CLOCK_REALTIME`.
    pub last_seen_realtime_ns: u64,
    /// Whether the slot is empty or holds another module now.
    pub has_ended: bool,
    /// Corrected errors that were counted of this module, in whatever slot.
    pub corrected_count: u64,
    /// Uncorrected errors, likewise.
    pub uncorrected_count: u64,
    /// How its fault was closed last; `None` if it never was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed: Option<FaultClosing>,
}

/// A file or service that could not be read, or says what cannot be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct MemoryProblem {
    /// What was asked.
    pub source: MemorySource,
    /// The file, or the address of the service.
    pub path: String,
    /// What is wrong with it, and what to do.
    pub why: String,
}

/// What one look at the memory of a host found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct MemoryLook {
    /// When it ended, `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// When it began, `CLOCK_REALTIME`.
    pub looked_realtime_ns: u64,
    /// How long it took.
    pub look_ns: u64,
    /// The modules, by controller and place; those of controllers that are gone at the end.
    pub dimms: Vec<Dimm>,
    /// The controllers, by number.
    pub controllers: Vec<MemoryController>,
    /// Controllers that were there before. Their modules are still among `dimms`, at the end, with the counts of then and all of them
    /// `unread`; but for one that has another number now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gone: Vec<GoneController>,
    /// Which module was in which slot: by slot, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slots: Vec<SlotStay>,
    /// Older ones that are not kept.
    #[serde(default, skip_serializing_if = "is_0")]
    pub slots_left_out: u64,
    /// What could not be read.
    pub problems: Vec<MemoryProblem>,
    /// Problems beyond those.
    pub problems_left_out: u64,
    /// Why nothing is known of this host's memory errors, and what to do; `None` where any source exists.
    pub unsupported: Option<String>,
    /// Whether each corrected error is printed on the console; `None` where no file says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logs_on_console: Option<bool>,
    /// The recorded tree that was looked at; `None` for the host itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded_tree: Option<String>,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde asks for it.
fn is_0(number: &u64) -> bool {
    *number == 0
}

/// What became of a check of the accounting.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CheckResult {
    /// It was made, and all is well.
    Passed,
    /// It could not be made: the host does not show what it asks. It has not passed.
    #[default]
    NotChecked,
    /// It was made, and found something.
    Found,
}

/// What the doctor says of one part of the accounting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct MemoryCheck {
    /// Stable name, such as `cec-swallows-errors`.
    pub rule: String,
    /// Whether it passed, found something, or could not be made.
    #[serde(default)]
    pub result: CheckResult,
    /// How bad what it found is; [`Severity::Ok`] where it found nothing, or could not be made.
    pub severity: Severity,
    /// How sure that is.
    pub certainty: Certainty,
    /// What was found, with the file that says so.
    pub evidence: String,
    /// What follows from it.
    pub consequence: String,
    /// What to do; empty where nothing has to be done.
    pub remedy: String,
}

/// Where a cost comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CostBasis {
    /// Measured on this host.
    Measured,
    /// A stated default from the literature.
    Literature,
}

/// What one way of reporting errors costs this host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct ReportingCost {
    /// What is done for a report: `corrected_error_interrupt`, `poll`, `scanned_core`, `handled_record`, `logged_line` or `smi`.
    pub what: String,
    /// Whether it was measured here.
    pub basis: CostBasis,
    /// Who measured it, where and how.
    pub source: String,
    /// Time of one core for one.
    pub each_ns: u64,
    /// How often it happened; `None` where that is not counted here.
    pub count: Option<u64>,
    /// In this time, nanoseconds.
    pub over_ns: u64,
    /// What it comes to per day, nanoseconds; `None` where it is not counted here.
    pub per_day_ns: Option<u64>,
}

/// Why reports are not among those that are listed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LossKind {
    /// They came faster than they are listed; each was read and counted.
    #[default]
    NotListed,
    /// The kernel dropped them before they were read.
    NotRead,
    /// They were read, and could not be understood.
    NotUnderstood,
}

/// What the source of memory errors saw.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(tag = "seen", rename_all = "snake_case")]
pub enum MemoryEvent {
    /// A look has ended; replaces the one before.
    Look(MemoryLook),
    /// An error was reported.
    Report(ErrorReport),
    /// Reports that came and are not listed one by one.
    Lost {
        /// Whose.
        source: MemorySource,
        /// What became of them.
        #[serde(default)]
        kind: LossKind,
        /// How many, since the watch began.
        count: u64,
        /// Why.
        why: String,
    },
    /// What the doctor says; replaces what it said before.
    Checks {
        /// One per rule.
        checks: Vec<MemoryCheck>,
    },
    /// What reporting costs; replaces what was said before.
    Costs {
        /// One per way.
        costs: Vec<ReportingCost>,
    },
}

impl MemoryEvent {
    /// See [`crate::Event::comes_to_ns`].
    pub(crate) fn comes_to_ns(&self) -> Option<u64> {
        match self {
            MemoryEvent::Look(look) => Some(look.at_ns),
            MemoryEvent::Report(report) => report.at_ns,
            _ => None,
        }
    }

    /// See [`crate::Event::held_bytes`].
    pub(crate) fn held_bytes(&self) -> usize {
        match self {
            MemoryEvent::Look(look) => {
                let dimms = look.dimms.iter().map(Dimm::held_bytes);
                let problems = look.problems.iter().map(|problem| problem.path.len() + problem.why.len());
                let controllers = look.controllers.iter().map(|one| one.id.len() + one.name.len());
                size_of_val(look.dimms.as_slice())
                    + size_of_val(look.controllers.as_slice())
                    + size_of_val(look.problems.as_slice())
                    + dimms.chain(problems).chain(controllers).sum::<usize>()
                    + look.gone.iter().map(|one| size_of_val(one) + one.id.len() + one.name.len()).sum::<usize>()
                    + look.slots.iter().map(SlotStay::held_bytes).sum::<usize>()
                    + look.unsupported.as_ref().map_or(0, String::len)
            }
            MemoryEvent::Report(report) => {
                report.label.len() + report.detail.len() + report.dimm.as_ref().map_or(0, String::len)
            }
            MemoryEvent::Lost { why, .. } => why.len(),
            MemoryEvent::Checks { checks } => {
                let texts =
                    |one: &MemoryCheck| one.rule.len() + one.evidence.len() + one.consequence.len() + one.remedy.len();
                size_of_val(checks.as_slice()) + checks.iter().map(texts).sum::<usize>()
            }
            MemoryEvent::Costs { costs } => {
                size_of_val(costs.as_slice())
                    + costs.iter().map(|cost| cost.what.len() + cost.source.len()).sum::<usize>()
            }
        }
    }

    /// Reports are kept one by one; see [`crate::Event::happened`].
    pub(crate) fn happened(&self) -> Vec<Happened<'_>> {
        let MemoryEvent::Report(report) = self else { return Vec::new() };
        let subject = match &report.dimm {
            Some(dimm) => Subject::new(SubjectKind::Dimm, dimm.clone()),
            None => Subject::host(),
        };
        let kind = match report.severity {
            ErrorSeverity::Corrected => "corrected_error",
            ErrorSeverity::Deferred => "deferred_error",
            ErrorSeverity::Uncorrected => "uncorrected_error",
        };
        let (at_realtime_ns, body) = (report.at_realtime_ns, HappenedBody::ErrorReport(report));
        vec![Happened { room: Room::Memory, kind, subject, at_realtime_ns, body }]
    }
}

impl SlotStay {
    fn held_bytes(&self) -> usize {
        let some = [&self.serial, &self.part].into_iter().flatten().map(String::len).sum::<usize>();
        size_of_val(self) + self.place.len() + self.label.len() + self.module.len() + some
    }
}

impl Dimm {
    /// Whether errors of that severity may have been counted that [`Dimm::corrected_count`] or [`Dimm::uncorrected_count`] does
    /// not hold, so that a count of 0 does not mean "none".
    pub fn is_unread(&self, severity: ErrorSeverity) -> bool {
        self.fidelity == Fidelity::Unknown || self.unread.contains(&severity)
    }

    /// Corrected errors that are known of: at least so many.
    pub fn corrected(&self) -> u64 {
        self.corrected_count.unwrap_or(0)
    }

    /// Uncorrected errors that are known of: at least so many.
    pub fn uncorrected(&self) -> u64 {
        self.uncorrected_count.unwrap_or(0)
    }

    /// Corrected errors since the fault was closed; all if it never was.
    pub fn corrected_since(&self) -> u64 {
        self.closed.as_ref().map_or(self.corrected(), |closed| closed.corrected_since)
    }

    /// Uncorrected errors since the fault was closed; all if it never was.
    pub fn uncorrected_since(&self) -> u64 {
        self.closed.as_ref().map_or(self.uncorrected(), |closed| closed.uncorrected_since)
    }

    /// A count of this severity as it is told: a 0 that nobody could read is none.
    pub fn told(&self, severity: ErrorSeverity, count: u64) -> Option<u64> {
        (count > 0 || !self.is_unread(severity)).then_some(count)
    }

    /// Whether the count of that severity is all that there were: every counter was read, and no error of an unknown module may be
    /// this one's.
    pub fn is_all(&self, severity: ErrorSeverity) -> bool {
        let is_exact = severity == ErrorSeverity::Uncorrected || self.fidelity == Fidelity::Exact;
        is_exact && !self.is_unread(severity) && !self.unplaced.contains(&severity) && self.mixed_with.is_empty()
    }

    fn held_bytes(&self) -> usize {
        let texts = [&self.id, &self.label, &self.controller];
        let some = [&self.serial, &self.part, &self.moved_from, &self.only_place];
        let fault = self
            .fault
            .as_ref()
            .map_or(0, |fault| size_of_val(fault.cells.as_slice()) + fault.evidence.len() + fault.advice.len());
        texts.iter().map(|text| text.len()).sum::<usize>()
            + some.iter().filter_map(|text| text.as_ref().map(String::len)).sum::<usize>()
            + size_of_val(self.sources.as_slice())
            + size_of_val(self.unread.as_slice())
            + self.mixed_with.iter().map(|id| size_of::<String>() + id.len()).sum::<usize>()
            + self.closed.as_ref().map_or(0, |closed| closed.reason.len())
            + fault
    }
}
