//! The join of what was raised with what arrived. Pure: records and marks in, raisers out.
//!
//! - *Functions* are joined exactly: the record and the mark carry the same call-single data, and the newest record
//!   before the mark is the one that ran. A record that another follows lost its mark.
//! - *Timers* are joined by the timer: who armed it last.
//! - Where the calls themselves are not seen, [`CallJoiner`] joins what is, which is only probable.
//! - *Reschedules* carry nothing, so the last sender before the arrival is only probable.
//! - *Softirqs* are raised on the core itself, in a context that is known.

use super::calls::CallJoiner;
use std::collections::{HashMap, VecDeque};
use surefoot_model::{Certainty, CpuId};
use surefoot_probes::{CallEvidence, Mark, MarkKind, Raised, RaisedKind};

/// Records that wait for their mark, with their stacks up to 2 KiB each; beyond, all go and are counted.
const WAITING: usize = 1 << 13;

/// A called function that has not run for so long lost its mark, nanoseconds: its core would have to keep interrupts off all
/// the time. Programs that come and go leave such records for good.
const LOST_NS: u64 = 5_000_000_000;

/// After how many records those that lost their mark are looked for.
const LOOKED_FOR_EVERY: usize = 512;

/// Armings of timers that are remembered.
const ARMINGS: usize = 1 << 13;

/// After so many copies of stacks, of 8 KiB each, the records that came before the last so many lose theirs: a timer may wait
/// for days, and programs that are long gone have armed thousands.
const COPIES: usize = 512;

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
    /// An interrupt that runs called functions, where the functions themselves are not seen.
    Call {
        /// When it arrived, `CLOCK_MONOTONIC` nanoseconds.
        at_ns: u64,
        /// Number of its vector among the causes.
        vector: u16,
        /// Address that the sender names: the called function or the one that runs the queue; 0 where it names none.
        function: u64,
        /// Whether the sender had announced a TLB shootdown.
        is_shootdown: bool,
        /// Who probably sent it.
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
    /// A kernel message was logged on the core.
    Message {
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
            Arrival::Reschedule { .. } | Arrival::Call { .. } => Certainty::Probable,
            _ => Certainty::Certain,
        }
    }
}

/// Keeps what waits to be joined.
#[derive(Debug, Default)]
pub struct Joiner {
    functions: HashMap<(CpuId, u64), VecDeque<Raised>>,
    waiting: usize,
    since_looked_for: usize,
    /// Of each timer its armings, oldest first. Records are taken before the marks of the same look, so the newest may
    /// be of an arming after the expiry that the next mark tells of.
    timers: HashMap<u64, VecDeque<Raised>>,
    armings: usize,
    /// Of each core the time of its newest mark; what follows is later.
    marked_until_ns: HashMap<CpuId, u64>,
    senders: HashMap<CpuId, VecDeque<Raised>>,
    forgotten: u64,
    /// Copies of stacks since the last time that older ones went, and when that was by the newest record.
    copies: usize,
    copies_since_ns: u64,
    copies_dropped: u64,
    /// Joins called functions where they cannot be joined exactly.
    pub calls: CallJoiner,
}

impl Joiner {
    /// A joiner for what this kernel tells of called functions.
    pub fn new(evidence: CallEvidence) -> Self {
        Joiner { calls: CallJoiner::new(evidence), ..Joiner::default() }
    }

