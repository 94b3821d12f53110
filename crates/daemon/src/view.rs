//! The shapes of the API: those of the model, without histograms, and narrowed by a [`Filter`].

use crate::filter::Filter;
use crate::state::{Dropped, Kept};
use crate::verdict::HostVerdict;
use serde::Serialize;
use std::collections::BTreeMap;
use surefoot_model::{
    Capability, Cause, Completeness, CoreLedger, Event, Gap, HostDescription, LARGEST_GAPS, Lost, Notice, Report,
    SelfCost, Untimed, Window,
};
use surefoot_store::history::{HistoryWindow, KeptGap};

/// Gaps in a snapshot: the longest ones.
const SNAPSHOT_GAPS_MAX: usize = 200;

/// Everything that the page shows at first.
#[derive(Serialize)]
pub(crate) struct SnapshotView<'a> {
    /// The version of Surefoot.
    version: &'static str,
    #[serde(flatten)]
    origin: Origin<'a>,
    /// The number of the newest live event in this answer.
    sequence: u64,
    now_ns: u64,
    /// `null` before the first window.
    age_ns: Option<u64>,
    verdict: HostVerdict,
    host: &'a Option<HostDescription>,
    capabilities: &'a [Capability],
    windows: Vec<WindowView<'a>>,
    gaps: Vec<&'a Gap>,
    notices: Vec<&'a Notice>,
    /// Where the newest report of raisers ends, which is at `/api/v1/who`; `null` where they are not watched.
    who_end_ns: Option<u64>,
    cost: SelfCost,
    dropped: &'a Dropped,
}

/// Where the data come from.
#[derive(Clone, Copy, Serialize)]
pub(crate) struct Origin<'a> {
    /// `live` or `replay`.
    pub(crate) mode: &'static str,
    /// The file that is replayed.
    pub(crate) recording: Option<&'a str>,
}

/// A stretch of time, summed up.
#[derive(Serialize)]
pub(crate) struct ReportView<'a> {
    version: &'static str,
    #[serde(flatten)]
    origin: Origin<'a>,
    verdict: HostVerdict,
    host: &'a Option<HostDescription>,
    start_ns: u64,
    end_ns: u64,
    /// How many windows are summed up.
    windows: u64,
    cores: Vec<CoreSumView>,
    causes: Vec<LostSumView>,
    untimed: Vec<Untimed>,
    completeness: Vec<Completeness>,
    cost: SelfCost,
    /// The longest gaps.
    gaps: Vec<&'a Gap>,
    /// How many gaps there were in all, the short ones included.
    gap_count: usize,
    notices: Vec<&'a Notice>,
    dropped: &'a Dropped,
}

/// A window, without histograms.
#[derive(Serialize)]
pub(crate) struct WindowView<'a> {
    start_ns: u64,
    end_ns: u64,
    cores: Vec<CoreView<'a>>,
    untimed: Vec<&'a Untimed>,
    completeness: &'a [Completeness],
    cost: &'a SelfCost,
}

#[derive(Serialize)]
struct CoreView<'a> {
    cpu: u32,
    wall_ns: u64,
    idle_ns: u64,
    user_ns: u64,
    kernel_ns: u64,
    lost: Vec<LostView<'a>>,
    /// Time of causes that the filter left out, so that the parts still add up.
    #[serde(skip_serializing_if = "is_zero")]
    filtered_ns: u64,
    unexplained_ns: u64,
}

#[derive(Serialize)]
struct LostView<'a> {
    kind: &'static str,
    name: &'a str,
    count: u64,
    total_ns: u64,
    max_ns: u64,
    while_idle_ns: u64,
}

#[derive(Serialize)]
struct CoreSumView {
    cpu: u32,
    wall_ns: u64,
    idle_ns: u64,
    user_ns: u64,
    kernel_ns: u64,
    lost: Vec<LostSumView>,
    #[serde(skip_serializing_if = "is_zero")]
    filtered_ns: u64,
    unexplained_ns: u64,
}

#[derive(Serialize)]
struct LostSumView {
    kind: &'static str,
    name: String,
    count: u64,
    total_ns: u64,
    max_ns: u64,
    while_idle_ns: u64,
    /// `null` where the source does not know single durations.
    p50_ns: Option<u64>,
    p99_ns: Option<u64>,
}

