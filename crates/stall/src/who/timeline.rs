//! The timeline: every slice of a watched core that was not its work, and every arrival with its raiser.
//!
//! Slices come from the tape: a turn to a depth closes what was open there and deeper, unless it is the return into
//! what was open. Arrivals come from the join. Which slice an arrival caused is found at the end.

use std::collections::HashMap;
use surefoot_model::{Cause, CauseKind, CpuId, Raiser, Timeline, TimelineArrival, TimelineSlice};
use surefoot_probes::layout::{CAUSE_IDLE, CAUSE_UNKNOWN, CAUSE_WORK, Turn};

/// Arrivals that are kept; the rest is counted.
pub const ARRIVALS_KEPT: usize = 200_000;

/// Slices that are kept; the rest is counted.
pub const SLICES_KEPT: usize = 400_000;

/// How much later than its mark a slice of an interrupt may begin: the programs of mark and slice run one after the
/// other; nanoseconds.
const SLACK_NS: u64 = 20_000;

/// How much later than it was raised deferred work may begin, nanoseconds.
const DEFERRED_NS: u64 = 1_000_000_000;

#[derive(Debug, Clone, Copy)]
struct Open {
    depth: u8,
    number: u16,
    pid: u32,
    cause: Option<u32>,
    start_ns: u64,
}

#[derive(Debug, Default)]
struct Core {
    open: Vec<Open>,
    last: Option<Turn>,
    named: HashMap<u16, u32>,
}

/// Keeps the timeline while it grows.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    timeline: Timeline,
    places: HashMap<Cause, u32>,
    cores: HashMap<CpuId, Core>,
}

impl Recorder {
    /// Takes the turns of a core that follow those of the last call; `lost` were overwritten in between.
    pub(crate) fn turns(&mut self, cpu: CpuId, turns: &[Turn], lost: u64, name: impl Fn(usize) -> Option<Cause>) {
        let mut core = self.cores.remove(&cpu).unwrap_or_default();
        if lost > 0 {
            // What was open may have ended meanwhile: only what was seen is told.
            self.timeline.turns_lost += lost;
            if let Some(last) = core.last.take() {
                self.close(cpu, &mut core, 0, last.at_ns);
            }
            core.open.clear();
        }
        for turn in turns {
            self.turn(cpu, &mut core, turn, &name);
        }
        self.cores.insert(cpu, core);
    }

    fn turn(&mut self, cpu: CpuId, core: &mut Core, turn: &Turn, name: &impl Fn(usize) -> Option<Cause>) {
        let came_from_deeper = core.last.is_some_and(|last| last.depth > turn.depth);
        core.last = Some(*turn);
        self.close(cpu, core, turn.depth + 1, turn.at_ns);
        let is_return = |open: &Open| {
            open.depth == turn.depth && open.number == turn.cause && (turn.depth > 0 || open.pid == turn.pid)
        };
        if came_from_deeper && core.open.last().is_some_and(is_return) {
            return;
        }
        self.close(cpu, core, turn.depth, turn.at_ns);
        let cause = match usize::from(turn.cause) {
            CAUSE_IDLE | CAUSE_WORK | CAUSE_UNKNOWN => None,
            number => match core.named.get(&turn.cause) {
                Some(&place) => Some(place),
                None => name(number).map(|cause| {
                    let place = self.place(&cause);
                    core.named.insert(turn.cause, place);
                    place
                }),
            },
        };
        core.open.push(Open { depth: turn.depth, number: turn.cause, pid: turn.pid, cause, start_ns: turn.at_ns });
    }

    /// Closes what is open at this depth and deeper.
    fn close(&mut self, cpu: CpuId, core: &mut Core, depth: u8, at_ns: u64) {
        while let Some(open) = core.open.pop_if(|open| open.depth >= depth) {
            let Some(cause) = open.cause else { continue };
            if self.timeline.slices.len() >= SLICES_KEPT {
                self.timeline.slices_dropped += 1;
                continue;
            }
            let duration_ns = at_ns.saturating_sub(open.start_ns);
            self.timeline.slices.push(TimelineSlice { cpu, cause, start_ns: open.start_ns, duration_ns });
        }
    }

