//! Exit codes: 0 done; 1 ran and found what it is asked to report as failure; 2 usage or input error; 3 not supported
//! here.

use anyhow::Context;
use std::io;
use std::process::ExitCode;
use surefoot_model::one_line;
use surefoot_sys::stdout;

/// How a command ended that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It did what it was asked.
    Done,
    /// It ran and found what it is asked to report as failure; it has said what.
    Found,
}

/// Prints what went wrong, if anything did, and picks the code. `program` begins the message; `is_unsupported` tells
/// the errors that mean *not supported here*.
pub fn code(
    program: &str,
    outcome: anyhow::Result<Outcome>,
    is_unsupported: impl Fn(&(dyn std::error::Error + 'static)) -> bool,
) -> ExitCode {
    let written = stdout::expect_written().context("stdout cannot be written, and what is missing there is lost");
    let outcome = match (outcome, written) {
        (Ok(outcome), written) => written.map(|()| outcome),
        // The same error, with no word of what could not be written.
        (Err(error), Err(written)) if error.is::<io::Error>() => Err(written),
        (Err(error), _) => Err(error),
    };
    match outcome {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Found) => ExitCode::from(1),
        // Whoever reads our output may stop reading: `surefoot ... | head`.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            crate::tell!("{program}: {}", message(&error));
            ExitCode::from(if error.chain().any(is_unsupported) { 3 } else { 2 })
        }
    }
}

/// The error and its causes on one line, whatever the names in it hold; a cause that the words before it contain already is not said again.
fn message(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        let words = without_number(&cause);
        if !text.contains(&words) {
            text += ": ";
            text += &words;
        }
    }
    one_line(&without_number(&text))
}

/// Without the kernel's numbers: they say nothing that its words do not.
pub fn without_number(text: &str) -> String {
    let mut parts = text.split(" (os error ");
    let mut words = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(')') {
            Some((number, rest)) if number.len() < 7 && number.parse::<i32>().is_ok() => words += rest,
            _ => words = words + " (os error " + part,
        }
    }
    words
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_name_holds_begins_no_line_and_commands_no_terminal() {
        let path = std::path::Path::new("a\nsurefoot: all is well\u{1b}[2J\u{202e}.db");
        let error = anyhow::anyhow!("no table").context(format!("{}: cannot be opened", path.display()));
        assert_eq!(message(&error), "a?surefoot: all is well?[2J?.db: cannot be opened: no table");
    }

    #[test]
    fn a_cause_is_said_once() {
        let missing = || io::Error::other("no such thing");
        let said = anyhow::Error::new(missing()).context("night.db: cannot be opened: no such thing");
        assert_eq!(message(&said), "night.db: cannot be opened: no such thing");
        let unsaid = Err::<(), _>(missing()).context("night.db").unwrap_err();
        assert_eq!(message(&unsaid), "night.db: no such thing");
        let denied = anyhow::anyhow!("no socket: {}; CAP_NET_RAW is needed", io::Error::from_raw_os_error(1));
        assert_eq!(message(&denied), "no socket: Operation not permitted; CAP_NET_RAW is needed");
        assert_eq!(message(&anyhow::anyhow!("an (os error of its own")), "an (os error of its own");
        let kernel = || io::Error::from_raw_os_error(28);
        assert_eq!(message(&kernel().into()), "No space left on device");
        assert_eq!(
            message(&Err::<(), _>(kernel()).context("night.db").unwrap_err()),
            "night.db: No space left on device"
        );
    }
}
