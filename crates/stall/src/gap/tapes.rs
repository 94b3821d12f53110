//! The recent tapes of the watched cores, with names for what is on them.
//!
//! There is one of these for all who need the tapes: whoever looks most often at a core reads its tape, once, and hands
//! on what is new ([`Tapes::fresh`]); gaps are laid over what is kept.

use crate::gap::join::{Meaning, Stretch};
use crate::gap::run_names::{RunName, RunNames};
use crate::gap::task_names::TaskNames;
use crate::gap::verdict::Others;
use crate::kernel_names::KernelNames;
use crate::ledger::names::Names;
use std::collections::{BTreeMap, HashMap};
use surefoot_hostfs::Root;
use surefoot_hostfs::interrupts::Interrupts;
use surefoot_model::{Cause, CauseKind, CpuId};
use surefoot_probes::layout::{
    CAUSE_CONSOLE, CAUSE_FIRST_DYNAMIC, CAUSE_IDLE, CAUSE_UNKNOWN, CAUSE_WORK, CAUSES, CauseTotals, LEFT_ASLEEP,
    LEFT_BLOCKED, LEFT_ENDED, LEFT_FROZEN, LEFT_STOPPED, LEFT_THROTTLED, LEFT_TRACED, Turn,
};
use surefoot_probes::{Probes, Snapshot};

/// Marks on a kept tape that turns are missing from here on.
const UNSEEN: u16 = u16::MAX;

/// The tape of a core as far as it is kept.
struct Tape {
    turns: Vec<Turn>,
    /// The number of the next turn to read.
    next: u64,
    /// Where in `turns` those of the last reading begin.
    fresh: usize,
    /// How many turns were overwritten before the last reading, and ever.
    lost: (u64, u64),
    /// Turns that are kept.
    kept: usize,
    names: RunNames,
}

impl Tape {
    /// Begins at the present end.
    fn of(probes: &Probes, cpu: CpuId, kept: usize) -> Self {
        let names = RunNames::default();
        Tape { turns: Vec::new(), next: probes.tape_end(cpu), fresh: 0, lost: (0, 0), kept, names }
    }

    fn read(&mut self, probes: &Probes, cpu: CpuId) {
        if self.turns.len() > self.kept {
            self.turns.drain(..self.turns.len() - self.kept / 2);
        }
        let last = self.turns.last().map(|turn| turn.at_ns);
        let marked = self.turns.len();
        let (next, lost) = probes.read_tape(cpu, self.next, &mut self.turns);
        // After the tape: then the names of all that is on it are there.
        self.names.read(probes, cpu);
        self.next = next;
        self.lost = (lost, self.lost.1 + lost);
        put_in_order(last.unwrap_or(0), &mut self.turns[marked..]);
        self.fresh = marked;
        if let (Some(at_ns), true) = (last, lost > 0) {
            self.turns.insert(marked, Turn { at_ns, cause: UNSEEN, depth: 0, left: 0, pid: 0 });
            self.fresh += 1;
        }
    }

    /// When the run ended that a turn is part of; where that is not known, up to when it is known to have lasted.
    fn run_end_ns(&self, turn: &Turn) -> u64 {
        if self.turns.first().is_none_or(|first| first.at_ns > turn.at_ns) {
            return turn.at_ns;
        }
        let after = self.turns.partition_point(|other| other.at_ns <= turn.at_ns);
        let end = self.turns[after..].iter().find(|other| other.pid != turn.pid || other.cause == UNSEEN);
        end.or(self.turns.last()).map_or(turn.at_ns, |end| end.at_ns)
    }
}

/// A run of a task on a core, as far as it has been looked for.
#[derive(Clone, Copy)]
struct Span {
    cpu: CpuId,
    pid: u32,
    from_ns: u64,
    end_ns: u64,
}

/// The ledger's programs, and the tapes that are read from them.
pub struct Traced {
    /// The programs.
    pub(crate) probes: Probes,
    /// What their cores have written lately.
    pub(crate) tapes: Tapes,
}

impl Traced {
    /// Reads the kernel's names, and the tapes of these cores from their present ends on.
    pub fn new(root: &Root, probes: Probes, cpus: &[CpuId]) -> Self {
        let tapes = Tapes::new(root, &probes, cpus, 0);
        Traced { probes, tapes }
    }

    /// The programs.
    pub fn probes(&self) -> &Probes {
        &self.probes
    }
}

