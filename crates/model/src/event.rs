use crate::{
    Capability, CheckpointEvent, ClockChange, Completeness, CoreLedger, CoresTaken, Deed, DisturbEvent, ErrorReport,
    ExperimentBegan, ExperimentEnded, FaultyCore, Gap, GapCorrection, HostCheck, HostDescription, InterfaceChange,
    InterfaceEvent, JournalEntry, LedgerFault, MemoryEvent, Room, SelfCost, SourceReport, Subject, Untimed, WhoReport,
    weight,
};
use serde::{Deserialize, Serialize};

/// One window of all watched cores.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Window {
    /// Start of the window, `CLOCK_MONOTONIC`.
    pub start_ns: u64,
    /// End of the window, `CLOCK_MONOTONIC`.
    pub end_ns: u64,
    /// The ledger of each watched core that was online, ascending.
    pub cores: Vec<CoreLedger>,
    /// Cores whose ledgers of this window cannot be true: their numbers are left out, here and in every sum.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faulty: Vec<FaultyCore>,
    /// Interrupts that were counted but could not be timed.
    pub untimed: Vec<Untimed>,
    /// The kernel's own counters beside the probes'.
    pub completeness: Vec<Completeness>,
    /// What watching cost.
    pub cost: SelfCost,
}

impl Window {
    /// From its start to its end, nanoseconds.
    pub fn length_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// Takes out the ledgers that cannot be true, and cuts single occurrences down to what all of them took, which
    /// [`SelfCost::capped_rows`] counts. Whoever makes a window or reads a stranger's calls this, and nobody else has to.
    pub fn check(mut self) -> Self {
        let window_ns = self.length_ns();
        // A core that could not be read at the end of a window has the time of two in the next.
        let wall_max_ns = window_ns.saturating_mul(2).saturating_add(WALL_SLACK_NS);
        let fault_of = |core: &CoreLedger| {
            let wall = LedgerFault::Wall { wall_ns: core.wall_ns, window_ns };
            core.fault().or((core.wall_ns > wall_max_ns).then_some(wall))
        };
        let faulty = self.cores.iter().filter_map(|core| Some(FaultyCore { cpu: core.cpu, fault: fault_of(core)? }));
        self.faulty.extend(faulty);
        self.cores.retain(|core| fault_of(core).is_none());
        let capped = self.cores.iter_mut().flat_map(|core| &mut core.lost).map(|lost| u64::from(lost.cap()));
        self.cost.capped_rows = self.cost.capped_rows.saturating_add(capped.sum());
        self
    }
}

/// By how much a core's wall time may exceed that of two windows: a reader that is kept from its core reads it late.
const WALL_SLACK_NS: u64 = 1_000_000_000;

/// Something the reader of the data must know: a core went offline, the history's disk is full.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Notice {
    /// When, `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// What, in one sentence.
    pub text: String,
}

/// Everything that flows from the sources to the history, the page and the report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// The host; the first event of every stream.
    Host(HostDescription),
    /// What works on this host; follows the host.
    Capabilities {
        /// One row per capability.
        capabilities: Vec<Capability>,
    },
    /// The ledgers of one window.
    Window(Window),
    /// A gap, after its window.
    Gap(Gap),
    /// What became known of a gap later.
    GapCorrection(GapCorrection),
    /// The wall clock was set, or the machine slept; before the first window whose end is later.
    Clock(ClockChange),
    /// Who interrupted the watched cores so far; replaces the one before it.
    Who(Box<WhoReport>),
    /// A word about the stream itself.
    Notice(Notice),
    /// A source began to fail, works again, or ended.
    Source(SourceReport),
    /// What a look into the directories of checkpoints found.
    Checkpoint(CheckpointEvent),
    /// What was seen of the host's memory errors.
    Memory(MemoryEvent),
    /// What was seen of the host's network interfaces.
    Interface(InterfaceEvent),
    /// What Surefoot did, by a journal.
    Deed(Box<Deed>),
    /// What was seen of experiments that disturb the host.
    Disturb(DisturbEvent),
    /// What a periodic check of the host found.
    Check(Box<HostCheck>),
}

