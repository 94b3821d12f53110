//! Commands keep answering Ctrl-C while a file system does not answer them.

use crate::account;
use crate::args::Command;
use crate::usage::Named;
use surefoot_console::people;
use surefoot_sys::answering::{self, Ended, Side, Waiting};

/// Returns the exit code if the command ran in a child, `None` where it is still to be run. Before any other thread is started.
///
/// # Errors
/// The first named file whose file system does not answer.
pub fn go_on(command: &Command, named: &Named) -> anyhow::Result<Option<u8>> {
    if matches!(command, Command::ReadNames | Command::LookApart | Command::GuardWorkload) {
        return Ok(None);
    }
    answering::expect(&named.paths)?;
    let command = named.command.as_str();
    if let Some((_, at_first)) = WRITERS.iter().find(|(name, _)| *name == command) {
        return in_child_with_account(at_first);
    }
    let is_reader = READS_DEFAULTS.contains(&command) || (READERS.contains(&command) && !named.paths.is_empty());
    if !is_reader {
        return Ok(None);
    }
    let Some(ended) = answering::in_child()? else { return Ok(None) };
    match &ended {
        Ended::Stuck { process, .. } => tell_stuck(*process),
        Ended::Unanswered(waiting) => people::tell!(
            "surefoot: cannot read {}: its file system did not answer for 20 s (the call {}), and nothing is known of what is there; \
             check its server or unmount it",
            file(waiting),
            waiting.call
        ),
        Ended::Code(_) | Ended::Signal(_) => {}
    }
    Ok(Some(ended.follow()))
}

/// A command that changes files is never cut off: slow is not dead. Its parent says what it waits for, and what is known to be done where
/// a signal ends it.
fn in_child_with_account(at_first: &str) -> anyhow::Result<Option<u8>> {
    let mut waits = |waiting: &Waiting| {
        people::tell!(
            "surefoot: waiting for {}: its file system has not answered for 20 s (the call {}); check its server; Ctrl-C or SIGTERM ends \
             the command, and it says then what was done",
            file(waiting),
            waiting.call
        );
    };
    let (ended, account) = match answering::in_child_with_account(&mut waits)? {
        Side::Parent { ended, account } => (ended, account),
        Side::Child(account) => {
            account::keep(account);
            account::say(at_first);
            return Ok(None);
        }
    };
    if let Ended::Signal(signal) | Ended::Stuck { signal, .. } = ended {
        let by = match signal {
            libc::SIGHUP => "SIGHUP".to_owned(),
            libc::SIGINT => "SIGINT".to_owned(),
            libc::SIGQUIT => "SIGQUIT".to_owned(),
            libc::SIGKILL => "SIGKILL".to_owned(),
            libc::SIGTERM => "SIGTERM".to_owned(),
            other => format!("signal {other}"),
        };
        people::tell!("surefoot: ended by {by}: {account}");
    }
    if let Ended::Stuck { process, .. } = ended {
        tell_stuck(process);
    }
    Ok(Some(ended.follow()))
}

fn file(waiting: &Waiting) -> String {
    waiting.file.as_ref().map_or_else(|| "a file".to_owned(), |file| file.display().to_string())
}

fn tell_stuck(process: i32) {
    people::tell!(
        "surefoot: process {process} still waits for a file system that does not answer, and cannot be killed; it ends when the file \
         system answers or is unmounted"
    );
}

/// The commands that change files and end when that is done, and what is known of their work before they say more of it.
const WRITERS: [(&str, &str); 9] = [
    ("checkpoint drain", NOT_BEGUN),
    ("checkpoint drive", NOT_WHOLE),
    ("checkpoint protect", NOT_BEGUN),
    ("checkpoint remove", NOT_BEGUN),
    ("checkpoint repair", NOT_BEGUN),
    ("checkpoint restore", NOT_BEGUN),
    ("checkpoint scrub", NOT_BEGUN),
    ("ecc verilog", NOT_WHOLE),
    ("generate", NOT_WHOLE),
];
const NOT_BEGUN: &str = "it had not begun to change anything";
const NOT_WHOLE: &str = "what it was to write is not known to be whole";

/// The commands that read the files they are given, and have nothing to finish when they are killed.
const READERS: [&str; 23] = [
    "checkpoint list",
    "checkpoint settings",
    "checkpoint simulate",
    "checkpoint verify",
    "config check",
    "config show",
    "disturb predict",
    "disturb report",
    "history",
    "memory cost",
    "memory doctor",
    "memory import",
    "memory simulate",
    "memory status",
    "nic campaign blocks",
    "nic campaign report",
    "remedy cases",
    "remedy show",
    "remedy simulate",
    "remedy trail",
    "stall audit",
    "stall replay",
    "status",
];

/// Those of them that also read without any named path: the run directory, the history, a store that is named by an address.
const READS_DEFAULTS: [&str; 8] = [
    "config check",
    "config show",
    "memory cost",
    "memory status",
    "remedy cases",
    "remedy show",
    "remedy trail",
    "status",
];

#[cfg(test)]
mod tests {
    use super::{READERS, READS_DEFAULTS, WRITERS};
    use crate::args::Arguments;
    use clap::CommandFactory;
    use std::any::TypeId;
    use std::collections::BTreeSet;
    use std::path::PathBuf;

    /// The other commands that are given files or directories: they measure, speak with a service, or run until they are ended.
    const OTHERS: &[&str] = &[
        "checkpoint plan",
        "disturb run",
        "ecc coverage",
        "fleet top",
        "memory cleared",
        "memory owner",
        "memory page-offline",
        "memory repaired",
        "memory replaced",
        "memory tune",
        "memory watch",
        "nic campaign",
        "nic health",
        "nic inject",
        "nic run",
        "remedy agent",
        "remedy approve",
        "remedy cancel",
        "remedy check run",
        "remedy pause",
        "remedy release",
        "remedy replaced",
        "remedy resume",
        "remedy serve",
        "remedy tested-good",
        "stall record",
        "stall report",
        "stall who",
        "watch",
        "why",
    ];

    fn add(command: &clap::Command, name: &str, found: &mut BTreeSet<String>) {
        let is_path = |argument: &clap::Arg| argument.get_value_parser().type_id() == TypeId::of::<PathBuf>();
        if command.get_arguments().any(is_path) {
            found.insert(name.to_owned());
        }
        for below in command.get_subcommands() {
            add(below, format!("{name} {}", below.get_name()).trim_start(), found);
        }
    }

    #[test]
    fn of_every_command_with_a_path_it_is_decided_whether_it_runs_in_a_child() {
        let mut found = BTreeSet::new();
        add(&Arguments::command(), "", &mut found);
        let listed: Vec<String> = READERS
            .iter()
            .chain(OTHERS)
            .chain(WRITERS.iter().map(|(name, _)| name))
            .map(|&name| name.to_owned())
            .collect();
        let decided: BTreeSet<String> = listed.iter().cloned().collect();
        assert_eq!(listed.len(), decided.len(), "one is in both lists");
        assert!(READS_DEFAULTS.iter().all(|name| READERS.contains(name)));
        assert_eq!(found.difference(&decided).collect::<Vec<_>>(), Vec::<&String>::new(), "not decided");
        assert_eq!(decided.difference(&found).collect::<Vec<_>>(), Vec::<&String>::new(), "no such command");
    }
}
