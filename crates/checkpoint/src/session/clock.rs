//! The clocks and the one random number that a session needs.

use std::fs;
use std::io::Read;
use std::time::{SystemTime, UNIX_EPOCH};

/// `CLOCK_REALTIME`, nanoseconds.
pub(super) fn realtime_ns() -> u64 {
    #[cfg(test)]
    if let Some(set_ns) = SET_NS.get() {
        return set_ns;
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
thread_local! {
    static SET_NS: std::cell::Cell<Option<u64>> = const { std::cell::Cell::new(None) };
}

/// Stops this thread's wall clock at a time, or lets it go again.
#[cfg(test)]
pub(super) fn set_realtime_ns(set_ns: Option<u64>) {
    SET_NS.set(set_ns);
}

/// A number that no other run has: from the kernel, or where that is closed, from clock and process.
pub(super) fn nonce() -> u64 {
    let mut bytes = [0; 8];
    match fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes)) {
        Ok(()) => u64::from_le_bytes(bytes),
        Err(_) => realtime_ns() ^ u64::from(std::process::id()) << 40,
    }
}

/// What people call this machine.
pub(super) fn host_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname");
    name.map_or_else(|_| String::new(), |text| text.trim().to_owned())
}

/// What tells this machine from others: its boot, so that containers of one machine are one.
pub(super) fn host() -> String {
    host_of(fs::read_to_string("/proc/sys/kernel/random/boot_id").ok().as_deref(), &host_name())
}

/// The same by the text of its boot. Machines of which that is unknown are not one: then the name tells them apart.
fn host_of(boot: Option<&str>, name: &str) -> String {
    let boot = boot.map(str::trim).filter(|boot| !boot.is_empty());
    boot.map_or_else(|| format!("unknown boot of {name}"), str::to_owned).chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::host_of;

    #[test]
    fn machines_whose_boot_is_unknown_are_not_one() {
        assert_eq!(host_of(Some("0af\n"), "a"), host_of(Some("0af"), "b"), "containers of one machine");
        for boot in [None, Some(""), Some("\n")] {
            assert_ne!(host_of(boot, "a"), host_of(boot, "b"));
        }
    }
}
