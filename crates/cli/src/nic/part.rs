//! `surefoot nic part`: this program as an interface, a daemon or an application of a run.

use clap::Args;
use surefoot_console::exit::Outcome;
use surefoot_hostfs::Unsupported;
use surefoot_nic::live::Error;
use surefoot_nic::live::part::{self, Program};

#[derive(Args)]
pub struct PartOptions {
    /// Its kind, then name=value
    words: Vec<String>,
}

/// This program as parts of a run start it.
pub fn program() -> Program {
    // By this link also a program that was replaced since it started starts itself.
    Program { path: "/proc/self/exe".into(), arguments: vec!["nic".into(), "part".into()] }
}

pub fn run(options: &PartOptions) -> anyhow::Result<Outcome> {
    part::run(&options.words, &program()).map_err(told)?;
    Ok(Outcome::Done)
}

/// An error of the library as the exit code has it.
pub fn told(error: Error) -> anyhow::Error {
    match error {
        Error::Unsupported(why) => Unsupported::new(format!("unsupported: {why}"), "").into(),
        other => other.into(),
    }
}
