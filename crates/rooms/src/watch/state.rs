//! What is known of the watch itself: the fold over windows, raisers and the reports of sources.

use crate::drops::Dropped;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use surefoot_model::{Event, ProbeCost, SelfCost, SourceReport, SourceState};

/// Probes that are told apart; the rest counts as [`OTHER`].
const PROBES_MAX: usize = 64;
const OTHER: &str = "other";
/// Sources that are told apart; a recording may name any number.
const SOURCES_MAX: usize = 64;
/// Windows whose losses are told apart: more than end in a minute.
const WINDOWS_MAX: usize = 128;
/// Characters of a name.
const NAME_CHARACTERS_MAX: usize = 128;

/// What is known of the watch itself.
#[derive(Debug, Default)]
pub struct State {
    totals: Totals,
    /// The newest word of each source.
    pub sources: BTreeMap<String, SourceReport>,
    before: Dropped,
    /// When events were dropped last before anybody saw them, `CLOCK_MONOTONIC`.
    pub unseen_ns: Option<u64>,
    /// When the history lost some, on the same clock.
    pub history_ns: Option<u64>,
    /// Records and marks of raisers that were lost since the start.
    pub raisers_lost: u64,
    /// When that was last.
    pub raisers_ns: Option<u64>,
    /// Of the newest windows: when each ended, and what the kernel did not trace in it.
    untraced: VecDeque<(u64, u64)>,
    /// Of the newest report of raisers: when its watch began, and what it had lost until then.
    raisers_before: (u64, u64),
}

/// Sums since the server began, which only grow.
#[derive(Debug, Clone, Default)]
pub struct Totals {
    /// The eBPF programs, by name.
    pub probes: BTreeMap<String, ProbeCost>,
    /// Processor time of this process.
    pub process_cpu_ns: u64,
    /// As in the newest window.
    pub resident_bytes: u64,
    /// As in the newest window.
    pub map_bytes: u64,
    /// Events that the kernel's side overwrote before they were read.
    pub overwritten: u64,
    /// Snapshots of a core that were skipped.
    pub torn: u64,
    /// Ends of interrupts and switches that the kernel did not report.
    pub unreported: u64,
    /// Interrupts that the kernel counted and did not trace.
    pub untraced_interrupts: u64,
    /// Interrupts that Surefoot raised on watched cores.
    pub self_interrupts: u64,
    /// Interrupts on watched cores while programs were attached.
    pub attach_interrupts: u64,
}

impl State {
    /// Takes an event in.
    pub fn take(&mut self, event: &Arc<Event>) {
        match &**event {
            Event::Window(window) => {
                self.untraced.push_back((window.end_ns, untraced(&window.cost)));
                self.untraced.drain(..self.untraced.len().saturating_sub(WINDOWS_MAX));
                if window.cost.dropped > 0 {
                    self.unseen_ns = self.unseen_ns.max(Some(window.end_ns));
                }
                self.totals.add(&window.cost);
            }
            Event::Who(who) => {
                let lost = who.records_dropped.saturating_add(who.marks_lost);
                let before = if self.raisers_before.0 == who.start_ns { self.raisers_before.1 } else { 0 };
                self.raisers_before = (who.start_ns, lost);
                if lost > before {
                    self.raisers_lost = self.raisers_lost.saturating_add(lost - before);
                    self.raisers_ns = Some(who.end_ns);
                }
            }
            Event::Source(report) if self.sources.len() < SOURCES_MAX || self.sources.contains_key(&report.source) => {
                self.sources.insert(shortened(&report.source), report.clone());
            }
            _ => {}
        }
    }

    /// Compares what was dropped with the last time.
    pub fn note_dropped(&mut self, now: &Dropped, now_ns: u64) {
        if now.unseen() > self.before.unseen() {
            self.unseen_ns = Some(now_ns);
        }
        if now.history > self.before.history {
            self.history_ns = Some(now_ns);
        }
        self.before = now.clone();
    }

    /// Events that were dropped since the start: before anybody saw them, or on their way to the history.
    pub fn events_dropped(&self) -> u64 {
        [self.totals.overwritten, self.before.unseen(), self.before.history].into_iter().fold(0, u64::saturating_add)
    }

    /// What the kernel did not trace in the windows that ended at this time or later.
    pub fn untraced_since(&self, from_ns: u64) -> u64 {
        let recent = self.untraced.iter().filter(|(end_ns, _)| *end_ns >= from_ns);
        recent.fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// The sums since the server began.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// The sources that do not work now.
    pub fn failing(&self) -> impl Iterator<Item = &SourceReport> {
        self.sources.values().filter(|report| report.state != SourceState::Works)
    }
}

impl Totals {
    fn add(&mut self, cost: &SelfCost) {
        for probe in &cost.probes {
            let is_known = self.probes.len() < PROBES_MAX || self.probes.contains_key(&probe.name);
            let name = shortened(if is_known { &probe.name } else { OTHER });
            let none = || ProbeCost { name: name.clone(), count: 0, total_ns: 0, missed: 0 };
            let sum = self.probes.entry(name.clone()).or_insert_with(none);
            sum.count = sum.count.saturating_add(probe.count);
            sum.total_ns = sum.total_ns.saturating_add(probe.total_ns);
            sum.missed = sum.missed.saturating_add(probe.missed);
        }
        self.process_cpu_ns = self.process_cpu_ns.saturating_add(cost.process_cpu_ns);
        self.resident_bytes = cost.resident_bytes;
        self.map_bytes = cost.map_bytes;
        self.overwritten = self.overwritten.saturating_add(cost.dropped);
        self.torn = self.torn.saturating_add(cost.torn);
        self.unreported = self.unreported.saturating_add(cost.unreported);
        self.untraced_interrupts = self.untraced_interrupts.saturating_add(cost.untraced_interrupts);
        self.self_interrupts = self.self_interrupts.saturating_add(cost.self_interrupts);
        self.attach_interrupts = self.attach_interrupts.saturating_add(cost.attach_interrupts.unwrap_or(0));
    }
}

/// Interrupts and exits of a window that were not traced, and program runs that were skipped.
fn untraced(cost: &SelfCost) -> u64 {
    let missed = cost.probes.iter().fold(0u64, |sum, probe| sum.saturating_add(probe.missed));
    missed.saturating_add(cost.unreported).saturating_add(cost.untraced_interrupts)
}

fn shortened(name: &str) -> String {
    name.chars().take(NAME_CHARACTERS_MAX).collect()
}
