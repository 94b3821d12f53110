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
    /// Memory, and every so manieth to the durable tier; the first of them is the last of a round.
    EveryNth(u64),
}

impl Fixed {
    pub(super) fn decide(self, situation: &Situation) -> Decision {
        match self {
            Fixed::Never => Decision::new(Place::Skip, "the policy takes none"),
            Fixed::Memory => Decision::new(Place::Memory, "the policy is: always memory"),
            Fixed::Durable => Decision::new(Place::Durable, "the policy is: always the SSD"),
            Fixed::EveryNth(n) => {
                let number = situation.taken_count + 1;
                if number.is_multiple_of(n.max(1)) {
                    Decision::new(Place::Durable, format!("number {number} is one of every {n} for the SSD"))
                } else {
                    Decision::new(Place::Memory, format!("number {number} is not one of every {n} for the SSD"))
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::tests::calm;

    #[test]
    fn every_tenth_goes_to_the_ssd() {
        let durable: Vec<u64> = (0..30)
            .filter(|&taken_count| {
                Fixed::EveryNth(10).decide(&Situation { taken_count, ..calm() }).place == Place::Durable
            })
            .collect();
        assert_eq!(durable, [9, 19, 29]);
        assert_eq!(Fixed::EveryNth(0).decide(&calm()).place, Place::Durable);
        assert_eq!(Fixed::Never.decide(&calm()).place, Place::Skip);
    }
}
