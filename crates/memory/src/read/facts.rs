//! What a reading says of the host itself.

use surefoot_hostfs::{Root, clock};
use surefoot_model::Digits;

/// Which boot this is.
pub(super) fn boot_id(root: &Root) -> Option<String> {
    let text = root.read_again_up_to(root.proc("sys/kernel/random/boot_id"), 100).ok()?;
    let text = text.trim();
    // Anything else is no identity, and would make two boots look like one.
    (text.len() == 36 && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')).then(|| text.to_owned())
}

/// Which host this is: a digest of its machine ID, which stays there. `None` where it has none.
pub fn machine(root: &Root) -> Option<String> {
    let text = root.read_up_to(root.path("etc/machine-id"), 100).ok()?;
    let id = text.trim();
    let is_id =
        id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()) && id.bytes().any(|byte| byte != b'0');
    // FNV-1a, begun with what it is for.
    let digest = "surefoot memory counts"
        .bytes()
        .chain(id.bytes())
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    is_id.then(|| format!("{digest:016x}"))
}

/// Seconds since the boot by the host's own clock. `seconds_since_reset` counts jiffies, as the monotonic clock does; a recorded tree
/// has only its uptime, which goes on while the host sleeps.
pub(super) fn clock_s(root: &Root) -> Option<f64> {
    if root.is_host() {
        return Some(clock::monotonic_ns() as f64 / 1e9);
    }
    let text = root.read_up_to(root.proc("uptime"), 100).ok()?;
    let seconds: f64 = text.split_ascii_whitespace().next()?.real()?;
    (seconds.is_finite() && seconds >= 0.0).then_some(seconds)
}

/// Whether the corrected-errors collector of the kernel runs: its folder in debugfs, or, where debugfs may not be looked into, `None`.
pub(super) fn is_collected(root: &Root) -> Option<bool> {
    match std::fs::metadata(root.sys("kernel/debug/ras/cec")) {
        Ok(_) => Some(true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            // Without a mounted debugfs its folder is there and empty.
            let mut entries = std::fs::read_dir(root.sys("kernel/debug")).ok()?;
            entries.next().map(|_| false)
        }
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `seconds_since_reset` stands still while the host sleeps, and so must the clock that it is held against: otherwise a sleep of an hour is
    /// a reset.
    #[test]
    fn the_clock_of_this_host_stands_still_while_it_sleeps() {
        let before = clock::monotonic_ns() as f64 / 1e9;
        let now = clock_s(&Root::host());
        assert!(
            now.is_some_and(|now| (before..=clock::monotonic_ns() as f64 / 1e9).contains(&now)),
            "{before} {now:?}"
        );
    }
}
