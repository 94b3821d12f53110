//! Which errors of the command mean *not supported here*, exit code 3.

use std::error::Error;
use std::process::ExitCode;
use surefoot_console::exit::{self, Outcome};

/// Prints what went wrong, if anything did, and picks the code.
pub fn code(outcome: anyhow::Result<Outcome>) -> ExitCode {
    exit::code("surefoot", outcome, is_unsupported)
}

fn is_unsupported(cause: &(dyn Error + 'static)) -> bool {
    cause.downcast_ref::<surefoot_probes::Error>().is_some()
        || cause.downcast_ref::<surefoot_hostfs::Unsupported>().is_some()
        || cause.downcast_ref::<surefoot_disturb::Fault>().is_some_and(surefoot_disturb::Fault::is_unsupported)
        || matches!(
            cause.downcast_ref::<surefoot_stall::Error>(),
            Some(
                surefoot_stall::Error::Probes(_) | surefoot_stall::Error::NoCounter(_) | surefoot_stall::Error::Host(_)
            )
        )
}
