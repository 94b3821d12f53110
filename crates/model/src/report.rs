use crate::{
    Capability, Cause, Completeness, CoreLedger, CpuId, Event, FaultyCore, FaultySum, Gap, HostDescription, LedgerSum,
    Lost, Notice, SelfCost, StreamClock, Untimed, WhoReport, Window,
};
use std::collections::BTreeMap;

/// How many gaps a report keeps: the longest ones.
pub const LARGEST_GAPS: usize = 100;

/// Causes of one core that are told apart; a core's programs tell far fewer apart at a time, but a recording can name any
/// number.
const CAUSES_MAX: usize = 4096;

/// The name of the others, by kind.
const OTHER_NAMES: &str = "(other names)";

/// How many notices a report keeps: the newest ones.
const NEWEST_NOTICES: usize = 100;

/// Everything a stream of events says, summed up.
///
/// A pure fold over the events, so that a replayed report equals the live one. Sums stop at the largest number, because
/// a recording can come from anybody.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// The host, once its event has come.
    pub host: Option<HostDescription>,
    /// What works on the host.
    pub capabilities: Vec<Capability>,
    /// Start of the first window, `CLOCK_MONOTONIC`.
    pub start_ns: u64,
    /// End of the last window, `CLOCK_MONOTONIC`.
    pub end_ns: u64,
    /// Windows summed up.
    pub windows: u64,
    cores: BTreeMap<CpuId, LedgerSum<Cause, Lost>>,
    faulty: BTreeMap<CpuId, FaultySum>,
    /// Interrupts that were counted but could not be timed.
    pub untimed: Vec<Untimed>,
    /// The kernel's own counters beside the probes'.
    pub completeness: Vec<Completeness>,
    /// What watching cost.
    pub cost: SelfCost,
    /// The longest gaps, longest first; [`LARGEST_GAPS`] at most.
    pub gaps: Vec<Gap>,
    /// How many gaps there were in all.
    pub gap_count: u64,
    /// What the reader must know; the newest 100.
    pub notices: Vec<Notice>,
    /// Who interrupted the watched cores, where that was watched.
    pub who: Option<WhoReport>,
    /// What the times of the stream are on the clock of the world.
    pub clock: StreamClock,
}

impl Report {
    /// Sums up a whole stream.
    pub fn of<'a>(events: impl IntoIterator<Item = &'a Event>) -> Self {
        let mut report = Report::default();
        for event in events {
            report.add(event);
        }
        report
    }

    /// Adds one event.
    pub fn add(&mut self, event: &Event) {
        self.clock.take(event);
        match event {
            Event::Host(host) => self.host = Some(host.clone()),
            Event::Capabilities { capabilities } => self.capabilities = capabilities.clone(),
            Event::Window(window) => self.add_window(window),
            Event::Gap(gap) => {
                self.gap_count += 1;
                let at = self.gaps.partition_point(|kept| kept.duration_ns >= gap.duration_ns);
                if at < LARGEST_GAPS {
                    self.gaps.insert(at, gap.clone());
                    self.gaps.truncate(LARGEST_GAPS);
                }
            }
            // It was counted when it was told of first.
            Event::GapCorrection(correction) => {
                if let Some(kept) = self.gaps.iter_mut().find(|kept| kept.is_same(&correction.gap)) {
                    kept.clone_from(&correction.gap);
                }
            }
            Event::Who(who) => self.who = Some(WhoReport::clone(who)),
            Event::Notice(notice) => {
                if self.notices.len() == NEWEST_NOTICES {
                    self.notices.remove(0);
                }
                self.notices.push(notice.clone());
            }
            // Of other rooms, which have folds of their own.
            _ => {}
        }
    }

    /// Adds one window.
    pub fn add_window(&mut self, window: &Window) {
        if self.windows == 0 {
            self.start_ns = window.start_ns;
        }
        self.end_ns = window.end_ns;
        self.windows += 1;
        for core in &window.cores {
            if let Some(fault) = core.fault() {
                self.add_faulty(FaultySum { cpu: core.cpu, count: 1, fault });
                continue;
            }
            self.cores.entry(core.cpu).or_insert_with(|| LedgerSum::empty(core.cpu)).add(core, |known, lost| {
                let has_room = known.len() < CAUSES_MAX || known.contains_key(&lost.cause);
                let cause = if has_room { lost.cause.clone() } else { Cause::new(lost.cause.kind, OTHER_NAMES) };
                (cause.clone(), Lost { cause, ..lost.clone() })
            });
        }
        for &FaultyCore { cpu, fault } in &window.faulty {
            self.add_faulty(FaultySum { cpu, count: 1, fault });
        }
        add_untimed(&mut self.untimed, &window.untimed);
        add_completeness(&mut self.completeness, &window.completeness);
        add_cost(&mut self.cost, &window.cost);
    }

    /// Adds ledgers of one core that cannot be true.
    pub fn add_faulty(&mut self, more: FaultySum) {
        self.faulty.entry(more.cpu).and_modify(|sum| sum.add(&more)).or_insert(more);
    }

    /// From the start of the first window to the end of the last, nanoseconds.
    pub fn duration_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// The ledger of each core over the whole stream, ascending; causes largest first.
    pub fn cores(&self) -> Vec<CoreLedger> {
        self.cores.values().map(LedgerSum::ledger).collect()
    }

    /// Ledgers that could not be true and are in no sum, by core, ascending.
    pub fn faulty(&self) -> Vec<FaultySum> {
        self.faulty.values().copied().collect()
    }

    /// Causes summed over all cores, largest first.
    pub fn causes(&self) -> Vec<Lost> {
        Lost::by_cause(self.cores.values().flat_map(|core| core.lost.values()))
    }
}

