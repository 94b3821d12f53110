//! The clock and the three interval timers.
//!
//! A timer is a register that an oscillator counts down once a microsecond. Only the time at which it reaches zero is
//! kept; what the register holds now follows from it.

use super::registers::{Registers, offset};

const US: u64 = 1000;

/// The registers of the timers, in order; a timer's bit in ISR is `1 << index`.
pub(crate) const TIMERS: [u32; 3] = [offset::IT0, offset::IT1, offset::IT2];

/// When each timer reaches zero, and the clock's beginning.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Timers {
    ends_ns: [Option<u64>; 3],
    clock_zero_ns: u64,
    /// What flips of the clock's bits added to it.
    clock_offset: u32,
}

impl Timers {
    pub fn new(now_ns: u64) -> Timers {
        Timers { clock_zero_ns: now_ns, ..Timers::default() }
    }

    pub fn clock(&self, now_ns: u64) -> u32 {
        // The register wraps after 71 minutes, as one of 32 bits does.
        ((now_ns.saturating_sub(self.clock_zero_ns) / US) as u32).wrapping_add(self.clock_offset)
    }

    pub fn set_clock(&mut self, now_ns: u64, value: u32) {
        self.clock_offset = self.clock_offset.wrapping_add(value.wrapping_sub(self.clock(now_ns)));
    }

    /// What the register of a timer holds now.
    pub fn remaining(&self, index: usize, now_ns: u64, registers: &Registers) -> u32 {
        let Some(end_ns) = self.ends_ns[index] else { return registers.get(TIMERS[index]) };
        let ticks = end_ns.saturating_sub(now_ns).div_ceil(US);
        spread(ticks.try_into().unwrap_or(u32::MAX), !registers.stuck(TIMERS[index]).1)
    }

    /// Begins to count down from what the register now holds, or stops at zero.
    ///
    /// A bit that is stuck at zero is skipped by the count: decrementing borrows through it, so the other bits count as
    /// if they stood side by side. With a bit stuck at one the register never is zero, and the timer never ends.
    pub fn start(&mut self, index: usize, now_ns: u64, registers: &Registers) {
        let (one, zero) = registers.stuck(TIMERS[index]);
        let ticks = gather(registers.get(TIMERS[index]), !zero);
        self.ends_ns[index] = (ticks > 0 && one == 0).then(|| now_ns + u64::from(ticks) * US);
    }

    /// When the next timer ends; the end of time where none runs.
    #[inline(always)]
    pub fn soonest_ns(&self) -> u64 {
        let [it0, it1, it2] = self.ends_ns.map(|end_ns| end_ns.unwrap_or(u64::MAX));
        it0.min(it1).min(it2)
    }

    /// Ends the timers whose time has come and gives their bits of ISR.
    pub fn fire(&mut self, now_ns: u64, registers: &mut Registers) -> u32 {
        let mut bits = 0;
        for (index, end) in self.ends_ns.iter_mut().enumerate() {
            if end.is_some_and(|end_ns| end_ns <= now_ns) {
                *end = None;
                registers.set(TIMERS[index], 0);
                bits |= 1 << index;
            }
        }
        bits
    }
}

/// The bits of `value` that are in `mask`, side by side.
fn gather(value: u32, mask: u32) -> u32 {
    let places = (0..32).filter(|bit| mask >> bit & 1 == 1);
    places.enumerate().fold(0, |all, (to, from)| all | (value >> from & 1) << to)
}

/// The inverse of [`gather`].
fn spread(value: u32, mask: u32) -> u32 {
    let places = (0..32).filter(|bit| mask >> bit & 1 == 1);
    places.enumerate().fold(0, |all, (from, to)| all | (value >> from & 1) << to)
}

#[cfg(test)]
mod tests {
    use super::super::registers::Stuck;
    use super::*;

    /// The register decremented once a microsecond, as hardware does it.
    fn count_down(mut value: u32, zero: u32) -> u32 {
        let mut ticks = 0;
        while value & !zero != 0 {
            value = (value & !zero).wrapping_sub(1) & !zero;
            ticks += 1;
        }
        ticks
    }

    #[test]
    fn a_timer_with_bits_stuck_at_zero_counts_as_hardware_would() {
        for zero in [0, 1, 0b1000, 0b1010, 0x8000_0001] {
            let mut registers = Registers::new();
            for bit in (0..32).filter(|bit| zero >> bit & 1 == 1) {
                registers.stick(offset::IT1, bit, Stuck::Zero);
            }
            for value in [1, 2, 7, 8, 9, 63, 800] {
                registers.set(offset::IT1, value);
                let mut timers = Timers::new(0);
                timers.start(1, 500, &registers);
                let ticks = u64::from(count_down(value, zero));
                let expected = (ticks > 0).then_some(500 + ticks * US);
                assert_eq!(timers.ends_ns.iter().flatten().min().copied(), expected, "{value} with {zero:#x} stuck");
                assert_eq!(timers.remaining(1, 500, &registers), value & !zero);
            }
        }
    }

    #[test]
    fn a_timer_with_a_bit_stuck_at_one_never_ends() {
        let mut registers = Registers::new();
        registers.stick(offset::IT0, 3, Stuck::One);
        registers.set(offset::IT0, 5);
        let mut timers = Timers::new(0);
        timers.start(0, 0, &registers);
        assert_eq!(timers.ends_ns.iter().flatten().min().copied(), None);
        assert_eq!(timers.remaining(0, 99, &registers), 13);
    }

    #[test]
    fn a_timer_ends_once_and_stays_at_zero() {
        let mut registers = Registers::new();
        registers.set(offset::IT2, 3);
        let mut timers = Timers::new(0);
        timers.start(2, 10, &registers);
        assert_eq!(timers.remaining(2, 1011, &registers), 2);
        assert_eq!(timers.fire(3009, &mut registers), 0);
        assert_eq!(timers.fire(3010, &mut registers), 4);
        assert_eq!((timers.fire(9999, &mut registers), timers.remaining(2, 9999, &registers)), (0, 0));
    }

    #[test]
    fn the_clock_goes_on_from_what_a_flip_made_of_it() {
        let mut timers = Timers::new(5_000);
        assert_eq!(timers.clock(8_999), 3);
        timers.set_clock(8_999, 3 ^ 1 << 31);
        assert_eq!(timers.clock(10_000), 5 ^ 1 << 31);
    }
}
