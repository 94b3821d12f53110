//! The event log of a baseboard management controller, through `ipmitool`.
//!
//! Firmware writes an entry where a threshold is crossed or a limit is reached, not one for each error, and stops when the log is
//! full: what it holds is a lower bound.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use surefoot_model::{Digits, MemoryProblem, MemorySource};
use surefoot_sys::program;

/// Which management controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Controller {
    /// This machine's own, by the kernel's IPMI driver.
    Own,
    /// Another's, over the network (RMCP+).
    Remote {
        /// Name or address.
        host: String,
        /// UDP port, commonly 623.
        port: u16,
        /// The user's name.
        user: String,
        /// A file that holds the password, so that it stands in no list of processes.
        password_file: PathBuf,
    },
}

impl Controller {
    /// What to call its log.
    pub fn name(&self) -> String {
        match self {
            Controller::Own => "event log of this machine".to_owned(),
            Controller::Remote { host, port, .. } => format!("event log of {host}:{port}"),
        }
    }
}

/// The lines of the log, as `ipmitool -c sel elist` prints them: number, date, time, sensor, event, direction. An empty log has none.
///
/// # Errors
/// Why there is no answer, as a problem of this source.
pub fn list(controller: &Controller, patience: Duration) -> Result<String, MemoryProblem> {
    let name = controller.name();
    let problem = |why: String| MemoryProblem { source: MemorySource::EventLog, path: name.clone(), why };
    let path = program::find("ipmitool")
        .ok_or_else(|| problem("it is asked through ipmitool, which is not installed: install ipmitool".into()))?;
    let ask = |words: &[&str], limit: Duration| {
        let mut command = Command::new(&path);
        command.env_clear().env("LC_ALL", "C").env("TZ", "UTC").current_dir("/");
        match controller {
            Controller::Own => _ = command.args(["-I", "open"]),
            Controller::Remote { host, port, user, password_file } => {
                command.args(["-I", "lanplus", "-C", "3", "-R", "1", "-H", host, "-p", &port.to_string(), "-U", user]);
                command.arg("-f").arg(password_file);
            }
        }
        command.args(words);
        let text = program::answer(command, b"", limit).map_err(&problem)?;
        Ok::<_, MemoryProblem>(String::from_utf8_lossy(&text).into_owned())
    };
    // An empty list and no answer look the same; what describes the log tells them apart.
    let about = ask(&["sel", "info"], patience)?;
    if !about.contains("Entries") {
        return Err(problem(format!(
            "ipmitool got no answer; try: ipmitool{} sel info",
            if *controller == Controller::Own { "" } else { " -I lanplus -H HOST -U USER -f FILE" }
        )));
    }
    let told =
        entry_count(&about).ok_or_else(|| problem("ipmitool does not say how many entries the log has".into()))?;
    let text = ask(&["-c", "sel", "elist"], patience)?;
    // Entries may come while it is listed; none goes but by somebody who clears the log.
    let listed = text.lines().filter(|line| !line.trim().is_empty()).count() as u64;
    match listed < told {
        true => {
            Err(problem(format!("it has {told} entries, of which ipmitool listed {listed}: the others are unknown")))
        }
        false => Ok(text),
    }
}

/// How many entries `ipmitool sel info` tells.
fn entry_count(about: &str) -> Option<u64> {
    let count =
        about.lines().find_map(|line| line.trim().strip_prefix("Entries")?.trim_start().strip_prefix(':'))?.trim();
    count.digits()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use std::net::UdpSocket;
    use std::time::Instant;
    use surefoot_testkit::ipmi;
    use surefoot_testkit::not_run::not_run;

    fn remote(simulated: &ipmi::Controller, password: &str) -> Controller {
        let password_file = simulated.path(password);
        Controller::Remote { host: "127.0.0.1".into(), port: simulated.port(), user: ipmi::USER.into(), password_file }
    }

    #[test]
    fn the_count_of_entries_is_a_number_or_unknown() {
        assert_eq!(entry_count("SEL Information\nVersion          : 1.5\nEntries          : 17\n"), Some(17));
        for text in ["", "Entries          : ", "Entries          : +1", "Entries : many", "No Entries : 3"] {
            assert_eq!(entry_count(text), None, "{text}");
        }
    }

    #[test]
    fn the_log_of_a_management_controller_is_listed_and_one_that_refuses_is_a_problem() {
        const NAME: &str = "the_log_of_a_management_controller_is_listed_and_one_that_refuses_is_a_problem";
        if let Some(why) = ipmi::Controller::unsupported() {
            return not_run(NAME, &why);
        }
        let simulated = ipmi::Controller::start().unwrap();
        let patience = Duration::from_secs(60);
        assert_eq!(list(&remote(&simulated, "password"), patience).unwrap(), "", "an empty log");
        for offset in [0, 0, 1] {
            simulated.log(offset).unwrap();
        }
        let text = list(&remote(&simulated, "password"), patience).unwrap();
        let events: Vec<&str> = text.lines().filter_map(|line| line.split(',').nth(4)).collect();
        assert_eq!(events, ["Correctable ECC", "Correctable ECC", "Uncorrectable ECC"], "{text}");
        std::fs::write(simulated.path("wrong"), "guess\n").unwrap();
        let refused = list(&remote(&simulated, "wrong"), patience).unwrap_err();
        assert!(refused.why.contains("got no answer") && refused.path.contains("127.0.0.1"), "{refused:?}");
        // Nobody answers at this port.
        let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
        let Controller::Remote { host, user, password_file, .. } = remote(&simulated, "password") else { return };
        let port = silent.local_addr().unwrap().port();
        let nobody = Controller::Remote { host, port, user, password_file };
        let begun = Instant::now();
        let problem = list(&nobody, Duration::from_secs(2)).unwrap_err();
        assert!(problem.why.contains("no answer") && begun.elapsed() < Duration::from_secs(20), "{problem:?}");
    }
}
