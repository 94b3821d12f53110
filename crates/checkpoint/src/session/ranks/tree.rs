//! Who passes a message on to whom. Pure.
//!
//! Words of all ranks come together in a binary tree: first the ranks of each node at the first one there, then those first
//! ones at rank 0. So a rank sends one message and receives four at most, whatever their number, and the way is as long as
//! twice the logarithms of the ranks of a node and of the nodes.
//!
//! ```text
//! nodes     a           b           c
//! ranks   0 1 2 3 4   5 6 7 8     9 10       0 is the first of all
//!         0─1 1─3 1─4 5─6 6─8     9─10       round by round: the deepest first, left before right,
//!         0─2         5─7                    and so on each node at the same time
//!         0─5 0─9                            then the nodes
//! ```
//!
//! The tree goes by rounds because every rank takes part in every exchange; who has nothing to do in a round says nothing.

/// What a rank does in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// It takes what this rank sends.
    From(u32),
    /// It sends to this rank.
    To(u32),
    /// Nothing.
    Idle,
}

/// One rank's place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    rank: u32,
    /// Rounds until each node's words are together, and all rounds.
    pub(super) node_rounds: u32,
    pub rounds: u32,
    /// What this rank does, by round; in all others nothing.
    turns: Vec<(u32, Turn)>,
}

impl Tree {
    /// The place of a rank; `of_ranks` is the number of each rank's node, from 0 in the order of their first ranks.
    pub fn new(of_ranks: &[u32], rank: u32) -> Self {
        let mut nodes: Vec<Vec<u32>> = Vec::new();
        for (rank, &node) in (0..).zip(of_ranks) {
            if nodes.len() <= node as usize {
                nodes.resize(node as usize + 1, Vec::new());
            }
            nodes[node as usize].push(rank);
        }
        let node_rounds = 2 * depth(nodes.iter().map(Vec::len).max().unwrap_or(1) - 1);
        let first: Vec<u32> = nodes.iter().filter_map(|ranks| ranks.first().copied()).collect();
        let rounds = node_rounds + 2 * depth(first.len().saturating_sub(1));
        let mut turns = Vec::new();
        if let Some(node) = of_ranks.get(rank as usize).and_then(|&node| nodes.get(node as usize)) {
            add_turns(&mut turns, node, rank, node_rounds);
        }
        add_turns(&mut turns, &first, rank, rounds);
        turns.sort_by_key(|(round, _)| *round);
        Tree { rank, node_rounds, rounds, turns }
    }

    /// The ranks in one tree, before it is known where they run.
    pub(super) fn flat(size: u32, rank: u32) -> Self {
        Tree::new(&vec![0; size as usize], rank)
    }

    /// Whether it is one tree of all ranks, as of one node.
    pub(super) fn is_flat(&self) -> bool {
        self.rounds == self.node_rounds
    }

    /// The ranks with which this one has to do.
    pub(super) fn neighbours(&self) -> impl Iterator<Item = u32> + '_ {
        self.turns.iter().filter_map(|(_, turn)| match turn {
            Turn::From(other) | Turn::To(other) => Some(*other),
            Turn::Idle => None,
        })
    }

    /// Whether a node's words come together at this rank.
    pub(super) fn is_first_of_node(&self) -> bool {
        self.turns.iter().all(|(round, turn)| *round >= self.node_rounds || !matches!(turn, Turn::To(_)))
    }

    /// What this rank does in a round.
    pub(super) fn turn(&self, round: u32) -> Turn {
        self.turns.iter().find(|(of, _)| *of == round).map_or(Turn::Idle, |(_, turn)| *turn)
    }

    /// Messages that this rank receives on the way up, and sends.
    pub fn messages(&self) -> (usize, usize) {
        let taken = self.turns.iter().filter(|(_, turn)| matches!(turn, Turn::From(_))).count();
        (taken, self.turns.len() - taken)
    }
}

/// How deep a place lies: 0 the root, 1 and 2 below it, 3 to 6 below these.
fn depth(place: usize) -> u32 {
    (place + 1).ilog2()
}

/// What a rank does in the tree of some ranks, whose last round is the one before `end`.
fn add_turns(turns: &mut Vec<(u32, Turn)>, ranks: &[u32], rank: u32, end: u32) {
    let Some(place) = ranks.iter().position(|of| *of == rank) else { return };
    // The round in which a place sends to the one above it.
    let round = |place: usize| end - 2 * depth(place) + (place as u32 - 1) % 2;
    if place > 0 {
        turns.push((round(place), Turn::To(ranks[(place - 1) / 2])));
    }
    let below = (2 * place + 1..=2 * place + 2).filter_map(|below| Some((below, *ranks.get(below)?)));
    turns.extend(below.map(|(below, of)| (round(below), Turn::From(of))));
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Ranks placed node by node, one after the other, or one on each node in turns.
    fn placed(ranks: u32, on_each: u32, is_cyclic: bool) -> Vec<u32> {
        let nodes = ranks.div_ceil(on_each);
        (0..ranks).map(|rank| if is_cyclic { rank % nodes } else { rank / on_each }).collect()
    }

    #[test]
    fn all_words_come_together_at_rank_0_and_those_of_a_node_before_at_its_first() {
        for (ranks, on_each) in (1..40).flat_map(|ranks| [1, 2, 3, 7, 64].map(|on_each| (ranks, on_each))) {
            for of_ranks in [placed(ranks, on_each, false), placed(ranks, on_each, true)] {
                let trees: Vec<Tree> = (0..ranks).map(|rank| Tree::new(&of_ranks, rank)).collect();
                let mut words: Vec<Vec<u32>> = (0..ranks).map(|rank| vec![rank]).collect();
                for round in 0..trees[0].rounds {
                    if round == trees[0].node_rounds {
                        for (rank, words) in
                            words.iter().enumerate().filter(|(rank, _)| trees[*rank].is_first_of_node())
                        {
                            let here = of_ranks.iter().filter(|node| **node == of_ranks[rank]).count();
                            assert_eq!(words.len(), here, "{of_ranks:?}");
                        }
                    }
                    for rank in 0..ranks {
                        if let Turn::From(other) = trees[rank as usize].turn(round) {
                            assert_eq!(trees[other as usize].turn(round), Turn::To(rank), "{of_ranks:?}");
                            let theirs = std::mem::take(&mut words[other as usize]);
                            words[rank as usize].extend(theirs);
                        }
                    }
                }
                words[0].sort_unstable();
                assert_eq!(words[0], (0..ranks).collect::<Vec<_>>(), "{of_ranks:?}");
                assert!(trees.iter().all(|tree| tree.rounds == trees[0].rounds));
            }
        }
    }

    #[test]
    fn no_rank_has_more_than_four_below_it_and_the_way_grows_as_the_logarithm() {
        for (ranks, rounds) in [(2, 2), (64, 12), (4_096, 24), (65_536, 32)] {
            let of_ranks = placed(ranks, 64, false);
            for rank in (0..ranks).step_by(if ranks > 64 { 977 } else { 1 }) {
                let tree = Tree::new(&of_ranks, rank);
                let (taken, sent) = tree.messages();
                assert!(taken <= 4 && sent == usize::from(rank > 0), "rank {rank} of {ranks}: {taken}, {sent}");
                assert_eq!(tree.rounds, rounds, "{ranks}");
            }
        }
    }
}
