/// Random numbers of a seed.
pub struct Random(surefoot_random::Random);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(surefoot_random::Random::new(seed))
    }

    /// A number below another.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0.below(end)
    }

    /// True in so many of a thousand cases.
    pub fn permille(&mut self, chance: u64) -> bool {
        self.below(1_000) < chance
    }

    pub fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len() as u64) as usize]
    }
}
