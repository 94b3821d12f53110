//! What ranks know before a decision, joined on its way to rank 0: in whatever order that happens, the same comes of it.
//!
//! Ranks of a node share its memory and its drive, so what they need is added up on each node first; [`Gathered::close_node`]
//! makes of it what counts for all.

use super::message::{Layout, cut};

/// Bytes of a reason why a tier is left alone or memory is not trusted, and of what is known of a drive.
const SAID_BYTES: usize = 296;

/// Which is true of any rank.
pub mod flag {
    /// A durable checkpoint is on its way.
    pub const IS_DRAINING: u64 = 1;
    /// There is no memory tier.
    pub const LACKS_MEMORY: u64 = 1 << 1;
    /// It cannot be said what the durable tier can take, or there is none.
    pub const LACKS_DURABLE: u64 = 1 << 2;
    /// Its durable tier is one directory for all.
    pub const IS_DURABLE_SHARED: u64 = 1 << 3;
    /// There is no shared directory beside an SSD.
    pub const LACKS_SHARED: u64 = 1 << 4;
    /// A copy is on its way to the shared directory, or waits for it.
    pub const IS_SHARING: u64 = 1 << 5;
    /// Its node's memory has too little room for the ranks there.
    pub const UNFIT_MEMORY: u64 = 1 << 6;
    /// Its node's drive has too little room for the ranks there.
    pub const UNFIT_DURABLE: u64 = 1 << 7;
    /// The program was told to end.
    pub const TOLD_TO_END: u64 = 1 << 8;
    /// The thread that writes to the durable tier runs.
    pub const WRITES_DURABLE: u64 = 1 << 9;
    /// The thread that writes to the shared directory runs.
    pub const WRITES_SHARED: u64 = 1 << 10;
}

/// What ranks of one node need and have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OfNode {
    /// Sums.
    pub size_bytes: u64,
    pub durable_needed_bytes: u64,
    pub durable_bytes: u64,
    pub memory_needed_bytes: u64,
    /// The least that one of them sees.
    pub memory_available_bytes: u64,
    pub durable_available_bytes: u64,
}

impl Default for OfNode {
    fn default() -> Self {
        OfNode {
            size_bytes: 0,
            durable_needed_bytes: 0,
            durable_bytes: 0,
            memory_needed_bytes: 0,
            memory_available_bytes: u64::MAX,
            durable_available_bytes: u64::MAX,
        }
    }
}

/// What is known of the drives: of those that are known the one that bears least, else the first node's.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OfDrives {
    pub node_count: u64,
    pub known_count: u64,
    /// The node's number.
    pub node: u64,
    pub bears_bytes_per_s: f64,
    /// Rated bytes, written bytes, seconds that remain and seconds of rated life.
    pub numbers: [f64; 4],
    pub said: String,
}

/// What is known of all ranks so far.
#[derive(Debug, Clone, PartialEq)]
pub struct Gathered {
    pub flags: u64,
    pub node: OfNode,
    /// The largest of all ranks, seconds: as the situation's.
    pub now_s: f64,
    pub checkpoint_s: f64,
    pub memory_cost_s: f64,
    pub durable_extra_s: f64,
    /// Below 0 where nobody measured it.
    pub drain_loss_s: f64,
    pub durable_alone_s: f64,
    pub drain_s: f64,
    pub shared_drain_s: f64,
    /// The largest of all nodes.
    pub node_size_bytes: u64,
    pub node_durable_bytes: u64,
    /// Sums over all ranks, and the least that one sees.
    pub durable_needed_bytes: u64,
    pub durable_available_bytes: u64,
    pub shared_needed_bytes: u64,
    pub shared_available_bytes: u64,
    /// The first rank whose durable tier is left alone for now, and why; an empty text where none is.
    pub rest_rank: u64,
    pub rest: String,
    /// The first rank whose node's memory must not be trusted, and why; an empty text where it may be on all.
    pub suspect_rank: u64,
    pub suspect: String,
    pub drives: OfDrives,
}

impl Default for Gathered {
    fn default() -> Self {
        Gathered {
            flags: 0,
            node: OfNode::default(),
            now_s: 0.0,
            checkpoint_s: 0.0,
            memory_cost_s: 0.0,
            durable_extra_s: 0.0,
            drain_loss_s: -1.0,
            durable_alone_s: 0.0,
            drain_s: 0.0,
            shared_drain_s: 0.0,
            node_size_bytes: 0,
            node_durable_bytes: 0,
            durable_needed_bytes: 0,
            durable_available_bytes: u64::MAX,
            shared_needed_bytes: 0,
            shared_available_bytes: u64::MAX,
            rest_rank: 0,
            rest: String::new(),
            suspect_rank: 0,
            suspect: String::new(),
            drives: OfDrives::default(),
        }
    }
}

impl Gathered {
    pub fn has(&self, flag: u64) -> bool {
        self.flags & flag != 0
    }

