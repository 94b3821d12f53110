//! From operations and dependencies to a job that can run.

use super::{Dependent, Goal, Kind, Operation};
use crate::Error;

/// One operation waits for another of its rank.
#[derive(Debug, Clone, Copy)]
pub(super) struct Edge {
    pub(super) waits: u32,
    pub(super) waits_for: u32,
    pub(super) is_on_start: bool,
}

pub(super) fn link(
    ranks: u64,
    mut operations: Vec<Operation>,
    lines: Vec<u32>,
    edges: Vec<Edge>,
) -> Result<Goal, Error> {
    let channel_count = match_messages(&mut operations, &lines)?;
    let mut dependency_count = vec![0u32; operations.len()];
    let mut dependents_from = vec![0u32; operations.len() + 1];
    for edge in &edges {
        dependency_count[edge.waits as usize] += 1;
        dependents_from[edge.waits_for as usize + 1] += 1;
    }
    for place in 0..operations.len() {
        dependents_from[place + 1] += dependents_from[place];
    }
    let mut next = dependents_from.clone();
    let mut dependents = vec![Dependent { operation: 0, is_on_start: false }; edges.len()];
    for &Edge { waits, waits_for, is_on_start } in &edges {
        dependents[next[waits_for as usize] as usize] = Dependent { operation: waits, is_on_start };
        next[waits_for as usize] += 1;
    }
    let most = |of: fn(&Operation) -> u64| operations.iter().map(of).max().unwrap_or(0);
    let goal = Goal {
        ranks,
        cpus: 1 + most(|operation| operation.cpu.into()),
        nics: 1 + most(|operation| operation.nic.into()),
        calc_max_ns: most(|operation| if operation.kind == Kind::Calc { operation.amount } else { 0 }),
        bytes_max: most(|operation| if operation.kind == Kind::Send { operation.amount } else { 0 }),
        operations,
        lines,
        dependents,
        dependents_from,
        dependency_count,
        channel_count,
    };
    goal.check_cycles(&edges)?;
    Ok(goal)
}

/// Sender, receiver and tag.
fn key(operation: &Operation, tag: u32) -> (u32, u32, u32) {
    match operation.kind {
        Kind::Receive => (operation.peer, operation.rank, tag),
        Kind::Calc | Kind::Send => (operation.rank, operation.peer, tag),
    }
}

/// Numbers the channels (sender, receiver and tag), and checks that each can deliver all its messages: as many are received as
/// are sent, and the n-th largest receive holds the n-th largest message.
///
/// Files made from MPI traces give a receive the size of the buffer that it was posted with, which may be larger than the message.
fn match_messages(operations: &mut [Operation], lines: &[u32]) -> Result<usize, Error> {
    let is_message = |number: &u32| operations[*number as usize].kind != Kind::Calc;
    let mut order: Vec<u32> = (0..operations.len() as u32).filter(is_message).collect();
    order.sort_unstable_by_key(|number| {
        let operation = &operations[*number as usize];
        (key(operation, operation.channel), operation.kind != Kind::Send, operation.amount, *number)
    });
    let same = |one: &u32, other: &u32| {
        let (one, other) = (&operations[*one as usize], &operations[*other as usize]);
        key(one, one.channel) == key(other, other.channel)
    };
    let mut channels = 0;
    let mut numbered = Vec::with_capacity(order.len());
    for channel in order.chunk_by(same) {
        check_channel(channel, operations, lines)?;
        numbered.extend(channel.iter().map(|number| (*number, channels)));
        channels += 1;
    }
    for (number, channel) in &numbered {
        operations[*number as usize].channel = *channel;
    }
    Ok(channels as usize)
}

/// The messages of one channel, its sends first, each kind from small to large.
fn check_channel(channel: &[u32], operations: &[Operation], lines: &[u32]) -> Result<(), Error> {
    let of = |number: u32| &operations[number as usize];
    let line = |number: u32| lines[number as usize];
    let (sends, receives) = channel.split_at(channel.partition_point(|&number| of(number).kind == Kind::Send));
    let first = of(channel[0]);
    let (from, to, tag) = key(first, first.channel);
    if sends.len() != receives.len() {
        let (sent, received) = (sends.len(), receives.len());
        let more = if sent > received { sends } else { receives };
        let why = format!(
            "rank {from} sends {sent} messages with tag {tag} to rank {to}, which receives {received} of them; each message \
             needs one receive"
        );
        return Err(Error::Goal { line: more.iter().map(|&number| line(number)).max().unwrap_or(0), why });
    }
    let too_small = sends.iter().zip(receives).rev().find(|&(&send, &receive)| of(send).amount > of(receive).amount);
    let Some((&send, &receive)) = too_small else { return Ok(()) };
    let why = format!(
        "rank {to} receives {} bytes with tag {tag} from rank {from}, whose message in line {} has {}: a receive may be larger \
         than its message, never smaller",
        of(receive).amount,
        line(send),
        of(send).amount
    );
    Err(Error::Goal { line: line(receive), why })
}

impl Goal {
    pub(super) fn dependents(&self, operation: u32) -> &[Dependent] {
        let place = operation as usize;
        &self.dependents[self.dependents_from[place] as usize..self.dependents_from[place + 1] as usize]
    }

    fn check_cycles(&self, edges: &[Edge]) -> Result<(), Error> {
        let mut left = self.dependency_count.clone();
        let mut ready: Vec<u32> = (0..left.len() as u32).filter(|number| left[*number as usize] == 0).collect();
        while let Some(done) = ready.pop() {
            for dependent in self.dependents(done) {
                let count = &mut left[dependent.operation as usize];
                *count -= 1;
                if *count == 0 {
                    ready.push(dependent.operation);
                }
            }
        }
        let Some(stuck) = left.iter().position(|count| *count > 0) else { return Ok(()) };
        // Whatever is stuck waits for one that is, and so on round the circle.
        let mut waits_for = vec![u32::MAX; left.len()];
        for edge in edges.iter().filter(|edge| left[edge.waits_for as usize] > 0) {
            waits_for[edge.waits as usize] = edge.waits_for;
        }
        let mut at = stuck;
        let mut seen = vec![false; left.len()];
        while !std::mem::replace(&mut seen[at], true) {
            at = waits_for[at] as usize;
        }
        let why =
            format!("this operation of rank {} depends on itself through other operations", self.operations[at].rank);
        Err(Error::Goal { line: self.lines[at], why })
    }
}
