//! The join of called functions where the kernel does not tell which call is queued. Pure.
//!
//! - Where senders of interrupts are seen ([`CallEvidence::Sent`]): whatever was sent to a core before such an
//!   interrupt arrived there has been served by it, because an arrival empties the core's queue. All of it is joined.
//! - Where only TLB shootdowns are seen ([`CallEvidence::Flushes`]): a sender waits until all targets have obeyed, so each
//!   sending core has one shootdown under way at a time. The oldest that is under way is joined, one of the process
//!   that was interrupted before any other.
//!
//! Both rest on time and order, so their raisers are probable and never certain.

use super::joiner::Arrival;
use std::collections::{HashMap, VecDeque};
use surefoot_model::CpuId;
use surefoot_probes::layout::{CAUSE_CALL_FUNCTION, CAUSE_CALL_FUNCTION_SINGLE, Turn};
use surefoot_probes::{CallEvidence, Mark, Raised, RaisedKind};

/// Whether an interrupt of this number runs called functions.
fn runs_calls(cause: u16) -> bool {
    [CAUSE_CALL_FUNCTION, CAUSE_CALL_FUNCTION_SINGLE].contains(&usize::from(cause))
}

/// The longest time between sending and arrival that is believed, nanoseconds.
const SENT_NS: u64 = 10_000_000;

/// What waits for each core, or comes from it; the oldest go first and are counted.
const WAITING: usize = 4096;

/// Tells the arrival of an interrupt from the return to it.
#[derive(Debug, Default)]
pub(crate) struct Depths {
    /// Of each core how many contexts were open after its newest turn, and when that was.
    newest: HashMap<CpuId, (u8, u64)>,
}

impl Depths {
    /// Takes a turn of a core. True if it goes up: one that goes down returns to what was interrupted.
    pub(crate) fn arrives(&mut self, cpu: CpuId, turn: &Turn) -> bool {
        let (depth, _) = self.newest.insert(cpu, (turn.depth, turn.at_ns)).unwrap_or_default();
        turn.depth > depth
    }

    fn newest_ns(&self, cpu: CpuId) -> u64 {
        self.newest.get(&cpu).map_or(0, |(_, at_ns)| *at_ns)
    }
}

/// Joins sent interrupts, or shootdowns, with arrivals.
#[derive(Debug, Default)]
pub struct CallJoiner {
    evidence: CallEvidence,
    depths: Depths,
    sent: HashMap<CpuId, VecDeque<Raised>>,
    /// Of each sending core its shootdowns, oldest first.
    flushes: HashMap<CpuId, VecDeque<Raised>>,
    /// Of each target and sending core the time of the newest shootdown that was joined.
    obeyed_ns: HashMap<(CpuId, CpuId), u64>,
    /// Of each core the arrivals that wait for the word whether they were shootdowns.
    arrived: HashMap<CpuId, VecDeque<(u64, u16)>>,
    /// Of each core the newest turn of the look before this one.
    settled_ns: HashMap<CpuId, u64>,
    forgotten: u64,
}

impl CallJoiner {
    /// Joins by this evidence; with [`CallEvidence::Exact`] it has nothing to do.
    pub fn new(evidence: CallEvidence) -> Self {
        CallJoiner { evidence, ..CallJoiner::default() }
    }

    /// Takes the record of a sent interrupt or shootdown.
    pub fn raised(&mut self, raised: Raised) {
        let queue = match raised.kind {
            RaisedKind::Call => self.sent.entry(raised.cpu).or_default(),
            RaisedKind::Flush => self.flushes.entry(raised.from).or_default(),
            _ => return,
        };
        if queue.len() >= WAITING {
            queue.pop_front();
            self.forgotten += 1;
        }
        queue.push_back(raised);
    }