/// One event in the JSON form of the model, without histograms.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum EventView<'a> {
    Window {
        #[serde(rename = "type")]
        kind: &'static str,
        #[serde(flatten)]
        window: WindowView<'a>,
    },
    Other(&'a Event),
}

impl<'a> EventView<'a> {
    pub(crate) fn of(event: &'a Event) -> Self {
        match event {
            Event::Window(window) => {
                EventView::Window { kind: "window", window: WindowView::of(window, &Filter::default()) }
            }
            other => EventView::Other(other),
        }
    }
}

impl<'a> SnapshotView<'a> {
    pub(crate) fn of(kept: &'a Kept, origin: Origin<'a>, filter: &Filter) -> Self {
        let end_ns = kept.end_ns();
        let windows = kept.windows().filter(|window| filter.has_window(window, end_ns));
        let mut gaps = longest_gaps(kept, filter);
        gaps.truncate(SNAPSHOT_GAPS_MAX);
        SnapshotView {
            version: env!("CARGO_PKG_VERSION"),
            origin,
            sequence: kept.sequence,
            now_ns: kept.now_ns,
            age_ns: kept.age_ns(),
            verdict: kept.verdict(),
            host: &kept.host,
            capabilities: &kept.capabilities,
            windows: windows.map(|window| WindowView::of(window, filter)).collect(),
            gaps,
            notices: kept.notices().collect(),
            who_end_ns: kept.who().map(|who| who.end_ns),
            cost: kept.cost(),
            dropped: &kept.dropped,
        }
    }
}