    /// Adds what other ranks know.
    pub fn join(&mut self, other: Gathered) {
        self.flags |= other.flags;
        self.node.join(other.node);
        for (most, more) in self.seconds().into_iter().zip(other.clone().seconds()) {
            *most = most.max(*more);
        }
        self.node_size_bytes = self.node_size_bytes.max(other.node_size_bytes);
        self.node_durable_bytes = self.node_durable_bytes.max(other.node_durable_bytes);
        self.durable_needed_bytes = self.durable_needed_bytes.saturating_add(other.durable_needed_bytes);
        self.durable_available_bytes = self.durable_available_bytes.min(other.durable_available_bytes);
        self.shared_needed_bytes = self.shared_needed_bytes.saturating_add(other.shared_needed_bytes);
        self.shared_available_bytes = self.shared_available_bytes.min(other.shared_available_bytes);
        let is_first = self.rest.is_empty() || other.rest_rank < self.rest_rank;
        if !other.rest.is_empty() && is_first {
            (self.rest_rank, self.rest) = (other.rest_rank, other.rest);
        }
        let is_first = self.suspect.is_empty() || other.suspect_rank < self.suspect_rank;
        if !other.suspect.is_empty() && is_first {
            (self.suspect_rank, self.suspect) = (other.suspect_rank, other.suspect);
        }
        self.drives.join(other.drives);
    }

    /// Makes of what the ranks of a node need and have what counts for all.
    pub fn close_node(&mut self) {
        let node = std::mem::take(&mut self.node);
        self.node_size_bytes = node.size_bytes;
        self.node_durable_bytes = node.durable_bytes;
        self.durable_needed_bytes = node.durable_needed_bytes;
        self.durable_available_bytes = node.durable_available_bytes;
        if node.memory_needed_bytes > node.memory_available_bytes {
            self.flags |= flag::UNFIT_MEMORY;
        }
        if node.durable_needed_bytes > node.durable_available_bytes {
            self.flags |= flag::UNFIT_DURABLE;
        }
    }

    fn seconds(&mut self) -> [&mut f64; 8] {
        [
            &mut self.now_s,
            &mut self.checkpoint_s,
            &mut self.memory_cost_s,
            &mut self.durable_extra_s,
            &mut self.drain_loss_s,
            &mut self.durable_alone_s,
            &mut self.drain_s,
            &mut self.shared_drain_s,
        ]
    }

    pub(super) fn visit(&mut self, layout: &mut impl Layout) {
        layout.word(&mut self.flags);
        let node = &mut self.node;
        for word in [
            &mut node.size_bytes,
            &mut node.durable_needed_bytes,
            &mut node.durable_bytes,
            &mut node.memory_needed_bytes,
            &mut node.memory_available_bytes,
            &mut node.durable_available_bytes,
        ] {
            layout.word(word);
        }
        self.seconds().into_iter().for_each(|number| layout.number(number));
        for word in [
            &mut self.node_size_bytes,
            &mut self.node_durable_bytes,
            &mut self.durable_needed_bytes,
            &mut self.durable_available_bytes,
            &mut self.shared_needed_bytes,
            &mut self.shared_available_bytes,
            &mut self.rest_rank,
            &mut self.suspect_rank,
        ] {
            layout.word(word);
        }
        layout.text(&mut self.rest, SAID_BYTES);
        layout.text(&mut self.suspect, SAID_BYTES);
        self.drives.visit(layout);
    }
}

impl OfNode {
    fn join(&mut self, other: OfNode) {
        self.size_bytes = self.size_bytes.saturating_add(other.size_bytes);
        self.durable_needed_bytes = self.durable_needed_bytes.saturating_add(other.durable_needed_bytes);
        self.durable_bytes = self.durable_bytes.saturating_add(other.durable_bytes);
        self.memory_needed_bytes = self.memory_needed_bytes.saturating_add(other.memory_needed_bytes);
        self.memory_available_bytes = self.memory_available_bytes.min(other.memory_available_bytes);
        self.durable_available_bytes = self.durable_available_bytes.min(other.durable_available_bytes);
    }
}

impl OfDrives {
    pub fn join(&mut self, other: OfDrives) {
        let counts =
            [self.node_count.saturating_add(other.node_count), self.known_count.saturating_add(other.known_count)];
        // A node that says nothing is none.
        let is_other = other.node_count > 0 && (self.node_count == 0 || self.comes_after(&other));
        if is_other {
            *self = other;
        }
        [self.node_count, self.known_count] = counts;
        self.said = cut(&self.said, SAID_BYTES);
    }

    /// Whether another one's drive speaks for both.
    fn comes_after(&self, other: &OfDrives) -> bool {
        match (self.known_count > 0, other.known_count > 0) {
            (true, true) => {
                let by_what_they_bear = other.bears_bytes_per_s.total_cmp(&self.bears_bytes_per_s);
                by_what_they_bear.then(other.node.cmp(&self.node)).is_lt()
            }
            (false, false) => other.node < self.node,
            (is_known, _) => !is_known,
        }
    }

    fn visit(&mut self, layout: &mut impl Layout) {
        for word in [&mut self.node_count, &mut self.known_count, &mut self.node] {
            layout.word(word);
        }
        layout.number(&mut self.bears_bytes_per_s);
        self.numbers.iter_mut().for_each(|number| layout.number(number));
        layout.text(&mut self.said, SAID_BYTES);
    }
}
