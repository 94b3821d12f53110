//! Reports of who raised interrupts count from the start of their watch. A [`Mark`] keeps the counts of one in little room, and
//! [`since`] answers for the time from there to a later report. Pure.
//!
//! Counts are exact for each name. A raiser that had no row of its own at the mark is counted with those of its name, as long as some
//! of that name had none: how often it was there before is not known. Quantiles, the longest, and what is known of lines and tasks stay
//! those of the whole watch.

use crate::advice::{self, HostFacts};
use crate::{fix_first, limit};
use std::cmp::Reverse;
use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, HashMap};
use std::hash::{Hash, Hasher};
use surefoot_model::{Advice, Certainty, CpuId, Fix, Interrupt, ProbeCost, Raiser, SelfCost, WhoCore, WhoReport};

/// A raiser's row takes so much of a mark, a kind of interrupt so much, and the rest.
const RAISER_BYTES: usize = 64;
const INTERRUPT_BYTES: usize = 256;
const REST_BYTES: usize = 8192;

/// The counts of a report at its end.
#[derive(Debug, Clone)]
pub struct Mark {
    /// The report without its interrupts, loops' gaps and sentences.
    at: WhoReport,
    interrupts: HashMap<u64, OfInterrupt>,
    /// Whether interrupts are missing that were there, for lack of room.
    is_cut: bool,
}

#[derive(Debug, Clone, Default)]
struct OfInterrupt {
    count: u64,
    total_ns: u64,
    while_idle_ns: u64,
    entry_exit_ns: u64,
    unknown_raisers: u64,
    raisers: HashMap<u64, Rows>,
    /// The sums by name of raisers that had no row; `(other)` is a name, too.
    sums: HashMap<u64, u64>,
}

/// Raisers that differ by their user stacks alone, which get their names only some time after they were seen first.
#[derive(Debug, Clone)]
struct Rows {
    name: u64,
    /// The user stacks and their counts.
    stacks: Vec<(u64, u64)>,
}

