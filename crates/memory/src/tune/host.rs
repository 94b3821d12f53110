//! What the interval of a host is chosen for: its cores, and the errors that have to be counted. `memory tune` and the page both ask here.

use surefoot_hostfs::{Root, cpus};
use surefoot_model::MemoryLook;

/// The rate of errors that has to be counted whole where no module has a higher one: that at which ICPE'20 calls a module faulty.
pub const RATE_PER_S_MIN: f64 = 10.0;
/// More than this is a storm, which is interrupted no more.
pub const RATE_PER_S_MAX: f64 = 5_000.0;
/// Cores where nobody tells how many there are: those of ICPE'20's hosts.
pub const CORES_ASSUMED: u32 = 36;

/// The errors per second that have to be counted where the worst module has this rate.
pub fn rate_to_count(worst_per_s: f64) -> f64 {
    let known = if worst_per_s.is_finite() { worst_per_s } else { 0.0 };
    known.clamp(RATE_PER_S_MIN, RATE_PER_S_MAX)
}

/// The highest rate that any module of a look has, or had.
pub fn worst_per_s(look: &MemoryLook) -> f64 {
    look.dimms.iter().map(|dimm| dimm.worst_rate_per_s.max(dimm.rate_per_s)).fold(0.0, f64::max)
}

/// The errors per second to count where none are named, as many as the worst module of this look has, and the sentence that says so.
pub fn errors_to_count(look: &MemoryLook) -> (f64, String) {
    let worst_per_s = worst_per_s(look);
    let per_s = rate_to_count(worst_per_s);
    let why = match worst_per_s {
        known if known >= per_s => format!("the errors are those of its worst module, {known:.1}/s"),
        known if known > RATE_PER_S_MAX => format!("assumed: errors at {per_s:.0}/s, above which they are a storm"),
        _ if look.dimms.is_empty() => {
            format!("assumed: errors at {per_s:.0}/s, because no module's rate is known here; --errors names others")
        }
        _ => format!("assumed: errors at {per_s:.0}/s, more than any module here has; --errors names others"),
    };
    (per_s, why)
}

/// The cores that a poll goes over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cores {
    /// How many.
    pub count: u32,
    /// Whether the host has told it; otherwise it is [`CORES_ASSUMED`].
    pub is_told: bool,
}

impl Cores {
    /// Those that run on a host, or that a recorded tree tells of: by its list of them, else by /proc/cpuinfo, which lists the same.
    pub fn of(root: &Root) -> Self {
        let online = cpus::online(root).ok().map(|online| online.len());
        Cores::told(online.or_else(|| processors(root)))
    }

    /// Those that somebody has told, if anybody did.
    pub fn told(count: Option<usize>) -> Self {
        match count.and_then(|count| u32::try_from(count).ok()).filter(|count| *count > 0) {
            Some(count) => Cores { count, is_told: true },
            None => Cores { count: CORES_ASSUMED, is_told: false },
        }
    }

    /// What to say of the number where nobody has told it.
    pub fn assumption(self) -> Option<String> {
        (!self.is_told)
            .then(|| format!("{} cores, as ICPE'20's hosts have: how many there are here is not told", self.count))
    }
}

/// Processors in /proc/cpuinfo.
fn processors(root: &Root) -> Option<usize> {
    let text = root.read(root.proc("cpuinfo")).ok()?;
    let is_one = |line: &&str| line.split_once(':').is_some_and(|(name, _)| name.trim_end() == "processor");
    Some(text.lines().filter(is_one).count())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use surefoot_testkit::HostTree;

    #[test]
    fn cores_are_those_that_the_host_tells_and_otherwise_said_to_be_assumed() {
        let tree = HostTree::new().file("sys/devices/system/cpu/online", "0-2,5\n");
        let told = Cores::of(&Root::at(tree.path()));
        assert_eq!((told, told.assumption()), (Cores { count: 4, is_told: true }, None));
        let cpuinfo = "processor\t: 0\nflags\t\t: fpu\n\nprocessor\t: 3\nflags\t\t: fpu\n";
        let tree = HostTree::new().file("proc/cpuinfo", cpuinfo);
        assert_eq!(Cores::of(&Root::at(tree.path())), Cores { count: 2, is_told: true });
        for text in ["", "x\n"] {
            let tree = HostTree::new().file("sys/devices/system/cpu/online", text);
            let cores = Cores::of(&Root::at(tree.path()));
            assert_eq!(cores, Cores { count: 36, is_told: false }, "{text:?}");
            assert!(cores.assumption().unwrap().contains("36 cores"));
        }
    }
}
