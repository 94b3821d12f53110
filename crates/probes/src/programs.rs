//! The programs by name: which tracepoint each sits on, and which number it counts under in `struct slot`.

use crate::layout::{PROGRAMS, VECTORS};
use crate::shared::{self, csd_record, irq_record, migrate_record, nmi_record, send_cpu_record};
use crate::shared::{send_mask_record, softirq_record, switch_record};

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

const OTHERS: [Program; 13] = [
    Program {
        fields: &[
            ("prev_comm", switch_record::prev_comm.at),
            ("prev_pid", switch_record::prev_pid.at),
            ("prev_prio", switch_record::prev_prio.at),
            ("prev_state", switch_record::prev_state.at),
            ("next_comm", switch_record::next_comm.at),
            ("next_pid", switch_record::next_pid.at),
            ("next_prio", switch_record::next_prio.at),
        ],
        ..program("sched", "sched_switch", Some(shared::P_SCHED_SWITCH), "")
    },
    Program {
        fields: &[("vec", softirq_record::vec.at)],
        ..program("irq", "softirq_entry", Some(shared::P_SOFTIRQ_ENTRY), "softirqs count as the work they interrupt")
    },
    program("irq", "softirq_exit", Some(shared::P_SOFTIRQ_EXIT), "softirqs count as the work they interrupt"),
    Program {
        fields: &[("irq", irq_record::irq.at)],
        ..program(
            "irq",
            "irq_handler_entry",
            Some(shared::P_IRQ_HANDLER_ENTRY),
            "device interrupts count as the work they interrupt",
        )
    },
    program(
        "irq",
        "irq_handler_exit",
        Some(shared::P_IRQ_HANDLER_EXIT),
        "device interrupts count as the work they interrupt",
    ),
    Program {
        fields: &[("func", csd_record::func.at), ("csd", csd_record::csd.at)],
        ..program(
            "csd",
            "csd_function_entry",
            Some(shared::P_CSD_FUNCTION_ENTRY),
            "called functions have no names (kernel 6.5 brought them)",
        )
    },
    program(
        "csd",
        "csd_function_exit",
        Some(shared::P_CSD_FUNCTION_EXIT),
        "called functions have no names (kernel 6.5 brought them)",
    ),
    Program {
        fields: &[("handler", nmi_record::handler.at), ("delta_ns", nmi_record::delta_ns.at)],
        ..program("nmi", "nmi_handler", Some(shared::P_NMI_HANDLER), "NMIs are counted but untimed")
    },
    program(
        "timer",
        "hrtimer_expire_entry",
        Some(shared::P_HRTIMER_EXPIRE_ENTRY),
        "late timers are not seen, so hidden gaps only by the sentinel",
    ),
    Program {
        fields: &[("pid", migrate_record::pid.at), ("orig_cpu", migrate_record::orig_cpu.at)],
        ..program("sched", "sched_migrate_task", None, "a preempted thread that moves away counts until the core idles")
    },
    program("printk", "console", Some(shared::P_CONSOLE), "messages that are printed to a console are not named"),
    Program { fields: &[("cpu", send_cpu_record::cpu.at)], ..program("ipi", "ipi_send_cpu", None, NO_SENDER) },
    Program {
        fields: &[("cpumask", send_mask_record::mask_location.at)],
        ..program("ipi", "ipi_send_cpumask", None, NO_SENDER)
    },
];

/// Every program of both flavours.
pub fn all() -> impl Iterator<Item = Program> {
    let vectors = VECTORS.iter().enumerate().flat_map(|(index, vector)| {
        let number = shared::P_VECTOR_ENTRY + 2 * index;
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

/// The row of /proc/interrupts, by label, without which a program has nothing to do; `None` for those that every kernel
/// needs, or whose rows are many.
pub fn row_of(name: &str) -> Option<&'static str> {
    let vector = VECTORS.iter().find(|vector| vector.entry == name || vector.exit == name);
    vector.map(|vector| vector.row).or((name == "nmi_handler").then_some("NMI"))
}

/// Each program counts in a place of its own.
const _: () = {
    let mut taken = [false; PROGRAMS];
    let mut vector = 0;
    while vector < 2 * VECTORS.len() {
        taken[shared::P_VECTOR_ENTRY + vector] = true;
        vector += 1;
    }
    let mut other = 0;
    let mut numbered = 1;
    while other < OTHERS.len() {
        if let Some(number) = OTHERS[other].number {
            assert!(!taken[number], "two programs have one number");
            taken[number] = true;
            numbered += 1;
        }
        other += 1;
    }
    assert!(numbered == shared::PROGRAM_NUMBER_COUNT, "a number of a program that is not listed here");
};
