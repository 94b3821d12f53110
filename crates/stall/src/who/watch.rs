//! The watch itself: reads records and marks, joins them, counts.

use super::calls::Depths;
use super::entry_exit::Measured;
use super::intruders::{self, Asked, Wakeups};
use super::joiner::{Arrival, Joiner};
use super::kept_waiting::{KeptWaiting, Run};
use super::loops::{GAPS_IN_EVENT, GAPS_LISTED, Loops};
use super::pace::{self, Fill, Pace};
use super::presence::Presence;
use super::raisers::RaiserTable;
use super::report;
use super::stacks::KernelStacks;
use super::timeline::Recorder;
use super::unwinding::Unwinding;
use super::{LOOK_EVERY, WhoConfig, host_facts};
use crate::Error;
use crate::collect::attach::Patching;
use crate::collect::cost::{OwnCost, read_slots};
use crate::gap::tapes::{Tapes, Traced};
use crate::ledger::names::{Names, printable};
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};
use surefoot_hostfs::{Root, clock};
use surefoot_model::{Cause, CauseKind, Certainty, CpuId, Notice, WhoReport};
use surefoot_probes::layout::{
    CAUSE_CONSOLE, CAUSE_RESCHEDULE, CAUSE_UNKNOWN, CAUSES, CauseTotals, KEY_FUNCTION, NAME_RECORDS, SOFTIRQS,
    TAPE_TURNS, Turn,
};
use surefoot_probes::{
    COPY_BYTES, MARKS, Mark, MarkKind, Probes, Raised, RaisedKind, RaiserCounts, RaiserOptions, Raisers, UserStacks,
    moved_from,
};
use surefoot_who::advice::{HostFacts, NO_WAKEUP, SCHEDULER};
use surefoot_who::limit::{Limits, limit};

/// How long the end of a watch waits for the names of stacks.
const NAMING_PATIENCE: Duration = Duration::from_secs(10);

/// Room for records of a watch without an end: it is mapped twice, which counts as memory twice. Some 450 records with the
/// longest stacks fit between two looks.
const RING_BYTES_FOR_GOOD: u32 = 4 << 20;

/// A record with stacks, and one without, about.
const RECORD_BYTES: u64 = 1 << 10;
const BARE_RECORD_BYTES: u64 = 128;

/// Stacks that each core of a watch without an end may take in a second, however many cores there are: enough to see
/// from where a storm comes.
const STACKS_PER_S_AT_LEAST: u64 = 100;

/// By how much less than of everything else the rate of stacks may rise between two looks: to twice what it is, because
/// the pace knows its limit.
const STACKS_RISE_LESS: u64 = 32;

/// A worker that is woken so soon after work was queued is woken for that, nanoseconds.
const QUEUED_NS: u64 = 100_000;

/// What later kernels name as the callback of every call interrupt: it tells nothing of the called function.
const RUNS_THE_QUEUE: &str = "generic_smp_call_function_single_interrupt";

/// Names who interrupts the chosen cores, for as long as it lives. All methods take the ledger's programs that it was
/// attached beside, with their tapes; those of its cores are read by it alone.
pub struct Watch {
    pub(super) root: Root,
    /// What advice may name.
    pub(super) host: HostFacts,
    pub(super) cpus: Vec<CpuId>,
    pub(super) workload_pid: Option<u32>,
    pub(super) raisers: Raisers,
    pub(super) names: Names,
    pub(super) stacks: KernelStacks,
    pub(super) unwinding: Unwinding<(Occurrence, Certainty, String)>,
    pub(super) joiner: Joiner,
    pub(super) wakeups: Wakeups,
    /// The tasks that took the cores.
    pub(super) asked: Asked,
    /// Runs that count as work until it is known who waited.
    pub(super) kept_waiting: KeptWaiting,
    /// Those of them that kept the workload waiting, since the last look.
    kept: Vec<(CpuId, Run)>,
    /// Of each core the newest work that it queued for a watched one: when, and by which thread.
    queued: HashMap<CpuId, (u64, u32)>,
    pub(super) table: RaiserTable,
    /// Raisers of each kind of interrupt that the next report tells apart.
    pub(super) raisers_told: usize,
    pub(super) presence: Presence,
    next_mark: HashMap<CpuId, u64>,
    depths: Depths,
    /// Names of contexts in which softirqs were raised.
    contexts: HashMap<(CpuId, usize), Cause>,
    pub(super) ticks: BTreeMap<(CpuId, u32), u64>,
    pub(super) joined: (u64, u64),
    pub(super) lost_marks: u64,
    /// Names of tasks that had been lost before the start.
    pub(super) lost_names_before: u64,
    pub(super) cost: OwnCost,
    pub(super) counts_before: RaiserCounts,
    pub(super) start_ns: u64,
    pub(super) timeline: Option<Recorder>,
    loops: Loops,
    pace: Pace,
    looked: Instant,
    /// What entry and exit of an interrupt cost here.
    pub(super) entry_exit: Measured,
    /// Of each watched core what its base context was last.
    base: HashMap<CpuId, (u16, u32)>,
}

