//! Numbers that look measured, the same each time.

pub struct Random(surefoot_random::Random);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(surefoot_random::Random::new(seed))
    }

    pub fn next(&mut self) -> u64 {
        self.0.word()
    }

    /// Below `end`, from 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    /// A value within this many parts in a thousand of `middle`.
    pub fn near(&mut self, middle: u64, per_mille: u64) -> u64 {
        let reach = middle / 1000 * per_mille;
        middle - reach + self.below(2 * reach + 1)
    }
}
