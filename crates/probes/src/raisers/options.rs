//! What to watch of raisers, how much to take, and how the programs are told.

use crate::error::Error;
use crate::shared::{self, same_layout};
use surefoot_model::CpuId;

/// The largest core number that can be watched, plus one.
const WATCHABLE: usize = shared::WATCH_WORDS * 64;

/// As `struct raiser_config`.
#[repr(C)]
pub(super) struct RaiserConfig {
    watched: [u64; WATCHABLE / 64],
    stacks_per_s: u64,
    kernel_stacks: u32,
    user_stacks: u32,
    calls: u32,
    with_ledger: u32,
    reserved: u32,
    check_every: u32,
}

same_layout!(
    RaiserConfig,
    raiser_config: watched, stacks_per_s, kernel_stacks, user_stacks, calls, with_ledger, reserved,
    check_every
);

const _: () =
    assert!(shared::USER_STACKS_COUNT == 4 && shared::CALL_EVIDENCE_COUNT == 4, "ways that Rust does not know");

/// How the raisers' user stacks are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UserStacks {
    /// Not at all.
    None = shared::USER_NONE as isize,
    /// By frame pointers.
    FramePointers = shared::USER_FRAME_POINTERS as isize,
    /// By frame pointers; where those give fewer than four frames, the stack's bytes as well, to be unwound later.
    #[default]
    Auto = shared::USER_AUTO as isize,
    /// By frame pointers and the stack's bytes, always.
    Copied = shared::USER_COPIED as isize,
}

/// How the raiser of a called function can be found on this kernel; the best of those whose tracepoints are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CallEvidence {
    /// Queueing and running both tell the call's data: `csd:csd_queue_cpu` and `csd:csd_function_entry` (kernel 6.5).
    #[default]
    Exact = shared::CALLS_EXACT as isize,
    /// The interrupts' senders are seen: `ipi:ipi_send_cpu` and `ipi_send_cpumask` (kernel 6.4). By target and order.
    Sent = shared::CALLS_SENT as isize,
    /// Only TLB shootdowns are seen, on both sides: `tlb:tlb_flush`. By time.
    Flushes = shared::CALLS_FLUSH as isize,
    /// Nothing is seen.
    Unseen = shared::CALLS_UNSEEN as isize,
}

/// What to watch and how much to take.
#[derive(Debug, Clone)]
pub struct RaiserOptions {
    /// The cores whose interrupts are traced back.
    pub cpus: Vec<CpuId>,
    /// Whether to take the raisers' kernel stacks.
    pub kernel_stacks: bool,
    /// Kernel stacks that are known are not walked again; one in so many is all the same, to compare. 1 walks every
    /// stack and compares what is known, 0 remembers none.
    pub kernel_stacks_checked_every: u32,
    /// How to take the raisers' user stacks.
    pub user_stacks: UserStacks,
    /// Stacks that each raising core takes per second; beyond it records carry none.
    pub stacks_per_s: u64,
    /// Bytes of the ring that records wait in: a power of two, 4 KiB at least.
    pub ring_bytes: u32,
    /// Tracepoints that are taken for absent, by name; for trying what other kernels leave.
    pub hidden_tracepoints: Vec<String>,
}

impl Default for RaiserOptions {
    fn default() -> Self {
        RaiserOptions {
            cpus: Vec::new(),
            kernel_stacks: true,
            kernel_stacks_checked_every: 64,
            user_stacks: UserStacks::Auto,
            stacks_per_s: 1_000,
            ring_bytes: 16 << 20,
            hidden_tracepoints: Vec::new(),
        }
    }
}

/// What the programs are told; an error for a core that they cannot watch.
pub(super) fn raiser_config(
    options: &RaiserOptions,
    calls: CallEvidence,
    with_ledger: bool,
) -> Result<RaiserConfig, Error> {
    let mut watched = [0u64; WATCHABLE / 64];
    for cpu in &options.cpus {
        let Some(word) = watched.get_mut(cpu.0 as usize / 64) else {
            return Err(Error::Unsupported {
                why: format!("core {cpu} is above {}", WATCHABLE - 1),
                remedy: "raisers are named on cores below that only".into(),
            });
        };
        *word |= 1 << (cpu.0 % 64);
    }
    Ok(RaiserConfig {
        watched,
        stacks_per_s: options.stacks_per_s,
        kernel_stacks: u32::from(options.kernel_stacks),
        user_stacks: options.user_stacks as u32,
        calls: calls as u32,
        with_ledger: u32::from(with_ledger),
        reserved: 0,
        check_every: options.kernel_stacks_checked_every,
    })
}
