//! One counting performance event on one core.

use crate::Error;
use std::fs::File;
use std::io::Read;
use std::os::fd::FromRawFd;
use surefoot_model::CpuId;

/// The kinds of events that are opened here (`perf_type_id` of include/uapi/linux/perf_event.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Kept by the kernel itself; there without any hardware.
    Software = 1,
    /// The processor's own event number.
    Raw = 4,
}

/// The first version of `struct perf_event_attr`, which every kernel takes.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_kind: u32,
    config1: u64,
}

/// Always on the counter, never shared by turns: a share of the time would miss events.
const FLAG_PINNED: u64 = 1 << 2;
const FLAG_CLOSE_ON_EXEC: libc::c_ulong = 1 << 3;

/// A running counter.
#[derive(Debug)]
pub struct PerfCounter {
    file: File,
    what: String,
}

impl PerfCounter {
    /// Starts counting on a core, whatever runs there. `what` names the event in messages.
    pub fn open(kind: Kind, config: u64, cpu: CpuId, what: &str) -> Result<Self, Error> {
        let attributes = Attributes {
            kind: kind as u32,
            size: size_of::<Attributes>() as u32,
            config,
            flags: FLAG_PINNED,
            ..Attributes::default()
        };
        let (all_tasks, no_group) = (-1, -1);
        // SAFETY: `attributes` has the documented layout, tells its own size and outlives the call.
        let descriptor = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attributes,
                all_tasks,
                cpu.0 as libc::c_int,
                no_group,
                FLAG_CLOSE_ON_EXEC,
            )
        };
        let what = format!("count {what} on core {cpu}");
        if descriptor < 0 {
            return Err(Error::last_system(what, ""));
        }
        // SAFETY: the kernel has just given us this descriptor, and nobody else knows it.
        let file = unsafe { File::from_raw_fd(descriptor as i32) };
        Ok(PerfCounter { file, what })
    }

    /// The count since opening. Interrupts the counted core when it is called on another one.
    pub fn read(&mut self) -> Result<u64, Error> {
        let mut value = [0; 8];
        let failed = |source| Error::System { action: self.what.clone(), source, remedy: "" };
        match self.file.read(&mut value).map_err(failed)? {
            8 => Ok(u64::from_ne_bytes(value)),
            // The end of the file is the kernel's word for a pinned event that got no counter.
            _ => Err(Error::System {
                action: self.what.clone(),
                source: std::io::ErrorKind::ResourceBusy.into(),
                remedy: "; all counters are taken, perhaps by the NMI watchdog (sysctl kernel.nmi_watchdog=0)",
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const CPU_CLOCK: u64 = 0;

    #[test]
    fn a_software_event_counts() {
        let cpu = crate::cpus::online(&crate::Root::host()).unwrap()[0];
        let mut counter = match PerfCounter::open(Kind::Software, CPU_CLOCK, cpu, "time") {
            Ok(counter) => counter,
            Err(error) if error.is_denied() => {
                surefoot_testkit::not_run::not_run("perf::a_software_event_counts", &error.to_string());
                return;
            }
            Err(error) => panic!("{error}"),
        };
        let before = counter.read().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(5));
        let after = counter.read().unwrap();
        assert!(after > before, "{before} then {after}");
    }

    #[test]
    fn an_event_on_no_core_is_refused_by_name() {
        let error = PerfCounter::open(Kind::Software, CPU_CLOCK, CpuId(60_000), "time").unwrap_err();
        assert!(error.to_string().starts_with("cannot count time on core 60000: "), "{error}");
    }
}
