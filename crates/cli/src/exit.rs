//! Exit codes: 0 done; 1 ran and found what it is asked to report as failure; 2 usage or input error; 3 not supported
//! here.

use std::io;
use std::process::ExitCode;

/// How a command ended that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It did what it was asked.
    Done,
    /// It ran and found what it is asked to report as failure; it has said what.
    Found,
}

/// Prints what went wrong, if anything did, and picks the code.
pub fn code(outcome: anyhow::Result<Outcome>) -> ExitCode {
    match outcome {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Found) => ExitCode::from(1),
        // Whoever reads our output may stop reading: `surefoot ... | head`.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("surefoot: {error:#}");
            ExitCode::from(if is_unsupported(&error) { 3 } else { 2 })
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

fn is_unsupported(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<surefoot_probes::Error>().is_some()
            || cause.downcast_ref::<surefoot_hostfs::Unsupported>().is_some()
            || matches!(
                cause.downcast_ref::<surefoot_stall::Error>(),
                Some(
                    surefoot_stall::Error::Probes(_)
                        | surefoot_stall::Error::NoCounter(_)
                        | surefoot_stall::Error::Host(_)
                )
            )
    })
}