/// Reads tapes as they grow and says what a turn on them means.
pub struct Tapes {
    names: Names,
    tapes: BTreeMap<CpuId, Tape>,
    known: HashMap<(CpuId, u16), Cause>,
    /// What the names were like when `known` began.
    generation: (u64, u64),
    tasks: TaskNames,
    /// The run that was named last: a gap has many turns of one.
    named: Option<Span>,
}

impl Tapes {
    /// Starts at the present end of each core's tape; keeps up to `kept_turns` of each, 16 bytes apiece.
    pub fn new(root: &Root, probes: &Probes, cpus: &[CpuId], kept_turns: usize) -> Self {
        let tapes = cpus.iter().map(|&cpu| (cpu, Tape::of(probes, cpu, kept_turns))).collect();
        let names = Names::load(root, KernelNames::load(root));
        let (generation, tasks) = (names.generation(), TaskNames::new(root));
        Tapes { generation, names, tapes, known: HashMap::new(), tasks, named: None }
    }

    /// Keeps at least so many turns of these cores from now on.
    pub fn keep(&mut self, cpus: &[CpuId], turns: usize) {
        for cpu in cpus {
            if let Some(tape) = self.tapes.get_mut(cpu) {
                tape.kept = tape.kept.max(turns);
            }
        }
    }

    /// Reads what these cores have written since the last call for them. One caller alone reads a core's tape.
    pub fn read(&mut self, probes: &Probes, cpus: &[CpuId]) {
        for &cpu in cpus {
            if let Some(tape) = self.tapes.get_mut(&cpu) {
                tape.read(probes, cpu);
            }
        }
        self.named = None;
    }

    /// The turns of a core that the last reading brought, and how many were overwritten before it.
    pub fn fresh(&self, cpu: CpuId) -> (&[Turn], u64) {
        self.tapes.get(&cpu).map_or((&[], 0), |tape| (&tape.turns[tape.fresh..], tape.lost.0))
    }

    /// Turns of these cores that were overwritten before they could be read; the gaps they lie in stay unexplained.
    pub fn lost_turns(&self, cpus: &[CpuId]) -> u64 {
        cpus.iter().filter_map(|cpu| self.tapes.get(cpu)).map(|tape| tape.lost.1).sum()
    }

    /// How many names of tasks the last reading of a core brought, those included that were lost.
    pub(crate) fn fresh_names(&self, cpu: CpuId) -> u64 {
        self.tapes.get(&cpu).map_or(0, |tape| tape.names.fresh())
    }

    /// Names of tasks on these cores that were overwritten before they could be read. Until a core writes a task's name
    /// again, the task is called what /proc says.
    pub fn lost_names(&self, cpus: &[CpuId]) -> u64 {
        cpus.iter().filter_map(|cpu| self.tapes.get(cpu)).map(|tape| tape.names.lost()).sum()
    }

    /// The names.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// Takes over the names of interrupt lines and modules as they are now.
    pub fn learn(&mut self, interrupts: &Interrupts) {
        self.names.learn(interrupts);
    }

    /// The turns of a core that a gap needs: from the one before its start to its end.
    pub fn around(&self, cpu: CpuId, start_ns: u64, end_ns: u64) -> &[Turn] {
        let Some(tape) = self.tapes.get(&cpu) else { return &[] };
        let first = tape.turns.partition_point(|turn| turn.at_ns <= start_ns).saturating_sub(1);
        let last = tape.turns.partition_point(|turn| turn.at_ns <= end_ns);
        &tape.turns[first.min(last)..last]
    }

    /// What a turn is called, whatever it means for a gap.
    pub fn cause(&mut self, probes: &Probes, cpu: CpuId, turn: &Turn) -> Cause {
        // One that is no cause is not taken for another.
        let number = Some(usize::from(turn.cause)).filter(|number| *number < CAUSES).unwrap_or(CAUSE_UNKNOWN);
        match number {
            CAUSE_IDLE => return Cause::new(CauseKind::Preemption, "idle"),
            CAUSE_WORK | CAUSE_UNKNOWN => {
                return Cause::new(CauseKind::Preemption, self.task(cpu, turn));
            }
            // In an interrupt the task below is a bystander.
            CAUSE_CONSOLE if turn.depth > 1 || turn.pid == 0 => {
                return Cause::new(CauseKind::Console, "messages of an interrupt");
            }
            CAUSE_CONSOLE => {
                let writer = self.task(cpu, turn);
                return Cause::new(CauseKind::Console, format!("messages of {writer}"));
            }
            _ => {}
        }
        if self.generation != self.names.generation() {
            self.generation = self.names.generation();
            self.known.clear();
        }
        if let Some(cause) = self.known.get(&(cpu, turn.cause)) {
            return cause.clone();
        }
        let snapshot: Option<Snapshot> = if number >= CAUSE_FIRST_DYNAMIC { probes.snapshot(cpu) } else { None };
        let totals = snapshot.map_or_else(CauseTotals::default, |snapshot| snapshot.slot.causes[number]);
        let cause = self.names.cause(number, &totals);
        if number < CAUSE_FIRST_DYNAMIC || totals.key != 0 {
            self.known.insert((cpu, turn.cause), cause.clone());
        }
        cause
    }

