//! The shapes of the API: those of the model, without histograms, and narrowed by a [`Filter`].

use super::filter::Filter;
use super::state::Kept;
use crate::drops::Dropped;
use crate::moment::{Mode, Now};
use schemars::JsonSchema;
use serde::Serialize;
use surefoot_model::{
    Capability, CauseKind, ClockChange, Completeness, CoreLedger, CpuId, FaultyCore, FaultySum, Gap, Headline,
    HostDescription, LARGEST_GAPS, Lost, Notice, Report, SCHEMA, SelfCost, Untimed, Waiting, Window,
};

/// Gaps in a snapshot: the longest ones.
const SNAPSHOT_GAPS_MAX: usize = 200;

/// Everything that the page shows at first.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Snapshot")]
pub struct SnapshotView<'a> {
    schema: u32,
    /// The version of Surefoot.
    version: &'static str,
    #[serde(flatten)]
    origin: Origin<'a>,
    /// The number of the newest live event in this answer.
    sequence: u64,
    now_ns: u64,
    /// `null` before the first window.
    age_ns: Option<u64>,
    headline: &'a Headline,
    host: &'a Option<HostDescription>,
    capabilities: &'a [Capability],
    windows: Vec<WindowView<'a>>,
    gaps: Vec<&'a Gap>,
    notices: Vec<&'a Notice>,
    /// When the wall clock was set or the machine slept, oldest first. Before the first, and without any, the host's
    /// `realtime_offset_ns` makes times of the day of the others.
    clock_changes: &'a [ClockChange],
    /// Where the newest report of raisers ends, which is at `/api/v1/who`; `null` where they are not watched.
    who_end_ns: Option<u64>,
    cost: SelfCost,
    dropped: &'a Dropped,
}

/// Where the data come from.
#[derive(Clone, Copy, Serialize, JsonSchema)]
#[allow(missing_docs, reason = "a description would stand in the schema as well")]
pub struct Origin<'a> {
    pub mode: OriginMode,
    /// The file that is replayed.
    pub recording: Option<&'a str>,
}

/// Whether this machine is looked at now, or a recording is shown; `demo` is made-up data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Mode")]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "descriptions would make another schema of it")]
pub enum OriginMode {
    Live,
    Replay,
    Demo,
}

impl<'a> Origin<'a> {
    /// What a mode says of it.
    pub fn of(mode: &'a Mode) -> Self {
        match mode {
            Mode::Live => Origin { mode: OriginMode::Live, recording: None },
            Mode::Replay { file } => Origin { mode: OriginMode::Replay, recording: Some(file) },
            Mode::Demo { .. } => Origin { mode: OriginMode::Demo, recording: None },
        }
    }
}

/// A stretch of time, summed up.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Report")]
pub struct ReportView<'a> {
    schema: u32,
    version: &'static str,
    #[serde(flatten)]
    origin: Origin<'a>,
    headline: &'a Headline,
    host: &'a Option<HostDescription>,
    start_ns: u64,
    end_ns: u64,
    /// How many windows are summed up.
    windows: u64,
    cores: Vec<CoreView<LostSumView>>,
    /// Ledgers that cannot be true, by core. They are in no sum.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    faulty: Vec<FaultySum>,
    causes: Vec<LostSumView>,
    untimed: Vec<Untimed>,
    completeness: Vec<Completeness>,
    cost: SelfCost,
    /// The longest gaps.
    gaps: Vec<&'a Gap>,
    /// How many gaps there were in all, the short ones included.
    gap_count: usize,
    notices: Vec<&'a Notice>,
    /// When the wall clock was set or the machine slept, oldest first. Before the first, and without any, the host's
    /// `realtime_offset_ns` makes times of the day of the others.
    clock_changes: &'a [ClockChange],
    dropped: &'a Dropped,
}

/// A window, without histograms.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Window")]
pub struct WindowView<'a> {
    start_ns: u64,
    end_ns: u64,
    cores: Vec<CoreView<LostView<'a>>>,
    /// Cores whose ledgers of this window cannot be true. They are in no sum.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    faulty: Vec<FaultyCore>,
    untimed: Vec<&'a Untimed>,
    completeness: &'a [Completeness],
    cost: &'a SelfCost,
}