fn key(of: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

fn name_key(certainty: Certainty, comm: &str) -> u64 {
    key(&(certainty as u8, comm))
}

fn raiser_key(raiser: &Raiser) -> u64 {
    let Raiser { certainty, function, syscall, comm, pid, tid, wakee, kernel_stack, .. } = raiser;
    key(&(*certainty as u8, function, syscall, comm, pid, tid, wakee, kernel_stack))
}

impl Mark {
    /// The counts of a report.
    pub fn of(report: &WhoReport) -> Self {
        let interrupts =
            report.interrupts.iter().map(|one| (key(&(one.cpu, &one.cause)), OfInterrupt::of(one))).collect();
        let at = WhoReport {
            interrupts: Vec::new(),
            loop_gaps: Vec::new(),
            fix_first: Vec::new(),
            missing: Vec::new(),
            notices: Vec::new(),
            timeline: None,
            ..shallow(report)
        };
        let told = |cpu: CpuId| {
            let of_core = report.interrupts.iter().filter(|one| one.cpu == cpu);
            of_core.fold(0u64, |sum, one| sum.saturating_add(one.taken_ns()))
        };
        let is_cut = report.cores.iter().any(|core| told(core.cpu) < core.lost_ns);
        Mark { at, interrupts, is_cut }
    }

    /// When the report ended, `CLOCK_MONOTONIC` nanoseconds.
    pub fn end_ns(&self) -> u64 {
        self.at.end_ns
    }

    /// When its watch began; a report of another watch says nothing about the time since this mark.
    pub fn start_ns(&self) -> u64 {
        self.at.start_ns
    }

    /// Memory that it takes, about.
    pub fn held_bytes(&self) -> usize {
        let rows =
            |one: &OfInterrupt| one.raisers.values().map(|rows| rows.stacks.len()).sum::<usize>() + one.sums.len();
        let interrupts = self.interrupts.values().map(|one| INTERRUPT_BYTES + RAISER_BYTES * rows(one));
        REST_BYTES + interrupts.sum::<usize>()
    }
}

/// A report without what is long in it.
fn shallow(report: &WhoReport) -> WhoReport {
    WhoReport {
        start_ns: report.start_ns,
        end_ns: report.end_ns,
        cores: report.cores.clone(),
        loops: report.loops.clone(),
        cost: report.cost.clone(),
        joined_count: report.joined_count,
        called_count: report.called_count,
        records: report.records,
        records_without_stack: report.records_without_stack,
        records_dropped: report.records_dropped,
        records_unmatched: report.records_unmatched,
        marks_lost: report.marks_lost,
        naming_deaths: report.naming_deaths,
        ..WhoReport::default()
    }
}

impl OfInterrupt {
    fn of(interrupt: &Interrupt) -> Self {
        let mut found = OfInterrupt {
            count: interrupt.count,
            total_ns: interrupt.total_ns,
            while_idle_ns: interrupt.while_idle_ns,
            entry_exit_ns: interrupt.entry_exit_ns.unwrap_or(0),
            unknown_raisers: interrupt.unknown_raisers,
            ..OfInterrupt::default()
        };
        for raiser in &interrupt.raisers {
            if limit::is_sum(raiser) {
                let sum = found.sums.entry(name_key(raiser.certainty, &raiser.comm)).or_default();
                *sum = sum.saturating_add(raiser.count);
            } else {
                let name = name_key(raiser.certainty, &raiser.comm);
                let rows = found.raisers.entry(raiser_key(raiser)).or_insert(Rows { name, stacks: Vec::new() });
                rows.stacks.push((key(&raiser.user_stack), raiser.count));
            }
        }
        found
    }
}

/// What a report says of the time since a mark of the same watch. The same report where the mark is of another one.
pub fn since(report: &WhoReport, mark: &Mark) -> WhoReport {
    let before = &mark.at;
    if before.start_ns != report.start_ns || before.end_ns > report.end_ns {
        return report.clone();
    }
    let mut found = WhoReport {
        start_ns: before.end_ns,
        watch_start_ns: Some(report.start_ns),
        cores: report.cores.iter().map(|core| core_since(core, &before.cores)).collect(),
        cost: cost_since(&report.cost, &before.cost),
        timeline: None,
        ..report.clone()
    };
    for (now, then) in [
        (&mut found.joined_count, before.joined_count),
        (&mut found.called_count, before.called_count),
        (&mut found.records, before.records),
        (&mut found.records_without_stack, before.records_without_stack),
        (&mut found.records_dropped, before.records_dropped),
        (&mut found.records_unmatched, before.records_unmatched),
        (&mut found.marks_lost, before.marks_lost),
        (&mut found.naming_deaths, before.naming_deaths),
    ] {
        *now = now.saturating_sub(then);
    }
    found.loop_gaps.retain(|gap| gap.start_ns >= before.end_ns);
    found.notices.retain(|notice| notice.at_ns >= before.end_ns);
    for one in &mut found.loops {
        let is_it =
            |then: &&surefoot_model::LoopSummary| (then.pid, then.tid, &then.name) == (one.pid, one.tid, &one.name);
        if let Some(then) = before.loops.iter().find(is_it) {
            one.gap_count = one.gap_count.saturating_sub(then.gap_count);
            one.total_ns = one.total_ns.saturating_sub(then.total_ns);
            one.overwritten = one.overwritten.saturating_sub(then.overwritten);
            one.not_listed = one.not_listed.saturating_sub(then.not_listed);
        }
    }
    let mut counted_too = 0u64;
    let nothing = OfInterrupt::default();
    for interrupt in &mut found.interrupts {
        let then = mark.interrupts.get(&key(&(interrupt.cpu, &interrupt.cause))).unwrap_or(&nothing);
        counted_too = counted_too.saturating_add(subtract(interrupt, then));
    }
    found.interrupts.retain(|interrupt| interrupt.count > 0 || interrupt.total_ns > 0);
    found.interrupts.sort_by_key(|interrupt| Reverse(interrupt.total_ns));
    let lost: HashMap<CpuId, u64> = found.cores.iter().map(|core| (core.cpu, core.lost_ns)).collect();
    for interrupt in &mut found.interrupts {
        let lost_ns = u128::from(lost.get(&interrupt.cpu).copied().unwrap_or(0));
        let share = (u128::from(interrupt.taken_ns()) * 1_000_000).checked_div(lost_ns).unwrap_or(0);
        interrupt.share_of_lost_ppm = share.min(1_000_000) as u64;
    }
    if counted_too > 0 {
        found.missing.push(format!(
            "up to {counted_too} arrivals before the range are counted with it: their raisers had no room by name then"
        ));
    }
    if mark.is_cut {
        found.missing.push(
            "the report at the start of the range had no room for all kinds of interrupt: those count from the start of the watch"
                .to_owned(),
        );
    }
    found.fix_first = fix_first::rank(&found);
    found
}

/// Takes the counts of a mark from those of an interrupt. Returns how many arrivals of the time before may still be among them.
fn subtract(interrupt: &mut Interrupt, then: &OfInterrupt) -> u64 {
    interrupt.count = interrupt.count.saturating_sub(then.count);
    interrupt.total_ns = interrupt.total_ns.saturating_sub(then.total_ns);
    interrupt.while_idle_ns = interrupt.while_idle_ns.saturating_sub(then.while_idle_ns);
    interrupt.entry_exit_ns = interrupt.entry_exit_ns.map(|ns| ns.saturating_sub(then.entry_exit_ns));
    interrupt.unknown_raisers = interrupt.unknown_raisers.saturating_sub(then.unknown_raisers);
    let (raisers, counted_too) = raisers_since(std::mem::take(&mut interrupt.raisers), then);
    interrupt.raisers = raisers;
    interrupt.advice = advice_since(interrupt);
    counted_too
}

/// What has no row of its own now, of one name.
#[derive(Default)]
struct OfName {
    count: u64,
    pid: u32,
}

/// The raisers less those of the mark, and how many arrivals of before may still be among them.
fn raisers_since(raisers: Vec<Raiser>, then: &OfInterrupt) -> (Vec<Raiser>, u64) {
    let mut left = then.raisers.clone();
    let mut take = |raiser: &Raiser, is_it: &dyn Fn(&(u64, u64)) -> bool| {
        let rows = left.get_mut(&raiser_key(raiser))?;
        Some(rows.stacks.swap_remove(rows.stacks.iter().position(is_it)?).1)
    };
    let (mut rows, mut unmatched) = (Vec::new(), Vec::new());
    let mut together: BTreeMap<(Certainty, String), OfName> = BTreeMap::new();
    let mut add = |raiser: &Raiser| {
        let of_name =
            together.entry((raiser.certainty, raiser.comm.clone())).or_insert(OfName { count: 0, pid: raiser.pid });
        of_name.count = of_name.count.saturating_add(raiser.count);
        of_name.pid = if of_name.pid == raiser.pid { raiser.pid } else { 0 };
    };
    for mut raiser in raisers {
        let user = key(&raiser.user_stack);
        if limit::is_sum(&raiser) {
            add(&raiser);
        } else if let Some(count) = take(&raiser, &|stack| stack.0 == user) {
            raiser.count = raiser.count.saturating_sub(count);
            rows.push(raiser);
        } else {
            unmatched.push(raiser);
        }
    }
    for mut raiser in unmatched {
        let whole = raiser.count;
        if let Some(count) = take(&raiser, &|stack| stack.1 <= whole) {
            raiser.count -= count;
            rows.push(raiser);
        } else if then.sums.contains_key(&name_key(raiser.certainty, &raiser.comm)) {
            add(&raiser);
        } else {
            rows.push(raiser);
        }
    }
    // What had no row then, or has none any more, by name.
    let mut before = then.sums.clone();
    for Rows { name, stacks } in left.into_values() {
        let count = stacks.iter().fold(0u64, |sum, stack| sum.saturating_add(stack.1));
        let of_name = before.entry(name).or_default();
        *of_name = of_name.saturating_add(count);
    }
    let mut sums = Vec::new();
    for ((certainty, comm), OfName { count, pid }) in together {
        let gone = before.get_mut(&name_key(certainty, &comm));
        let taken = gone.as_ref().map_or(0, |gone| count.min(**gone));
        if let Some(gone) = gone {
            *gone -= taken;
        }
        sums.push(limit::of_one_name(certainty, &comm, pid, count - taken));
    }
    // What is of no name that is left has lost its name since.
    let mut gone = before.into_values().fold(0, u64::saturating_add);
    for sum in sums.iter_mut().filter(|sum| limit::is_nameless(sum)) {
        let taken = sum.count.min(gone);
        (sum.count, gone) = (sum.count - taken, gone - taken);
    }
    rows.extend(sums);
    rows.retain(|raiser| raiser.count > 0);
    rows.sort_by_key(|raiser| Reverse(raiser.count));
    (rows, gone)
}

/// What is advised for the raisers of the range: the evidence is that of the range, the remedy what the watch found for this host.
fn advice_since(interrupt: &Interrupt) -> Vec<Advice> {
    let whole = &interrupt.advice;
    let has_tick_stopped = whole.iter().all(|advice| advice.rule != Fix::NEEDS_ANOTHER_KERNEL);
    let host = HostFacts { has_nohz_full: has_tick_stopped, ..HostFacts::default() };
    let mut found = advice::advise(interrupt, &host);
    for advice in &mut found {
        if let Some(known) = whole.iter().find(|known| known.rule == advice.rule) {
            advice.remedy = known.remedy.clone();
        }
    }
    found
}

fn core_since(core: &WhoCore, before: &[WhoCore]) -> WhoCore {
    let then = before.iter().find(|then| then.cpu == core.cpu);
    let less = |now: u64, of: fn(&WhoCore) -> u64| now.saturating_sub(then.map_or(0, of));
    WhoCore {
        cpu: core.cpu,
        wall_ns: less(core.wall_ns, |core| core.wall_ns),
        idle_ns: less(core.idle_ns, |core| core.idle_ns),
        lost_ns: less(core.lost_ns, |core| core.lost_ns),
    }
}

fn cost_since(cost: &SelfCost, before: &SelfCost) -> SelfCost {
    let probe = |probe: &ProbeCost| {
        let then = before.probes.iter().find(|then| then.name == probe.name);
        let less = |now: u64, of: fn(&ProbeCost) -> u64| now.saturating_sub(then.map_or(0, of));
        ProbeCost {
            name: probe.name.clone(),
            count: less(probe.count, |probe| probe.count),
            total_ns: less(probe.total_ns, |probe| probe.total_ns),
            missed: less(probe.missed, |probe| probe.missed),
        }
    };
    SelfCost {
        probes: cost.probes.iter().map(probe).collect(),
        process_cpu_ns: cost.process_cpu_ns.saturating_sub(before.process_cpu_ns),
        resident_bytes: cost.resident_bytes,
        map_bytes: cost.map_bytes,
        dropped: cost.dropped.saturating_sub(before.dropped),
        torn: cost.torn.saturating_sub(before.torn),
        unreported: cost.unreported.saturating_sub(before.unreported),
        untraced_interrupts: cost.untraced_interrupts.saturating_sub(before.untraced_interrupts),
        balanced_ns: cost.balanced_ns.saturating_sub(before.balanced_ns),
        known_late_ns: cost.known_late_ns.saturating_sub(before.known_late_ns),
        capped_rows: cost.capped_rows.saturating_sub(before.capped_rows),
        self_interrupts: cost.self_interrupts.saturating_sub(before.self_interrupts),
        attach_interrupts: None,
    }
}

#[cfg(test)]
mod tests;
