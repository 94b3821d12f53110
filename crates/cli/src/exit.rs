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
            crate::people::tell!("surefoot: {}", message(&error));
            ExitCode::from(if is_unsupported(&error) { 3 } else { 2 })
        }
    }
}

/// The error and its causes; a cause that the words before it contain already is not said again.
fn message(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text += ": ";
            text += &cause;
        }
    }
    text
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

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn a_cause_is_said_once() {
        let missing = || io::Error::other("no such thing");
        let said = anyhow::Error::new(missing()).context("night.db: cannot be opened: no such thing");
        assert_eq!(message(&said), "night.db: cannot be opened: no such thing");
        let unsaid = Err::<(), _>(missing()).context("night.db").unwrap_err();
        assert_eq!(message(&unsaid), "night.db: no such thing");
    }
}