impl<'a> ReportView<'a> {
    pub(crate) fn of(kept: &'a Kept, origin: Origin<'a>, filter: &Filter) -> Self {
        let end_ns = kept.end_ns();
        let mut report = Report::default();
        for event in kept.window_events() {
            if matches!(event, Event::Window(window) if filter.has_window(window, end_ns)) {
                report.add(event);
            }
        }
        let ledgers: Vec<CoreLedger> = report.cores().into_iter().filter(|core| filter.has_cpu(core.cpu)).collect();
        let mut gaps = longest_gaps(kept, filter);
        let gap_count = gaps.len();
        gaps.truncate(LARGEST_GAPS);
        ReportView {
            version: env!("CARGO_PKG_VERSION"),
            origin,
            verdict: kept.verdict(),
            host: &kept.host,
            start_ns: report.start_ns,
            end_ns: report.end_ns,
            windows: report.windows,
            causes: causes(&ledgers, filter),
            cores: ledgers.into_iter().map(|core| CoreSumView::of(core, filter)).collect(),
            untimed: report.untimed.into_iter().filter(|row| filter.has_cpu(row.cpu)).collect(),
            completeness: report.completeness,
            cost: report.cost,
            gaps,
            gap_count,
            notices: kept.notices().collect(),
            dropped: &kept.dropped,
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
    let mut sums: BTreeMap<&Cause, Lost> = BTreeMap::new();
    let rows = ledgers.iter().flat_map(|core| &core.lost);
    for lost in rows.filter(|lost| filter.has_kind(lost.cause.kind)) {
        let sum = sums.entry(&lost.cause).or_insert_with(|| Lost::new(lost.cause.clone(), 0, 0, 0));
        sum.count = sum.count.saturating_add(lost.count);
        sum.total_ns = sum.total_ns.saturating_add(lost.total_ns);
        sum.max_ns = sum.max_ns.max(lost.max_ns);
        sum.while_idle_ns = sum.while_idle_ns.saturating_add(lost.while_idle_ns);
        sum.histogram.merge(&lost.histogram);
    }
    let mut causes: Vec<Lost> = sums.into_values().collect();
    causes.sort_by(|a, b| b.total_ns.cmp(&a.total_ns).then_with(|| a.cause.cmp(&b.cause)));
    causes.into_iter().map(LostSumView::of).collect()
}

impl<'a> WindowView<'a> {
    fn of(window: &'a Window, filter: &Filter) -> Self {
        let cores = window.cores.iter().filter(|core| filter.has_cpu(core.cpu));
        WindowView {
            start_ns: window.start_ns,
            end_ns: window.end_ns,
            cores: cores.map(|core| CoreView::of(core, filter)).collect(),
            untimed: window.untimed.iter().filter(|row| filter.has_cpu(row.cpu)).collect(),
            completeness: &window.completeness,
            cost: &window.cost,
        }
    }
}

impl<'a> CoreView<'a> {
    fn of(core: &'a CoreLedger, filter: &Filter) -> Self {
        let lost = core.lost.iter().filter(|lost| filter.has_kind(lost.cause.kind));
        CoreView {
            cpu: core.cpu.0,
            wall_ns: core.wall_ns,
            idle_ns: core.idle_ns,
            user_ns: core.user_ns,
            kernel_ns: core.kernel_ns,
            lost: lost.map(LostView::of).collect(),
            filtered_ns: filtered_ns(core, filter),
            unexplained_ns: core.unexplained_ns,
        }
    }
}

impl<'a> LostView<'a> {
    fn of(lost: &'a Lost) -> Self {
        LostView {
            kind: lost.cause.kind.as_str(),
            name: &lost.cause.name,
            count: lost.count,
            total_ns: lost.total_ns,
            max_ns: lost.max_ns,
            while_idle_ns: lost.while_idle_ns,
        }
    }
}

impl CoreSumView {
    fn of(core: CoreLedger, filter: &Filter) -> Self {
        CoreSumView {
            cpu: core.cpu.0,
            wall_ns: core.wall_ns,
            idle_ns: core.idle_ns,
            user_ns: core.user_ns,
            kernel_ns: core.kernel_ns,
            filtered_ns: filtered_ns(&core, filter),
            unexplained_ns: core.unexplained_ns,
            lost: core.lost.into_iter().filter(|lost| filter.has_kind(lost.cause.kind)).map(LostSumView::of).collect(),
        }
    }
}

impl LostSumView {
    fn of(lost: Lost) -> Self {
        let known = lost.histogram.count() > 0;
        // The middle of a bucket may lie above the longest one that was seen in it.
        let quantile_ns = |quantile| lost.histogram.quantile_ns(quantile).min(lost.max_ns);
        LostSumView {
            kind: lost.cause.kind.as_str(),
            p50_ns: known.then(|| quantile_ns(0.5)),
            p99_ns: known.then(|| quantile_ns(0.99)),
            name: lost.cause.name,
            count: lost.count,
            total_ns: lost.total_ns,
            max_ns: lost.max_ns,
            while_idle_ns: lost.while_idle_ns,
        }
    }
}

fn filtered_ns(core: &CoreLedger, filter: &Filter) -> u64 {
    core.lost
        .iter()
        .filter(|lost| !filter.has_kind(lost.cause.kind))
        .fold(0, |sum, lost| sum.saturating_add(lost.total_ns))
}

/// A window of the history, on the clock of the world.
#[derive(Serialize)]
pub(crate) struct PastWindowView<'a> {
    start_realtime_ns: i64,
    end_realtime_ns: i64,
    cores: Vec<CoreView<'a>>,
}

impl<'a> PastWindowView<'a> {
    pub(crate) fn of(window: &'a HistoryWindow) -> Self {
        PastWindowView {
            start_realtime_ns: window.start_ns,
            end_realtime_ns: window.end_ns,
            cores: window.cores.iter().map(|core| CoreView::of(core, &Filter::default())).collect(),
        }
    }
}

/// A gap of the history; the times in the gap itself are those of the boot that it happened in.
#[derive(Serialize)]
pub(crate) struct PastGapView<'a> {
    start_realtime_ns: i64,
    #[serde(flatten)]
    gap: &'a Gap,
}

impl<'a> PastGapView<'a> {
    pub(crate) fn of(kept: &'a KeptGap) -> Self {
        PastGapView { start_realtime_ns: kept.start_ns, gap: &kept.gap }
    }
}

/// A notice of the history.
#[derive(Serialize)]
pub(crate) struct PastNoticeView<'a> {
    at_realtime_ns: i64,
    text: &'a str,
}

impl<'a> PastNoticeView<'a> {
    pub(crate) fn of((at_realtime_ns, text): &'a (i64, String)) -> Self {
        PastNoticeView { at_realtime_ns: *at_realtime_ns, text }
    }
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}
