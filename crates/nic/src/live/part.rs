//! The parts of a run as processes: how one is told what it is, and what it does.
//!
//! A part is started with words: its kind, then `name=value`. The program that starts one is its own; it gives the words back
//! to [`run`].

use super::Error;
use super::application::{self, ApplicationConfig};
use super::directory::RunDirectory;
use super::host::{self, HostConfig};
use super::interface::{Interface, InterfaceConfig};
use super::ports::by_the_clock;
use super::process::Process;
use super::wire::Wire;
use crate::firmware::{Build, Firmware};
use crate::host::daemon::DaemonConfig;
use crate::host::port::PortConfig;
use crate::host::selftest::SelfTestConfig;
use crate::host::suspects::Allowance;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::BufWriter;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// The program that parts run in, and the words that come before theirs.
#[derive(Debug, Clone)]
pub struct Program {
    /// Which program.
    pub path: PathBuf,
    /// What it is told first.
    pub arguments: Vec<OsString>,
}

/// The words of a part.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Words {
    kind: String,
    values: BTreeMap<String, String>,
}

impl Words {
    /// The words of a part of this kind.
    pub fn new(kind: &str) -> Self {
        Words { kind: kind.to_owned(), values: BTreeMap::new() }
    }

    /// With one more.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl ToString) -> Self {
        self.values.insert(name.to_owned(), value.to_string());
        self
    }

    /// Reads them.
    ///
    /// # Errors
    /// Where one is no `name=value`.
    pub fn parse(words: &[String]) -> Result<Self, Error> {
        let (kind, rest) = words.split_first().ok_or_else(|| Error::Failed("a part needs a kind".to_owned()))?;
        let mut all = Words::new(kind);
        for word in rest {
            let Some((name, value)) = word.split_once('=') else {
                return Err(Error::Failed(format!("'{word}' is not name=value")));
            };
            all = all.with(name, value);
        }
        Ok(all)
    }

    fn text(&self, name: &str) -> Result<&str, Error> {
        let value = self.values.get(name).map(String::as_str);
        value.ok_or_else(|| Error::Failed(format!("a part of kind '{}' needs {name}=", self.kind)))
    }

    fn number<T: std::str::FromStr>(&self, name: &str) -> Result<T, Error> {
        let text = self.text(name)?;
        text.parse().map_err(|_| Error::Failed(format!("{name}={text}: that is not a number it can be")))
    }

    fn directory(&self) -> Result<RunDirectory, Error> {
        RunDirectory::inherited(self.number("run")?)
    }

    /// Starts the part in a process of its own.
    ///
    /// # Errors
    /// What the system says.
    pub fn start(&self, program: &Program, change: impl FnOnce(&mut Command)) -> Result<Child, Error> {
        let mut command = Command::new(&program.path);
        command.args(&program.arguments).arg(&self.kind);
        command.args(self.values.iter().map(|(name, value)| format!("{name}={value}")));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        change(&mut command);
        command.spawn().map_err(Error::system(format!("start the {} of node {}", self.kind, self.text("node")?)))
    }
}

/// Runs the part that these words describe, until its run ends.
///
/// # Errors
/// When the words are wrong, and what the part itself says.
pub fn run(words: &[String], program: &Program) -> Result<(), Error> {
    let words = Words::parse(words)?;
    match words.kind.as_str() {
        "interface" => interface(&words),
        "daemon" => daemon(&words, program),
        "application" => application(&words),
        other => Err(Error::Failed(format!("there is no part of kind '{other}'"))),
    }
}

/// The build of the control program with this name.
pub fn build(name: &str) -> Result<Build, Error> {
    let all = [Build::Plain, Build::Detecting, Build::Tolerant];
    let found = all.into_iter().find(|build| build.name() == name);
    found.ok_or_else(|| Error::Failed(format!("build={name}: there are plain, detecting and tolerant")))
}

/// How the daemon watches an interface beside a real clock, by its control program.
pub fn daemon_config(build: Build) -> DaemonConfig {
    let is_tolerant = build == Build::Tolerant;
    let detects = build != Build::Plain;
    DaemonConfig {
        // A test message may have to wait for a processor.
        self_test: detects.then(|| SelfTestConfig { limit_ns: 200_000_000, ..SelfTestConfig::default() }),
        hears_watchdog: detects,
        // L_timer answers every 100 us of the interface's clock, which the board counts.
        answer_ns: 100_000,
        ask_ns: if detects { 5_000_000 } else { u64::MAX },
        verifies: is_tolerant,
        numbers: is_tolerant,
        // A run asks for failures, as many as it likes.
        reloads_max: 10_000,
        // A failure that no self-test finds is rare; a program that writes over what it sends need not be.
        suspicion_reloads: Allowance { burst: 4, every_ns: 10_000_000_000 },
        ..DaemonConfig::default()
    }
}

