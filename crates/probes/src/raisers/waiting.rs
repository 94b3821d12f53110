//! The records between the ring and whoever takes them: stacks that several share, and copies, are put with their records.

use crate::raised::{Parsed, Raised, RawCopy, RawRaised, UserCopy};
use crate::remembered::{Remembered, Tally};
use std::collections::HashMap;
use std::sync::Arc;
use surefoot_model::CpuId;

/// Records that wait between two calls of [`Raisers::take`]; more are dropped and counted.
const WAITING_RECORDS: usize = 1 << 16;

/// Copies of stacks among them; more are dropped and counted.
const WAITING_COPIES: usize = 2048;

/// What was read from the ring and not taken yet.
#[derive(Default)]
pub(super) struct Waiting {
    records: Vec<Raised>,
    /// The newest record with stacks of each core, for those that share them; an interrupt's is shared by none, and may
    /// lie between.
    last: HashMap<CpuId, Raised>,
    /// Records that found no room, or that nobody can read.
    pub(super) dropped: u64,
    /// Bytes that were read since the records were taken, and those of the records that were taken last.
    read_bytes: u64,
    pub(super) taken_bytes: u64,
    copies: usize,
    /// Copies that found no room, or no record.
    pub(super) copies_dropped: u64,
    remembered: Remembered,
}

impl Waiting {
    /// Nothing yet, with these known stacks.
    pub(super) fn with(remembered: Remembered) -> Self {
        Waiting { remembered, ..Waiting::default() }
    }

    /// Takes a record of the ring.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.read_bytes += bytes.len() as u64;
        if let Some((at_ns, from, copy)) = RawCopy::parse(bytes) {
            self.add_copy(at_ns, from, copy);
            return;
        }
        match RawRaised::parse(bytes) {
            Some(parsed) if self.records.len() < WAITING_RECORDS => self.add_record(parsed),
            _ => self.dropped += 1,
        }
    }

    fn add_record(&mut self, Parsed { mut raised, as_before, known_id, laid }: Parsed) {
        if let Some(laid) = laid {
            self.remembered.learn(&laid, &raised.kernel_stack);
        }
        if known_id != 0 {
            raised.kernel_stack = self.remembered.resolve(known_id, raised.kernel_stack);
        }
        let has_stacks = !raised.kernel_stack.is_empty() || !raised.user_stack.is_empty();
        if as_before {
            if let Some(last) = self.last.get(&raised.from).filter(|last| last.tid == raised.tid) {
                raised.kernel_stack.clone_from(&last.kernel_stack);
                raised.user_stack.clone_from(&last.user_stack);
                raised.image = last.image;
                raised.user_copy.clone_from(&last.user_copy);
            }
        } else if has_stacks && !raised.in_interrupt {
            self.last.insert(raised.from, raised.clone());
        }
        self.records.push(raised);
    }

    /// A copy follows its record; records of interrupts may lie between.
    fn add_copy(&mut self, at_ns: u64, from: CpuId, copy: UserCopy) {
        const BETWEEN: usize = 64;
        let mut newest = self.records.iter_mut().rev().take(BETWEEN);
        let owner = newest.find(|raised| raised.at_ns == at_ns && raised.from == from);
        let Some(owner) = owner.filter(|_| self.copies < WAITING_COPIES) else {
            self.copies_dropped += 1;
            return;
        };
        let copy = Arc::new(copy);
        self.copies += 1;
        owner.user_copy = Some(Arc::clone(&copy));
        if let Some(last) = self.last.get_mut(&from).filter(|last| last.at_ns == at_ns) {
            last.user_copy = Some(copy);
        }
    }

    /// What became of remembered stacks.
    pub(super) fn tally(&self) -> Tally {
        self.remembered.tally()
    }

    /// The records so far, in the order of the ring.
    pub(super) fn take(&mut self) -> Vec<Raised> {
        self.copies = 0;
        self.taken_bytes = std::mem::take(&mut self.read_bytes);
        std::mem::take(&mut self.records)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raised::BARE_BYTES;
    use crate::shared;

    fn parsed(at_ns: u64, from: u32, frames: usize, as_before: bool) -> Parsed {
        let raised = Raised {
            at_ns,
            from: CpuId(from),
            kernel_stack: vec![at_ns; frames],
            ..RawRaised::parse(&{
                let mut bytes = [0u8; BARE_BYTES];
                bytes[shared::raised::kind.at] = 1;
                bytes
            })
            .unwrap()
            .raised
        };
        Parsed { raised, as_before, known_id: 0, laid: None }
    }

    #[test]
    fn further_targets_of_a_request_have_the_stacks_of_the_first_and_no_other_core_s() {
        let mut waiting = Waiting::default();
        for record in [parsed(1, 0, 2, false), parsed(2, 3, 4, false), parsed(3, 0, 0, true), parsed(4, 5, 0, true)] {
            waiting.add_record(record);
        }
        let mut interrupt = parsed(5, 0, 3, false);
        interrupt.raised.in_interrupt = true;
        waiting.add_record(interrupt);
        waiting.add_record(parsed(6, 0, 0, true));
        let stacks: Vec<Vec<u64>> = waiting.take().into_iter().map(|raised| raised.kernel_stack).collect();
        assert_eq!(stacks, [vec![1, 1], vec![2; 4], vec![1, 1], vec![], vec![5; 3], vec![1, 1]]);
    }

    #[test]
    fn a_copied_stack_goes_to_the_record_of_its_time_and_core() {
        let mut waiting = Waiting::default();
        for record in [parsed(1, 0, 2, false), parsed(1, 3, 4, false), parsed(2, 7, 1, false)] {
            waiting.add_record(record);
        }
        waiting.add_copy(1, CpuId(0), UserCopy { ip: 9, ..UserCopy::default() });
        waiting.add_copy(9, CpuId(0), UserCopy::default());
        waiting.add_record(parsed(5, 0, 0, true));
        assert_eq!(waiting.copies_dropped, 1, "nobody left the record of time 9");
        let ips = |waiting: &mut Waiting| -> Vec<Option<u64>> {
            waiting.take().iter().map(|raised| raised.user_copy.as_ref().map(|copy| copy.ip)).collect()
        };
        assert_eq!(ips(&mut waiting), [Some(9), None, None, Some(9)]);
        for number in 0..WAITING_COPIES as u64 + 5 {
            waiting.add_record(parsed(number, 0, 1, false));
            waiting.add_copy(number, CpuId(0), UserCopy::default());
        }
        assert_eq!(waiting.copies_dropped, 1 + 5);
        assert_eq!(ips(&mut waiting).iter().flatten().count(), WAITING_COPIES);
    }
}
