//! Kernel stacks that need not be walked again.
//!
//! Walking a kernel stack costs the raiser more than all else, and most who raise come the same way each time. So one
//! record in a while carries the words in which its stack lies. Here the places of the return addresses among them are
//! found and told to the programs (`struct known`); whoever has the same words in the same places later only names the
//! stack, which is looked up here.
//!
//! That is no guess. A walk of the kernel's tables (ORC) begins at one place of the program, and the next frame depends on
//! nothing but the return address before it and its place: if all of them are the same, so is the walk. What it does
//! depend on besides, in the few functions whose frame is found by a register, is checked by walking one in so many all
//! the same ([`Tally::differ`]).

use crate::error::Error;
use crate::load;
use crate::mapped::Mapped;
use crate::raised::Laid;
use crate::shared::{self, same_layout};
use libbpf_rs::Object;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Return addresses of a stack that can be remembered.
const KNOWN_WORDS: usize = shared::KNOWN_WORDS;

/// Stacks that are looked at for one tag, and how many such sets there are.
const WAYS: usize = shared::KNOWN_WAYS;
const SETS: usize = shared::KNOWN_SETS;

/// Stacks that are kept by number, those that made room among the known ones included: records that name them may be
/// under way.
const KEPT: usize = 4 * WAYS * SETS;

/// Frames of a walk that lie below the probe's context and so belong to the probe.
const PROBE_FRAMES: usize = 4;

/// As `struct known`, which says what it means.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RawKnown {
    id: u64,
    tag: u64,
    count: u64,
    depth: u64,
    top: u64,
    values: [u64; KNOWN_WORDS],
    at: [u16; KNOWN_WORDS],
}

same_layout!(RawKnown, known: id, tag, count, depth, top, values, at);

impl RawKnown {
    const NONE: RawKnown =
        RawKnown { id: 0, tag: 0, count: 0, depth: 0, top: 0, values: [0; KNOWN_WORDS], at: [0; KNOWN_WORDS] };
}

/// What became of the kernel stacks that were to be remembered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Stacks that were learnt.
    pub(crate) learnt: u64,
    /// Records that were walked although their stack was known, to compare.
    pub(crate) checked: u64,
    /// Of these, how many were different.
    pub(crate) differ: u64,
    /// Records that name a stack which is kept no more.
    pub(crate) forgotten: u64,
}

/// The known kernel stacks, as user space sees them.
#[derive(Default)]
pub(crate) struct Remembered {
    /// Shared with the programs; `None` in tests.
    table: Option<Mapped<RawKnown>>,
    /// What stands in the table.
    known: HashMap<usize, RawKnown>,
    stacks: HashMap<u64, Arc<[u64]>>,
    order: VecDeque<u64>,
    last_id: u64,
    tally: Tally,
}

impl Remembered {
    /// Shares the table of these programs.
    pub(crate) fn of(object: &Object) -> Result<Self, Error> {
        Ok(Remembered { table: Some(load::mapped(object, "known_stacks")?), ..Remembered::default() })
    }

    pub(crate) fn tally(&self) -> Tally {
        self.tally
    }

    /// Learns a stack from the words in which it lies, unless it is known or cannot be told by its words.
    pub(crate) fn learn(&mut self, laid: &Laid, frames: &[u64]) {
        let Some(mut learnt) = description(laid, frames) else { return };
        let first = (laid.tag as usize & (SETS - 1)) * WAYS;
        let ways = first..first + WAYS;
        let is_it = |known: &RawKnown| RawKnown { id: 0, ..*known } == learnt;
        if ways.clone().any(|way| self.known.get(&way).is_some_and(is_it)) {
            return;
        }
        // A free way, or that of the oldest.
        let Some(way) = ways.min_by_key(|way| self.known.get(way).map_or(0, |known| known.id)) else { return };
        self.last_id += 1;
        learnt.id = self.last_id;
        self.publish(way, learnt);
        self.tally.learnt += 1;
        if self.order.len() >= KEPT
            && let Some(oldest) = self.order.pop_front()
        {
            self.stacks.remove(&oldest);
        }
        self.order.push_back(learnt.id);
        self.stacks.insert(learnt.id, frames.into());
    }