    fn place(&mut self, cause: &Cause) -> u32 {
        if let Some(&place) = self.places.get(cause) {
            return place;
        }
        let place = self.timeline.causes.len() as u32;
        self.timeline.causes.push(cause.clone());
        self.places.insert(cause.clone(), place);
        place
    }

    /// Takes an arrival; `raiser` is its row in the table of raisers.
    pub(crate) fn arrival(
        &mut self,
        cpu: CpuId,
        cause: &Cause,
        at_ns: u64,
        raiser: Option<u32>,
        raised_ns: Option<u64>,
    ) {
        if self.timeline.arrivals.len() >= ARRIVALS_KEPT {
            self.timeline.arrivals_dropped += 1;
            return;
        }
        let cause = self.place(cause);
        self.timeline.arrivals.push(TimelineArrival { cpu, cause, at_ns, raiser, raised_ns, slice: None });
    }

    /// Closes what is still open and says which slice each arrival caused.
    pub(crate) fn finish(mut self, end_ns: u64, raisers: Vec<Raiser>) -> Timeline {
        for (cpu, mut core) in std::mem::take(&mut self.cores) {
            self.close(cpu, &mut core, 0, end_ns);
        }
        let mut timeline = self.timeline;
        timeline.raisers = raisers;
        let mut by_cause: HashMap<(CpuId, u32), Vec<u32>> = HashMap::new();
        for (place, slice) in timeline.slices.iter().enumerate() {
            by_cause.entry((slice.cpu, slice.cause)).or_default().push(place as u32);
        }
        for arrival in &mut timeline.arrivals {
            let Some(candidates) = by_cause.get(&(arrival.cpu, arrival.cause)) else { continue };
            let is_deferred =
                matches!(timeline.causes[arrival.cause as usize].kind, CauseKind::Softirq | CauseKind::KernelThread);
            arrival.slice = caused(arrival.at_ns, is_deferred, candidates, &timeline.slices);
        }
        timeline
    }
}

