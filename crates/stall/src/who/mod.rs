//! `surefoot stall who`: what interrupted a core, what it cost, who raised it, and what to change.
//!
//! The ledger says what arrived and what it took; the raisers' programs say who asked for it. Both are read from a
//! core that is not watched. The raiser pays for its stacks, never the watched core.

pub mod advice;
pub mod joiner;
mod lines;
mod raisers;
mod stacks;
mod system_calls;

use crate::Error;
use crate::collect::cost::OwnCost;
use crate::config::{LONGEST_RUN, checked_cores, keep_off};
use crate::ledger::names::{Names, printable};
use crate::ledger::{self, Counters};
use joiner::{Arrival, Joiner};
use raisers::RaiserTable;
use stacks::Stacks;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use surefoot_hostfs::{Root, clock};
use surefoot_model::{Cause, CauseKind, CpuId, Histogram, Interrupt, Lost, WhoReport};
use surefoot_probes::layout::{BUCKETS, CAUSES, KEY_FUNCTION, SOFTIRQS, Turn};
use surefoot_probes::{
    Mark, Options, Probes, Raised, RaisedKind, RaiserCounts, RaiserOptions, Raisers, Snapshot, Workload,
};

/// How often records and marks are read: a core leaves at most a few thousand marks meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Number of the reschedule vector among the causes.
const RESCHEDULE: u16 = 4;

/// What to watch.
#[derive(Debug, Clone)]
pub struct WhoConfig {
    /// The cores.
    pub cpus: Vec<CpuId>,
    /// The process whose preemption counts, too.
    pub pid: Option<u32>,
    /// For how long.
    pub duration: Duration,
    /// Whether to take the raisers' kernel stacks.
    pub kernel_stacks: bool,
    /// Whether to take the raisers' user stacks.
    pub user_stacks: bool,
    /// Stacks that each raising core takes per second.
    pub stacks_per_s: u64,
}

/// Watches and joins; calls `on_start` when the programs are attached and watching begins.
///
/// # Errors
/// [`Error::Core`] and [`Error::Option`] for a wish that cannot be met; [`Error::Probes`] where eBPF or BTF is not
/// to be had, because nothing less can name a raiser.
pub fn run(root: &Root, config: &WhoConfig, stop: &AtomicBool, on_start: impl FnOnce()) -> Result<WhoReport, Error> {
    if config.cpus.is_empty() {
        return Err(Error::Option { option: "cpu", why: "name the core to watch, such as 1".into() });
    }
    if config.duration > LONGEST_RUN {
        return Err(Error::Option { option: "duration", why: "it is longer than 7 days".into() });
    }
    let cpus = checked_cores(&config.cpus, root)?;
    keep_off(&cpus, root);
    let workload = config.pid.map_or(Workload::None, |pid| Workload::Processes(vec![pid]));
    let probes = Probes::attach(&Options { workload, ..Options::default() })?;
    let raisers = Raisers::attach(
        &probes,
        &RaiserOptions {
            cpus: cpus.clone(),
            kernel_stacks: config.kernel_stacks,
            user_stacks: config.user_stacks,
            stacks_per_s: config.stacks_per_s,
        },
    )?;
    let mut watch = Watch::start(root, cpus, probes, raisers, on_start);
    let start = Instant::now();
    while start.elapsed() < config.duration && !stop.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK_EVERY.min(config.duration.saturating_sub(start.elapsed())));
        watch.look();
    }
    Ok(watch.finish(root))
}

struct Watch {
    cpus: Vec<CpuId>,
    probes: Probes,
    raisers: Raisers,
    names: Names,
    stacks: Stacks,
    joiner: Joiner,
    table: RaiserTable,
    before: BTreeMap<CpuId, (Snapshot, Vec<[u32; BUCKETS]>)>,
    next_mark: HashMap<CpuId, u64>,
    next_turn: HashMap<CpuId, u64>,
    ticks: BTreeMap<(CpuId, u32), u64>,
    joined: (u64, u64),
    lost_marks: u64,
    cost: OwnCost,
    counts_before: RaiserCounts,
    start_ns: u64,
}

