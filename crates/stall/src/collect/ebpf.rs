//! The ledger's main source: the eBPF programs.

use crate::Error;
use crate::collect::attach::Patching;
use crate::collect::cost::{Slots, read_more_slots, read_slots};
use crate::config::Config;
use crate::gap::tapes::{Tapes, Traced};
use crate::ledger::completeness::{self, Span, Untraced};
use crate::ledger::{self, Counters, Hidden, durations};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use surefoot_hostfs::interrupts::Interrupts;
use surefoot_hostfs::stat::Stat;
use surefoot_hostfs::{Root, clock, tasks};
use surefoot_model::{BUCKETS, CoreLedger, CpuId, Histogram, Window};
use surefoot_probes::layout::{CAUSE_IDLE, CAUSES, Late, Turn, VECTORS};
use surefoot_probes::{Flavour, Probes, Snapshot, Workload, programs};

/// Turns of the tape that are kept of each core: 128 KiB.
const KEPT_TURNS: usize = 1 << 13;

/// A kernel timer that fired late.
#[derive(Debug, Clone)]
pub(crate) struct LateTimer {
    pub(crate) cpu: CpuId,
    pub(crate) due_ns: u64,
    pub(crate) fired_ns: u64,
    pub(crate) while_idle: bool,
    pub(crate) tape: Vec<Turn>,
}

/// A core in a window.
struct Closed {
    cpu: CpuId,
    earlier: Arc<Snapshot>,
    later: Arc<Snapshot>,
    durations: HashMap<usize, Histogram>,
}

pub(crate) struct EbpfSource {
    root: Root,
    traced: Traced,
    workload: Workload,
    /// Of each core the snapshot that its next window begins with.
    snapshots: Slots,
    /// All slots as the end of the last window found them.
    newest: Slots,
    /// The cores of the window that was ended last.
    closed: Vec<Closed>,
    durations: HashMap<(CpuId, usize), Box<[u32; BUCKETS]>>,
    late_next: BTreeMap<CpuId, u64>,
    lost_late: u64,
    untraced: Untraced,
}

impl EbpfSource {
    /// What reports call the BTF-typed programs.
    pub(crate) const BTF: &'static str = "eBPF (BTF)";

    pub(crate) fn new(root: &Root, probes: Probes, config: &Config) -> Result<Self, Error> {
        let tapes = Tapes::new(root, &probes, &config.cpus, KEPT_TURNS);
        let source = EbpfSource {
            root: root.clone(),
            traced: Traced { probes, tapes },
            workload: config.workload.clone(),
            snapshots: Slots::new(),
            newest: Slots::new(),
            closed: Vec::new(),
            durations: HashMap::new(),
            late_next: BTreeMap::new(),
            lost_late: 0,
            untraced: Untraced::default(),
        };
        source.refresh_tasks()?;
        Ok(source)
    }

    pub(crate) fn probes(&self) -> &Probes {
        &self.traced.probes
    }

    /// The programs and the tapes.
    pub(crate) fn traced(&mut self) -> &mut Traced {
        &mut self.traced
    }

    /// All slots as the end of the last window, or the beginning of the first, found them.
    pub(crate) fn slots(&self) -> &Slots {
        &self.newest
    }

    /// Reads the tapes of these cores.
    pub(crate) fn read_tapes(&mut self, cpus: &[CpuId]) {
        self.traced.tapes.read(&self.traced.probes, cpus);
    }