/// Something that arrived: where, as what, and when.
pub(super) struct Occurrence {
    cpu: CpuId,
    cause: Cause,
    at_ns: u64,
}

impl Watch {
    /// Attaches the raisers' programs beside the ledger's and starts. The cores must have been checked
    /// ([`crate::checked_cores`]).
    ///
    /// # Errors
    /// [`Error::Probes`] where BTF is not to be had.
    pub fn attach(root: &Root, traced: &mut Traced, config: &WhoConfig) -> Result<Self, Error> {
        Self::attach_without(root, traced, config, Vec::new())
    }

    /// As [`Watch::attach`], taking these tracepoints for absent: what other kernels leave of the answer.
    ///
    /// # Errors
    /// As [`Watch::attach`].
    pub fn attach_without(
        root: &Root,
        traced: &mut Traced,
        config: &WhoConfig,
        hidden_tracepoints: Vec<String>,
    ) -> Result<Self, Error> {
        Self::attach_with(root, traced, config, RaiserOptions { hidden_tracepoints, ..RaiserOptions::default() })
    }

    /// As [`Watch::attach`], for a watch without an end, which must not take much memory.
    ///
    /// # Errors
    /// As [`Watch::attach`].
    pub(crate) fn attach_for_good(root: &Root, traced: &mut Traced, config: &WhoConfig) -> Result<Self, Error> {
        let options = RaiserOptions { ring_bytes: RING_BYTES_FOR_GOOD, ..RaiserOptions::default() };
        let cores = traced.probes.cpu_count() as u64;
        let room = pace::per_core_s(u64::from(RING_BYTES_FOR_GOOD), cores) / stacks_bytes(config);
        let stacks_per_s = config.stacks_per_s.min(room.max(STACKS_PER_S_AT_LEAST));
        Self::attach_with(root, traced, &WhoConfig { stacks_per_s, ..config.clone() }, options)
    }

    fn attach_with(
        root: &Root,
        traced: &mut Traced,
        config: &WhoConfig,
        options: RaiserOptions,
    ) -> Result<Self, Error> {
        let raisers = Raisers::attach(
            &traced.probes,
            &RaiserOptions {
                cpus: config.cpus.clone(),
                kernel_stacks: config.kernel_stacks,
                user_stacks: if config.user_stacks { UserStacks::Auto } else { UserStacks::None },
                stacks_per_s: config.stacks_per_s,
                ..options
            },
        )?;
        let kernel = traced.tapes.names().kernel().clone();
        let cores = traced.probes.cpu_count() as u64;
        let pace = Pace::new(raisers.ring_bytes(), cores, config.stacks_per_s.saturating_mul(stacks_bytes(config)));
        let mut watch = Watch {
            root: root.clone(),
            host: host_facts::read(root, &config.cpus),
            cpus: config.cpus.clone(),
            workload_pid: config.pid,
            counts_before: raisers.counts(),
            joiner: Joiner::new(raisers.calls()),
            wakeups: Wakeups::default(),
            asked: Asked::default(),
            kept_waiting: KeptWaiting::default(),
            kept: Vec::new(),
            queued: HashMap::new(),
            raisers,
            names: Names::load(root, kernel.clone()),
            stacks: KernelStacks(kernel),
            unwinding: Unwinding::start(root),
            table: RaiserTable::named_aside(root),
            raisers_told: Limits::EVENT.raisers,
            presence: Presence::new(root, &config.cpus, config.pid),
            next_mark: HashMap::new(),
            depths: Depths::default(),
            contexts: HashMap::new(),
            ticks: BTreeMap::new(),
            joined: (0, 0),
            lost_marks: 0,
            lost_names_before: 0,
            cost: OwnCost::default(),
            start_ns: 0,
            timeline: config.timeline.then(Recorder::default),
            loops: Loops::open(root, traced, &config.cpus, surefoot_inloop::directory()),
            pace,
            looked: Instant::now(),
            entry_exit: Measured::default(),
            base: HashMap::new(),
        };
        watch.start(traced);
        Ok(watch)
    }

