use serde::{Deserialize, Serialize};
use std::fmt;

/// What took time from a core. The order is that of the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CauseKind {
    /// System-management interrupt: the firmware ran.
    Smi,
    /// The hypervisor ran something else (steal), or stopped the core or the machine. Earlier releases wrote `host`.
    #[serde(alias = "host")]
    Hypervisor,
    /// Non-maskable interrupt, by handler.
    Nmi,
    /// Machine check, corrected-error threshold or deferred-error interrupt.
    MachineCheck,
    /// A device's interrupt line, by name.
    DeviceInterrupt,
    /// The local timer: tick and high-resolution timers.
    Timer,
    /// Function called from another core, by function.
    CallFunction,
    /// Translation look-aside buffer shootdown raised by another core.
    TlbShootdown,
    /// Reschedule inter-processor interrupt.
    Reschedule,
    /// Deferred work in interrupt context.
    IrqWork,
    /// Soft interrupt, by vector.
    Softirq,
    /// A kernel thread, by name.
    KernelThread,
    /// Another task ran while the named workload wanted to, by name.
    Preemption,
    /// The thread itself could not run, by state (stopped, asleep, throttled): found in gaps of a thread's work only.
    ThreadState,
    /// Hard interrupts that this source cannot tell apart, or one of the rarer vectors.
    OtherInterrupt,
    /// A kernel message was logged, which its writer may have had to print to a console.
    Console,
}

impl CauseKind {
    /// Every kind, in table order.
    pub const ALL: [CauseKind; 16] = [
        CauseKind::Smi,
        CauseKind::Hypervisor,
        CauseKind::Nmi,
        CauseKind::MachineCheck,
        CauseKind::DeviceInterrupt,
        CauseKind::Timer,
        CauseKind::CallFunction,
        CauseKind::TlbShootdown,
        CauseKind::Reschedule,
        CauseKind::IrqWork,
        CauseKind::Softirq,
        CauseKind::KernelThread,
        CauseKind::Preemption,
        CauseKind::ThreadState,
        CauseKind::OtherInterrupt,
        CauseKind::Console,
    ];

    /// The name in JSON, URLs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            CauseKind::Smi => "smi",
            CauseKind::Hypervisor => "hypervisor",
            CauseKind::Nmi => "nmi",
            CauseKind::MachineCheck => "machine_check",
            CauseKind::DeviceInterrupt => "device_interrupt",
            CauseKind::Timer => "timer",
            CauseKind::CallFunction => "call_function",
            CauseKind::TlbShootdown => "tlb_shootdown",
            CauseKind::Reschedule => "reschedule",
            CauseKind::IrqWork => "irq_work",
            CauseKind::Softirq => "softirq",
            CauseKind::KernelThread => "kernel_thread",
            CauseKind::Preemption => "preemption",
            CauseKind::ThreadState => "thread_state",
            CauseKind::OtherInterrupt => "other_interrupt",
            CauseKind::Console => "console",
        }
    }

    /// The words for people.
    pub fn label(self) -> &'static str {
        match self {
            CauseKind::Smi => "SMI",
            CauseKind::Hypervisor => "hypervisor",
            CauseKind::Nmi => "NMI",
            CauseKind::MachineCheck => "machine check",
            CauseKind::DeviceInterrupt => "device interrupt",
            CauseKind::Timer => "timer",
            CauseKind::CallFunction => "call function",
            CauseKind::TlbShootdown => "TLB shootdown",
            CauseKind::Reschedule => "reschedule",
            CauseKind::IrqWork => "irq_work",
            CauseKind::Softirq => "softirq",
            CauseKind::KernelThread => "kernel thread",
            CauseKind::Preemption => "preemption",
            CauseKind::ThreadState => "thread",
            CauseKind::OtherInterrupt => "other interrupt",
            CauseKind::Console => "printing to the console",
        }
    }
}

impl fmt::Display for CauseKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl std::str::FromStr for CauseKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // The word of earlier releases.
        let text = if text == "host" { "hypervisor" } else { text };
        CauseKind::ALL.into_iter().find(|kind| kind.as_str() == text).ok_or_else(|| {
            let known: Vec<_> = CauseKind::ALL.iter().map(|kind| kind.as_str()).collect();
            format!("no cause is called '{text}'; the causes are {}", known.join(", "))
        })
    }
}

/// One cause: its kind, and the name that tells it from others of the kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Cause {
    /// The kind.
    pub kind: CauseKind,
    /// Interrupt line, function, vector, thread: whatever tells one from another within the kind.
    pub name: String,
}

impl Cause {
    /// The name of the time that a core takes to enter an interrupt and to leave it.
    pub const ENTRY_AND_EXIT: &str = "entry and exit";
    /// The name of a call-function interrupt without the functions that it runs.
    pub const INTERRUPT_ITSELF: &str = "interrupt itself";

    /// Whether this is only the frame around what an interrupt ran.
    pub fn is_frame(&self) -> bool {
        [Cause::ENTRY_AND_EXIT, Cause::INTERRUPT_ITSELF].contains(&self.name.as_str())
    }

    /// A cause of this kind and name.
    pub fn new(kind: CauseKind, name: impl Into<String>) -> Self {
        Cause { kind, name: name.into() }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Some vectors are called as their kind is.
        if self.name.is_empty() || self.name == self.kind.label() || self.name == self.kind.as_str() {
            f.write_str(self.kind.label())
        } else {
            write!(f, "{} {}", self.kind.label(), self.name)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_says_the_same_as_the_kind_is_not_said_twice() {
        assert_eq!(Cause::new(CauseKind::Reschedule, "reschedule").to_string(), "reschedule");
        assert_eq!(Cause::new(CauseKind::MachineCheck, "machine_check").to_string(), "machine check");
        assert_eq!(Cause::new(CauseKind::Timer, "local_timer").to_string(), "timer local_timer");
    }

    #[test]
    fn a_kind_is_read_by_its_word_and_by_the_word_of_earlier_releases() {
        for kind in CauseKind::ALL {
            assert_eq!(kind.as_str().parse(), Ok(kind));
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
        assert_eq!("host".parse(), Ok(CauseKind::Hypervisor));
        assert_eq!(serde_json::from_str::<CauseKind>("\"host\"").unwrap(), CauseKind::Hypervisor);
        let unknown = "cosmic_ray".parse::<CauseKind>().unwrap_err();
        assert!(unknown.contains("hypervisor") && !unknown.contains("host,"), "{unknown}");
    }
}
