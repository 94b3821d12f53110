//! Policies that do not look at anything.

use super::{Decision, Place, Situation};

/// Always the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fixed {
    /// Never a checkpoint.
    Never,
    /// Always memory.
    Memory,
    /// Always the durable tier, and only that.
    Durable,
    /// Always memory, and every Nth to the durable tier as well, the first of them as number N.
    EveryNth(u64),
    /// The fixed ratio of MEMSYS'16, such as 9:1 for N = 10: memory, but every Nth to the durable tier alone. The program waits
    /// for that one, and it replaces none in memory.
    PaperNth(u64),
}

impl Fixed {
    pub(super) fn decide(self, situation: &Situation) -> Decision {
        match self {
            Fixed::Never => Decision::new(Place::Skip, "the policy takes none"),
            Fixed::Memory => Decision::new(Place::Memory, "the policy is: always memory"),
            Fixed::Durable => Decision::new(Place::Durable, "the policy is: always the SSD"),
            Fixed::EveryNth(n) => nth(situation, n, Place::Both),
            Fixed::PaperNth(n) => nth(situation, n, Place::Durable),
        }
    }
}

/// Every Nth goes to this place, the others to memory.
fn nth(situation: &Situation, n: u64, place: Place) -> Decision {
    let number = situation.taken_count + 1;
    match number.is_multiple_of(n.max(1)) {
        true => Decision::new(place, format!("number {number} is one of every {n} for the SSD")),
        false => Decision::new(Place::Memory, format!("number {number} is not one of every {n} for the SSD")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::tests::calm;

    #[test]
    fn every_nth_goes_to_the_ssd_as_well_and_by_the_paper_s_ratio_to_the_ssd_alone() {
        for (policy, of_nth) in [(Fixed::EveryNth(10), Place::Both), (Fixed::PaperNth(10), Place::Durable)] {
            for taken_count in 0..30 {
                let place = policy.decide(&Situation { taken_count, ..calm() }).place;
                let wanted = if [9, 19, 29].contains(&taken_count) { of_nth } else { Place::Memory };
                assert_eq!(place, wanted, "{policy:?} after {taken_count}");
            }
        }
        assert_eq!(Fixed::EveryNth(1).decide(&calm()).place, Place::Both, "memory always has the newest");
        assert_eq!(Fixed::EveryNth(0).decide(&calm()).place, Place::Both);
        assert_eq!(Fixed::Never.decide(&calm()).place, Place::Skip);
    }
}