    fn publish(&mut self, way: usize, known: RawKnown) {
        if let Some(table) = &self.table {
            table.publish(way, &known);
        }
        self.known.insert(way, known);
    }

    /// The stack that a record names. `walked` is what a walk found for the same record, empty where there was none; it
    /// is what counts.
    pub(crate) fn resolve(&mut self, id: u64, walked: Vec<u64>) -> Vec<u64> {
        let kept = self.stacks.get(&id);
        if walked.is_empty() {
            self.tally.forgotten += u64::from(kept.is_none());
            return kept.map_or_else(Vec::new, |kept| kept.to_vec());
        }
        if let Some(kept) = kept {
            self.tally.checked += 1;
            if !is_same(kept, &walked) {
                self.tally.differ += 1;
                self.unlearn(id);
            }
        }
        walked
    }

    /// Takes a stack that proved wrong out of the table; it may be learnt anew.
    fn unlearn(&mut self, id: u64) {
        let ways = self.known.iter().find(|(_, known)| known.id == id).map(|(&way, _)| way);
        if let Some(way) = ways {
            self.publish(way, RawKnown::NONE);
            self.known.remove(&way);
        }
    }
}

/// Whether two walks found the same; the first frame is where the program stood when it asked, of which there are
/// several.
fn is_same(one: &[u64], other: &[u64]) -> bool {
    one.len() == other.len() && one[1..] == other[1..]
}

/// Where the return addresses of a walk lie. `None` if the walk has frames beyond the probe's own that do not lie there,
/// as when a tracer has put others in their place, or if there are too many.
///
/// An earlier call may have left a word that looks like one of them. Each lies between the lowest and the highest place
/// that leave room for the others, so all words there that could be it are compared: that can only make a stack
/// unknown, never wrong.
fn description(laid: &Laid, frames: &[u64]) -> Option<RawKnown> {
    let mut known = RawKnown { tag: laid.tag, ..RawKnown::NONE };
    let below_entry = match frames.split_last()? {
        (entry, others) if *entry == laid.top => {
            known.top = laid.top;
            others
        }
        _ => {
            known.depth = laid.depth;
            frames
        }
    };
    let of_the_probe = (0..=PROBE_FRAMES.min(below_entry.len()))
        .find(|&number| lowest_places(&laid.words, &below_entry[number..]).is_some())?;
    let addresses = &below_entry[of_the_probe..];
    let lowest = lowest_places(&laid.words, addresses)?;
    let mut end = *lowest.last()? + 1;
    for (address, from) in addresses.iter().zip(lowest).rev() {
        let highest = laid.words[..end].iter().rposition(|word| word == address)?;
        for place in (from..=highest).filter(|&place| laid.words[place] == *address) {
            let number = known.count as usize;
            *known.values.get_mut(number)? = *address;
            known.at[number] = u16::try_from(place).ok()?;
            known.count += 1;
        }
        end = highest;
    }
    Some(known)
}

