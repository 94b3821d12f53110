//! The recent tapes of the watched cores, with names for what is on them.

use crate::gap::join::{Meaning, Stretch};
use crate::gap::verdict::Others;
use crate::ledger::names::Names;
use std::collections::{BTreeMap, HashMap};
use surefoot_hostfs::Root;
use surefoot_hostfs::interrupts::Interrupts;
use surefoot_model::{Cause, CauseKind, CpuId};
use surefoot_probes::layout::{CAUSE_FIRST_DYNAMIC, CAUSE_IDLE, CAUSE_UNKNOWN, CAUSE_WORK, CAUSES, CauseTotals, Turn};
use surefoot_probes::{Probes, Snapshot};

/// Names of tasks that are kept.
const KEPT_TASKS: usize = 4096;

/// Marks on a kept tape that turns are missing from here on.
const UNSEEN: u16 = u16::MAX;

#[derive(Default)]
struct Tape {
    turns: Vec<Turn>,
    next: u64,
}

/// Reads tapes as they grow and says what a turn on them means.
pub struct Tapes {
    root: Root,
    names: Names,
    tapes: BTreeMap<CpuId, Tape>,
    known: HashMap<(CpuId, u16), Cause>,
    tasks: HashMap<u32, String>,
    kept_turns: usize,
    lost_turns: u64,
}

impl Tapes {
    /// Starts at the present end of each core's tape; keeps up to `kept_turns` of each, 16 bytes apiece.
    pub fn new(root: &Root, probes: &Probes, cpus: &[CpuId], kept_turns: usize) -> Self {
        let tapes = cpus.iter().map(|&cpu| (cpu, Tape { turns: Vec::new(), next: probes.tape_end(cpu) })).collect();
        Tapes {
            root: root.clone(),
            names: Names::load(root),
            tapes,
            known: HashMap::new(),
            tasks: HashMap::new(),
            kept_turns,
            lost_turns: 0,
        }
    }

    /// Reads what the cores have written since the last call.
    pub fn read(&mut self, probes: &Probes) {
        for (&cpu, tape) in &mut self.tapes {
            if tape.turns.len() > self.kept_turns {
                tape.turns.drain(..self.kept_turns / 2);
            }
            let last = tape.turns.last().map(|turn| turn.at_ns);
            let marked = tape.turns.len();
            let (next, lost) = probes.read_tape(cpu, tape.next, &mut tape.turns);
            tape.next = next;
            self.lost_turns += lost;
            put_in_order(last.unwrap_or(0), &mut tape.turns[marked..]);
            if let (Some(at_ns), true) = (last, lost > 0) {
                tape.turns.insert(marked, Turn { at_ns, cause: UNSEEN, depth: 0, pid: 0 });
            }
        }
    }

    /// Turns that were overwritten before they could be read; the gaps they lie in stay unexplained.
    pub fn lost_turns(&self) -> u64 {
        self.lost_turns
    }

    /// The names.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// Takes over the names of new interrupt lines.
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
        let number = (turn.cause as usize).min(CAUSES - 1);
        match number {
            CAUSE_IDLE => return Cause::new(CauseKind::Preemption, "idle"),
            CAUSE_WORK | CAUSE_UNKNOWN => return Cause::new(CauseKind::Preemption, self.task(turn.pid)),
            _ => {}
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

    /// What turns of a core mean for a gap in the work of thread `own`; with `None` every base context is work.
    pub fn stretches(&mut self, probes: &Probes, cpu: CpuId, turns: &[Turn], own: Option<u32>) -> Vec<Stretch> {
        let is_work = |turn: &Turn| turn.depth == 0 && own.is_none_or(|own| turn.pid == own);
        turns
            .iter()
            .map(|turn| Stretch {
                at_ns: turn.at_ns,
                meaning: match turn.cause {
                    UNSEEN => Meaning::Unseen,
                    _ if is_work(turn) => Meaning::Work,
                    _ => Meaning::Cause(self.cause(probes, cpu, turn)),
                },
            })
            .collect()
    }

    fn task(&mut self, pid: u32) -> String {
        if let Some(name) = self.tasks.get(&pid) {
            return name.clone();
        }
        let comm = self.root.read(self.root.proc(format!("{pid}/comm")));
        let name = match comm {
            Ok(comm) => crate::ledger::names::printable(comm.trim_end().as_bytes()),
            Err(_) => format!("thread {pid}, gone"),
        };
        if self.tasks.len() >= KEPT_TASKS {
            self.tasks.clear();
        }
        self.tasks.insert(pid, name.clone());
        name
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
    use super::*;

    #[test]
    fn no_turn_is_earlier_than_the_one_before_it() {
        let mut turns = [110, 125, 140, 120, 150].map(|at_ns| Turn { at_ns, cause: 1, depth: 0, pid: 0 });
        put_in_order(115, &mut turns);
        assert_eq!(turns.map(|turn| turn.at_ns), [115, 125, 140, 140, 150]);
    }
}