/// The ledger of a core.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "LedgerOf{L}")]
struct CoreView<L> {
    cpu: CpuId,
    wall_ns: u64,
    idle_ns: u64,
    user_ns: u64,
    kernel_ns: u64,
    lost: Vec<L>,
    /// Time of causes that the filter left out, so that the parts still add up.
    #[serde(skip_serializing_if = "is_zero")]
    filtered_ns: u64,
    unexplained_ns: u64,
    /// How long tasks waited for the core, where the source knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting: Option<Waiting>,
}

/// What one cause took.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Lost")]
struct LostView<'a> {
    kind: CauseKind,
    name: &'a str,
    /// `null` where the source knows the time alone, as of steal.
    count: Option<u64>,
    total_ns: u64,
    /// `null` where the source does not know single occurrences.
    max_ns: Option<u64>,
    while_idle_ns: u64,
}

/// What one cause took in a stretch of time.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ReportCause")]
struct LostSumView {
    kind: CauseKind,
    name: String,
    /// `null` where the source knows the time alone, as of steal.
    count: Option<u64>,
    total_ns: u64,
    /// `null` where the source does not know single occurrences.
    max_ns: Option<u64>,
    while_idle_ns: u64,
    /// `null` where the source does not know single durations.
    p50_ns: Option<u64>,
    p99_ns: Option<u64>,
}

impl<'a> SnapshotView<'a> {
    /// What a filter lets through of what is kept.
    pub fn of(now: &'a Now, kept: &'a Kept, filter: &Filter) -> Self {
        let moment = &now.moment;
        let end_ns = kept.end_ns();
        let windows = kept.windows().filter(|window| filter.has_window(window, end_ns));
        let mut gaps = longest_gaps(kept, filter);
        gaps.truncate(SNAPSHOT_GAPS_MAX);
        SnapshotView {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            origin: Origin::of(&moment.mode),
            sequence: moment.sequence,
            now_ns: moment.now_ns,
            age_ns: moment.age_ns,
            headline: &now.findings.headline,
            host: &moment.host,
            capabilities: &moment.capabilities,
            windows: windows.map(|window| WindowView::of(window, filter)).collect(),
            gaps,
            notices: moment.notices().collect(),
            clock_changes: moment.clock.changes(),
            who_end_ns: kept.who().map(|who| who.end_ns),
            cost: kept.cost(),
            dropped: &now.dropped,
        }
    }
}

impl<'a> ReportView<'a> {
    /// The sum of what a filter lets through.
    pub fn of(now: &'a Now, kept: &'a Kept, filter: &Filter) -> Self {
        let moment = &now.moment;
        let end_ns = kept.end_ns();
        let mut report = Report::default();
        kept.windows().filter(|window| filter.has_window(window, end_ns)).for_each(|window| report.add_window(window));
        let ledgers: Vec<CoreLedger> = report.cores().into_iter().filter(|core| filter.has_cpu(core.cpu)).collect();
        let mut gaps = longest_gaps(kept, filter);
        let gap_count = gaps.len();
        gaps.truncate(LARGEST_GAPS);
        ReportView {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            origin: Origin::of(&moment.mode),
            headline: &now.findings.headline,
            host: &moment.host,
            start_ns: report.start_ns,
            end_ns: report.end_ns,
            windows: report.windows,
            causes: causes(&ledgers, filter),
            faulty: report.faulty().into_iter().filter(|row| filter.has_cpu(row.cpu)).collect(),
            cores: ledgers.iter().map(|core| CoreView::of(core, filter, LostSumView::of)).collect(),
            untimed: report.untimed.into_iter().filter(|row| filter.has_cpu(row.cpu)).collect(),
            completeness: report.completeness,
            cost: report.cost,
            gaps,
            gap_count,
            notices: moment.notices().collect(),
            clock_changes: moment.clock.changes(),
            dropped: &now.dropped,
        }
    }
}

/// The gaps that a filter lets through, longest first; of equals the older first.
fn longest_gaps<'a>(kept: &'a Kept, filter: &Filter) -> Vec<&'a Gap> {
    let end_ns = kept.end_ns();
    let mut gaps: Vec<&Gap> = kept.gaps().filter(|gap| filter.has_gap(gap, end_ns)).collect();
    gaps.sort_by_key(|gap| (std::cmp::Reverse(gap.duration_ns), gap.start_ns));
    gaps
}