/// The lowest places of these words in their order.
fn lowest_places(words: &[u64], wanted: &[u64]) -> Option<Vec<usize>> {
    let mut next = 0;
    let mut place = |wanted: &u64| {
        let place = next + words[next..].iter().position(|word| word == wanted)?;
        next = place + 1;
        Some(place)
    };
    wanted.iter().map(&mut place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAMES: [u64; 5] = [0xB1, 0xB2, 0xF1, 0xF2, 0xF3];

    fn laid(tag: u64, words: &[u64]) -> Laid {
        Laid { tag, depth: words.len() as u64, top: 0, words: words.to_vec() }
    }

    #[test]
    fn each_place_that_could_be_a_return_address_s_is_compared_and_no_other() {
        let known = description(&laid(7, &[1, 0xF2, 0xF1, 2, 0xF1, 0xF2, 0xF3, 0xF1, 0xF3]), &FRAMES).unwrap();
        assert_eq!((known.tag, known.count, known.depth, known.top), (7, 4, 9, 0));
        assert_eq!(known.values[..5], [0xF3, 0xF2, 0xF1, 0xF1, 0]);
        assert_eq!(known.at[..5], [6, 5, 2, 4, 0]);
    }

    #[test]
    fn the_entry_of_a_system_call_may_lie_at_any_distance() {
        let words = [0xF1, 3, 0xF2, 4, 5];
        let known = description(&Laid { top: 0xF3, ..laid(7, &words) }, &FRAMES).unwrap();
        assert_eq!((known.count, known.depth, known.top), (2, 0, 0xF3));
        assert_eq!(description(&laid(7, &words), &FRAMES), None);
    }

    #[test]
    fn a_walk_that_does_not_lie_in_the_words_is_not_learnt() {
        let frames: Vec<u64> = (1..=12).collect();
        for words in [&[][..], &[1, 2, 3], &[10, 11, 12], &[6, 5, 7, 8, 9, 10, 11, 12]] {
            assert_eq!(description(&laid(7, words), &frames), None, "{words:?}");
        }
        assert!(description(&laid(7, &[5, 6, 7, 8, 9, 10, 11, 12]), &frames).is_some());
        let mut too_many = vec![0xF1; KNOWN_WORDS];
        too_many.extend([0xF2, 0xF3]);
        assert_eq!(description(&laid(7, &too_many), &FRAMES), None);
        assert_eq!(description(&laid(7, &[1]), &[]), None);
    }

    #[test]
    fn a_stack_is_learnt_once_and_found_by_its_number_while_there_is_room() {
        let mut remembered = Remembered::default();
        for _ in 0..3 {
            remembered.learn(&laid(7, &[0xF1, 0xF2, 0xF3]), &FRAMES);
        }
        assert_eq!(remembered.tally().learnt, 1);
        assert_eq!(remembered.resolve(1, Vec::new()), FRAMES);
        for number in 0..KEPT as u64 {
            remembered.learn(&laid(7, &[0xF1, number, 0xF2, 0xF3]), &FRAMES);
            remembered.learn(&laid(number, &[0xF1, 0xF2, 0xF3]), &FRAMES);
        }
        assert!(
            remembered.known.len() <= WAYS * SETS && remembered.stacks.len() == KEPT,
            "{}",
            remembered.stacks.len()
        );
        assert!(remembered.resolve(1, Vec::new()).is_empty(), "it made room");
        assert_eq!(remembered.tally().forgotten, 1);
    }

    #[test]
    fn a_walk_that_finds_another_stack_is_believed_counted_and_the_stack_unlearnt() {
        let mut remembered = Remembered::default();
        remembered.learn(&laid(7, &[0xF1, 0xF2, 0xF3]), &FRAMES);
        let from_elsewhere_in_the_program = [0xB9, 0xB2, 0xF1, 0xF2, 0xF3];
        assert_eq!(remembered.resolve(1, from_elsewhere_in_the_program.to_vec()), from_elsewhere_in_the_program);
        assert_eq!((remembered.tally().checked, remembered.tally().differ), (1, 0));
        let other = [0xB1, 0xB2, 0xF1, 0xF9, 0xF3];
        assert_eq!(remembered.resolve(1, other.to_vec()), other);
        assert_eq!((remembered.tally().checked, remembered.tally().differ), (2, 1));
        assert!(remembered.known.is_empty());
        remembered.learn(&laid(7, &[0xF1, 0xF2, 0xF3]), &FRAMES);
        assert_eq!(remembered.tally().learnt, 2);
    }
}