/// The slice that something which arrived at this time caused. The candidates are of its core and cause, so they do not
/// overlap and stand in the order of time.
fn caused(at_ns: u64, is_deferred: bool, candidates: &[u32], slices: &[TimelineSlice]) -> Option<u32> {
    let slice = |place: u32| &slices[place as usize];
    let first = candidates.partition_point(|&place| slice(place).start_ns + slice(place).duration_ns <= at_ns);
    let &place = candidates.get(first)?;
    let slack_ns = if is_deferred { DEFERRED_NS } else { SLACK_NS };
    (slice(place).start_ns <= at_ns.saturating_add(slack_ns)).then_some(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CPU: CpuId = CpuId(1);

    fn turn(at_ns: u64, cause: u16, depth: u8, pid: u32) -> Turn {
        Turn { at_ns, cause, depth, left: 0, pid }
    }

    /// Numbers 3 and up are softirqs of that name, so that each number has a name of its own.
    fn name(number: usize) -> Option<Cause> {
        Some(Cause::new(CauseKind::Softirq, format!("{number}")))
    }

    fn slices(recorder: Recorder, end_ns: u64) -> Vec<(String, u64, u64)> {
        let timeline = recorder.finish(end_ns, Vec::new());
        let all = timeline.slices.iter();
        all.map(|slice| (timeline.causes[slice.cause as usize].name.clone(), slice.start_ns, slice.duration_ns))
            .collect()
    }

    fn slice(name: &str, start_ns: u64, duration_ns: u64) -> (String, u64, u64) {
        (name.to_owned(), start_ns, duration_ns)
    }

    #[test]
    fn nested_interrupts_become_nested_slices_and_work_becomes_none() {
        let mut recorder = Recorder::default();
        // Work; a softirq; an interrupt in it; back; a second one; back; work. Cut between two reads.
        let turns = [turn(10, 1, 0, 7), turn(20, 14, 1, 7), turn(30, 3, 2, 7), turn(35, 14, 1, 7), turn(40, 3, 2, 7)];
        recorder.turns(CPU, &turns, 0, name);
        recorder.turns(CPU, &[turn(48, 14, 1, 7), turn(60, 1, 0, 7)], 0, name);
        assert_eq!(slices(recorder, 100), [slice("3", 30, 5), slice("3", 40, 8), slice("14", 20, 40)]);
    }

    #[test]
    fn kernel_threads_of_one_family_are_told_apart_and_interrupts_do_not_cut_them() {
        let mut recorder = Recorder::default();
        let turns = [
            turn(10, 40, 0, 7),
            turn(20, 3, 1, 7),
            turn(25, 40, 0, 7),
            turn(30, 40, 0, 8),
            turn(50, 0, 0, 0),
            turn(60, 40, 0, 8),
        ];
        recorder.turns(CPU, &turns, 0, name);
        let expected = [slice("3", 20, 5), slice("40", 10, 20), slice("40", 30, 20), slice("40", 60, 40)];
        assert_eq!(slices(recorder, 100), expected, "the last one is open at the end");
    }

    #[test]
    fn the_same_interrupt_twice_in_a_row_is_two_slices() {
        let mut recorder = Recorder::default();
        recorder.turns(CPU, &[turn(10, 3, 1, 7), turn(20, 3, 1, 7), turn(30, 1, 0, 7)], 0, name);
        assert_eq!(slices(recorder, 100), [slice("3", 10, 10), slice("3", 20, 10)]);
    }

    #[test]
    fn what_was_open_when_turns_were_lost_ends_at_the_last_one_that_was_seen() {
        let mut recorder = Recorder::default();
        recorder.turns(CPU, &[turn(10, 14, 1, 7), turn(20, 3, 2, 7)], 0, name);
        recorder.turns(CPU, &[turn(90, 14, 1, 7), turn(95, 1, 0, 7)], 5, name);
        assert_eq!(recorder.timeline.turns_lost, 5);
        assert_eq!(slices(recorder, 100), [slice("3", 20, 0), slice("14", 10, 10), slice("14", 90, 5)]);
    }

    #[test]
    fn an_arrival_finds_the_slice_that_it_caused_and_no_other() {
        let mut recorder = Recorder::default();
        let turns = [turn(100_000, 3, 1, 7), turn(110_000, 1, 0, 7), turn(500_000, 3, 1, 7), turn(520_000, 1, 0, 7)];
        let timer = |_: usize| Some(Cause::new(CauseKind::Timer, "t"));
        recorder.turns(CPU, &turns, 0, timer);
        for at_ns in [95_000, 105_000, 200_000, 519_000, 600_000] {
            recorder.arrival(CPU, &Cause::new(CauseKind::Timer, "t"), at_ns, None, None);
        }
        recorder.arrival(CpuId(2), &Cause::new(CauseKind::Timer, "t"), 105_000, None, None);
        recorder.turns(CPU, &[turn(900_000, 14, 1, 7)], 0, name);
        recorder.arrival(CPU, &Cause::new(CauseKind::Softirq, "14"), 200_000, Some(0), Some(200_000));
        let timeline = recorder.finish(1_000_000, Vec::new());
        let found: Vec<_> = timeline.arrivals.iter().map(|arrival| arrival.slice).collect();
        assert_eq!(found, [Some(0), Some(0), None, Some(1), None, None, Some(2)]);
    }

    #[test]
    fn what_finds_no_room_is_counted() {
        let mut recorder = Recorder::default();
        let cause = Cause::new(CauseKind::Timer, "t");
        for at_ns in 0..ARRIVALS_KEPT as u64 + 3 {
            recorder.arrival(CPU, &cause, at_ns, None, None);
        }
        for at_ns in 0..SLICES_KEPT as u64 + 4 {
            recorder.turns(CPU, &[turn(at_ns, 3, 1, 7)], 0, name);
        }
        let timeline = recorder.finish(u64::MAX, Vec::new());
        assert_eq!((timeline.arrivals.len(), timeline.arrivals_dropped), (ARRIVALS_KEPT, 3));
        assert_eq!((timeline.slices.len(), timeline.slices_dropped), (SLICES_KEPT, 4));
    }
}
