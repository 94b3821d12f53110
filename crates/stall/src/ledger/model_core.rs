//! A model of what the programs do to a core's slot (`probes/bpf/ledger.h`, `console.h`, `preemption.h`, `waits.h`), against
//! which the ledger of a window is tested.

use proptest::prelude::*;
use surefoot_model::{BUCKETS, Histogram};
use surefoot_probes::Snapshot;
use surefoot_probes::layout::{
    CAUSE_CONSOLE, CAUSE_IDLE, CAUSE_OTHER_NMI, CAUSE_OTHER_TASK, CAUSE_OTHER_THREAD, CAUSE_UNKNOWN, CAUSE_WORK,
    CAUSES, Frame, LOGGED, PRINTED_NS, Slot,
};

/// Interrupts that may lie on top of each other: softirq, interrupt, called function.
const LEVELS: u32 = 3;

#[derive(Debug, Clone)]
pub(super) enum Event {
    /// Another base gets the core. So many runs of the ones before it turn out to have kept it waiting.
    Switch {
        cause: usize,
        kept_waiting_by: usize,
        behind: bool,
    },
    Enter(usize),
    Leave,
    /// A message is logged, and perhaps printed until the next event.
    Message {
        prints: bool,
    },
    /// An NMI tells its length when it is over: this share of 256 of the time since the last event.
    Nmi(u8),
}

pub(super) fn any_event() -> impl Strategy<Value = Event> {
    let base = prop::sample::select(vec![CAUSE_IDLE, CAUSE_WORK, CAUSE_OTHER_THREAD, CAUSE_OTHER_TASK]);
    prop_oneof![
        4 => (base, 0usize..4, any::<bool>()).prop_map(|(cause, kept_waiting_by, behind)| Event::Switch { cause, kept_waiting_by, behind }),
        3 => (CAUSE_UNKNOWN + 1..CAUSE_OTHER_NMI).prop_map(Event::Enter),
        3 => Just(Event::Leave),
        2 => any::<bool>().prop_map(|prints| Event::Message { prints }),
        1 => any::<u8>().prop_map(Event::Nmi),
    ]
}

fn takes_core(cause: usize) -> bool {
    [CAUSE_OTHER_THREAD, CAUSE_OTHER_TASK].contains(&cause)
}

/// A core as the programs see it.
pub(super) struct ModelCore {
    slot: Box<Slot>,
    /// How long the occurrences of each cause were.
    pub(super) durations: Vec<[u32; BUCKETS]>,
    /// Cause and own time of the runs that nobody is known to have waited for.
    runs: Vec<(usize, u64)>,
    prints: bool,
}

impl Default for ModelCore {
    fn default() -> Self {
        let mut slot = Box::new(Slot::zeroed());
        slot.frames[0].cause = CAUSE_UNKNOWN as u32;
        ModelCore { slot, durations: vec![[0; BUCKETS]; CAUSES], runs: Vec::new(), prints: false }
    }
}

impl ModelCore {
    pub(super) fn snapshot(&self, at_ns: u64) -> Snapshot {
        let total_ns: u64 = self.slot.causes.iter().map(|cause| cause.total_ns).sum();
        assert_eq!(total_ns, self.slot.last_ns + self.slot.deferred_ns, "the sum that every read checks");
        Snapshot { at_ns, slot: self.slot.clone() }
    }

    pub(super) fn see(&mut self, now_ns: u64, event: Event) {
        match event {
            Event::Switch { cause, kept_waiting_by, behind } => self.switch(now_ns, cause, kept_waiting_by, behind),
            Event::Enter(cause) if self.slot.depth < LEVELS => {
                self.first_base(CAUSE_IDLE);
                self.charge(now_ns);
                self.slot.depth += 1;
                let level = self.slot.depth;
                self.slot.frames[level as usize] = Frame { cause: cause as u32, level, own_ns: 0 };
                self.slot.tape_turns += 1;
            }
            Event::Leave if self.slot.depth > 0 => {
                self.charge(now_ns);
                let frame = self.slot.frames[self.slot.depth as usize];
                self.count(frame.cause as usize, frame.own_ns);
                self.slot.depth -= 1;
                self.slot.tape_turns += 1;
            }
            Event::Message { prints } => {
                self.first_base(CAUSE_WORK);
                self.charge(now_ns);
                self.slot.frames[self.slot.depth as usize].level |= LOGGED;
                self.prints = prints;
                self.slot.tape_turns += 1;
            }
            Event::Nmi(share) => {
                let since_ns = now_ns - self.slot.last_ns - self.slot.deferred_ns;
                self.first_base(CAUSE_WORK);
                self.book(CAUSE_OTHER_NMI, since_ns * u64::from(share) / 256);
            }
            Event::Enter(_) | Event::Leave => {}
        }
    }

