//! A loop that only computes, pinned to a core, measured by itself.

use std::hint::black_box;
use surefoot_hostfs::clock::monotonic_ns;
use surefoot_model::CpuId;
use surefoot_sys::thread;

#[derive(clap::Args)]
pub struct Options {
    #[arg(long)]
    cpu: u32,
    /// Millions of steps
    #[arg(long)]
    millions: u64,
}

/// Does the work and prints its wall time in nanoseconds.
pub fn run(options: &Options) -> anyhow::Result<()> {
    thread::pin_to(CpuId(options.cpu))?;
    let mut value = black_box(0x1234_5678_9ABC_DEF1u64);
    let start_ns = monotonic_ns();
    for _ in 0..options.millions * 1_000_000 {
        // Each step needs the one before it, so the time does not depend on what else the core can do at once.
        value ^= value << 13;
        value ^= value >> 7;
        value ^= value << 17;
    }
    black_box(value);
    println!("{}", monotonic_ns() - start_ns);
    Ok(())
}
