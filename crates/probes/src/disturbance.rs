//! What attaching costs the cores, told before it is done. Help, guide and output take the figures from here.
//!
//! Where a first program is attached to a tracepoint, and where the last is taken away, the kernel patches its text at each
//! place of the tracepoint, and makes every core run a function for each step of it. How many such interrupts come was
//! measured ([`INTERRUPTS_PER_TRACEPOINT`], `examples/attach_cost.rs`); what really came is counted by whoever attaches.

use crate::programs;

/// Interrupts to each busy core for each tracepoint, attaching and detaching alike: the median on Linux 6.18.
pub const INTERRUPTS_PER_TRACEPOINT: u64 = 12;

/// Tracepoints that the raisers' programs have beyond the ledger's, where calls are joined exactly.
const OF_RAISERS: usize = 8;

/// Rows of /proc/interrupts that every machine has something in.
const USUAL_ROWS: [&str; 4] = ["LOC", "RES", "CAL", "IWI"];

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// Where the time of cores went.
    Ledger,
    /// And who interrupted them.
    Raisers,
    /// Who interrupted them, without timers that fire late.
    RaisersAlone,
}

/// Tracepoints that the question needs, on a kernel that has them all and where no rare interrupt has come.
pub fn tracepoints(question: Question) -> usize {
    let is_usual = |name: &str| programs::row_of(name).is_none_or(|row| USUAL_ROWS.contains(&row));
    let ledger = programs::all().filter(|program| is_usual(program.name)).count();
    match question {
        Question::Ledger => ledger,
        // Without late timers, too: the raisers' programs need the timers for themselves.
        Question::Raisers | Question::RaisersAlone => ledger + OF_RAISERS,
    }
}

/// Interrupts that attaching sends to each busy core, about, and detaching again.
pub fn interrupts(question: Question) -> u64 {
    round(tracepoints(question) as u64 * INTERRUPTS_PER_TRACEPOINT)
}

/// To tens: the figure is no better than that.
fn round(count: u64) -> u64 {
    (count + 5) / 10 * 10
}
