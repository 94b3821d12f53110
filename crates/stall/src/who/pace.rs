//! How long to wait between two looks: less while much happens, more while little does.
//!
//! Every look wakes the reading thread. A kernel that finds it running at a tick may ask an idle core to balance the load
//! (`nohz_csd_func`), and that core may be the watched one: fewer looks are fewer such interrupts.

use super::LOOK_EVERY;
use std::time::Duration;

/// While little happens: the rings hold a hundred times what is little in this time.
pub const LOOK_EVERY_WHEN_QUIET: Duration = Duration::from_millis(20);

/// What a look may bring while little happens: marks, records and changes of context together.
const LITTLE: usize = 64;

/// So many looks one after the other that bring little make a quiet time.
const QUIET_LOOKS: u32 = 8;

/// How busy the last looks were.
#[derive(Debug, Default)]
pub(super) struct Pace {
    quiet_looks: u32,
}

impl Pace {
    /// Takes what a look has brought.
    pub(super) fn brought(&mut self, count: usize) {
        self.quiet_looks = if count > LITTLE { 0 } else { self.quiet_looks.saturating_add(1) };
    }

    /// How long until the next.
    pub(super) fn rest(&self) -> Duration {
        if self.quiet_looks < QUIET_LOOKS { LOOK_EVERY } else { LOOK_EVERY_WHEN_QUIET }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_rare_after_a_quiet_while_and_often_as_soon_as_much_happens() {
        let mut pace = Pace::default();
        for _ in 0..QUIET_LOOKS {
            assert_eq!(pace.rest(), LOOK_EVERY);
            pace.brought(LITTLE);
        }
        assert_eq!(pace.rest(), LOOK_EVERY_WHEN_QUIET);
        pace.brought(LITTLE + 1);
        assert_eq!(pace.rest(), LOOK_EVERY);
    }
}
