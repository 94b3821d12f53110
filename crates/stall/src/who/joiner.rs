//! The join of what was raised with what arrived. Pure: records and marks in, raisers out.
//!
//! - *Functions* are joined exactly: the record and the mark carry the same call-single data, and the newest record
//!   before the mark is the one that ran. A record that another follows lost its mark.
//! - *Timers* are joined by the timer: who armed it last.
//! - *Reschedules* carry nothing, so the last sender before the arrival is only probable.
//! - *Softirqs* are raised on the core itself, in a context that is known.

use std::collections::{HashMap, VecDeque};
use surefoot_model::{Certainty, CpuId};
use surefoot_probes::{Mark, MarkKind, Raised, RaisedKind};

/// Records that wait for their mark; the oldest go first and are counted.
const WAITING: usize = 1 << 16;

/// Timers whose armer is remembered.
const TIMERS: usize = 1 << 14;

/// Senders of reschedules that are remembered per core.
const SENDERS: usize = 256;

/// The longest time between sending a reschedule and its arrival that is believed, nanoseconds.
const RESCHEDULE_NS: u64 = 10_000_000;

/// Something that arrived on a watched core, with its raiser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Arrival {
    /// A called function.
    Function {
        /// Its address.
        function: u64,
        /// Who queued it; `None` when that was not seen.
        raiser: Option<Raised>,
    },
    /// A timer.
    Timer {
        /// Its callback.
        callback: u64,
        /// Who armed it last; `None` when that was before watching began.
        raiser: Option<Raised>,
    },
    /// A reschedule.
    Reschedule {
        /// The last that sent one.
        raiser: Option<Raised>,
    },
    /// A softirq was raised.
    Softirq {
        /// Its vector.
        vector: u32,
        /// Number of the cause in which it was raised.
        context: u32,
        /// The thread that was running.
        tid: u32,
    },
    /// Work was queued for a worker of the core, or one of its kernel threads was woken.
    Thread {
        /// Who did.
        raiser: Raised,
    },
    /// The kernel looked whether the tick can stop.
    Tick {
        /// Whether it did.
        stopped: bool,
        /// What keeps it.
        dependency: u32,
    },
}

impl Arrival {
    /// How sure the raiser of such an arrival is.
    pub fn certainty(&self) -> Certainty {
        match self {
            Arrival::Reschedule { .. } => Certainty::Probable,
            _ => Certainty::Certain,
        }
    }
}

/// Keeps what waits to be joined.
#[derive(Debug, Default)]
pub struct Joiner {
    functions: HashMap<(CpuId, u64), VecDeque<Raised>>,
    waiting: usize,
    timers: HashMap<u64, Raised>,
    senders: HashMap<CpuId, VecDeque<Raised>>,
    forgotten: u64,
}

impl Joiner {
    /// Takes a record. Work and wake-ups need no mark and come back at once.
    pub fn raised(&mut self, raised: Raised) -> Option<Arrival> {
        match raised.kind {
            RaisedKind::Function => {
                if self.waiting >= WAITING {
                    // Whatever waits that long lost its mark: start anew rather than grow.
                    self.forgotten += self.waiting as u64;
                    self.functions.clear();
                    self.waiting = 0;
                }
                self.waiting += 1;
                self.functions.entry((raised.cpu, raised.key)).or_default().push_back(raised);
                None
            }
            RaisedKind::Timer => {
                if self.timers.len() >= TIMERS && !self.timers.contains_key(&raised.key) {
                    self.forgotten += self.timers.len() as u64;
                    self.timers.clear();
                }
                self.timers.insert(raised.key, raised);
                None
            }
            RaisedKind::Reschedule => {
                let senders = self.senders.entry(raised.cpu).or_default();
                if senders.len() == SENDERS {
                    senders.pop_front();
                }
                senders.push_back(raised);
                None
            }
            RaisedKind::Work | RaisedKind::Wake => Some(Arrival::Thread { raiser: raised }),
        }
    }

    /// Takes a mark; local calls have no raiser elsewhere and give nothing.
    pub fn mark(&mut self, cpu: CpuId, mark: &Mark) -> Option<Arrival> {
        match mark.kind {
            MarkKind::Function if mark.key == 0 => None,
            MarkKind::Function => {
                let raiser = self.take_function(cpu, mark);
                Some(Arrival::Function { function: mark.value, raiser })
            }
            MarkKind::Timer => {
                let armed = self.timers.get(&mark.key).filter(|armed| armed.at_ns <= mark.at_ns);
                Some(Arrival::Timer { callback: mark.value, raiser: armed.cloned() })
            }
            MarkKind::Softirq => Some(Arrival::Softirq {
                vector: mark.key as u32,
                context: mark.value as u32,
                tid: (mark.value >> 32) as u32,
            }),
            MarkKind::Tick => Some(Arrival::Tick { stopped: mark.key != 0, dependency: mark.value as u32 }),
        }
    }

    fn take_function(&mut self, cpu: CpuId, mark: &Mark) -> Option<Raised> {
        let place = (cpu, mark.key);
        let queue = self.functions.get_mut(&place)?;
        let mut raiser = None;
        while queue.front().is_some_and(|raised| raised.at_ns <= mark.at_ns) {
            if raiser.is_some() {
                self.forgotten += 1;
            }
            raiser = queue.pop_front();
            self.waiting -= 1;
        }
        if queue.is_empty() {
            self.functions.remove(&place);
        }
        // Call-single data is reused: the same address with another function is another call.
        raiser.filter(|raised| raised.function == mark.value)
    }

