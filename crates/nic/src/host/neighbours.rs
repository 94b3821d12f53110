//! What the daemons of two nodes tell one another: a library that suspects something cannot know which end of its stream has
//! failed.
//!
//! A daemon looks into its own interface first. When that passes the self-test, the daemons of the nodes at the other ends hear
//! of the suspicion, by a datagram from port 0 to port 0. Who hears of it tests its own interface at once; where words go on
//! coming and no self-test finds anything, it reloads it as if its own libraries had suspected it. Word of a port that is not
//! open says nothing, because then it is right to refuse; and between two reloads at a neighbour's word there is a second.

use super::layout::*;
use super::memory::{HostMemory, port_word};
use std::sync::atomic::Ordering;

/// Words that are further apart than this are not in a row. For so long after a reload at a neighbour's word no other one is
/// heard: applications of other nodes can bring words about by what they send.
const APART_NS: u64 = 1_000_000_000;
/// That an interface said no points at it; that nothing came may be the other end's doing as well.
const REFUSAL_WEIGHT: u32 = 2;

/// What is suspected of the interface of one node: a bit per port of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Word {
    /// What comes from there, or does not come, is not as it should be.
    pub suspected: u8,
    /// It said no, and is not believed yet.
    pub refusing: u8,
    /// The answer to a suspicion: ports whose programs do not look at what has come, or take no more. No interface is at fault.
    pub behind: u8,
}

impl Word {
    pub fn add(&mut self, more: Word) {
        self.suspected |= more.suspected;
        self.refusing |= more.refusing;
        self.behind |= more.behind;
    }
}

/// What is suspected of the interfaces of other nodes: a byte per node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Suspects {
    suspected: [u8; NODES],
    refusing: [u8; NODES],
    behind: [u8; NODES],
}

/// What is to be told, and what was heard.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Words {
    /// To be told when the self-test that goes on has passed, and to be told now.
    of_test: Suspects,
    to_tell: Suspects,
    /// How many words came in a row, and when the last one did.
    pub in_a_row: u32,
    heard_ns: u64,
    /// None is heard before.
    deaf_until_ns: u64,
    /// Open ports from which each node hears nothing, and whether any says that one refuses: what the self-test that goes on is about.
    named: [u8; NODES],
    is_refused: bool,
}

impl Words {
    /// Takes what the library of a port suspects of other nodes; of which of their ports it hears nothing, a byte per node.
    pub fn suspect(&mut self, memory: &HostMemory, port: usize) -> [u8; NODES] {
        let mut silent = [0; NODES];
        let bytes = |from: u32, half: usize| {
            memory.word(port_word(port, from + half as u32 * 4)).swap(0, Ordering::AcqRel).to_le_bytes()
        };
        for half in 0..2 {
            let (suspected, refusing) = (bytes(port_word::SUSPECTED, half), bytes(port_word::REFUSING, half));
            for (at, node) in (half * 4..).take(4).enumerate() {
                self.of_test.suspected[node] |= suspected[at];
                self.of_test.refusing[node] |= refusing[at];
                silent[node] = suspected[at];
            }
        }
        silent
    }

    /// The self-test passed, so the fault may be at the other end; or at none, where the ports that others named are behind: they are told, and
    /// their words do not count.
    pub fn passed(&mut self, is_behind: impl Fn(usize) -> bool) {
        self.to_tell = std::mem::take(&mut self.of_test);
        let behind = (0..PORTS).filter(|&port| is_behind(port)).fold(0, |bits, port| bits | 1 << port);
        let named = std::mem::take(&mut self.named);
        // A port that is open does not refuse, however far behind.
        let is_refused = std::mem::take(&mut self.is_refused);
        if !is_refused && named.iter().any(|named| *named != 0) && named.iter().all(|named| named & !behind == 0) {
            self.in_a_row = 0;
        }
        for (to_tell, named) in self.to_tell.behind.iter_mut().zip(named) {
            *to_tell = named & behind;
        }
    }

    /// Who is to be told now, and what.
    pub fn take(&mut self) -> impl Iterator<Item = (u8, Word)> + use<> {
        let Suspects { suspected, refusing, behind } = std::mem::take(&mut self.to_tell);
        let words = suspected.into_iter().zip(refusing).zip(behind);
        let word = |(node, ((suspected, refusing), behind))| (node, Word { suspected, refusing, behind });
        (0..).zip(words).map(word).filter(|(_, word)| *word != Word::default())
    }

    /// Takes a node's word about these open ports; whether it is one to look into.
    pub fn hear(&mut self, node: usize, word: Word, open: u8, now_ns: u64) -> bool {
        if (word.suspected | word.refusing) & open == 0 || now_ns < self.deaf_until_ns {
            return false;
        }
        if now_ns.saturating_sub(self.heard_ns) > APART_NS {
            self.in_a_row = 0;
        }
        let weight = if word.refusing & open != 0 { REFUSAL_WEIGHT } else { 1 };
        self.in_a_row = self.in_a_row.saturating_add(weight);
        self.heard_ns = now_ns;
        self.named[node % NODES] |= word.suspected & open;
        self.is_refused |= word.refusing & open != 0;
        true
    }

    /// The interface is to be reloaded because of what was heard.
    pub fn obey(&mut self, now_ns: u64) {
        self.deaf_until_ns = now_ns.saturating_add(APART_NS);
    }

    /// The interface is another one now, of which nothing is suspected yet.
    pub fn forget(&mut self) {
        *self = Words { deaf_until_ns: self.deaf_until_ns, ..Words::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SILENT: Word = Word { suspected: 2, refusing: 0, behind: 0 };
    const REFUSING: Word = Word { suspected: 0, refusing: 2, behind: 0 };

    #[test]
    fn words_count_in_a_row_for_open_ports_and_for_a_second_after_a_reload_not_at_all() {
        let mut words = Words::default();
        assert!(!words.hear(3, Word::default(), 0xff, 5));
        assert!(!words.hear(3, REFUSING, !2, 5), "a port that is not open is right to refuse");
        assert!(words.hear(3, SILENT, 2, 10) && words.hear(3, REFUSING, 2, 20));
        assert_eq!(words.in_a_row, 3);
        assert!(words.hear(3, SILENT, 2, 21 + APART_NS));
        assert_eq!(words.in_a_row, 1);
        words.obey(22 + APART_NS);
        words.forget();
        assert!(!words.hear(3, SILENT, 2, 21 + 2 * APART_NS) && words.hear(3, SILENT, 2, 22 + 2 * APART_NS));
        assert_eq!(words.in_a_row, 1);
    }

    #[test]
    fn what_libraries_suspect_is_told_once_to_each_node_after_the_test() {
        let memory = HostMemory::private(0, 0).unwrap();
        let mut words = Words::default();
        memory.word(port_word(3, port_word::SUSPECTED)).store(0x0200_0000, Ordering::Release);
        memory.word(port_word(3, port_word::REFUSING + 4)).store(0x0000_8100, Ordering::Release);
        words.suspect(&memory, 3);
        words.suspect(&memory, 3);
        assert_eq!(words.take().count(), 0);
        words.passed(|_| false);
        let told: Vec<_> = words.take().collect();
        assert_eq!(told, [(3, SILENT), (5, Word { suspected: 0, refusing: 0x81, behind: 0 })]);
        words.passed(|_| false);
        assert_eq!(words.take().count(), 0);
    }
}