    /// Takes a turn of a core, after all records that were left before it. Gives the calls that arrived with it.
    pub fn turn(&mut self, cpu: CpuId, turn: &Turn) -> Vec<Arrival> {
        if !self.depths.arrives(cpu, turn) || !runs_calls(turn.cause) {
            return Vec::new();
        }
        match self.evidence {
            CallEvidence::Exact => Vec::new(),
            CallEvidence::Unseen => vec![unknown(turn.at_ns, turn.cause)],
            CallEvidence::Sent => self.served(cpu, turn),
            CallEvidence::Flushes => {
                let waiting = self.arrived.entry(cpu).or_default();
                waiting.push_back((turn.at_ns, turn.cause));
                if waiting.len() > WAITING {
                    waiting.pop_front().map(|(at_ns, vector)| unknown(at_ns, vector)).into_iter().collect()
                } else {
                    Vec::new()
                }
            }
        }
    }

    fn served(&mut self, cpu: CpuId, turn: &Turn) -> Vec<Arrival> {
        let mut arrivals = Vec::new();
        // Records of several senders may be out of order by the time that leaving one takes.
        if let Some(queue) = self.sent.get_mut(&cpu) {
            let mut later = VecDeque::new();
            for raised in queue.drain(..) {
                if raised.at_ns > turn.at_ns {
                    later.push_back(raised);
                } else if turn.at_ns - raised.at_ns <= SENT_NS {
                    arrivals.push(joined(turn.at_ns, turn.cause, raised));
                } else {
                    self.forgotten += 1;
                }
            }
            *queue = later;
        }
        if arrivals.is_empty() {
            arrivals.push(unknown(turn.at_ns, turn.cause));
        }
        arrivals
    }

    /// Takes the mark of a shootdown that was obeyed, after the turns and records that came before it.
    pub fn flushed(&mut self, cpu: CpuId, mark: &Mark) -> Vec<Arrival> {
        if self.evidence != CallEvidence::Flushes {
            return Vec::new();
        }
        let mut arrivals = Vec::new();
        // Several shootdowns may come with one interrupt; the later ones find its arrival taken.
        let (mut at_ns, mut vector) = (mark.at_ns, CAUSE_CALL_FUNCTION as u16);
        let waiting = self.arrived.entry(cpu).or_default();
        let mut is_first = true;
        while let Some(next) = pop_until(waiting, mark.at_ns) {
            // One that was followed by another before anything was flushed was none.
            if !is_first {
                arrivals.push(unknown(at_ns, vector));
            }
            (at_ns, vector) = next;
            is_first = false;
        }
        let raiser = self.under_way(cpu, mark);
        arrivals.push(raiser.map_or(unknown(at_ns, vector), |raised| joined(at_ns, vector, raised)));
        arrivals
    }

    /// The shootdown that this core obeyed: of each sender its newest before the mark, of those the oldest.
    fn under_way(&mut self, cpu: CpuId, mark: &Mark) -> Option<Raised> {
        let mut best: Option<&Raised> = None;
        for (from, queue) in &mut self.flushes {
            while queue.get(1).is_some_and(|next| next.at_ns + SENT_NS < mark.at_ns) {
                queue.pop_front();
            }
            let Some(newest) = queue.iter().rev().find(|raised| raised.at_ns <= mark.at_ns) else { continue };
            let obeyed_ns = self.obeyed_ns.get(&(cpu, *from)).copied().unwrap_or(0);
            if *from == cpu || newest.at_ns <= obeyed_ns || mark.at_ns - newest.at_ns > SENT_NS {
                continue;
            }
            let rank = |raised: &Raised| (u64::from(raised.pid) != mark.value, raised.at_ns);
            if best.is_none_or(|best| rank(newest) < rank(best)) {
                best = Some(newest);
            }
        }
        let best = best?.clone();
        self.obeyed_ns.insert((cpu, best.from), best.at_ns);
        Some(best)
    }