    /// Takes a record. Work and wake-ups need no mark and come back at once.
    pub fn raised(&mut self, raised: Raised) -> Option<Arrival> {
        if raised.user_copy.is_some() {
            self.copies += 1;
            if self.copies >= COPIES {
                self.drop_copies(raised.at_ns);
            }
        }
        match raised.kind {
            RaisedKind::Function => {
                if self.waiting >= WAITING {
                    // Whatever waits that long lost its mark: start anew rather than grow.
                    self.forgotten += self.waiting as u64;
                    self.functions.clear();
                    self.waiting = 0;
                }
                self.since_looked_for += 1;
                if self.since_looked_for >= LOOKED_FOR_EVERY {
                    self.drop_lost(raised.at_ns);
                }
                self.waiting += 1;
                self.functions.entry((raised.cpu, raised.key)).or_default().push_back(raised);
                None
            }
            RaisedKind::Timer => {
                self.arm(raised);
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
            RaisedKind::Call | RaisedKind::Flush => {
                self.calls.raised(raised);
                None
            }
            RaisedKind::Wake if raised.wakee.starts_with(b"ksoftirqd/") => {
                Some(Arrival::Thread { raiser: without_bystander(raised) })
            }
            RaisedKind::Message => Some(Arrival::Message { raiser: raised }),
            RaisedKind::Work | RaisedKind::Wake | RaisedKind::Move | RaisedKind::New => {
                Some(Arrival::Thread { raiser: raised })
            }
        }
    }

    /// Drops the called functions that lost their mark.
    fn drop_lost(&mut self, now_ns: u64) {
        let mut lost = 0;
        self.functions.retain(|_, queue| {
            while queue.front().is_some_and(|raised| raised.at_ns.saturating_add(LOST_NS) < now_ns) {
                queue.pop_front();
                lost += 1;
            }
            !queue.is_empty()
        });
        self.waiting -= lost;
        self.forgotten += lost as u64;
        self.since_looked_for = 0;
    }

    /// Takes the copies of stacks from the records that came before the last time.
    fn drop_copies(&mut self, now_ns: u64) {
        let queues = self.timers.values_mut().chain(self.functions.values_mut()).chain(self.senders.values_mut());
        for raised in queues.flatten().filter(|raised| raised.at_ns < self.copies_since_ns) {
            self.copies_dropped += u64::from(raised.user_copy.take().is_some());
        }
        (self.copies, self.copies_since_ns) = (0, now_ns);
    }

    /// Copies of stacks that were dropped before what they belong to arrived.
    pub fn copies_dropped(&self) -> u64 {
        self.copies_dropped
    }

    /// Takes a mark; local calls have no raiser elsewhere and give nothing.
    pub fn mark(&mut self, cpu: CpuId, mark: &Mark) -> Option<Arrival> {
        self.marked_until_ns.insert(cpu, mark.at_ns);
        match mark.kind {
            MarkKind::Function if mark.key == 0 => None,
            MarkKind::Function => {
                let raiser = self.take_function(cpu, mark);
                Some(Arrival::Function { function: mark.value, raiser })
            }
            MarkKind::Timer => {
                let raiser = self.last_arming(mark);
                Some(Arrival::Timer { callback: mark.value, raiser })
            }
            MarkKind::Softirq => Some(Arrival::Softirq {
                vector: mark.key as u32,
                context: mark.value as u32,
                tid: (mark.value >> 32) as u32,
            }),
            // It may speak of several arrivals: see `CallJoiner::flushed`.
            MarkKind::Flush => None,
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

    fn arm(&mut self, raised: Raised) {
        if self.armings >= ARMINGS {
            self.forgotten += self.armings as u64;
            self.timers.clear();
            self.armings = 0;
        }
        let marked_until_ns = self.marked_until_ns.get(&raised.cpu).copied().unwrap_or(0);
        let armings = self.timers.entry(raised.key).or_default();
        self.armings += 1;
        armings.push_back(raised);
        self.armings -= drop_outdated(armings, marked_until_ns);
    }

    /// The newest arming of a timer before it expired. It stays, because a timer may start itself again unseen.
    fn last_arming(&mut self, mark: &Mark) -> Option<Raised> {
        let armings = self.timers.get_mut(&mark.key)?;
        self.armings -= drop_outdated(armings, mark.at_ns);
        armings.front().filter(|armed| armed.at_ns <= mark.at_ns).cloned()
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
        self.forgotten + self.calls.forgotten()
    }
}

/// The thread that takes over softirqs is woken by an interrupt on its way out, when it is not told as one any more:
/// whatever ran on the core is a bystander then.
fn without_bystander(raised: Raised) -> Raised {
    Raised { in_interrupt: true, system_call: None, user_stack: Vec::new(), user_copy: None, ..raised }
}

/// Drops the armings that another had followed by this time; their number.
fn drop_outdated(armings: &mut VecDeque<Raised>, until_ns: u64) -> usize {
    let mut dropped = 0;
    while armings.get(1).is_some_and(|armed| armed.at_ns <= until_ns) {
        armings.pop_front();
        dropped += 1;
    }
    dropped
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn raised(kind: RaisedKind, at_ns: u64, key: u64, function: u64) -> Raised {
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
            image: 0,
            user_copy: None,
            from: CpuId(0),
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
    fn thousands_of_timers_that_wait_keep_few_copies_of_stacks() {
        let mut joiner = Joiner::default();
        let copy = std::sync::Arc::new(surefoot_probes::UserCopy::default());
        for timer in 0..4_000 {
            let user_copy = Some(std::sync::Arc::clone(&copy));
            joiner.raised(Raised { user_copy, ..raised(RaisedKind::Timer, timer + 1, timer, 1) });
        }
        let kept = std::sync::Arc::strong_count(&copy) - 1;
        assert!((COPIES..=2 * COPIES).contains(&kept), "{kept}");
        assert_eq!(joiner.copies_dropped(), 4_000 - kept as u64);
        let mark = Mark { at_ns: 9_000, kind: MarkKind::Timer, key: 7, value: 3 };
        let Some(Arrival::Timer { raiser: Some(raiser), .. }) = joiner.mark(CpuId(1), &mark) else { panic!() };
        assert!(raiser.user_copy.is_none(), "its raiser is known all the same");
    }

    #[test]
    fn functions_that_never_run_do_not_stay() {
        let mut joiner = Joiner::default();
        // One in a thousand runs; a millisecond lies between them.
        for number in 1..=100_000u64 {
            joiner.raised(raised(RaisedKind::Function, number * 1_000_000, number, 7));
            if number % 1_000 == 0 {
                assert_eq!(ran(&mut joiner, number * 1_000_000 + 1, number, 7), Some((number * 1_000_000) as u32));
            }
            assert!(joiner.waiting <= 5_000 + LOOKED_FOR_EVERY, "{}", joiner.waiting);
        }
        assert_eq!(joiner.waiting, joiner.functions.values().map(VecDeque::len).sum::<usize>());
        assert_eq!(joiner.forgotten() + joiner.waiting as u64, 100_000 - 100, "each is counted");
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
    fn whatever_runs_where_softirqs_are_handed_over_is_a_bystander() {
        let mut joiner = Joiner::default();
        let mut wake = |name: &[u8]| {
            let mut raised = Raised { system_call: Some(1), ..raised(RaisedKind::Wake, 10, 7, 0) };
            raised.user_stack = vec![1];
            raised.wakee[..name.len()].copy_from_slice(name);
            match joiner.raised(raised) {
                Some(Arrival::Thread { raiser }) => {
                    (raiser.in_interrupt, raiser.system_call, raiser.user_stack.is_empty())
                }
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(wake(b"ksoftirqd/1"), (true, None, true));
        assert_eq!(wake(b"kworker/1:0"), (false, Some(1), false));
    }

    #[test]
    fn a_timer_that_is_armed_anew_between_two_looks_keeps_the_armer_of_each_expiry() {
        let mut joiner = Joiner::default();
        // All records of a look come before its marks.
        for at_ns in [10, 20, 30] {
            joiner.raised(raised(RaisedKind::Timer, at_ns, 7, 0xF));
        }
        let mut armer = |at_ns| {
            let mark = Mark { at_ns, kind: MarkKind::Timer, key: 7, value: 0xF };
            match joiner.mark(CpuId(1), &mark) {
                Some(Arrival::Timer { raiser, .. }) => raiser.map(|raised| raised.tid),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!([5, 15, 25, 35, 36].map(&mut armer), [None, Some(10), Some(20), Some(30), Some(30)]);
        assert_eq!(joiner.armings, 1);
    }

    #[test]
    fn a_timer_that_is_put_off_again_and_again_takes_no_more_room() {
        let mut joiner = Joiner::default();
        for at_ns in 0..4 * ARMINGS as u64 {
            joiner.raised(raised(RaisedKind::Timer, at_ns, 7, 0xF));
            let other = Mark { at_ns, kind: MarkKind::Timer, key: 8, value: 0xF };
            joiner.mark(CpuId(1), &other);
        }
        assert!(joiner.armings <= 2, "{}", joiner.armings);
        assert_eq!(joiner.forgotten(), 0);
    }

    #[test]
    fn what_never_arrives_is_forgotten_and_counted() {
        let mut joiner = Joiner::default();
        for number in 0..=WAITING as u64 {
            joiner.raised(raised(RaisedKind::Function, number, number, 0xF));
        }
        assert_eq!(joiner.forgotten(), WAITING as u64);
        for number in 0..=ARMINGS as u64 {
            joiner.raised(raised(RaisedKind::Timer, number, number, 0xF));
        }
        assert_eq!(joiner.forgotten(), (WAITING + ARMINGS) as u64);
    }
}
