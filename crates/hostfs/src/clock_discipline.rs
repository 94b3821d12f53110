//! What the kernel says of the discipline of its wall clock: adjtimex(2), whatever daemon steers it (chrony, ntpd, systemd-timesyncd).

use crate::Error;
use std::time::Duration;

/// What the kernel knows of its wall clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClockDiscipline {
    /// Whether somebody disciplines it, and said so lately.
    pub is_synchronized: bool,
    /// How far the clock is said to be off and is being steered back, nanoseconds.
    pub offset_ns: i64,
    /// How far it is estimated to be off.
    pub estimated_error: Duration,
    /// How far it may be off at most; it grows while nobody says anything.
    pub error_max: Duration,
}

impl ClockDiscipline {
    /// Asks the kernel; changes nothing.
    ///
    /// # Errors
    /// [`Error::System`] when the kernel refuses the call, as sandboxes do.
    pub fn read() -> Result<Self, Error> {
        // SAFETY: a timex is numbers alone, for which zeros are values; no mode means that nothing is set.
        let mut timex: libc::timex = unsafe { std::mem::zeroed() };
        // SAFETY: the pointer is to a valid timex, which the call fills.
        let state = unsafe { libc::adjtimex(&mut timex) };
        if state < 0 {
            return Err(Error::last_system("ask for the discipline of the clock", "; the call is adjtimex"));
        }
        let in_nanoseconds = timex.status & libc::STA_NANO != 0;
        let micro = |value: libc::c_long| Duration::from_micros(value.max(0).unsigned_abs());
        Ok(ClockDiscipline {
            is_synchronized: timex.status & libc::STA_UNSYNC == 0 && state != libc::TIME_ERROR,
            offset_ns: if in_nanoseconds { timex.offset } else { timex.offset.saturating_mul(1_000) },
            estimated_error: micro(timex.esterror),
            error_max: micro(timex.maxerror),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_kernel_tells_of_its_clock() {
        match ClockDiscipline::read() {
            // The kernel gives up its claim at 16 s.
            Ok(clock) => assert!(clock.error_max <= Duration::from_secs(16) || !clock.is_synchronized, "{clock:?}"),
            Err(why) => assert!(why.to_string().contains("clock"), "{why}"),
        }
    }
}
