//! Commands keep answering Ctrl-C while a file system does not answer them.

use crate::args::{Command, StallCommand};
use crate::people;
use std::path::PathBuf;
use surefoot_hostfs::answering::{self, Ended};

/// Returns the exit code if the command ran in a child, `None` where it is still to be run. Before any other thread is started.
///
/// # Errors
/// The first named file whose file system does not answer.
pub fn go_on(command: &Command, paths: &[PathBuf]) -> anyhow::Result<Option<u8>> {
    if matches!(command, Command::ReadNames | Command::LookApart | Command::GuardWorkload) {
        return Ok(None);
    }
    answering::expect(paths)?;
    if !only_reads(command) || paths.is_empty() {
        return Ok(None);
    }
    let Some(ended) = answering::in_child()? else { return Ok(None) };
    if let Ended::Stuck { process, .. } = ended {
        people::tell!(
            "surefoot: process {process} still waits for a file system that does not answer, and cannot be killed; it ends when the file \
             system answers or is unmounted"
        );
    }
    Ok(Some(ended.follow()))
}

/// Whether a command reads the files that it is given, and has nothing to finish when it is killed.
fn only_reads(command: &Command) -> bool {
    match command {
        Command::History(_) | Command::Stall { command: StallCommand::Replay(_) } => true,
        Command::Room(command) => command.only_reads(),
        _ => false,
    }
}