impl Watch {
    fn start(root: &Root, cpus: Vec<CpuId>, probes: Probes, raisers: Raisers, on_start: impl FnOnce()) -> Self {
        let (names, stacks) = (Names::load(root), Stacks::load(root));
        // Saying something may wake a reader on a watched core: that is over before counting begins.
        on_start();
        // What attaching has raised does not count.
        let _ = raisers.take();
        let before = cpus
            .iter()
            .filter_map(|&cpu| {
                let histograms = (0..CAUSES).map(|number| probes.histogram(cpu, number)).collect();
                Some((cpu, (probes.snapshot(cpu)?, histograms)))
            })
            .collect();
        Watch {
            next_mark: cpus.iter().map(|&cpu| (cpu, raisers.marks_end(cpu))).collect(),
            next_turn: cpus.iter().map(|&cpu| (cpu, probes.tape_end(cpu))).collect(),
            names,
            stacks,
            joiner: Joiner::default(),
            table: RaiserTable::default(),
            before,
            ticks: BTreeMap::new(),
            joined: (0, 0),
            lost_marks: 0,
            cost: OwnCost::start(Some(&probes), &cpus),
            counts_before: raisers.counts(),
            start_ns: clock::monotonic_ns(),
            cpus,
            probes,
            raisers,
        }
    }

    /// Reads marks first and records second, so that the record of every mark that was read is there.
    fn look(&mut self) {
        let mut arrived: Vec<(CpuId, Vec<Mark>, Vec<Turn>)> = Vec::new();
        for &cpu in &self.cpus {
            let (mut marks, mut turns) = (Vec::new(), Vec::new());
            let next = self.next_mark.entry(cpu).or_default();
            let (end, lost) = self.raisers.read_marks(cpu, *next, &mut marks);
            *next = end;
            self.lost_marks += lost;
            let next = self.next_turn.entry(cpu).or_default();
            *next = self.probes.read_tape(cpu, *next, &mut turns).0;
            arrived.push((cpu, marks, turns));
        }
        for raised in self.raisers.take() {
            let cpu = raised.cpu;
            if let Some(arrival) = self.joiner.raised(raised) {
                self.count(cpu, arrival);
            }
        }
        for (cpu, marks, turns) in arrived {
            for mark in &marks {
                if let Some(arrival) = self.joiner.mark(cpu, mark) {
                    self.count(cpu, arrival);
                }
            }
            for turn in turns.iter().filter(|turn| turn.cause == RESCHEDULE && turn.depth > 0) {
                let arrival = self.joiner.reschedule(cpu, turn.at_ns);
                self.count(cpu, arrival);
            }
        }
    }

    fn count(&mut self, cpu: CpuId, arrival: Arrival) {
        let certainty = arrival.certainty();
        match arrival {
            Arrival::Function { function, raiser } => {
                let cause = self.names.function_cause(function);
                self.joined.1 += 1;
                self.joined.0 += u64::from(raiser.is_some());
                self.count_raiser((cpu, cause), certainty, self.stacks.kernel_name(function), raiser);
            }
            Arrival::Timer { callback, raiser } => {
                let place = (cpu, Cause::new(CauseKind::Timer, "local_timer"));
                let callback = self.stacks.kernel_name(callback);
                match raiser {
                    Some(_) => self.count_raiser(place, certainty, callback, raiser),
                    // The tick and other periodic timers start themselves again from their callback.
                    None => self.table.count_context(place, callback, "(periodic, or armed before)".to_owned(), 0),
                }
            }
            Arrival::Reschedule { raiser } => {
                let cause = Cause::new(CauseKind::Reschedule, "reschedule");
                self.count_raiser((cpu, cause), certainty, String::new(), raiser);
            }
            Arrival::Softirq { vector, context, tid } => self.count_softirq(cpu, vector, context as usize, tid),
            Arrival::Thread { raiser } => {
                let is_work = raiser.kind == RaisedKind::Work;
                let name = if is_work { "kworker".to_owned() } else { thread_family(&printable(&raiser.wakee)) };
                let function = if is_work { self.stacks.kernel_name(raiser.function) } else { "wake-up".to_owned() };
                self.count_raiser((cpu, Cause::new(CauseKind::KernelThread, name)), certainty, function, Some(raiser));
            }
            Arrival::Tick { stopped, dependency } => {
                let dependency = if stopped { 0 } else { dependency };
                *self.ticks.entry((cpu, dependency)).or_default() += 1;
            }
        }
    }

