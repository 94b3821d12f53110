//! Side by side with other people's tools: runs each in turn on the same machine, in the same run, and prints ratios.
//!
//! `make bench`, or `cargo run --release -p surefoot-bench -- [NAME...] [--quick] [--json FILE]`.
//!
//! Two benchmarks have options of their own, and are not among what `make bench` runs:
//! - `cargo run --release -p surefoot-bench -- checkpoint ...`: tiers, and the microbenchmark of a paper with real ranks;
//! - `cargo run --release -p surefoot-bench -- nic ...`: what fault tolerance costs an interface.
//!
//! # Invariants
//! - What is compared is measured in turns (A B A B), never one after the other; a row has the median and the
//!   quartiles of its rounds.
//! - A row says which limit it is held against and whether that is met; without the peer it says `not run` and why.
//! - Every process that is started here is ended here, by its number.
//! - Exit code 0: every limit that was tried is met; 1: one is missed; 2: wrong use or a failure; of `checkpoint` and
//!   `nic` 3: not supported here.
#![forbid(unsafe_code)]

mod checkpoint;
mod child;
mod cost;
mod detectors;
mod dimms;
mod in_kernel;
mod inject;
mod inloop;
mod loop_period;
mod machine;
mod memory;
mod named;
mod nic;
mod numbers;
mod peers;
mod run;
mod stalls;
mod storm;
mod table;
mod watchers;
mod who;
mod work;

use clap::{Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::process::ExitCode;
use surefoot_console::exit::{self, Outcome};

/// Measures Surefoot beside other tools and prints ratios, each with its limit.
#[derive(Parser)]
#[command(name = "surefoot-bench", args_conflicts_with_subcommands = true, max_term_width = 110)]
struct Arguments {
    /// What to measure [default: everything]
    #[arg(value_enum)]
    names: Vec<Name>,
    /// Fewer and shorter rounds: shows that it works, proves little
    #[arg(long)]
    quick: bool,
    /// Write the table into this file as well, one JSON object per row
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The surefoot command to measure [default: built anew, in release]
    #[arg(long, value_name = "FILE")]
    surefoot: Option<PathBuf>,
    /// A part that a benchmark runs as a process of its own
    #[command(subcommand)]
    part: Option<Part>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Name {
    /// The probe's loop against a bare counter loop
    Loop,
    /// Injected stalls: found, how long, and what oslat and cyclictest say of them
    Stalls,
    /// Known stalls under each detector, Surefoot's and other people's: recall, precision and length; and what Surefoot takes them for
    Detectors,
    /// How much of the time in gaps has a named cause under load
    Named,
    /// What watching costs a loop, a pipe, an munmap storm and each interrupt, beside perf and bpftrace
    Cost,
    /// Resident memory of watch
    Memory,
    /// Reading the counts of 32 memory modules, beside node_exporter and ras-mc-ctl
    Dimms,
    /// Raisers: joined and named rightly, what naming them costs them, and what a turn of the in-loop library costs
    Who,
}

#[derive(Subcommand)]
enum Part {
    /// Measure this machine's tiers; with --paper run the microbenchmark of MEMSYS'16 with every policy
    Checkpoint(Box<checkpoint::options::BenchOptions>),
    /// Measure what fault tolerance costs an interface: bandwidth, latency, host cost and self-test of GM and FTGM, beside
    /// UDP and packets over veth
    Nic(Box<nic::BenchOptions>),
    /// Stall a core for known times and print them
    #[command(hide = true)]
    Inject(inject::Options),
    /// Do a fixed amount of work on a core and print how long it took
    #[command(hide = true)]
    Work(work::Options),
    /// Unmap memory in one thread while another spins, and print what the latter lost
    #[command(hide = true)]
    Storm(storm::Options),
    /// Read memory modules where a made-up tree lies at /sys, and print how long it took
    #[command(hide = true)]
    ReadDimms(dimms::Options),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = match arguments.part {
        Some(Part::Checkpoint(options)) => return shared(|| checkpoint::run(&options)),
        Some(Part::Nic(options)) => return shared(|| nic::run(&options)),
        Some(Part::Inject(options)) => inject::run(&options).map(|()| true),
        Some(Part::Work(options)) => work::run(&options).map(|()| true),
        Some(Part::Storm(options)) => storm::run(&options).map(|()| true),
        Some(Part::ReadDimms(options)) => dimms::inside(&options).map(|()| true),
        None => run::all(&arguments.names, arguments.quick, arguments.json.as_deref(), arguments.surefoot),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("surefoot-bench: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Runs a benchmark that ends as a command does.
fn shared(run: impl FnOnce() -> anyhow::Result<Outcome>) -> ExitCode {
    let outcome = surefoot_sys::signals::survive_file_limits().map_err(Into::into).and_then(|()| run());
    exit::code("surefoot-bench", outcome, |cause| cause.is::<surefoot_hostfs::Unsupported>())
}