/// The causes that a filter lets through, summed over these cores, largest first.
fn causes(ledgers: &[CoreLedger], filter: &Filter) -> Vec<LostSumView> {
    let rows = ledgers.iter().flat_map(|core| &core.lost).filter(|lost| filter.has_kind(lost.cause.kind));
    Lost::by_cause(rows).iter().map(LostSumView::of).collect()
}

impl<'a> WindowView<'a> {
    /// The whole window.
    pub fn whole(window: &'a Window) -> Self {
        WindowView::of(window, &Filter::default())
    }

    fn of(window: &'a Window, filter: &Filter) -> Self {
        let cores = window.cores.iter().filter(|core| filter.has_cpu(core.cpu));
        WindowView {
            start_ns: window.start_ns,
            end_ns: window.end_ns,
            cores: cores.map(|core| CoreView::of(core, filter, LostView::of)).collect(),
            faulty: window.faulty.iter().filter(|core| filter.has_cpu(core.cpu)).copied().collect(),
            untimed: window.untimed.iter().filter(|row| filter.has_cpu(row.cpu)).collect(),
            completeness: &window.completeness,
            cost: &window.cost,
        }
    }
}

impl<L> CoreView<L> {
    fn of<'a>(core: &'a CoreLedger, filter: &Filter, row: impl Fn(&'a Lost) -> L) -> Self {
        let left_out = core.lost.iter().filter(|lost| !filter.has_kind(lost.cause.kind));
        CoreView {
            cpu: core.cpu,
            wall_ns: core.wall_ns,
            idle_ns: core.idle_ns,
            user_ns: core.user_ns,
            kernel_ns: core.kernel_ns,
            lost: core.lost.iter().filter(|lost| filter.has_kind(lost.cause.kind)).map(row).collect(),
            filtered_ns: left_out.fold(0, |sum, lost| sum.saturating_add(lost.total_ns)),
            unexplained_ns: core.unexplained_ns,
            waiting: core.waiting,
        }
    }
}

impl<'a> LostView<'a> {
    fn of(lost: &'a Lost) -> Self {
        LostView {
            kind: lost.cause.kind,
            name: &lost.cause.name,
            count: lost.known_count(),
            total_ns: lost.total_ns,
            max_ns: lost.known_max_ns(),
            while_idle_ns: lost.while_idle_ns,
        }
    }
}

impl LostSumView {
    fn of(lost: &Lost) -> Self {
        LostSumView {
            kind: lost.cause.kind,
            p50_ns: lost.quantile_ns(0.5),
            p99_ns: lost.quantile_ns(0.99),
            name: lost.cause.name.clone(),
            count: lost.known_count(),
            total_ns: lost.total_ns,
            max_ns: lost.known_max_ns(),
            while_idle_ns: lost.while_idle_ns,
        }
    }
}

/// A window of the history, on the clock of the world.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "PastWindow")]
pub struct PastWindowView<'a> {
    start_realtime_ns: i64,
    end_realtime_ns: i64,
    cores: Vec<CoreView<LostView<'a>>>,
    /// Cores whose ledgers could not be true; they are in no sum.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    faulty: &'a [FaultySum],
}

impl<'a> PastWindowView<'a> {
    /// Of these ledgers, from one time to another, nanoseconds since 1970.
    pub fn of((start_ns, end_ns): (i64, i64), cores: &'a [CoreLedger], faulty: &'a [FaultySum]) -> Self {
        PastWindowView {
            start_realtime_ns: start_ns,
            end_realtime_ns: end_ns,
            cores: cores.iter().map(|core| CoreView::of(core, &Filter::default(), LostView::of)).collect(),
            faulty,
        }
    }
}

/// A gap of the history; the times in the gap itself are those of the boot that it happened in.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "PastGap")]
pub struct PastGapView<'a> {
    start_realtime_ns: i64,
    #[serde(flatten)]
    gap: &'a Gap,
}

impl<'a> PastGapView<'a> {
    /// Of one that began at this time, nanoseconds since 1970.
    pub fn of(start_ns: i64, gap: &'a Gap) -> Self {
        PastGapView { start_realtime_ns: start_ns, gap }
    }
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}
