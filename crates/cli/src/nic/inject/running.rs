//! `surefoot nic inject --run DIR --node N`: an interface of a run that goes on hangs.

use crate::nic::part::told;
use anyhow::{bail, ensure};
use clap::Args;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use surefoot_console::exit::Outcome;
use surefoot_nic::host::layout::{control, inject};
use surefoot_nic::live::directory::RunDirectory;

#[derive(Args)]
pub struct RunningOptions {
    /// The directory of the `nic run` that goes on, as it says on stderr
    #[arg(long = "run", value_name = "DIR", conflicts_with = "fault")]
    directory: Option<PathBuf>,
    /// With --run, whose interface hangs: 0 sends, 1 receives [default: 1]
    #[arg(long, value_name = "NODE", value_parser = clap::value_parser!(u32).range(0..=1))]
    pub node: Option<u32>,
}

/// How long an interface has to take the order.
const PATIENCE: Duration = Duration::from_secs(5);

pub fn run(options: &RunningOptions, is_json: bool) -> anyhow::Result<Outcome> {
    let Some(path) = &options.directory else {
        bail!("nothing to inject: name a fault of a campaign with --fault ID, or a run that goes on with --run DIR")
    };
    ensure!(!is_json, "--json: a run that goes on tells of its failures itself; this is for --fault");
    let node = options.node.unwrap_or(1);
    let directory = RunDirectory::open(path).map_err(told)?;
    let memory = directory.open_memory(node).map_err(told)?;
    let word = memory.word(control::INJECT);
    word.store(inject::HANG, Ordering::Release);
    memory.ring();
    let begun = Instant::now();
    while word.load(Ordering::Acquire) != 0 {
        if begun.elapsed() > PATIENCE {
            word.store(0, Ordering::Release);
            bail!(
                "the interface of node {node} did not take the order within {} s: it is stopped, or its run has ended",
                PATIENCE.as_secs()
            );
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    writeln!(surefoot_console::people::stdout(), "node {node}: its interface hangs")?;
    Ok(Outcome::Done)
}