    /// What the task of a turn was called in that run.
    fn task(&mut self, cpu: CpuId, turn: &Turn) -> String {
        let Some(tape) = self.tapes.get(&cpu) else { return self.tasks.name(turn.pid, turn.at_ns) };
        let is_within =
            |span: &Span| (span.cpu, span.pid) == (cpu, turn.pid) && (span.from_ns..span.end_ns).contains(&turn.at_ns);
        let end_ns = match self.named.filter(is_within) {
            Some(span) => span.end_ns,
            None => tape.run_end_ns(turn),
        };
        self.named = Some(Span { cpu, pid: turn.pid, from_ns: turn.at_ns, end_ns });
        self.task_of_run(cpu, turn, end_ns)
    }

    /// What the task of a turn was called in a run that ended at a time.
    pub(crate) fn task_of_run(&mut self, cpu: CpuId, turn: &Turn, end_ns: u64) -> String {
        match self.tapes.get(&cpu).map_or(RunName::Unseen, |tape| tape.names.name(turn.pid, end_ns)) {
            RunName::Known(name) => name,
            RunName::Lost => format!("thread {}, its name was lost", turn.pid),
            RunName::Unseen => self.tasks.name(turn.pid, turn.at_ns),
        }
    }

    /// What a task was called that was on a core at a time, if the core wrote that.
    pub(crate) fn written_name(&self, cpu: CpuId, pid: u32, at_ns: u64) -> Option<String> {
        match self.tapes.get(&cpu)?.names.name(pid, at_ns) {
            RunName::Known(name) => Some(name),
            RunName::Lost => Some(format!("thread {pid}, its name was lost")),
            RunName::Unseen => None,
        }
    }

    /// What turns of a core mean for a gap in the work of thread `own`; with `None` every base context is work.
    ///
    /// While `own` could not run, that is what the gap is made of, whoever had the core meanwhile. While it could and
    /// waited, whoever had the core took it.
    pub fn stretches(&mut self, probes: &Probes, cpu: CpuId, turns: &[Turn], own: Option<u32>) -> Vec<Stretch> {
        let is_work = |turn: &Turn| turn.depth == 0 && own.is_none_or(|own| turn.pid == own);
        let mut kept_away: Option<Cause> = None;
        let mut before: Option<u32> = None;
        let mut meaning = |turn: &Turn| {
            if turn.cause == UNSEEN {
                (kept_away, before) = (None, None);
                return Meaning::Unseen;
            }
            let has_left = turn.depth == 0 && before.is_some() && before == own && before != Some(turn.pid);
            before = Some(turn.pid);
            if is_work(turn) {
                kept_away = None;
                return Meaning::Work;
            }
            if has_left {
                kept_away = state(turn.why_left()).map(|name| Cause::new(CauseKind::ThreadState, name));
            }
            match &kept_away {
                Some(state) => Meaning::Cause(state.clone()),
                None => Meaning::Cause(self.cause(probes, cpu, turn)),
            }
        };
        turns.iter().map(|turn| Stretch { at_ns: turn.at_ns, meaning: meaning(turn) }).collect()
    }

    /// Whether other watched cores changed context inside a stretch of time, which shows that they ran.
    pub fn others(&self, cpu: CpuId, start_ns: u64, end_ns: u64) -> Others {
        // An event right at the edges may belong to what ended the stop.
        let margin_ns = ((end_ns - start_ns) / 10).max(1_000);
        let (from_ns, to_ns) = (start_ns + margin_ns, end_ns.saturating_sub(margin_ns));
        let ran = from_ns < to_ns
            && self.tapes.iter().filter(|(other, _)| **other != cpu).any(|(&other, _)| {
                self.around(other, from_ns, to_ns).iter().any(|turn| (from_ns..to_ns).contains(&turn.at_ns))
            });
        if ran { Others::Ran } else { Others::NotSeen }
    }
}

