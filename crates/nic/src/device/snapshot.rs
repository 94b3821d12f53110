//! Copies of the whole state, to go back to and to compare with.

use super::sram::SramCopy;
use super::{Counts, Device, State};
use std::hash::{Hash, Hasher};

/// The whole state of a device: 128 KiB of memory, the processor, the engines and what is on the link.
#[derive(Clone)]
pub struct Snapshot {
    sram: SramCopy,
    state: State,
    counts: Counts,
}

impl Snapshot {
    /// The virtual time at which it was taken.
    pub fn now_ns(&self) -> u64 {
        self.state.now_ns
    }

    /// The instructions that had been done when it was taken.
    pub fn instruction_count(&self) -> u64 {
        self.counts.instructions
    }
}

impl Device {
    /// A copy of the state and of the counts. Coverage, trace and host events that nobody has taken are no part of it.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot { sram: self.sram.copy(), state: self.state.clone(), counts: self.counts.clone() }
    }

    /// Goes back to a state; it may be another device's.
    pub fn restore(&mut self, snapshot: &Snapshot) {
        self.sram.copy_from(&snapshot.sram);
        self.state.clone_from(&snapshot.state);
        self.counts.clone_from(&snapshot.counts);
        self.release_damage();
    }

    /// Whether the device will do from now on exactly what it would do after [`Device::restore`]. The counts may
    /// differ: they decide nothing.
    pub fn same_state(&self, snapshot: &Snapshot) -> bool {
        self.state == snapshot.state && self.sram.equals(&snapshot.sram)
    }

    /// Whether the state is the same but for one word of the SRAM, which the caller knows to be without effect.
    pub fn same_state_but_for(&self, snapshot: &Snapshot, word: u32) -> bool {
        self.state == snapshot.state && self.sram.equals_but_for(&snapshot.sram, word)
    }

    /// A number that is the same for the same state; the counts are no part of it.
    pub fn state_hash(&self) -> u64 {
        let mut hasher = Mixer(0x9e37_79b9_7f4a_7c15);
        self.state.hash(&mut hasher);
        hasher.write(self.sram.bytes());
        hasher.finish()
    }
}

/// A multiply-and-rotate hash over words of eight bytes: quick, the same on every machine and in every version, which
/// the standard library's hasher does not promise. Against accident, not against intent.
struct Mixer(u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        let folded = (self.0 ^ self.0 >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
        folded ^ folded >> 32
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.0 = (self.0 ^ u64::from_le_bytes(word)).wrapping_mul(0x9fb2_1c65_1e98_df25).rotate_left(29);
        }
    }
}