    fn first_base(&mut self, cause: usize) {
        if self.slot.frames[0].cause as usize == CAUSE_UNKNOWN {
            (self.slot.frames[0].cause, self.slot.frames[0].own_ns) = (cause as u32, 0);
        }
    }

    fn delays_nobody(&self) -> bool {
        let base = self.slot.frames[0].cause as usize;
        base == CAUSE_IDLE || (takes_core(base) && self.slot.behind == 0)
    }

    fn count(&mut self, number: usize, own_ns: u64) {
        let cause = &mut self.slot.causes[number];
        cause.count += 1;
        cause.max_ns = cause.max_ns.max(own_ns);
        self.durations[number][Histogram::bucket(own_ns)] += 1;
    }

    /// Time under a cause that is not the open one, and one occurrence of it.
    fn book(&mut self, number: usize, duration_ns: u64) {
        self.slot.causes[number].total_ns += duration_ns;
        if self.delays_nobody() {
            self.slot.causes[number].idle_ns += duration_ns;
        }
        self.count(number, duration_ns);
        if number == CAUSE_OTHER_NMI {
            self.slot.deferred_ns += duration_ns;
        }
    }

    fn charge(&mut self, now_ns: u64) {
        let top = self.slot.depth as usize;
        let elapsed_ns = now_ns - self.slot.last_ns;
        let used_ns = self.slot.deferred_ns.min(elapsed_ns);
        self.slot.deferred_ns -= used_ns;
        let elapsed_ns = elapsed_ns - used_ns;
        self.slot.last_ns = now_ns;
        let is_logged = self.slot.frames[top].level & LOGGED != 0;
        self.slot.frames[top].level &= !LOGGED;
        if is_logged && elapsed_ns >= PRINTED_NS && self.prints {
            self.book(CAUSE_CONSOLE, elapsed_ns);
            return;
        }
        let cause = self.slot.frames[top].cause as usize;
        self.slot.causes[cause].total_ns += elapsed_ns;
        self.slot.frames[top].own_ns += elapsed_ns;
        if top > 0 && self.delays_nobody() {
            self.slot.causes[cause].idle_ns += elapsed_ns;
        }
    }

    fn switch(&mut self, now_ns: u64, next: usize, kept_waiting_by: usize, behind: bool) {
        self.first_base(CAUSE_WORK);
        self.charge(now_ns);
        self.slot.depth = 0;
        let Frame { cause, own_ns, .. } = self.slot.frames[0];
        let cause = cause as usize;
        if cause > CAUSE_UNKNOWN && cause != CAUSE_OTHER_TASK {
            self.count(cause, own_ns);
        }
        if cause == CAUSE_WORK || (takes_core(cause) && self.slot.behind == 0) {
            self.runs.push((cause, own_ns));
        } else if takes_core(cause) && next != CAUSE_IDLE {
            self.slot.causes[cause].taken_ns += own_ns;
            if cause == CAUSE_OTHER_TASK {
                self.count(cause, own_ns);
            }
        }
        if next == CAUSE_WORK {
            for _ in 0..kept_waiting_by {
                self.take_from_newest_run();
            }
        }
        self.slot.behind = u32::from(next != CAUSE_IDLE && behind);
        self.slot.frames[0] = Frame { cause: next as u32, level: 0, own_ns: 0 };
        self.slot.tape_turns += 1;
    }

    fn take_from_newest_run(&mut self) {
        let Some((cause, own_ns)) = self.runs.pop() else { return };
        let taker = if cause == CAUSE_WORK { CAUSE_OTHER_TASK } else { cause };
        if cause == CAUSE_WORK {
            self.slot.causes[CAUSE_WORK].total_ns -= own_ns;
            self.slot.causes[taker].total_ns += own_ns;
        }
        self.slot.causes[taker].taken_ns += own_ns;
        if taker == CAUSE_OTHER_TASK {
            self.count(taker, own_ns);
        }
    }
}
