//! Which errors of the command mean *not supported here*, exit code 3.

use std::error::Error;
use std::io;
use std::process::ExitCode;
use surefoot_console::exit::{self, Outcome};
use surefoot_hostfs::exhausted;

/// Prints what went wrong, if anything did, and picks the code.
pub fn code(outcome: anyhow::Result<Outcome>) -> ExitCode {
    // That a call found no descriptor or no memory says nothing of what the host supports.
    let is_exhausted = outcome.as_ref().is_err_and(|error| error.chain().any(is_exhausted));
    exit::code("surefoot", outcome, |cause| !is_exhausted && is_unsupported(cause))
}

fn is_exhausted(cause: &(dyn Error + 'static)) -> bool {
    cause.downcast_ref::<io::Error>().is_some_and(|error| exhausted(error).is_some())
        || cause.downcast_ref::<surefoot_hostfs::Error>().is_some_and(|error| error.exhausted().is_some())
        || cause.downcast_ref::<surefoot_hostfs::Unsupported>().is_some_and(|missing| missing.is_unknown)
}

fn is_unsupported(cause: &(dyn Error + 'static)) -> bool {
    cause.downcast_ref::<surefoot_probes::Error>().is_some()
        || cause.downcast_ref::<surefoot_hostfs::Unsupported>().is_some()
        || cause.downcast_ref::<surefoot_disturb::Fault>().is_some_and(surefoot_disturb::Fault::is_unsupported)
        || matches!(
            cause.downcast_ref::<surefoot_stall::Error>(),
            Some(
                surefoot_stall::Error::Probes(_)
                    | surefoot_stall::Error::NotNamed { .. }
                    | surefoot_stall::Error::NoCounter(_)
                    | surefoot_stall::Error::Host(_)
            )
        )
}
