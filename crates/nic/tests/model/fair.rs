//! What must happen in the end: from every state, once faults stop and the link is fair, all is delivered.
//!
//! `stateright` has `eventually`, which misses cycles by its own account, so the question is put as an invariant: from
//! this state, with everything that was on the link lost, do steps that are no faults lead to the end? The steps are
//! chosen here, one after the other. That one such way exists from *every* state is enough: the states are finite in
//! number, so whoever takes each step that is possible again and again (which is what a fair link, a polling application
//! and a running daemon do) goes one such way some day, however many packets get lost meanwhile.

use super::state::{Link, State};
use super::{Step, System, sender};
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::Mutex;

/// A completion is some dozens of steps long; one that is longer goes round in circles.
const STEPS_MAX: usize = 400;
const SHARDS: usize = 16;

/// The states from which the end is known to be reached.
#[derive(Default)]
pub struct Completed {
    hasher: RandomState,
    shards: [Mutex<HashSet<State>>; SHARDS],
}

impl Completed {
    fn shard(&self, state: &State) -> &Mutex<HashSet<State>> {
        &self.shards[self.hasher.hash_one(state) as usize % SHARDS]
    }

    fn knows(&self, state: &State) -> bool {
        self.shard(state).lock().expect("no test panics with this lock").contains(state)
    }

    fn learn(&self, state: State) {
        self.shard(&state).lock().expect("no test panics with this lock").insert(state);
    }

    /// Whether a fair completion exists from here.
    pub fn from(&self, system: &System, state: &State) -> bool {
        let mut now = without_faults(state);
        let mut way = Vec::new();
        while !system.is_done(&now) && !self.knows(&now) {
            if way.len() == STEPS_MAX {
                return false;
            }
            way.push(now);
            let Some(next) = next(system, &now) else { return false };
            now = next;
        }
        way.into_iter().for_each(|state| self.learn(state));
        true
    }
}

/// This state with no fault to come and nothing on the link.
fn without_faults(state: &State) -> State {
    let mut state = *state;
    state.a.crashes_left = 0;
    state.b.crashes_left = 0;
    state.corruptions_left = 0;
    state.ghost = Default::default();
    state.streams.iter_mut().for_each(|stream| stream.link = Link::default());
    state
}

/// One step forward: what the hosts, the daemon and the interfaces have to do first, then what is on the link, each
/// packet once, and when nothing else is left the packet that the receiver waits for, or one that makes it acknowledge.
fn next(system: &System, state: &State) -> Option<State> {
    let mut steps = Vec::new();
    system.working_steps(state, &mut steps);
    steps.sort_by_key(order);
    steps
        .into_iter()
        .filter(|step| !matches!(step, Step::Send { .. }))
        .find_map(|step| {
            let after = system.after(state, step);
            match step {
                Step::Receive { port, packet } => {
                    let mut after = after.unwrap_or(*state);
                    after.streams[port as usize].link.remove(packet);
                    Some(after)
                }
                Step::TakeAck { port, number, proven } => {
                    let mut after = after.unwrap_or(*state);
                    after.streams[port as usize].link.remove_ack(number, proven);
                    Some(after)
                }
                _ => after,
            }
        })
        .or_else(|| resend(system, state))
        .filter(|after| after.violation.is_none())
}

fn order(step: &Step) -> u8 {
    match step {
        Step::Receive { .. } => 2,
        Step::TakeAck { .. } | Step::TakeNack { .. } => 1,
        Step::Restate { .. } => 3,
        _ => 0,
    }
}

fn resend(system: &System, state: &State) -> Option<State> {
    (0..system.size.ports).find_map(|port| {
        let stream = &state.streams[port as usize];
        let wanted = (stream.receiving.expected, stream.receiving.part);
        let held = || sender::packets(system, stream);
        let next = held().find(|packet| (packet.sequence, packet.part) == wanted);
        let packet = next.or_else(|| held().next())?;
        system.after(state, Step::Send { port, packet })
    })
}