/// The state in which a thread could not run; `None` if it could, or nobody tells.
fn state(left: u8) -> Option<&'static str> {
    match left {
        LEFT_ASLEEP => Some("asleep"),
        LEFT_BLOCKED => Some("blocked in the kernel"),
        LEFT_STOPPED => Some("stopped"),
        LEFT_TRACED => Some("stopped by a tracer"),
        LEFT_THROTTLED => Some("throttled by its cgroup"),
        LEFT_FROZEN => Some("frozen with its cgroup"),
        LEFT_ENDED => Some("ended"),
        _ => None,
    }
}

/// Gives each turn at least the time `latest_ns`, and at least that of the one before it.
///
/// A program reads the clock before it holds its core's slot. An interrupt in between is on the tape first, with later
/// times, and the turn of the program follows it with the earlier one.
pub(crate) fn put_in_order(mut latest_ns: u64, turns: &mut [Turn]) {
    for turn in turns {
        latest_ns = turn.at_ns.max(latest_ns);
        turn.at_ns = latest_ns;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::gap::judge::Judge;
    use crate::gap::pending::found;
    use crate::gap::witness::tests::witness;
    use std::process::Command;
    use std::time::Duration;
    use surefoot_hostfs::clock;
    use surefoot_model::GapSource;
    use surefoot_testkit::not_run::not_run;

    /// A thread that a signal stops is not preempted, whoever has its core meanwhile.
    #[test]
    fn a_gap_in_which_the_thread_was_stopped_says_so_and_blames_nobody() {
        const TEST: &str = "a_gap_in_which_the_thread_was_stopped_says_so_and_blames_nobody";
        let probes = match Probes::attach(&surefoot_probes::Options::default()) {
            Ok(probes) => probes,
            Err(error) => return not_run(TEST, &error.to_string()),
        };
        let root = Root::host();
        let cpu = surefoot_hostfs::cpus::online(&root).unwrap().pop().unwrap();
        let mut traced = Traced::new(&root, probes, &[cpu]);
        // The child loops where this thread runs when it is started.
        let mut looping = std::thread::scope(|scope| {
            let start = || {
                surefoot_sys::thread::pin_to(cpu).unwrap();
                Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap()
            };
            scope.spawn(start).join().unwrap()
        });
        let own = looping.id();
        let signal = |name: &str| Command::new("kill").args([name, &own.to_string()]).status().unwrap();
        // On a busy machine a tape is written over within a few hundred milliseconds: it is read meanwhile.
        traced.tapes.keep(&[cpu], 1 << 17);
        let mut pass = |ms: u64| {
            for _ in 0..ms / 20 {
                std::thread::sleep(Duration::from_millis(20));
                traced.tapes.read(&traced.probes, &[cpu]);
            }
        };
        pass(100);
        let start_ns = clock::monotonic_ns();
        signal("-STOP");
        pass(200);
        signal("-CONT");
        pass(100);
        let end_ns = clock::monotonic_ns();
        looping.kill().unwrap();
        looping.wait().unwrap();
        traced.tapes.read(&traced.probes, &[cpu]);
        let mut judge = Judge::new(witness(false, &[(0, 0, None, 0, 0)]), false);
        let found = found(GapSource::Probe, cpu, start_ns, end_ns, Some(own));
        let gap = judge.judge(Some(&mut traced), &found);
        let stopped = Cause::new(CauseKind::ThreadState, "stopped");
        let stopped_ns: u64 = gap.causes.iter().filter(|part| part.cause == stopped).map(|part| part.duration_ns).sum();
        // From the signal's arrival until it has the core again: it slept through the 200 ms for the most part.
        assert!(stopped_ns > 150_000_000, "{gap:?}");
        assert!(gap.evidence.iter().any(|line| line.contains("the thread was stopped")), "{:?}", gap.evidence);
        let idle = Cause::new(CauseKind::Preemption, "idle");
        assert!(gap.causes.iter().all(|part| part.cause != idle), "{:?}", gap.causes);
    }

    #[test]
    fn no_turn_is_earlier_than_the_one_before_it() {
        let mut turns = [110, 125, 140, 120, 150].map(|at_ns| Turn { at_ns, cause: 1, depth: 0, left: 0, pid: 0 });
        put_in_order(115, &mut turns);
        assert_eq!(turns.map(|turn| turn.at_ns), [115, 125, 140, 140, 150]);
    }
}