    fn count_raiser(
        &mut self,
        place: (CpuId, Cause),
        certainty: surefoot_model::Certainty,
        function: String,
        raiser: Option<Raised>,
    ) {
        match raiser {
            Some(raised) => self.table.count(&self.stacks, place, certainty, function, &raised),
            None => self.table.count_unknown(place),
        }
    }

    fn count_softirq(&mut self, cpu: CpuId, vector: u32, context: usize, tid: u32) {
        let Some(name) = SOFTIRQS.get(vector as usize) else { return };
        let place = (cpu, Cause::new(CauseKind::Softirq, *name));
        let slot = self.before.get(&cpu).map(|(snapshot, _)| &snapshot.slot.causes[context.min(CAUSES - 1)]);
        // A context that appeared after the start has no name in the first snapshot.
        let context_cause = match (context, slot) {
            (0..=2, _) => None,
            (_, Some(totals)) if totals.key != 0 || context < surefoot_probes::layout::CAUSE_FIRST_DYNAMIC => {
                Some(self.names.cause(context, totals))
            }
            _ => {
                let snapshot = self.probes.snapshot(cpu);
                snapshot.map(|snapshot| self.names.cause(context, &snapshot.slot.causes[context.min(CAUSES - 1)]))
            }
        };
        match context_cause {
            Some(cause) if cause.kind != CauseKind::KernelThread => {
                self.table.count_context(place, format!("in {cause}"), "(interrupt)".to_owned(), 0);
            }
            Some(cause) => self.table.count_context(place, "in a kernel thread".to_owned(), cause.name, tid),
            None if tid == 0 => self.table.count_context(place, "on the idle core".to_owned(), "swapper".to_owned(), 0),
            None => self.table.count_context(place, "in a task".to_owned(), comm_of(tid), tid),
        }
    }

    fn finish(mut self, root: &Root) -> WhoReport {
        self.look();
        let counts = counts_since(self.raisers.counts(), self.counts_before);
        let mut report = WhoReport {
            start_ns: self.start_ns,
            end_ns: clock::monotonic_ns(),
            joined_count: self.joined.0,
            called_count: self.joined.1,
            records: counts.records,
            records_without_stack: counts.without_stack,
            records_dropped: counts.dropped,
            records_unmatched: self.joiner.forgotten(),
            marks_lost: self.lost_marks,
            cost: self.cost.since(Some(&self.probes), &self.cpus, root),
            missing: self.raisers.missing().to_vec(),
            ..WhoReport::default()
        };
        report.missing.extend(self.stacks.missing().map(|missing| missing.why.clone()));
        if let Ok(interrupts) = surefoot_hostfs::interrupts::Interrupts::read(root) {
            self.names.learn(&interrupts);
        }
        for cpu in self.cpus.clone() {
            let Some((later, (earlier, histograms))) = self.probes.snapshot(cpu).zip(self.before.get(&cpu)) else {
                report.missing.push(format!("core {cpu} went offline, or could not be read"));
                continue;
            };
            let durations = |number: usize| {
                let mut histogram = Histogram::default();
                let now = self.probes.histogram(cpu, number);
                for (bucket, (is, was)) in now.iter().zip(&histograms[number]).enumerate() {
                    histogram.add(bucket, u64::from(is.wrapping_sub(*was)));
                }
                histogram
            };
            let name = |number: usize, totals: &_| self.names.cause(number, totals);
            let core = ledger::core_ledger(cpu, (earlier, &later), &Counters::default(), &[], name, durations);
            let lost_ns = core.lost_ns();
            for lost in &core.lost {
                report.interrupts.push(self.interrupt(root, cpu, lost, lost_ns, &later));
            }
        }
        report
    }

    fn interrupt(&self, root: &Root, cpu: CpuId, lost: &Lost, lost_ns: u64, later: &Snapshot) -> Interrupt {
        let (raisers, unknown_raisers) = self.table.of(cpu, &lost.cause);
        let quantile = |share| lost.histogram.quantile_ns(share).min(lost.max_ns);
        let mut interrupt = Interrupt {
            cpu,
            cause: lost.cause.clone(),
            handler: handler(&lost.cause),
            count: lost.count,
            total_ns: lost.total_ns,
            p50_ns: quantile(0.5),
            p99_ns: quantile(0.99),
            max_ns: lost.max_ns,
            share_of_lost_ppm: lost.total_ns.saturating_mul(1_000_000).checked_div(lost_ns).unwrap_or(0),
            detail: self.detail(root, cpu, &lost.cause, later),
            raisers,
            unknown_raisers,
            advice: Vec::new(),
        };
        interrupt.advice = advice::advise(&interrupt);
        interrupt
    }

