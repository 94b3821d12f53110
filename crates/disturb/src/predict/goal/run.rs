//! One run of a GOAL file, event by event.

use super::{Goal, Kind};
use crate::Error;
use crate::predict::network::Network;
use crate::predict::noise::Clocks;
use crate::predict::progress::Movers;
use crate::predict::{CLOCK_MAX_NS, Draw, too_far};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

const NONE: u32 = u32::MAX;

/// What happens next. Operations by their numbers, in the order of the file where moments are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A core has done it.
    Done(u32),
    /// The message of a receive is there.
    Arrived(u32),
}

/// Messages under way, or receives that wait for theirs: never both.
#[derive(Debug, Clone, Copy)]
struct Queue {
    first: u32,
    last: u32,
}

/// A core does one operation at a time: of those that may begin, the one that has been for the longest time.
pub(super) struct Run<'a> {
    goal: &'a Goal,
    network: Network,
    clocks: Clocks,
    movers: Option<Movers>,
    /// What each operation still waits for.
    waits: Vec<u32>,
    /// Of each operation in a channel's queue, the next one there; of a receive that has its message, the send.
    next: Vec<u32>,
    /// Of each message sent.
    arrival_ns: Vec<u64>,
    channels: Vec<Queue>,
    /// Of each core, what may begin and since when.
    ready: Vec<BinaryHeap<Reverse<(u64, u32)>>>,
    is_busy: Vec<bool>,
    /// Of each interface, when the next message may leave.
    wire_ns: Vec<u64>,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    /// Whose dependencies are met since the last look.
    met: VecDeque<u32>,
    done_count: u64,
    end_ns: u64,
    #[cfg(test)]
    pub(super) trace: Vec<(u32, u64, u64)>,
}