/// What every part of the house asks of an event: a room's own kinds answer in the file of their types.
impl Event {
    /// How far the stream has come with it, `CLOCK_MONOTONIC`; `None` for what says nothing of that.
    pub fn comes_to_ns(&self) -> Option<u64> {
        match self {
            Event::Window(window) => Some(window.end_ns),
            Event::Checkpoint(seen) => seen.comes_to_ns(),
            Event::Memory(seen) => seen.comes_to_ns(),
            Event::Interface(seen) => seen.comes_to_ns(),
            Event::Disturb(seen) => seen.comes_to_ns(),
            Event::Check(seen) => seen.comes_to_ns(),
            _ => None,
        }
    }

    /// The same with what cannot be true taken out: see [`Window::check`]. For whoever reads what a stranger wrote.
    pub fn checked(self) -> Self {
        match self {
            Event::Window(window) => Event::Window(window.check()),
            other => other,
        }
    }

    /// About how much memory it holds; strings and tables counted, allocator overhead not.
    pub fn held_bytes(&self) -> usize {
        size_of::<Event>()
            + match self {
                Event::Window(window) => weight::window_bytes(window),
                Event::Gap(gap) => weight::gap_bytes(gap),
                Event::GapCorrection(correction) => weight::gap_bytes(&correction.gap),
                Event::Clock(_) => 0,
                Event::Notice(notice) => notice.text.len(),
                Event::Source(report) => report.source.len() + report.why.len(),
                Event::Who(who) => weight::who_bytes(who),
                Event::Host(host) => size_of_val(host.cpus.as_slice()) + host.workload.len(),
                Event::Capabilities { capabilities } => {
                    capabilities.iter().map(|row| size_of_val(row) + row.reason.len() + row.remedy.len()).sum()
                }
                Event::Checkpoint(seen) => seen.held_bytes(),
                Event::Memory(seen) => seen.held_bytes(),
                Event::Interface(seen) => seen.held_bytes(),
                Event::Deed(deed) => deed.held_bytes(),
                Event::Disturb(seen) => seen.held_bytes(),
                Event::Check(seen) => seen.held_bytes(),
            }
    }

    /// What happened at one time and is kept one by one, by the clock of the world.
    pub fn happened(&self) -> Vec<Happened<'_>> {
        match self {
            Event::Checkpoint(seen) => seen.happened(),
            Event::Memory(seen) => seen.happened(),
            Event::Interface(seen) => seen.happened(),
            Event::Deed(deed) => deed.happened(),
            Event::Disturb(seen) => seen.happened(),
            Event::Check(seen) => seen.happened(),
            _ => Vec::new(),
        }
    }

    /// What it says that Surefoot did.
    pub fn deeds(&self) -> Vec<Deed> {
        match self {
            Event::Deed(deed) => vec![Deed::clone(deed)],
            Event::Checkpoint(CheckpointEvent::Journal { job, entries, .. }) => {
                entries.iter().filter_map(|entry| entry.deed(job)).collect()
            }
            Event::Disturb(seen) => seen.deed().into_iter().collect(),
            _ => Vec::new(),
        }
    }

    /// Whether from here on Surefoot itself takes time from cores on purpose, or no longer does.
    pub fn takes_cores(&self) -> Option<CoresTaken> {
        if let Event::Disturb(seen) = self { seen.takes_cores() } else { None }
    }
}

/// Something that happened in a room at one time.
#[derive(Debug, Clone, PartialEq)]
pub struct Happened<'a> {
    /// The room that it is of.
    pub room: Room,
    /// What happened, in one word of the room's.
    pub kind: &'static str,
    /// To what.
    pub subject: Subject,
    /// When, `CLOCK_REALTIME`.
    pub at_realtime_ns: u64,
    /// The whole of it.
    pub body: HappenedBody<'a>,
}

/// The whole of something that happened, as its room says it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum HappenedBody<'a> {
    /// A line of a job's journal.
    Journal(&'a JournalEntry),
    /// A memory error.
    ErrorReport(&'a ErrorReport),
    /// An interface came into another state.
    InterfaceChange(&'a InterfaceChange),
    /// Surefoot did something, or decided not to.
    Deed(&'a Deed),
    /// An experiment began.
    ExperimentBegan(&'a ExperimentBegan),
    /// An experiment ended.
    ExperimentEnded(&'a ExperimentEnded),
    /// A check of the host came into another state.
    HostCheck(&'a HostCheck),
}
