//! The clocks and the one random number that a session needs, and the pace at which it is called.

use std::fs;
use std::io::Read;
use std::time::{SystemTime, UNIX_EPOCH};

/// `CLOCK_REALTIME`, nanoseconds.
pub(super) fn realtime_ns() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

/// A number that no other run has: from the kernel, or where that is closed, from clock and process.
pub(super) fn nonce() -> u64 {
    let mut bytes = [0; 8];
    match fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes)) {
        Ok(()) => u64::from_le_bytes(bytes),
        Err(_) => realtime_ns() ^ u64::from(std::process::id()) << 40,
    }
}

/// What tells this machine from others: its boot, so that containers of one machine are one.
pub(super) fn host() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id");
    boot.map_or_else(|_| "unknown".to_owned(), |text| text.trim().chars().take(64).collect())
}

/// Gaps between calls that are remembered.
const GAPS: usize = 8;

/// How often a session is asked: one that polls before it saves asks twice in a row, so the longest of a few gaps counts.
/// What comes before the first call is no gap: a program may need long to start, and does so once.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Calls {
    last_s: Option<f64>,
    gaps_s: [f64; GAPS],
    count: usize,
}

impl Calls {
    /// Takes note of a call; returns the longest of the last gaps, 0 at the first call.
    pub(super) fn step_s(&mut self, now_s: f64) -> f64 {
        if let Some(last_s) = self.last_s.replace(now_s) {
            self.gaps_s[self.count % GAPS] = now_s - last_s;
            self.count += 1;
        }
        self.gaps_s.iter().copied().fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_of_the_last_gaps_is_the_step() {
        let mut calls = Calls::default();
        assert_eq!(calls.step_s(1_800.0), 0.0, "a long start is no step");
        assert_eq!(calls.step_s(1_830.0), 30.0);
        for call in 1..8 {
            assert_eq!(calls.step_s(1_830.0 + f64::from(call)), 30.0);
        }
        assert_eq!(calls.step_s(1_838.0), 1.0);
        assert_eq!(calls.step_s(1_838.0), 1.0, "polling and then saving at once is one step");
    }
}