    fn detail(&self, root: &Root, cpu: CpuId, cause: &Cause, later: &Snapshot) -> Vec<String> {
        match cause.kind {
            CauseKind::DeviceInterrupt => {
                let line = later.slot.causes.iter().find_map(|totals| {
                    let line = Names::line(totals)?;
                    (self.names.cause(CAUSES - 1, totals) == *cause).then_some(line)
                });
                line.map(|line| lines::describe(root, line)).unwrap_or_default()
            }
            CauseKind::Timer => {
                let of_this_core = self.ticks.iter().filter(|((of, _), _)| *of == cpu);
                of_this_core.map(|((_, dependency), count)| tick_statement(*dependency, *count)).collect()
            }
            _ => Vec::new(),
        }
    }
}

fn counts_since(now: RaiserCounts, before: RaiserCounts) -> RaiserCounts {
    RaiserCounts {
        records: now.records - before.records,
        without_stack: now.without_stack - before.without_stack,
        dropped: now.dropped - before.dropped,
    }
}

/// The name of a kernel thread's family, as the programs group them.
fn thread_family(name: &str) -> String {
    if name.starts_with("irq/") { name.to_owned() } else { name.split('/').next().unwrap_or(name).to_owned() }
}

fn comm_of(tid: u32) -> String {
    let root = Root::host();
    let comm = root.read(root.proc(format!("{tid}/comm")));
    comm.map_or_else(|_| format!("thread {tid}, gone"), |comm| printable(comm.trim_end().as_bytes()))
}

/// What runs when such an interrupt arrives, where the kernel has one answer.
fn handler(cause: &Cause) -> String {
    match cause.kind {
        CauseKind::TlbShootdown | CauseKind::CallFunction | CauseKind::Nmi => match cause.name.as_str() {
            "interrupt itself" => "generic_smp_call_function_single_interrupt".to_owned(),
            name => name.to_owned(),
        },
        CauseKind::Timer => "hrtimer_interrupt".to_owned(),
        CauseKind::Reschedule => "scheduler_ipi".to_owned(),
        CauseKind::IrqWork => "irq_work_run".to_owned(),
        CauseKind::Softirq => match cause.name.as_str() {
            "HI" | "TASKLET" => "tasklet_action".to_owned(),
            "TIMER" => "run_timer_softirq".to_owned(),
            "NET_TX" => "net_tx_action".to_owned(),
            "NET_RX" => "net_rx_action".to_owned(),
            "BLOCK" => "blk_done_softirq".to_owned(),
            "IRQ_POLL" => "irq_poll_softirq".to_owned(),
            "SCHED" => "sched_balance_softirq".to_owned(),
            "HRTIMER" => "hrtimer_run_softirq".to_owned(),
            "RCU" => "rcu_core_si".to_owned(),
            _ => String::new(),
        },
        _ => String::new(),
    }
}

/// Why the tick could not stop, by the bits of the kernel's `TICK_DEP_MASK_*`.
fn tick_statement(dependency: u32, count: u64) -> String {
    const BITS: [&str; 6] = [
        "a POSIX timer",
        "perf events",
        "the scheduler (more than one task)",
        "an unstable clock",
        "RCU",
        "expedited RCU",
    ];
    if dependency == 0 {
        return format!("the tick stopped {count} times");
    }
    let reasons: Vec<&str> =
        BITS.iter().enumerate().filter(|(bit, _)| dependency >> bit & 1 == 1).map(|(_, reason)| *reason).collect();
    format!("the tick was kept {count} times by {}", reasons.join(", "))
}

impl Names {
    /// The cause of a called function, by its address.
    pub(crate) fn function_cause(&self, address: u64) -> Cause {
        let mut totals = surefoot_probes::layout::CauseTotals::default();
        totals.key = u64::from(KEY_FUNCTION) << 56 | address & (u64::MAX >> 8);
        self.cause(CAUSES - 1, &totals)
    }
}