    /// To be called after each look: what arrived before the look before this one, and flushed nothing, was another
    /// call, whose raiser nobody can tell.
    pub fn settle(&mut self, cpu: CpuId) -> Vec<Arrival> {
        let newest_ns = self.depths.newest_ns(cpu);
        let until_ns = self.settled_ns.insert(cpu, newest_ns).unwrap_or(0);
        let mut arrivals = Vec::new();
        if let Some(waiting) = self.arrived.get_mut(&cpu) {
            while let Some((at_ns, vector)) = pop_until(waiting, until_ns) {
                arrivals.push(unknown(at_ns, vector));
            }
        }
        arrivals
    }

    /// Records that no arrival followed, or that had to make room.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }
}

fn pop_until(waiting: &mut VecDeque<(u64, u16)>, until_ns: u64) -> Option<(u64, u16)> {
    waiting.front().filter(|(at_ns, _)| *at_ns <= until_ns)?;
    waiting.pop_front()
}

fn joined(at_ns: u64, vector: u16, raised: Raised) -> Arrival {
    let is_shootdown = raised.kind == RaisedKind::Flush || raised.key != 0;
    Arrival::Call { at_ns, vector, function: raised.function, is_shootdown, raiser: Some(raised) }
}

fn unknown(at_ns: u64, vector: u16) -> Arrival {
    Arrival::Call { at_ns, vector, function: 0, is_shootdown: false, raiser: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::who::joiner::tests::raised;
    use surefoot_probes::MarkKind;

    const HERE: CpuId = CpuId(1);

    fn sent(at_ns: u64) -> Raised {
        raised(RaisedKind::Call, at_ns, 0, 0xF)
    }

    fn flush(at_ns: u64, from: u32, pid: u32) -> Raised {
        Raised { from: CpuId(from), pid, ..raised(RaisedKind::Flush, at_ns, 1, 0) }
    }

    fn arrival(at_ns: u64) -> Turn {
        Turn { at_ns, cause: 6, depth: 1, left: 0, pid: 0 }
    }

    fn back(at_ns: u64) -> Turn {
        Turn { at_ns, cause: 1, depth: 0, left: 0, pid: 0 }
    }

    fn mark(at_ns: u64, process: u64) -> Mark {
        Mark { at_ns, kind: MarkKind::Flush, key: 1, value: process }
    }

    fn raisers(arrivals: &[Arrival]) -> Vec<Option<u32>> {
        arrivals
            .iter()
            .map(|arrival| match arrival {
                Arrival::Call { raiser, .. } => raiser.as_ref().map(|raised| raised.tid),
                other => panic!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn an_arrival_serves_all_that_was_sent_before_it_and_nothing_later_or_stale() {
        let mut joiner = CallJoiner::new(CallEvidence::Sent);
        for at_ns in [10, 30, 20, 90] {
            joiner.raised(sent(at_ns));
        }
        joiner.raised(Raised { cpu: CpuId(2), ..sent(15) });
        assert_eq!(raisers(&joiner.turn(HERE, &arrival(40))), [Some(10), Some(30), Some(20)]);
        assert!(joiner.turn(HERE, &Turn { cause: 40, depth: 2, ..arrival(41) }).is_empty());
        assert!(joiner.turn(HERE, &arrival(42)).is_empty(), "back from a nested context is no arrival");
        joiner.turn(HERE, &back(43));
        assert_eq!(raisers(&joiner.turn(HERE, &arrival(50))), [None], "the next was sent at 90");
        joiner.turn(HERE, &back(51));
        assert_eq!(raisers(&joiner.turn(HERE, &arrival(91 + SENT_NS))), [None]);
        assert_eq!(joiner.forgotten(), 1);
        assert_eq!(raisers(&joiner.turn(CpuId(2), &arrival(95))), [Some(15)]);
    }

    #[test]
    fn a_return_to_an_interrupt_is_no_second_arrival() {
        const NMI: u16 = 3;
        let mut depths = Depths::default();
        let mut turn = |cause, depth| depths.arrives(HERE, &Turn { at_ns: 1, cause, depth, left: 0, pid: 0 });
        let interrupt = |arrives: [bool; 4]| assert_eq!(arrives, [true, true, false, false]);
        interrupt([turn(4, 1), turn(NMI, 2), turn(4, 1), turn(1, 0)]);
        interrupt([turn(4, 1), turn(NMI, 2), turn(4, 1), turn(1, 0)]);
        assert!(depths.arrives(CpuId(2), &arrival(1)), "each core has its own");
    }

    #[test]
    fn what_was_sent_for_a_flush_says_so() {
        let mut joiner = CallJoiner::new(CallEvidence::Sent);
        joiner.raised(Raised { key: 1, ..sent(10) });
        let arrivals = joiner.turn(HERE, &arrival(20));
        assert!(matches!(
            arrivals[..],
            [Arrival::Call { at_ns: 20, vector: 6, function: 0xF, is_shootdown: true, .. }]
        ));
        assert_eq!(arrivals[0].certainty(), surefoot_model::Certainty::Probable);
    }

    #[test]
    fn a_shootdown_is_of_the_oldest_sender_under_way_and_of_the_interrupted_process_first() {
        let mut joiner = CallJoiner::new(CallEvidence::Flushes);
        joiner.raised(flush(10, 0, 7));
        joiner.raised(flush(20, 2, 7));
        joiner.raised(flush(12, 3, 9));
        for at_ns in [30, 40, 50, 60] {
            assert!(joiner.turn(HERE, &arrival(at_ns)).is_empty(), "nothing is said before the mark");
            joiner.turn(HERE, &back(at_ns + 5));
        }
        assert_eq!(raisers(&joiner.flushed(HERE, &mark(31, 7))), [Some(10)]);
        assert_eq!(raisers(&joiner.flushed(HERE, &mark(41, 7))), [Some(20)]);
        assert_eq!(raisers(&joiner.flushed(HERE, &mark(61, 7))), [None, Some(12)], "the one of 50 flushed nothing");
        assert_eq!(raisers(&joiner.flushed(CpuId(4), &mark(70, 7))), [Some(10)], "another core has its own");
        joiner.raised(flush(80, 0, 7));
        joiner.raised(flush(90, 0, 7));
        assert_eq!(raisers(&joiner.flushed(HERE, &mark(85, 7))), [Some(80)], "a record of the future is not believed");
    }

    #[test]
    fn a_call_that_flushes_nothing_is_unknown_one_look_later() {
        let mut joiner = CallJoiner::new(CallEvidence::Flushes);
        joiner.turn(HERE, &arrival(10));
        joiner.turn(HERE, &back(15));
        assert!(joiner.settle(HERE).is_empty(), "its mark may be there at the next look");
        assert_eq!(raisers(&joiner.settle(HERE)), [None]);
        assert!(joiner.settle(HERE).is_empty());
        assert_eq!(joiner.evidence, CallEvidence::Flushes);
    }

    #[test]
    fn with_exact_evidence_nothing_is_joined_here_and_without_any_nothing_can_be() {
        assert!(CallJoiner::default().turn(HERE, &arrival(10)).is_empty());
        let mut blind = CallJoiner::new(CallEvidence::Unseen);
        blind.raised(sent(1));
        assert_eq!(raisers(&blind.turn(HERE, &arrival(10))), [None]);
    }

    #[test]
    fn what_waits_is_limited_and_counted() {
        let mut joiner = CallJoiner::new(CallEvidence::Sent);
        for at_ns in 0..2 * WAITING as u64 {
            joiner.raised(sent(at_ns));
        }
        assert_eq!(joiner.forgotten(), WAITING as u64);
        let mut joiner = CallJoiner::new(CallEvidence::Flushes);
        let mut unknown = 0;
        for at_ns in 0..2 * WAITING as u64 {
            unknown += joiner.turn(HERE, &arrival(10 * at_ns)).len();
            joiner.turn(HERE, &back(10 * at_ns + 5));
        }
        assert_eq!(unknown, WAITING);
    }
}
