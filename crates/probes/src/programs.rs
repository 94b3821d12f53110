//! The programs by name: which tracepoint each sits on, and which number it counts under in `struct slot`.

use crate::layout::{CAUSE_LOCAL_TIMER, VECTORS};

/// One program of the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Program {
    /// The tracepoint's group.
    pub group: &'static str,
    /// The tracepoint, which is also the program's name.
    pub name: &'static str,
    /// Where it counts its runs; `None` for the three that run outside updates.
    pub number: Option<usize>,
    /// Fields of the plain tracepoint that the program reads, with the offsets it expects.
    pub fields: &'static [(&'static str, usize)],
    /// What is lost without it; empty if the ledger cannot do without it.
    pub without: &'static str,
}

const fn program(group: &'static str, name: &'static str, number: Option<usize>, without: &'static str) -> Program {
    Program { group, name, number, fields: &[], without }
}

const NO_SENDER: &str = "interrupts that Surefoot raises are not counted (kernel 6.4 brought them)";

const OTHERS: [Program; 12] = [
    Program {
        fields: &[("prev_comm", 8), ("prev_pid", 24), ("prev_state", 32), ("next_comm", 40), ("next_pid", 56)],
        ..program("sched", "sched_switch", Some(1), "")
    },
    Program {
        fields: &[("vec", 8)],
        ..program("irq", "softirq_entry", Some(24), "softirqs count as the work they interrupt")
    },
    program("irq", "softirq_exit", Some(25), "softirqs count as the work they interrupt"),
    Program {
        fields: &[("irq", 8)],
        ..program("irq", "irq_handler_entry", Some(26), "device interrupts count as the work they interrupt")
    },
    program("irq", "irq_handler_exit", Some(27), "device interrupts count as the work they interrupt"),
    Program {
        fields: &[("func", 8), ("csd", 16)],
        ..program("csd", "csd_function_entry", Some(28), "called functions have no names (kernel 6.5 brought them)")
    },
    program("csd", "csd_function_exit", Some(29), "called functions have no names (kernel 6.5 brought them)"),
    Program {
        fields: &[("handler", 8), ("delta_ns", 16)],
        ..program("nmi", "nmi_handler", Some(30), "NMIs are counted but untimed")
    },
    program("timer", "hrtimer_expire_entry", Some(31), "late timers are not seen, so hidden gaps only by the sentinel"),
    Program {
        fields: &[("pid", 12), ("orig_cpu", 20)],
        ..program("sched", "sched_migrate_task", None, "a preempted thread that moves away counts until the core idles")
    },
    Program { fields: &[("cpu", 8)], ..program("ipi", "ipi_send_cpu", None, NO_SENDER) },
    Program { fields: &[("cpumask", 8)], ..program("ipi", "ipi_send_cpumask", None, NO_SENDER) },
];

/// Every program of both flavours.
pub fn all() -> impl Iterator<Item = Program> {
    let vectors = VECTORS.iter().enumerate().flat_map(|(index, vector)| {
        let number = 2 + 2 * index;
        [
            program("irq_vectors", vector.entry, Some(number), vector.without),
            program("irq_vectors", vector.exit, Some(number + 1), vector.without),
        ]
    });
    OTHERS.into_iter().chain(vectors)
}

/// The program of a tracepoint.
pub fn named(name: &str) -> Option<Program> {
    all().find(|program| program.name == name)
}

const _: () = assert!(CAUSE_LOCAL_TIMER == 3);