fn add_untimed(sums: &mut Vec<Untimed>, rows: &[Untimed]) {
    for row in rows {
        match sums.iter_mut().find(|sum| sum.cpu == row.cpu && sum.row == row.row) {
            Some(sum) => sum.count = sum.count.saturating_add(row.count),
            None => sums.push(row.clone()),
        }
    }
}

fn add_completeness(sums: &mut Vec<Completeness>, rows: &[Completeness]) {
    for row in rows {
        match sums.iter_mut().find(|sum| sum.row == row.row) {
            Some(sum) => {
                sum.kernel_count = sum.kernel_count.saturating_add(row.kernel_count);
                sum.probe_count = sum.probe_count.saturating_add(row.probe_count);
            }
            None => sums.push(row.clone()),
        }
    }
}

fn add_cost(sum: &mut SelfCost, cost: &SelfCost) {
    for probe in &cost.probes {
        match sum.probes.iter_mut().find(|sum| sum.name == probe.name) {
            Some(sum) => {
                sum.count = sum.count.saturating_add(probe.count);
                sum.total_ns = sum.total_ns.saturating_add(probe.total_ns);
                sum.missed = sum.missed.saturating_add(probe.missed);
            }
            None => sum.probes.push(probe.clone()),
        }
    }
    sum.process_cpu_ns = sum.process_cpu_ns.saturating_add(cost.process_cpu_ns);
    sum.resident_bytes = sum.resident_bytes.max(cost.resident_bytes);
    sum.map_bytes = sum.map_bytes.max(cost.map_bytes);
    sum.dropped = sum.dropped.saturating_add(cost.dropped);
    sum.torn = sum.torn.saturating_add(cost.torn);
    sum.unreported = sum.unreported.saturating_add(cost.unreported);
    sum.untraced_interrupts = sum.untraced_interrupts.saturating_add(cost.untraced_interrupts);
    sum.balanced_ns = sum.balanced_ns.saturating_add(cost.balanced_ns);
    sum.known_late_ns = sum.known_late_ns.saturating_add(cost.known_late_ns);
    sum.capped_rows = sum.capped_rows.saturating_add(cost.capped_rows);
    sum.self_interrupts = sum.self_interrupts.saturating_add(cost.self_interrupts);
    if let Some(more) = cost.attach_interrupts {
        sum.attach_interrupts = Some(sum.attach_interrupts.unwrap_or(0).saturating_add(more));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CauseKind, Histogram, LedgerFault, ProbeCost};

    fn window(value: u64) -> Event {
        let mut lost = Lost::new(Cause::new(CauseKind::Timer, "local_timer"), value, value, value);
        lost.while_idle_ns = value;
        lost.histogram = Histogram(vec![(3, value), (255, value)]);
        let core = CoreLedger {
            cpu: CpuId(0),
            wall_ns: value,
            lost: vec![lost.clone(), Lost::new(lost.cause, value, 0, 0)],
            ..CoreLedger::empty(CpuId(0))
        };
        let untimed = Untimed { cpu: CpuId(0), row: "HYP".into(), name: String::new(), count: value };
        let completeness = Completeness { row: "LOC".into(), kernel_count: value, probe_count: value };
        let probe = ProbeCost { name: "p".into(), count: value, total_ns: value, missed: value };
        let cost = SelfCost { probes: vec![probe.clone(), probe], dropped: value, ..SelfCost::default() };
        Event::Window(Window {
            start_ns: value,
            end_ns: 0,
            cores: vec![core],
            faulty: Vec::new(),
            untimed: vec![untimed],
            completeness: vec![completeness],
            cost,
        })
    }

    #[test]
    fn numbers_that_somebody_made_up_saturate() {
        let report = Report::of(&[window(u64::MAX), window(u64::MAX)]);
        let cores = report.cores();
        assert_eq!((cores[0].wall_ns, cores[0].causes_ns(), cores[0].lost_ns()), (u64::MAX, u64::MAX, 0));
        assert_eq!(report.causes()[0].histogram.quantile_ns(0.5), Histogram::lower_ns(3) + 2);
        assert_eq!(report.cost.probes_ns(), u64::MAX);
        assert_eq!(report.duration_ns(), 0);
    }

    #[test]
    fn what_cannot_be_true_is_in_no_sum_and_named() {
        let Event::Window(window) = window(100) else { unreachable!("it is a window") };
        let window = Window { start_ns: 0, end_ns: 100, ..window };
        let faulty = |change: fn(&mut CoreLedger)| {
            let mut changed = window.clone();
            change(&mut changed.cores[0]);
            let mut raw = Report::default();
            raw.add_window(&changed);
            let mut checked = Report::default();
            let changed = changed.check();
            checked.add_window(&changed);
            checked.add_window(&window);
            assert_eq!(changed.clone().check(), changed, "once checked, always checked");
            (
                raw.faulty(),
                checked.faulty(),
                checked.cores().first().map_or(0, |core| core.wall_ns),
                changed.cost.capped_rows,
            )
        };
        let sum = |fault| vec![FaultySum { cpu: CpuId(0), count: 1, fault }];
        for change in [|core: &mut CoreLedger| core.user_ns = 900, |core: &mut CoreLedger| core.idle_ns = 900] {
            let named = sum(LedgerFault::Sum { parts_ns: 1_000, wall_ns: 100 });
            assert_eq!(faulty(change), (named.clone(), named, 100, 0));
        }
        let named = sum(LedgerFault::WhileIdle { while_idle_ns: 101, total_ns: 100 });
        assert_eq!(faulty(|core| core.lost[0].while_idle_ns = 101), (named.clone(), named, 100, 0));
        let long = |core: &mut CoreLedger| {
            core.wall_ns = u64::MAX;
            core.idle_ns = u64::MAX - 100;
        };
        let named = sum(LedgerFault::Wall { wall_ns: u64::MAX, window_ns: 100 });
        assert_eq!(faulty(long).1, named, "more wall time than there is in the window");
        // A single one that is too long is cut down, and the rest is believed.
        assert_eq!(faulty(|core| core.lost[0].max_ns = 101), (vec![], vec![], 200, 1));
    }

    #[test]
    fn causes_beyond_the_limit_are_counted_by_kind() {
        let core = |number: u64| {
            let lost = Lost::new(Cause::new(CauseKind::Preemption, format!("task {number}")), 1, 10, 10);
            CoreLedger { wall_ns: 10, lost: vec![lost], ..CoreLedger::empty(CpuId(0)) }
        };
        let Event::Window(window) = window(0) else { unreachable!("it is a window") };
        let mut report = Report::default();
        let count = CAUSES_MAX as u64 + 100;
        (0..count).for_each(|number| report.add_window(&Window { cores: vec![core(number)], ..window.clone() }));
        let causes = report.causes();
        assert_eq!(causes.len(), CAUSES_MAX + 1);
        assert_eq!((causes[0].cause.name.as_str(), causes[0].count), (OTHER_NAMES, 100));
        assert!(report.cores()[0].sums_up());
    }

    #[test]
    fn windows_add_up_to_a_report_whose_parts_add_up() {
        let mut first = CoreLedger {
            cpu: CpuId(1),
            wall_ns: 100,
            idle_ns: 40,
            user_ns: 30,
            kernel_ns: 10,
            lost: vec![Lost::new(Cause::new(CauseKind::Timer, "a"), 1, 15, 15)],
            unexplained_ns: 5,
            waiting: None,
        };
        let event = |core: &CoreLedger| {
            let Event::Window(window) = window(0) else { unreachable!("it is a window") };
            Event::Window(Window { cores: vec![core.clone()], ..window })
        };
        let events = [event(&first), event(&first)];
        first.lost[0].cause.name = "b".into();
        let report = Report::of(events.iter().chain([&event(&first)]));
        let core = &report.cores()[0];
        assert!(core.sums_up());
        let names: Vec<_> = core.lost.iter().map(|lost| (lost.cause.name.as_str(), lost.total_ns)).collect();
        assert_eq!(names, [("a", 30), ("b", 15)]);
    }
}