/// How an application uses its port, by the interface's control program.
pub fn port_config(build: Build) -> PortConfig {
    by_the_clock(match build {
        Build::Plain => PortConfig::plain(0),
        Build::Detecting => PortConfig { waits_for_test: true, ..PortConfig::plain(0) },
        Build::Tolerant => PortConfig::tolerant(0),
    })
}

fn wire(text: &str) -> Result<Wire, Error> {
    let wrong = || Error::Failed(format!("link={text}: write udp:NUMBER or packet:DEVICE:ADDRESS"));
    let (kind, rest) = text.split_once(':').ok_or_else(wrong)?;
    match kind {
        "udp" => Wire::inherited_udp(rest.parse().map_err(|_| wrong())?),
        "packet" => {
            let (device, address) = rest.split_once(':').ok_or_else(wrong)?;
            let address = u64::from_str_radix(address, 16).map_err(|_| wrong())?.to_be_bytes();
            let mut to = [0; 6];
            to.copy_from_slice(&address[2..]);
            Wire::packets(device, to)
        }
        _ => Err(wrong()),
    }
}

/// A real interface has its processor to itself, and its driver the first word on another one. Where this process may, it
/// comes before others.
fn come_first() {
    // SAFETY: takes three numbers and concerns this process alone.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -10) };
}

fn interface(words: &Words) -> Result<(), Error> {
    come_first();
    surefoot_sys::thread::set_name(c"nic-interface");
    let (directory, node) = (words.directory()?, words.number("node")?);
    let until = Process::open(words.number("owner")?)?.into_descriptor();
    let config = InterfaceConfig {
        memory: directory.open_memory(node)?,
        firmware: Arc::new(Firmware::built(build(words.text("build")?)?)),
        wire: wire(words.text("link")?)?,
        doorbell: directory.doorbell(node)?,
        spin_ns: words.number("spin")?,
        until: Some(until),
    };
    Interface::new(config).run();
    Ok(())
}

fn daemon(words: &Words, program: &Program) -> Result<(), Error> {
    come_first();
    surefoot_sys::thread::set_name(c"nic-daemon");
    let (directory, node): (_, u32) = (words.directory()?, words.number("node")?);
    let mut of_interface = Words { kind: "interface".to_owned(), ..words.clone() };
    of_interface.values.remove("takes_over");
    let program = program.clone();
    let name = format!("steps.{node}");
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    let out = options.open(directory.file(&name));
    let mut out = out.map_err(Error::system(format!("write {}", directory.path().join(name).display())))?;
    let owner = Process::open(words.number("owner")?)?;
    let config = HostConfig {
        memory: directory.open_memory(node)?,
        daemon: daemon_config(build(words.text("build")?)?),
        start: Some(Box::new(move || of_interface.start(&program, |_| {}))),
        takes_over: words.values.contains_key("takes_over"),
        owner: Some(owner.id),
    };
    let ended = host::run(config, &mut out);
    if owner.wait(Duration::ZERO) {
        // Nobody else is left who would.
        directory.remove();
    }
    ended
}

fn application(words: &Words) -> Result<(), Error> {
    surefoot_sys::thread::set_name(c"nic-application");
    let (directory, node): (_, u32) = (words.directory()?, words.number("node")?);
    let mut hang_at = Vec::new();
    // COUNT:NODE, in rising order.
    for one in words.text("hang_at")?.split(',').filter(|one| !one.is_empty()) {
        let wrong = || Error::Failed(format!("hang_at={one}: write COUNT:NODE"));
        let (count, of) = one.split_once(':').ok_or_else(wrong)?;
        let of = of.parse().map_err(|_| wrong())?;
        hang_at.push((count.parse().map_err(|_| wrong())?, directory.open_memory(of)?));
    }
    let history = directory.create_file(&format!("history.{node}"))?;
    let config = ApplicationConfig {
        memory: directory.open_memory(node)?,
        port: port_config(build(words.text("build")?)?),
        peer: words.number("peer")?,
        to_send: words.number("to_send")?,
        message_bytes: words.number("bytes")?,
        window: words.number("window")?,
        seed: words.number("seed")?,
        hang_at,
        spin_ns: words.number("spin")?,
        owner: Some(Process::open(words.number("owner")?)?),
    };
    application::run(config, &mut BufWriter::new(history))
}
