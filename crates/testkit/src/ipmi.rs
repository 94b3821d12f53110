//! A baseboard controller that speaks IPMI over a network: `ipmi_sim` of OpenIPMI, with a machine whose power stands in a file, and an
//! event log.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use surefoot_sys::{children, program};

/// The user that it knows.
pub const USER: &str = "tester";
/// The GUID of its machine.
pub const GUID: &str = "a123456789abcdefa123456789abcdef";
/// How long it may take to answer.
const START_TIME: Duration = Duration::from_secs(60);

/// A running controller with one machine, which is on; dropping it ends it.
pub struct Controller {
    folder: tempfile::TempDir,
    port: u16,
    program: Child,
}

impl Controller {
    /// Why none can be started here; `None` where one can.
    pub fn unsupported() -> Option<String> {
        let missing = ["ipmi_sim", "ipmitool"].into_iter().find(|name| program::find(name).is_none())?;
        Some(format!("{missing} is not installed"))
    }

    /// Starts it, and waits until it answers.
    ///
    /// # Errors
    /// What went wrong.
    pub fn start() -> io::Result<Controller> {
        let folder = tempfile::tempdir()?;
        let port = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        lay_out(folder.path(), port)?;
        let mut command = Command::new(found("ipmi_sim"));
        command.args(["-c", "lan.conf", "-f", "bmc.emu", "-s", "state", "-n"]).current_dir(folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        children::kill_with_starter(&mut command);
        let controller = Controller { folder, port, program: command.spawn()? };
        let begun = Instant::now();
        loop {
            let answer = controller.ask("chassis power status")?;
            if answer.status.success() {
                return Ok(controller);
            }
            if begun.elapsed() > START_TIME {
                return Err(io::Error::other(format!("ipmi_sim does not answer: {answer:?}")));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Its UDP port at 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// A file of its directory: `power` has 1 or 0; where there is one named `deaf`, the machine does
    /// not shut down when it is asked to, and where there is `refuses`, its controller says so.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The file with the password of [`USER`].
    pub fn password_file(&self) -> PathBuf {
        self.path("password")
    }

    /// What the machine was told to do, such as `set power 1`; looking at it left out.
    pub fn told(&self) -> Vec<String> {
        let asked = fs::read_to_string(self.path("asked")).unwrap_or_default();
        asked.lines().filter(|line| line.starts_with("set")).map(str::to_owned).collect()
    }

    /// Has it write an entry into its event log: a memory sensor, and the event's offset (0 for a corrected error, 1 for an uncorrected one).
    ///
    /// # Errors
    /// It does not.
    pub fn log(&self, offset: u8) -> io::Result<()> {
        let event = 0xa0 | offset;
        let answer =
            self.ask(&format!("raw 0x0a 0x44 0 0 0x02 0 0 0 0 0x20 0 0x04 0x0c 0x01 0x6f {event:#x} 0xff 0x05"))?;
        if answer.status.success() { Ok(()) } else { Err(io::Error::other(format!("{answer:?}"))) }
    }

    fn ask(&self, words: &str) -> io::Result<Output> {
        let mut command = Command::new(found("ipmitool"));
        command.args(["-I", "lanplus", "-C", "3", "-H", "127.0.0.1", "-p", &self.port.to_string(), "-U", USER]);
        command.arg("-f").arg(self.password_file()).args(words.split(' ')).stdin(Stdio::null()).output()
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

fn found(name: &str) -> PathBuf {
    program::find(name).unwrap_or_else(|| PathBuf::from(name))
}

fn lay_out(folder: &Path, port: u16) -> io::Result<()> {
    let at = |name: &str| folder.join(name);
    let allowed = ["callback", "user", "operator", "admin"].map(|who| format!("  allowed_auths_{who} none md5\n"));
    let lan = format!(
        "name \"bmc\"\nset_working_mc 0x20\nstartlan 1\n  addr 127.0.0.1 {port}\n  priv_limit admin\n{}\
         \n  guid {GUID}\nendlan\nchassis_control \"{}\"\n\
         user 1 true \"\" \"\" user 10 none md5\nuser 2 true \"{USER}\" \"secret\" admin 10 none md5\n",
        allowed.concat(),
        at("control").display()
    );
    let control = format!(
        "#!/bin/sh\ncd '{}'\necho \"$*\" >> asked\ncase \"$1 $2\" in\n\
         'get power') echo \"power:$(cat power)\";;\n'set power') echo \"$3\" > power;;\n\
         'set shutdown') test -e refuses && exit 1; if test -e deaf; then :; else echo 0 > power; fi;;\nesac\n",
        folder.display()
    );
    fs::write(at("lan.conf"), lan)?;
    fs::write(at("power"), "1\n")?;
    fs::write(at("control"), control)?;
    fs::set_permissions(at("control"), fs::Permissions::from_mode(0o755))?;
    fs::write(
        at("bmc.emu"),
        "mc_setbmc 0x20\nmc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 persist_sdr\n\
         sel_enable 0x20 1000 0x0a\nsensor_add 0x20 0 1 12 111\nmc_enable 0x20\n",
    )?;
    fs::create_dir(at("state"))?;
    fs::write(at("password"), "secret\n")?;
    fs::set_permissions(at("password"), fs::Permissions::from_mode(0o600))
}
