//! The event log of a baseboard management controller, through `ipmitool`.
//!
//! Firmware writes an entry where a threshold is crossed or a limit is reached, not one for each error, and stops when the log is
//! full: what it holds is a lower bound.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use surefoot_hostfs::program;
use surefoot_model::{MemoryProblem, MemorySource};

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
    ask(&["-c", "sel", "elist"], patience)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use std::net::UdpSocket;
    use std::process::{Child, Stdio};
    use std::time::Instant;
    use surefoot_testkit::not_run::not_run;

    /// A management controller that is simulated; it ends with the test.
    struct Simulated {
        child: Child,
        folder: tempfile::TempDir,
        port: u16,
    }

    impl Drop for Simulated {
        fn drop(&mut self) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }

    impl Simulated {
        fn start() -> Option<Self> {
            let (simulator, _) = (program::find("ipmi_sim")?, program::find("ipmitool")?);
            let folder = tempfile::tempdir().unwrap();
            let file = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
            let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let allowed =
                ["callback", "user", "operator", "admin"].map(|who| format!("  allowed_auths_{who} none md5\n"));
            file(
                "lan.conf",
                &format!(
                    "name \"bmc\"\nset_working_mc 0x20\nstartlan 1\n  addr 127.0.0.1 {port}\n  priv_limit admin\n{}\
                     \n  guid a123456789abcdefa123456789abcdef\nendlan\nuser 1 true \"\" \"\" user 10 none md5\n\
                     user 2 true \"tester\" \"secret\" admin 10 none md5\n",
                    allowed.concat()
                ),
            );
            file(
                "bmc.emu",
                "mc_setbmc 0x20\nmc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 persist_sdr\n\
                 sel_enable 0x20 1000 0x0a\nsensor_add 0x20 0 1 12 111\nmc_enable 0x20\n",
            );
            file("password", "secret\n");
            std::fs::create_dir(folder.path().join("state")).unwrap();
            let mut command = Command::new(simulator);
            command.args(["-c", "lan.conf", "-f", "bmc.emu", "-s", "state", "-n"]).current_dir(folder.path());
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            Some(Simulated { child: command.spawn().unwrap(), folder, port })
        }

        fn controller(&self, password: &str) -> Controller {
            let password_file = self.folder.path().join(password);
            Controller::Remote { host: "127.0.0.1".into(), port: self.port, user: "tester".into(), password_file }
        }

        /// Has the controller write an entry: a memory sensor, the event's offset.
        fn log(&self, offset: u8) {
            let event =
                format!("raw 0x0a 0x44 0 0 0x02 0 0 0 0 0x20 0 0x04 0x0c 0x01 0x6f {:#x} 0xff 0x05", 0xa0 | offset);
            let mut command = Command::new(program::find("ipmitool").unwrap());
            command.args(["-I", "lanplus", "-C", "3", "-H", "127.0.0.1", "-p", &self.port.to_string(), "-U", "tester"]);
            command.arg("-f").arg(self.folder.path().join("password")).args(event.split(' '));
            command.stdout(Stdio::null()).stderr(Stdio::null());
            assert!(command.status().unwrap().success());
        }
    }

    #[test]
    fn the_log_of_a_management_controller_is_listed_and_one_that_refuses_is_a_problem() {
        const NAME: &str = "the_log_of_a_management_controller_is_listed_and_one_that_refuses_is_a_problem";
        let Some(simulated) = Simulated::start() else {
            return not_run(NAME, "ipmi_sim or ipmitool is not installed");
        };
        let patience = Duration::from_secs(60);
        let begun = Instant::now();
        let empty = loop {
            match list(&simulated.controller("password"), patience) {
                Ok(text) => break text,
                // It is starting.
                Err(problem) if begun.elapsed() > patience => panic!("{problem:?}"),
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        };
        assert_eq!(empty, "", "an empty log");
        for offset in [0, 0, 1] {
            simulated.log(offset);
        }
        let text = list(&simulated.controller("password"), patience).unwrap();
        let events: Vec<&str> = text.lines().filter_map(|line| line.split(',').nth(4)).collect();
        assert_eq!(events, ["Correctable ECC", "Correctable ECC", "Uncorrectable ECC"], "{text}");
        std::fs::write(simulated.folder.path().join("wrong"), "guess\n").unwrap();
        let refused = list(&simulated.controller("wrong"), patience).unwrap_err();
        assert!(refused.why.contains("got no answer") && refused.path.contains("127.0.0.1"), "{refused:?}");
        // Nobody answers at this port.
        let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
        let Controller::Remote { host, user, password_file, .. } = simulated.controller("password") else { return };
        let port = silent.local_addr().unwrap().port();
        let nobody = Controller::Remote { host, port, user, password_file };
        let begun = Instant::now();
        let problem = list(&nobody, Duration::from_secs(2)).unwrap_err();
        assert!(problem.why.contains("no answer") && begun.elapsed() < Duration::from_secs(20), "{problem:?}");
    }
}