    /// The cores.
    pub fn cpus(&self) -> &[CpuId] {
        &self.cpus
    }

    /// Finds out what entry and exit of an interrupt cost here, by a loop of 150 ms, on a busy machine up to six of them, on a core that is not watched. To be
    /// called before [`Self::start`].
    pub fn measure_entry_exit(&mut self, traced: &Traced) {
        self.entry_exit.spin(&self.root, &traced.probes, &self.cpus);
    }

    /// Begins now: what attaching, or anything since, has raised does not count. To be called before the first look.
    pub fn start(&mut self, traced: &mut Traced) {
        let _ = self.raisers.take();
        self.start_ns = clock::monotonic_ns();
        traced.tapes.read(&traced.probes, &self.cpus);
        self.lost_names_before = traced.tapes.lost_names(&self.cpus);
        let slots = read_slots(&traced.probes);
        self.presence.start(&traced.probes, &slots, self.start_ns);
        self.loops.start(self.start_ns);
        for &cpu in &self.cpus {
            self.next_mark.insert(cpu, self.raisers.marks_end(cpu));
        }
        self.cost = OwnCost::start(Some((&traced.probes, &slots)), &self.cpus);
        self.counts_before = self.raisers.counts();
    }

    /// Takes what has happened since the last look; to be called after [`Watch::rest`], because the rings
    /// hold no more than a few thousand marks. What they could not hold is counted in the report.
    pub fn look(&mut self, traced: &mut Traced) {
        // Gaps before all else, so that whatever lies in them is among what is read next.
        self.loops.poll(traced);
        // Marks before records, so that the record of every mark that was read is there.
        let mut arrived: Vec<(CpuId, Vec<Mark>)> = Vec::new();
        for &cpu in &self.cpus {
            let mut marks = Vec::new();
            let next = self.next_mark.entry(cpu).or_default();
            let (end, lost) = self.raisers.read_marks(cpu, *next, &mut marks);
            *next = end;
            self.lost_marks += lost;
            arrived.push((cpu, marks));
        }
        traced.tapes.read(&traced.probes, &self.cpus);
        let Traced { probes, tapes } = &*traced;
        if let Some(timeline) = &mut self.timeline {
            for &cpu in &self.cpus {
                let (turns, lost) = tapes.fresh(cpu);
                timeline.turns(cpu, turns, lost, |number| report::cause_of(&self.names, probes, cpu, number));
            }
        }
        let records = self.raisers.take();
        // Stacks come at a limited rate, which the pace knows; records without them do not.
        let ring_bytes = self.raisers.ring_bytes();
        let of_records = Fill::of(records.len() as u64, ring_bytes / BARE_RECORD_BYTES);
        let mut fullest = of_records.max(Fill::of(self.raisers.taken_bytes(), ring_bytes * STACKS_RISE_LESS));
        for (cpu, marks) in &arrived {
            let (turns, lost) = tapes.fresh(*cpu);
            fullest = fullest.max(Fill::of(turns.len() as u64 + lost, TAPE_TURNS as u64));
            fullest = fullest.max(Fill::of(marks.len() as u64, MARKS as u64));
            fullest = fullest.max(Fill::of(tapes.fresh_names(*cpu), NAME_RECORDS as u64));
        }
        let since = std::mem::replace(&mut self.looked, Instant::now()).elapsed();
        self.pace.found(fullest, since);
        for raised in records {
            let (cpu, at_ns) = (raised.cpu, raised.at_ns);
            match self.joiner.raised(raised) {
                Some(Arrival::Thread { raiser }) if raiser.kind != RaisedKind::Work => self.woken(raiser),
                Some(arrival) => self.count(traced, cpu, at_ns, arrival),
                None => {}
            }
        }
        for (cpu, marks) in arrived {
            let (turns, _) = tapes.fresh(cpu);
            self.count_calls(traced, cpu, &marks, turns);
            for mark in &marks {
                if let Some(arrival) = self.joiner.mark(cpu, mark) {
                    self.count(traced, cpu, mark.at_ns, arrival);
                }
            }
            for turn in turns {
                let has_arrived = self.depths.arrives(cpu, turn) && usize::from(turn.cause) == CAUSE_RESCHEDULE;
                if has_arrived {
                    let arrival = self.joiner.reschedule(cpu, turn.at_ns);
                    self.count(traced, cpu, turn.at_ns, arrival);
                }
                self.look_at_base(probes, cpu, turn);
            }
        }
        let Traced { probes, tapes } = &mut *traced;
        for (cpu, run) in std::mem::take(&mut self.kept) {
            self.count_kept_waiting(probes, tapes, cpu, run);
        }
        let measured = &mut self.entry_exit;
        self.loops.join(traced, |gap| measured.noted(gap));
        self.take_unwound(Duration::ZERO);
        self.table.take_names(Duration::ZERO);
        self.presence.look(&traced.probes, &self.names, clock::monotonic_ns());
    }