    /// A reschedule arrived on this core.
    pub fn reschedule(&mut self, cpu: CpuId, at_ns: u64) -> Arrival {
        let mut raiser = None;
        if let Some(senders) = self.senders.get_mut(&cpu) {
            while senders.front().is_some_and(|sender| sender.at_ns <= at_ns) {
                raiser = senders.pop_front();
            }
        }
        Arrival::Reschedule { raiser: raiser.filter(|sender| at_ns - sender.at_ns <= RESCHEDULE_NS) }
    }

    /// Records that lost their mark or had to make room.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raised(kind: RaisedKind, at_ns: u64, key: u64, function: u64) -> Raised {
        Raised {
            at_ns,
            kind,
            key,
            function,
            cpu: CpuId(1),
            tid: at_ns as u32,
            pid: 1,
            comm: [0; 16],
            wakee: [0; 16],
            system_call: None,
            in_interrupt: false,
            kernel_stack: Vec::new(),
            user_stack: Vec::new(),
            user_top: 0,
        }
    }

    fn ran(joiner: &mut Joiner, at_ns: u64, key: u64, value: u64) -> Option<u32> {
        let mark = Mark { at_ns, kind: MarkKind::Function, key, value };
        match joiner.mark(CpuId(1), &mark) {
            Some(Arrival::Function { raiser, .. }) => raiser.map(|raised| raised.tid),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_newest_record_before_the_mark_is_the_raiser_and_is_used_once() {
        let mut joiner = Joiner::default();
        for at_ns in [10, 20, 40] {
            assert_eq!(joiner.raised(raised(RaisedKind::Function, at_ns, 0xC5D, 0xF)), None);
        }
        assert_eq!(ran(&mut joiner, 30, 0xC5D, 0xF), Some(20));
        assert_eq!(joiner.forgotten(), 1, "the record of time 10 lost its mark");
        assert_eq!(ran(&mut joiner, 35, 0xC5D, 0xF), None, "the record of time 40 is in the future");
        assert_eq!(ran(&mut joiner, 50, 0xC5D, 0xF), Some(40));
        assert_eq!(ran(&mut joiner, 60, 0xC5D, 0xF), None);
        joiner.raised(raised(RaisedKind::Function, 70, 0xC5D, 0xF));
        assert_eq!(ran(&mut joiner, 80, 0xC5D, 0xE), None, "another function is another call");
    }

    #[test]
    fn another_core_s_record_is_never_the_raiser() {
        let mut joiner = Joiner::default();
        let mut other = raised(RaisedKind::Function, 10, 0xC5D, 0xF);
        other.cpu = CpuId(2);
        joiner.raised(other);
        assert_eq!(ran(&mut joiner, 20, 0xC5D, 0xF), None);
    }

    #[test]
    fn a_local_call_has_no_raiser_to_look_for() {
        let mark = Mark { at_ns: 1, kind: MarkKind::Function, key: 0, value: 0xF };
        assert_eq!(Joiner::default().mark(CpuId(1), &mark), None);
    }

    #[test]
    fn the_last_sender_before_a_reschedule_is_believed_for_a_while() {
        let mut joiner = Joiner::default();
        joiner.raised(raised(RaisedKind::Reschedule, 10, 0, 0));
        joiner.raised(raised(RaisedKind::Reschedule, 15, 0, 0));
        let who = |arrival: Arrival| match arrival {
            Arrival::Reschedule { raiser } => raiser.map(|raised| raised.tid),
            other => panic!("{other:?}"),
        };
        assert_eq!(who(joiner.reschedule(CpuId(1), 20)), Some(15));
        assert_eq!(who(joiner.reschedule(CpuId(1), 21)), None);
        joiner.raised(raised(RaisedKind::Reschedule, 30, 0, 0));
        assert_eq!(who(joiner.reschedule(CpuId(1), 31 + RESCHEDULE_NS)), None);
    }

    #[test]
    fn the_newest_armer_of_a_timer_is_its_raiser() {
        let mut joiner = Joiner::default();
        joiner.raised(raised(RaisedKind::Timer, 10, 7, 0xF));
        joiner.raised(raised(RaisedKind::Timer, 20, 7, 0xF));
        let mark = Mark { at_ns: 30, kind: MarkKind::Timer, key: 7, value: 0xF };
        let Some(Arrival::Timer { raiser: Some(raiser), .. }) = joiner.mark(CpuId(1), &mark) else {
            panic!("no armer")
        };
        assert_eq!(raiser.tid, 20);
    }

    #[test]
    fn what_never_arrives_is_forgotten_and_counted() {
        let mut joiner = Joiner::default();
        for number in 0..=WAITING as u64 {
            joiner.raised(raised(RaisedKind::Function, number, number, 0xF));
        }
        assert_eq!(joiner.forgotten(), WAITING as u64);
        for number in 0..=TIMERS as u64 {
            joiner.raised(raised(RaisedKind::Timer, number, number, 0xF));
        }
        assert_eq!(joiner.forgotten(), (WAITING + TIMERS) as u64);
    }
}