    pub(crate) fn label(&self) -> &'static str {
        match self.traced.probes.flavour() {
            Flavour::Btf => Self::BTF,
            Flavour::Plain => "eBPF (plain tracepoints)",
        }
    }

    /// Plain tracepoints cannot look into a task: user space tells them which threads are whose.
    fn refresh_tasks(&self) -> Result<(), Error> {
        if self.traced.probes.flavour() == Flavour::Plain {
            self.traced.probes.set_kernel_threads(&tasks::kernel_threads(&self.root))?;
            if let Workload::Processes(ids) = &self.workload {
                let threads: Vec<u32> = ids.iter().flat_map(|&id| tasks::threads(&self.root, id)).collect();
                self.traced.probes.set_workload(&threads)?;
            }
        }
        Ok(())
    }

    /// Forgets what went before: the first window starts now. Returns when: no core was read earlier.
    pub(crate) fn restart(&mut self, cpus: &[CpuId]) -> u64 {
        let now_ns = clock::monotonic_ns();
        self.newest = read_slots(&self.traced.probes);
        for &cpu in cpus {
            if let Some(snapshot) = self.newest.get(&cpu).cloned() {
                self.begin(cpu, snapshot);
            }
            let mut skipped = Vec::new();
            let (next, _) = self.traced.probes.read_late(cpu, 0, &mut skipped);
            self.late_next.insert(cpu, next);
        }
        now_ns
    }

    /// The next window of a core begins with this snapshot.
    fn begin(&mut self, cpu: CpuId, snapshot: Arc<Snapshot>) {
        for number in (0..CAUSES).filter(|&number| snapshot.slot.causes[number].count > 0) {
            let durations = Box::new(self.traced.probes.histogram(cpu, number));
            self.durations.insert((cpu, number), durations);
        }
        self.snapshots.insert(cpu, snapshot);
    }

    /// A core that goes offline or comes back starts anew.
    pub(crate) fn forget(&mut self, cpu: CpuId) {
        self.snapshots.remove(&cpu);
        self.durations.retain(|(of, _), _| *of != cpu);
    }

    /// Late timers since the last call.
    pub(crate) fn late_timers(&mut self, cpus: &[CpuId]) -> Vec<LateTimer> {
        let mut timers = Vec::new();
        let mut records: Vec<Late> = Vec::new();
        for &cpu in cpus {
            records.clear();
            let next = self.late_next.entry(cpu).or_default();
            let (end, lost) = self.traced.probes.read_late(cpu, *next, &mut records);
            *next = end;
            self.lost_late += lost;
            timers.extend(records.iter().filter(|late| late.due_ns < late.fired_ns).map(|late| LateTimer {
                cpu,
                due_ns: late.due_ns,
                fired_ns: late.fired_ns,
                while_idle: late.base_cause as usize == CAUSE_IDLE,
                tape: late.tape[..(late.turns as usize).min(late.tape.len())].to_vec(),
            }));
        }
        timers
    }

    /// Names of tasks that were overwritten before they could be read.
    pub(crate) fn lost_names(&self) -> u64 {
        let cpus: Vec<CpuId> = (0..self.traced.probes.cpu_count() as u32).map(CpuId).collect();
        self.traced.tapes.lost_names(&cpus)
    }

    pub(crate) fn lost_late_timers(&self) -> u64 {
        self.lost_late
    }

    /// Ends a window: reads every core, and the table of interrupts right after, which it returns.
    pub(crate) fn end(&mut self, watched: &[CpuId], window: &mut Window) -> Result<Interrupts, Error> {
        self.refresh_tasks()?;
        let read = |&cpu: &CpuId| Some((cpu, Arc::new(self.traced.probes.snapshot(cpu)?)));
        self.newest = watched.iter().filter_map(read).collect();
        // Right after the watched cores, because it is compared with them.
        let interrupts = Interrupts::read(&self.root)?;
        read_more_slots(&self.traced.probes, &mut self.newest);
        self.traced.tapes.learn(&interrupts);
        self.closed.clear();
        for &cpu in watched {
            let Some(later) = self.newest.get(&cpu).cloned() else {
                window.cost.torn += 1;
                continue;
            };
            let Some(earlier) = self.snapshots.get(&cpu).cloned() else {
                self.begin(cpu, later);
                continue;
            };
            self.snapshots.insert(cpu, Arc::clone(&later));
            let durations = self.take_durations(cpu, &earlier, &later);
            self.closed.push(Closed { cpu, earlier, later, durations });
        }
        Ok(interrupts)
    }

    /// When the ledger of each core of the window that was ended begins: where the core was read last. One that could not be
    /// read then begins before the window.
    pub(crate) fn since_ns(&self) -> BTreeMap<CpuId, u64> {
        self.closed.iter().map(|core| (core.cpu, core.earlier.at_ns)).collect()
    }

    /// Writes the ledgers of the window that was ended into it.
    pub(crate) fn fold(
        &self,
        (earlier_stat, later_stat): (&Stat, &Stat),
        hidden: &BTreeMap<CpuId, Vec<Hidden>>,
        window: &mut Window,
    ) {
        let names = self.traced.tapes.names();
        // Plain tracepoints do not tell since when a task has waited.
        let knows_waits = self.traced.probes.flavour() == Flavour::Btf;
        for Closed { cpu, earlier, later, durations } in &self.closed {
            let (core, adjusted) = ledger::core_ledger(
                *cpu,
                (earlier, later),
                &counters(*cpu, earlier_stat, later_stat),
                hidden.get(cpu).map_or(&[], Vec::as_slice),
                |number, totals| names.cause(number, totals),
                |number| durations.get(&number).cloned().unwrap_or_default(),
            );
            window.cost.balanced_ns += adjusted.balanced_ns;
            window.cost.known_late_ns += adjusted.known_late_ns;
            let waiting = core.waiting.filter(|_| knows_waits);
            window.cores.push(CoreLedger { waiting, ..core });
        }
    }

    /// Compares the window that was just closed with the kernel's own table.
    pub(crate) fn compare(&mut self, rise: &Interrupts, window: &mut Window) {
        let probes = &self.traced.probes;
        let attached = |name: &str| {
            !probes.missing().iter().any(|missing| missing.program.name == name)
                && !programs::row_of(name).is_some_and(|row| probes.is_silent(row))
        };
        let timed_rows: Vec<&str> =
            VECTORS.iter().filter(|vector| attached(vector.entry)).map(|vector| vector.row).collect();
        let spans: Vec<Span<'_>> = self.closed.iter().map(|core| (core.cpu, &*core.earlier, &*core.later)).collect();
        (window.completeness, window.untimed) =
            completeness::compare(rise, &spans, &timed_rows, attached("irq_handler_entry"), attached("nmi_handler"));
        window.cost.untraced_interrupts = self.untraced.add(&window.completeness);
    }

    /// Attaches what waited for the first interrupt of its kind, where one came in this window; says so, and how many
    /// interrupts that sent to these cores.
    pub(crate) fn attach_newcomers(
        &mut self,
        cpus: &[CpuId],
        window: &Window,
    ) -> Result<Option<(String, Option<u64>)>, Error> {
        let rows: BTreeSet<&str> = window.untimed.iter().map(|row| row.row.as_str()).collect();
        let came: Vec<&str> = rows.into_iter().filter(|row| self.traced.probes.is_silent(row)).collect();
        if came.is_empty() {
            return Ok(None);
        }
        let patching = Patching::begin(&self.root);
        let tracepoints = self.traced.probes.attach_rows(&came)?;
        let text = format!(
            "the first interrupts since this machine started came in {}; they are timed from now on, for which {tracepoints} \
             more tracepoints were attached",
            came.join(", ")
        );
        Ok(Some((text, patching.end(&self.root, cpus))))
    }

    /// The durations of each cause that occurred since the earlier snapshot.
    fn take_durations(&mut self, cpu: CpuId, earlier: &Snapshot, later: &Snapshot) -> HashMap<usize, Histogram> {
        let mut taken = HashMap::new();
        for (number, (was, is)) in earlier.slot.causes.iter().zip(&later.slot.causes).enumerate() {
            if is.count == was.count {
                continue;
            }
            let now = self.traced.probes.histogram(cpu, number);
            let before = self.durations.entry((cpu, number)).or_insert_with(|| Box::new([0; BUCKETS]));
            let (count, total_ns) = (is.count.saturating_sub(was.count), is.total_ns.saturating_sub(was.total_ns));
            taken.insert(number, durations::rise(&now, before, count, total_ns));
        }
        taken
    }
}