    /// How long to wait for the next look. Loops that note their gaps are looked at often: how far the processor's counter
    /// drifts from the kernel's clock is known only for so long.
    pub fn rest(&self) -> Duration {
        if self.loops.are_followed() { LOOK_EVERY } else { self.pace.rest() }
    }

    /// Whether so much happens that the rings are read more often than others look.
    pub(crate) fn is_busy(&self) -> bool {
        self.pace.is_busy()
    }

    /// What was found since the start, up to the last look; without the timeline, and small enough to flow as an event
    /// ([`Limits::EVENT`]).
    pub fn report_so_far(&mut self, traced: &mut Traced) -> WhoReport {
        let mut found = self.report(traced, clock::monotonic_ns(), Duration::ZERO);
        self.loops.report(&mut found, GAPS_IN_EVENT);
        limit(&mut found, &Limits::EVENT);
        found
    }

    /// What happened to the watch since this was asked last: a process ended, a core went or came back.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        self.presence.take_new_notices()
    }

    /// Looks a last time and reports, timeline included where it was asked for. Small enough for a recording
    /// ([`Limits::RECORDING`]), the timeline aside.
    pub fn finish(mut self, traced: &mut Traced) -> WhoReport {
        self.loops.last_poll_follows();
        self.look(traced);
        let end_ns = clock::monotonic_ns();
        self.take_unwound(NAMING_PATIENCE);
        for (raised, arrival) in self.unwinding.give_up() {
            self.count_known(arrival, &raised);
        }
        self.raisers_told = Limits::RECORDING.raisers;
        let mut found = self.report(traced, end_ns, NAMING_PATIENCE);
        self.loops.report(&mut found, GAPS_LISTED);
        limit(&mut found, &Limits::RECORDING);
        let detaching = Patching::begin(&self.root);
        drop(self.raisers);
        found.cost.attach_interrupts = detaching.end(&self.root, &self.cpus);
        let (timeline, table) = (self.timeline, self.table);
        found.timeline = timeline.map(|timeline| timeline.finish(end_ns, table.all()));
        found
    }

    /// Counts the interrupts that run called functions, where the functions themselves are not seen.
    fn count_calls(&mut self, traced: &Traced, cpu: CpuId, marks: &[Mark], turns: &[Turn]) {
        let mut arrivals: Vec<Arrival> = turns.iter().flat_map(|turn| self.joiner.calls.turn(cpu, turn)).collect();
        for mark in marks.iter().filter(|mark| mark.kind == MarkKind::Flush) {
            arrivals.extend(self.joiner.calls.flushed(cpu, mark));
        }
        arrivals.extend(self.joiner.calls.settle(cpu));
        for arrival in arrivals {
            let Arrival::Call { at_ns, .. } = arrival else { continue };
            self.count(traced, cpu, at_ns, arrival);
        }
    }

    fn count(&mut self, traced: &Traced, cpu: CpuId, at_ns: u64, arrival: Arrival) {
        let certainty = arrival.certainty();
        let place = |cause| Occurrence { cpu, cause, at_ns };
        match arrival {
            Arrival::Function { function, raiser } => {
                let cause = self.names.function_cause(function);
                self.joined.1 += 1;
                self.joined.0 += u64::from(raiser.is_some());
                self.count_raiser(place(cause), certainty, self.stacks.name(function), raiser);
            }
            Arrival::Call { vector, function, is_shootdown, raiser, .. } => {
                let cause = self.names.cause(usize::from(vector), &Default::default());
                let function = match self.stacks.name(function) {
                    _ if is_shootdown => "flush_tlb_func".to_owned(),
                    name if function == 0 || name == RUNS_THE_QUEUE => String::new(),
                    name => name,
                };
                self.joined.1 += 1;
                self.count_raiser(place(cause), certainty, function, raiser);
            }
            Arrival::Timer { callback, raiser } => {
                let place = place(Cause::new(CauseKind::Timer, "local_timer"));
                let callback = self.stacks.name(callback);
                match raiser {
                    Some(_) => self.count_raiser(place, certainty, callback, raiser),
                    // The tick and other periodic timers start themselves again from their callback.
                    None => self.count_context(place, callback, constant("(periodic, or armed before)"), 0),
                }
            }
            Arrival::Reschedule { raiser } => {
                let cause = Cause::new(CauseKind::Reschedule, "reschedule");
                self.count_raiser(place(cause), certainty, String::new(), raiser);
            }
            Arrival::Softirq { vector, context, tid } => {
                let Some(name) = SOFTIRQS.get(vector as usize) else { return };
                let place = place(Cause::new(CauseKind::Softirq, *name));
                self.count_softirq(traced, place, context as usize, tid);
            }
            Arrival::Thread { raiser } => {
                self.queued.insert(raiser.from, (raiser.at_ns, raiser.tid));
                let function = self.stacks.name(raiser.function);
                let cause = Cause::new(CauseKind::KernelThread, "kworker");
                self.count_raiser(place(cause), certainty, function, Some(raiser));
            }
            Arrival::Message { raiser } => {
                let cause = self.names.cause(CAUSE_CONSOLE, &CauseTotals::default());
                self.count_raiser(place(cause), certainty, "printk".to_owned(), Some(raiser));
            }
            Arrival::Tick { stopped, dependency } => {
                let dependency = if stopped { 0 } else { dependency };
                *self.ticks.entry((cpu, dependency)).or_default() += 1;
            }
        }
    }

    /// Takes a wake-up, which counts when the task runs. That of a worker whose work was queued just before is told by
    /// that work.
    fn woken(&mut self, raiser: Raised) {
        let queued = self.queued.get(&raiser.from).copied();
        let is_told = queued.is_some_and(|(at_ns, tid)| {
            tid == raiser.tid && raiser.at_ns.saturating_sub(at_ns) < QUEUED_NS && raiser.wakee.starts_with(b"kworker/")
        });
        if !is_told {
            self.wakeups.raised(raiser);
        }
    }

    /// Another base context, on a turn of the core's tape: counts who brought a task that takes the core.
    fn look_at_base(&mut self, probes: &Probes, cpu: CpuId, turn: &Turn) {
        let base = (turn.cause, turn.pid);
        if turn.depth > 0 || self.base.insert(cpu, base) == Some(base) {
            return;
        }
        let takes_nothing = turn.pid == 0 || usize::from(turn.cause) <= CAUSE_UNKNOWN;
        // What works was not woken to intrude; or it was, which is known when the workload has waited.
        let began_by = self.wakeups.of_run(cpu, turn.pid, turn.at_ns);
        let (of_work, began_by) = if takes_nothing { (began_by, None) } else { (None, began_by) };
        let kept = self.kept_waiting.turn(cpu, turn, of_work);
        self.kept.extend(kept.into_iter().map(|run| (cpu, run)));
        if takes_nothing {
            return;
        }
        let Some(cause) = self.context(probes, cpu, usize::from(turn.cause)) else { return };
        if matches!(cause.kind, CauseKind::KernelThread | CauseKind::Preemption) {
            self.count_run(probes, Occurrence { cpu, cause, at_ns: turn.at_ns }, turn.pid, began_by);
        }
    }

    /// A run of another task that kept the workload waiting when that was woken. Its name is that of its wake-up, which the
    /// ledger has as well; where nothing woke it, that of the run.
    fn count_kept_waiting(&mut self, probes: &Probes, tapes: &mut Tapes, cpu: CpuId, run: Run) {
        let Run { turn, began_by, end_ns, .. } = run;
        let woken = began_by.as_ref().filter(|raised| raised.kind == RaisedKind::Wake && raised.wakee[0] != 0);
        let cause = match woken {
            Some(raised) => Cause::new(CauseKind::Preemption, printable(&raised.wakee)),
            None => Cause::new(CauseKind::Preemption, tapes.task_of_run(cpu, &turn, end_ns)),
        };
        self.count_run(probes, Occurrence { cpu, cause, at_ns: turn.at_ns }, turn.pid, began_by);
    }

    /// A task that took the core: counts who brought it there.
    fn count_run(&mut self, probes: &Probes, place: Occurrence, tid: u32, began_by: Option<Raised>) {
        self.asked.ask(&self.root, place.cpu, &place.cause, tid);
        match began_by {
            Some(raised) if raised.kind == RaisedKind::Move => self.count_move(probes, place, raised),
            Some(raised) => {
                let function = match raised.kind {
                    RaisedKind::New => "new task".to_owned(),
                    _ => self.waking(probes, &raised),
                };
                self.count_raiser(place, Certainty::Certain, function, Some(raised));
            }
            // Workers run for work that is counted where it was queued.
            None if place.cause.name == "kworker" => {}
            None => self.count_context(place, String::new(), constant(NO_WAKEUP), 0),
        }
    }

    /// A task that the scheduler moved here. Where it did so by itself, whoever ran there is a bystander.
    fn count_move(&mut self, probes: &Probes, place: Occurrence, raised: Raised) {
        let frames = self.stacks.frames(&raised.kernel_stack);
        let (_, number) = moved_from(raised.function);
        let context = if number == 0 { None } else { self.context(probes, raised.from, number) };
        let function = intruders::mover(&raised, &frames, context.as_ref());
        if intruders::is_asked_for(&raised, &frames) {
            self.count_raiser(place, Certainty::Certain, function, Some(raised));
        } else {
            self.count_context(place, function, constant(SCHEDULER), 0);
        }
    }

    /// In what a task was woken: the interrupt, where it was one.
    fn waking(&mut self, probes: &Probes, raised: &Raised) -> String {
        if !raised.in_interrupt || raised.function == 0 {
            return "wake-up".to_owned();
        }
        let context = self.context(probes, raised.from, raised.function as usize);
        context.map_or_else(|| "wake-up".to_owned(), |cause| format!("wake-up in {cause}"))
    }

    fn count_raiser(&mut self, place: Occurrence, certainty: Certainty, function: String, raiser: Option<Raised>) {
        let Some(raised) = raiser else {
            let Occurrence { cpu, cause, at_ns } = place;
            self.table.count_unknown((cpu, cause.clone()));
            if let Some(timeline) = &mut self.timeline {
                timeline.arrival(cpu, &cause, at_ns, None, None);
            }
            return;
        };
        self.loops.arrived(place.cpu, &place.cause, place.at_ns, &raised);
        if let Some((raised, arrival)) = self.unwinding.keep(raised, (place, certainty, function)) {
            self.count_known(arrival, &raised);
        }
    }

    /// Counts the arrivals whose raisers' stacks have been unwound meanwhile; waits for those that are missing, but no
    /// longer than `patience`.
    pub(super) fn take_unwound(&mut self, patience: Duration) {
        for (raised, arrival) in self.unwinding.take(patience) {
            self.count_known(arrival, &raised);
        }
    }

    fn count_known(&mut self, (place, certainty, function): (Occurrence, Certainty, String), raised: &Raised) {
        let Occurrence { cpu, cause, at_ns } = place;
        let row = self.table.count(&self.stacks, (cpu, cause.clone()), certainty, function, raised);
        if let Some(timeline) = &mut self.timeline {
            timeline.arrival(cpu, &cause, at_ns, row, Some(raised.at_ns));
        }
    }

    fn count_context(
        &mut self,
        place: Occurrence,
        context: String,
        comm: impl FnOnce(bool) -> Option<String>,
        tid: u32,
    ) {
        let Occurrence { cpu, cause, at_ns } = place;
        let row = self.table.count_context((cpu, cause.clone()), context, comm, tid);
        if let Some(timeline) = &mut self.timeline {
            timeline.arrival(cpu, &cause, at_ns, row, None);
        }
    }

    /// The cause of a context above the base, or of a kernel thread. Its name takes a copy of the core's slot, so it is
    /// kept: there are no more of them than causes.
    fn context(&mut self, probes: &Probes, cpu: CpuId, number: usize) -> Option<Cause> {
        let number = number.min(CAUSES - 1);
        if let Some(cause) = self.contexts.get(&(cpu, number)) {
            return Some(cause.clone());
        }
        let cause = report::cause_of(&self.names, probes, cpu, number)?;
        self.contexts.insert((cpu, number), cause.clone());
        Some(cause)
    }

    fn count_softirq(&mut self, traced: &Traced, place: Occurrence, context: usize, tid: u32) {
        let context_cause = match context {
            0..=CAUSE_UNKNOWN => None,
            _ => self.context(&traced.probes, place.cpu, context),
        };
        match context_cause {
            Some(cause) if cause.kind != CauseKind::KernelThread => {
                self.count_context(place, format!("in {cause}"), constant("(interrupt)"), 0);
            }
            Some(cause) => self.count_context(place, "in a kernel thread".to_owned(), |_| Some(cause.name), tid),
            None if tid == 0 => self.count_context(place, "on the idle core".to_owned(), constant("swapper"), 0),
            None => {
                let (root, cpu, at_ns) = (self.root.clone(), place.cpu, place.at_ns);
                let name = |may_open: bool| {
                    let written = traced.tapes.written_name(cpu, tid, at_ns);
                    written.or_else(|| may_open.then(|| comm_of(&root, tid)))
                };
                self.count_context(place, "in a task".to_owned(), name, tid);
            }
        }
    }
}

/// What the longest record of such a watch takes.
fn stacks_bytes(config: &WhoConfig) -> u64 {
    RECORD_BYTES + if config.user_stacks { COPY_BYTES as u64 } else { 0 }
}

/// A name for which no file is opened.
fn constant(name: &'static str) -> impl FnOnce(bool) -> Option<String> {
    |_| Some(name.to_owned())
}

fn comm_of(root: &Root, tid: u32) -> String {
    let comm = root.read(root.proc(format!("{tid}/comm")));
    comm.map_or_else(|_| format!("thread {tid}, gone"), |comm| printable(comm.trim_end().as_bytes()))
}

impl Names {
    /// The cause of a called function, by its address.
    pub(crate) fn function_cause(&self, address: u64) -> Cause {
        self.cause(CAUSES - 1, &CauseTotals::of_key(KEY_FUNCTION, address))
    }
}