impl<'a> Run<'a> {
    pub(super) fn new(goal: &'a Goal, network: Network, clocks: Clocks, movers: Option<Movers>) -> Run<'a> {
        let (operations, cores) = (goal.operations.len(), (goal.ranks * goal.cpus) as usize);
        Run {
            goal,
            network,
            clocks,
            movers,
            waits: goal.dependency_count.clone(),
            next: vec![NONE; operations],
            arrival_ns: vec![0; operations],
            channels: vec![Queue { first: NONE, last: NONE }; goal.channel_count],
            ready: vec![BinaryHeap::new(); cores],
            is_busy: vec![false; cores],
            wire_ns: vec![0; (goal.ranks * goal.nics) as usize],
            events: BinaryHeap::new(),
            met: VecDeque::new(),
            done_count: 0,
            end_ns: 0,
            #[cfg(test)]
            trace: Vec::new(),
        }
    }

    pub(super) fn run(mut self) -> Result<Draw, Error> {
        self.run_to_end()?;
        Ok(Draw { end_ns: self.end_ns, event_count: self.done_count })
    }

    pub(super) fn run_to_end(&mut self) -> Result<(), Error> {
        for operation in 0..self.waits.len() as u32 {
            if self.waits[operation as usize] == 0 {
                self.met.push_back(operation);
            }
        }
        self.open(0);
        for core in 0..self.ready.len() {
            self.start(core, 0);
        }
        while let Some(Reverse((now_ns, event))) = self.events.pop() {
            if u128::from(now_ns) >= CLOCK_MAX_NS {
                return Err(too_far());
            }
            match event {
                Event::Arrived(operation) => {
                    let core = self.core(operation);
                    self.ready[core].push(Reverse((now_ns, operation)));
                    self.start(core, now_ns);
                }
                Event::Done(operation) => self.finish(operation, now_ns),
            }
        }
        if self.done_count == self.goal.operation_count() {
            return Ok(());
        }
        // Only receives wait for another rank, and nothing waits for itself.
        let waiting = self.channels.iter().map(|queue| queue.first).filter(|first| *first != NONE).min();
        let (line, rank) = match waiting {
            Some(number) => (self.goal.lines[number as usize], self.goal.operations[number as usize].rank),
            None => (0, 0),
        };
        Err(Error::Goal { line, why: format!("rank {rank} deadlocks here: the ranks wait for each other") })
    }

    fn core(&self, operation: u32) -> usize {
        let operation = &self.goal.operations[operation as usize];
        operation.rank as usize * self.goal.cpus as usize + usize::from(operation.cpu)
    }

    /// Operations whose dependencies are met may begin; a receive looks for its message.
    fn open(&mut self, now_ns: u64) {
        while let Some(number) = self.met.pop_front() {
            match self.goal.operations[number as usize].kind {
                Kind::Calc | Kind::Send => {
                    let core = self.core(number);
                    self.ready[core].push(Reverse((now_ns, number)));
                }
                Kind::Receive => {
                    self.tell_dependents(number, true);
                    if let Some(sent) = self.meet(number, Kind::Send) {
                        self.next[number as usize] = sent;
                        let arrival_ns = self.arrival_ns[sent as usize].max(now_ns);
                        self.events.push(Reverse((arrival_ns, Event::Arrived(number))));
                    }
                }
            }
        }
    }

    /// Takes the first of the other kind from the channel's queue, or puts this one into it.
    fn meet(&mut self, number: u32, other: Kind) -> Option<u32> {
        let queue = &mut self.channels[self.goal.operations[number as usize].channel as usize];
        if queue.first == NONE {
            *queue = Queue { first: number, last: number };
            return None;
        }
        if self.goal.operations[queue.first as usize].kind == other {
            let first = queue.first;
            queue.first = self.next[first as usize];
            return Some(first);
        }
        self.next[queue.last as usize] = number;
        queue.last = number;
        None
    }

    /// An operation started, or ended.
    fn tell_dependents(&mut self, number: u32, has_only_started: bool) {
        for dependent in self.goal.dependents(number) {
            if dependent.is_on_start == has_only_started {
                let waits = &mut self.waits[dependent.operation as usize];
                *waits -= 1;
                if *waits == 0 {
                    self.met.push_back(dependent.operation);
                }
            }
        }
    }

    /// A core that is free begins what has waited for the longest time.
    fn start(&mut self, core: usize, now_ns: u64) {
        if self.is_busy[core] {
            return;
        }
        let Some(Reverse((_, number))) = self.ready[core].pop() else { return };
        let operation = &self.goal.operations[number as usize];
        let work_ns = match operation.kind {
            Kind::Calc => operation.amount,
            Kind::Send => self.network.message(operation.amount).overhead_ns,
            // What arrived counts, not the room that the receive has for it.
            Kind::Receive => {
                let send = &self.goal.operations[self.next[number as usize] as usize];
                self.network.message(send.amount).overhead_ns
            }
        };
        let done_ns = self.clocks.done(core, now_ns, work_ns);
        #[cfg(test)]
        self.trace.push((number, now_ns, done_ns));
        self.is_busy[core] = true;
        self.events.push(Reverse((done_ns, Event::Done(number))));
        if operation.kind != Kind::Receive {
            self.tell_dependents(number, true);
            self.open_and_start(core, now_ns);
        }
    }

    fn finish(&mut self, number: u32, now_ns: u64) {
        let core = self.core(number);
        self.is_busy[core] = false;
        self.done_count += 1;
        self.end_ns = now_ns;
        if self.goal.operations[number as usize].kind == Kind::Send {
            self.send(number, core, now_ns);
        }
        self.tell_dependents(number, false);
        self.open_and_start(core, now_ns);
    }

    /// All that became possible is of one rank, to which this core belongs.
    fn open_and_start(&mut self, core: usize, now_ns: u64) {
        self.open(now_ns);
        let cpus = self.goal.cpus as usize;
        let first = core / cpus * cpus;
        for core in first..first + cpus {
            self.start(core, now_ns);
        }
    }

    fn send(&mut self, number: u32, core: usize, now_ns: u64) {
        let operation = self.goal.operations[number as usize];
        let message = self.network.message(operation.amount);
        let wire_ns = &mut self.wire_ns[operation.rank as usize * self.goal.nics as usize + usize::from(operation.nic)];
        let may_leave_ns = now_ns.max(*wire_ns);
        let arrival_ns;
        (*wire_ns, arrival_ns) = match &self.movers {
            None => (may_leave_ns + message.busy_ns, may_leave_ns + message.flight_ns),
            Some(movers) => {
                // The first core of the receiver takes the bytes.
                let to = operation.peer as usize * self.goal.cpus as usize;
                movers.carry(core, to, may_leave_ns, message)
            }
        };
        self.arrival_ns[number as usize] = arrival_ns;
        if let Some(receive) = self.meet(number, Kind::Receive) {
            self.next[receive as usize] = number;
            self.events.push(Reverse((arrival_ns, Event::Arrived(receive))));
        }
    }
}