fn counters(cpu: CpuId, earlier: &Stat, later: &Stat) -> Counters {
    let (Some(was), Some(is)) = (earlier.cpu(cpu), later.cpu(cpu)) else { return Counters::default() };
    let rise = is.since(was);
    Counters {
        user: rise.user + rise.nice,
        system: rise.system,
        idle_ns: later.ns(rise.idle + rise.iowait),
        steal_ns: later.ns(rise.steal),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::SourceChoice;
    use crate::collect::{Collector, Source};
    use std::sync::atomic::AtomicBool;
    use std::time::{Duration, Instant};
    use surefoot_model::Event;
    use surefoot_testkit::not_run::not_run;

    /// A window of a minute in which a core could not be read, and Ctrl-C soon after it, at another scale.
    #[test]
    fn a_core_that_could_not_be_read_loses_nothing_where_the_next_window_is_short() {
        const TEST: &str = "a_core_that_could_not_be_read_loses_nothing_where_the_next_window_is_short";
        let (cpu, source) = (CpuId(0), SourceChoice::Ebpf(Flavour::Btf));
        let config = Config { source, cpus: vec![cpu], window: Duration::from_millis(100), ..Config::default() };
        let mut collector = match Collector::start(&Root::host(), config) {
            Ok(collector) => collector,
            Err(error) => return not_run(TEST, &error.to_string()),
        };
        let begun = Instant::now();
        let kept = |collector: &mut Collector, put_back: Option<Arc<Snapshot>>| {
            let Source::Ebpf(ebpf) = &mut collector.source else { panic!("another source") };
            let slot = ebpf.snapshots.get_mut(&cpu).unwrap();
            if let Some(snapshot) = put_back {
                *slot = snapshot;
            }
            Arc::clone(slot)
        };
        let first = kept(&mut collector, None);
        while begun.elapsed() < Duration::from_secs(4) {
            collector.next_window(&AtomicBool::new(false)).unwrap();
        }
        kept(&mut collector, Some(Arc::clone(&first)));
        let events = collector.next_window(&AtomicBool::new(true)).unwrap();
        let window =
            events.iter().find_map(|event| if let Event::Window(window) = event { Some(window) } else { None });
        let window = window.unwrap();
        assert_eq!((window.faulty.len(), window.cores.len()), (0, 1), "{window:?}");
        assert!(window.cores[0].wall_ns >= 4_000_000_000 && window.start_ns <= first.at_ns, "{window:?}");
        assert!(window.cores[0].wall_ns <= window.length_ns(), "{window:?}");
    }
}
