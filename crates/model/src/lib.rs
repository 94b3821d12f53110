//! The words that every part of Surefoot shares, as plain data.
//!
//! Sources produce [`Event`]s; the history keeps them; reports are pure functions of them.
//! Nothing here reads a clock, a file or the network.
//!
//! # Invariants
//! - Times are nanoseconds of `CLOCK_MONOTONIC` unless a name says otherwise; the unit ends every name.
//! - For each [`CoreLedger`]: `wall_ns = idle_ns + user_ns + kernel_ns + sum(lost.total_ns) + unexplained_ns`,
//!   to the nanosecond, and no single occurrence lasts longer than `total_ns`. [`Window::check`] takes out what breaks this.
//! - The field names are those of the JSON lines and the HTTP API; renaming one is a breaking change.
//!
//! ```
//! use surefoot_model::{Cause, CauseKind, CoreLedger, CpuId, Lost};
//! let core = CoreLedger {
//!     cpu: CpuId(1),
//!     wall_ns: 1_000_000,
//!     idle_ns: 0,
//!     user_ns: 900_000,
//!     kernel_ns: 60_000,
//!     lost: vec![Lost::new(Cause::new(CauseKind::Timer, "local_timer"), 4, 40_000, 15_000)],
//!     unexplained_ns: 0,
//!     waiting: None,
//! };
//! assert!(core.sums_up());
//! assert_eq!(core.lost_ns(), 40_000);
//! ```
#![forbid(unsafe_code)]

mod advice;
mod capability;
mod cause;
mod check;
mod checkpoint;
mod clock;
mod cost;
mod deed;
mod disturb;
mod drive;
mod event;
mod finding;
mod gap;
mod health;
mod histogram;
mod host;
mod interface;
mod interrupt;
mod journal;
mod ledger;
mod machine;
mod memory;
mod nearest;
mod number;
mod observed;
mod octal;
mod part;
pub mod rasdaemon;
mod remedy;
mod report;
mod source;
mod timeline;
pub mod units;
mod weight;

pub use advice::{Advice, Change, Comparison, EntryExit, EntryExitBasis, Fix, Intruder, LossRate, WhoCore};
pub use capability::{Capability, CapabilityState};
pub use cause::{Cause, CauseKind};
pub use check::{CheckState, HostCheck};
pub use checkpoint::{
    CheckpointDirectory, CheckpointDrives, CheckpointEvent, CheckpointJob, CheckpointLook, CheckpointProblem,
    CheckpointTier, Generation, GenerationState,
};
pub use clock::{ClockChange, StreamClock};
pub use cost::{ProbeCost, SelfCost};
pub use deed::{Actor, ClosedModule, Deed, DeedAction, DeedOutcome, DeedReason, DeedTarget, DeedTier, Withheld};
pub use disturb::{
    CoresTaken, DisturbEvent, ExperimentBegan, ExperimentEffect, ExperimentEnded, ExperimentLook, ExperimentOutcome,
    ExperimentRow, ExperimentRun, InjectedStall, time_words,
};
pub use drive::{DriveReport, DriveSource, DriveWear, Sourced};
pub use event::{Event, Happened, HappenedBody, Notice, Window};
pub use finding::{
    Finding, Headline, Room, Severity, Subject, SubjectKind, by_urgency, clipped, counted, is_harmful, one_line,
};
pub use gap::{Certainty, Gap, GapCause, GapCorrection, GapSource, Verdict};
pub use health::{Health, LostRate, RoomHealth};
pub use histogram::{BUCKETS, Histogram};
pub use host::{CpuId, HostDescription, Vendor};
pub use interface::{
    Carried, CarriedKind, HealthReporter, Interface, InterfaceChange, InterfaceCounters, InterfaceEvent, InterfaceLook,
    InterfaceProbe, InterfaceProblem, InterfaceState, ProbeKind, ReporterState, RoundTrips, SelfTest, SelfTestPart,
};
pub use interrupt::{Interrupt, LoopGap, LoopGapPart, LoopSummary, MainCause, Raiser, WhoReport};
pub use journal::{Answered, Decided, JournalEntry, JournalEvent, RestartOutcome};
pub use ledger::{
    Completeness, CoreLedger, FaultyCore, FaultySum, LedgerFault, LedgerSum, Lost, LostSum, Untimed, Waiting,
};
pub use machine::{HostFacts, MachineId};
pub use memory::{
    CheckResult, ClosedFault, CostBasis, Dimm, DimmFault, DramLocation, ErrorCell, ErrorReport, ErrorSeverity,
    FaultClosing, FaultMode, Fidelity, GoneController, LossKind, MemoryAction, MemoryCheck, MemoryController,
    MemoryEvent, MemoryLook, MemoryProblem, MemorySource, Persistence, ReportingCost, RunnerUp, SlotStay, Spread,
};
pub use nearest::{did_you_mean, nearest, slips};
pub use number::Digits;
pub use observed::{AlertReading, AlertSource, Observed, RepairLasts, RestartProof};
pub use octal::unescape_octal;
pub use part::{Part, PartBook, PartCount, PartStay, is_filler, is_serial};
pub use remedy::{
    Alert, AlertOrigin, AuditEntry, Case, CaseChange, CaseState, CaseStep, CaseWait, CaseWorld, KnownMachine, Lease,
    Replaced, StepState, UnreadCase,
};
pub use report::{LARGEST_GAPS, Report};
pub use source::{SourceReport, SourceState};
pub use timeline::{Timeline, TimelineArrival, TimelineSlice};

/// The version of the answers of the API and of JSON lines. It grows when a field is removed or changes its meaning.
pub const SCHEMA: u32 = 2;

#[cfg(test)]
mod schema;
