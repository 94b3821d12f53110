//! systemd's protocol of notifications: datagrams to the socket that `NOTIFY_SOCKET` names, see sd_notify(3).

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};
use surefoot_model::one_line;

/// The status is the headline, whose numbers change every second, and each new one wakes up whoever follows the unit.
const STATUS_PERIOD: Duration = Duration::from_secs(10);

/// How long a datagram may wait for room in systemd's socket.
const PATIENCE: Duration = Duration::from_secs(1);

/// What systemd is told of this process; nothing where systemd did not ask.
#[derive(Debug, Default)]
pub struct Notify {
    socket: Option<Socket>,
    /// The longest time between two signs of life before systemd ends this process.
    watchdog: Option<Duration>,
    pinged: Option<Instant>,
    status: Option<(Instant, String)>,
}

impl Notify {
    /// As systemd asks for it in the environment.
    ///
    /// # Errors
    /// A socket that cannot be reached, or a time that is no number: systemd would end this process for its silence.
    pub fn of_environment() -> anyhow::Result<Self> {
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        Self::of(&variable, std::process::id())
    }

    fn of(variable: &dyn Fn(&str) -> Option<OsString>, process: u32) -> anyhow::Result<Self> {
        let Some(address) = variable("NOTIFY_SOCKET") else { return Ok(Notify::default()) };
        let socket = reached(&address).map_err(|error| {
            anyhow::anyhow!("NOTIFY_SOCKET: {} cannot be reached: {error}", one_line(&address.to_string_lossy()))
        })?;
        let number = |name: &str| {
            let Some(value) = variable(name) else { return Ok(None) };
            let number = value.to_str().and_then(|text| text.parse::<u64>().ok());
            let shown = one_line(&value.to_string_lossy());
            number.map(Some).ok_or_else(|| anyhow::anyhow!("{name}: '{shown}' is not a whole number"))
        };
        let is_asked = number("WATCHDOG_PID")?.is_none_or(|asked| asked == u64::from(process));
        let watchdog = number("WATCHDOG_USEC")?.filter(|_| is_asked).map(Duration::from_micros);
        Ok(Notify { socket: Some(socket), watchdog: watchdog.filter(|time| !time.is_zero()), ..Notify::default() })
    }

    /// The service does its work from now on.
    pub fn ready(&self) {
        self.send("READY=1");
    }

    /// A way to say from another thread that settings are read again; nothing where nobody asked for it.
    pub fn reloading(&self) -> Reloading {
        Reloading(self.socket.as_ref().and_then(Socket::another))
    }

    /// It ends, as it was asked to.
    pub fn stopping(&self) {
        self.send("STOPPING=1");
    }

    /// A sign of life, where one is due. To be called by the thread that does the work, between two pieces of it.
    pub fn alive(&mut self, now: Instant) {
        let Some(watchdog) = self.watchdog else { return };
        // systemd advises half of the time; a third leaves room for a turn that takes long.
        if self.pinged.is_none_or(|pinged| now.duration_since(pinged) >= watchdog / 3) && self.send("WATCHDOG=1") {
            self.pinged = Some(now);
        }
    }

    /// What `systemctl status` shows, where another is due.
    pub fn status(&mut self, now: Instant, text: impl FnOnce() -> String) {
        let is_recent = |(then, _): &(Instant, String)| now.duration_since(*then) < STATUS_PERIOD;
        if self.socket.is_none() || self.status.as_ref().is_some_and(is_recent) {
            return;
        }
        let text = one_line(&text());
        if self.status.as_ref().is_none_or(|(_, before)| *before != text) && self.send(&format!("STATUS={text}")) {
            self.status = Some((now, text));
        }
    }

    /// Whether it was sent. What is not sent is sent again when it is due again; systemd ends a process whose silence lasts.
    fn send(&self, text: &str) -> bool {
        self.socket.as_ref().is_some_and(|socket| socket.send(text))
    }
}

/// systemd's socket. Not connected: one that systemd made anew has the same address.
#[derive(Debug)]
struct Socket(UnixDatagram, SocketAddr);

impl Socket {
    fn send(&self, text: &str) -> bool {
        self.0.send_to_addr(text.as_bytes(), &self.1).is_ok()
    }

    fn another(&self) -> Option<Socket> {
        Some(Socket(self.0.try_clone().ok()?, self.1.clone()))
    }
}

/// Says that settings are read again, and that this is done.
pub struct Reloading(Option<Socket>);

impl Reloading {
    /// Does it, between both.
    pub fn around(&self, reload: impl FnOnce()) {
        let send = |text: &str| self.0.as_ref().is_some_and(|socket| socket.send(text));
        // systemd tells an answer to this wish from one to a wish before it by the time.
        let began_us = surefoot_hostfs::clock::monotonic_ns() / 1_000;
        send(&format!("RELOADING=1\nMONOTONIC_USEC={began_us}"));
        reload();
        send("READY=1");
    }
}

/// A socket by its path, or by its abstract name after an `@`; one to which nobody listens now is an error.
fn reached(address: &OsStr) -> io::Result<Socket> {
    let address = match address.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        [b'/', ..] => SocketAddr::from_pathname(address)?,
        _ => return Err(io::Error::other("neither a path nor an abstract name")),
    };
    UnixDatagram::unbound()?.connect_addr(&address)?;
    let socket = UnixDatagram::unbound()?;
    socket.set_write_timeout(Some(PATIENCE))?;
    Ok(Socket(socket, address))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn of(variables: &[(&str, &str)]) -> anyhow::Result<Notify> {
        let of_name = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into());
        Notify::of(&of_name, 7)
    }

    fn received(socket: &UnixDatagram) -> Vec<String> {
        socket.set_nonblocking(true).unwrap();
        let mut all = Vec::new();
        let mut bytes = [0; 4096];
        while let Ok(length) = socket.recv(&mut bytes) {
            all.push(String::from_utf8(bytes[..length].to_vec()).unwrap());
        }
        all
    }

    #[test]
    fn signs_of_life_come_three_times_in_the_time_that_systemd_gives() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let systemd = UnixDatagram::bind(&path).unwrap();
        let socket = ("NOTIFY_SOCKET", path.to_str().unwrap());
        let mut notify = of(&[socket, ("WATCHDOG_USEC", "30000000"), ("WATCHDOG_PID", "7")]).unwrap();
        let start = Instant::now();
        notify.ready();
        for second in 0..=30 {
            let now = start + Duration::from_secs(second);
            notify.alive(now);
            notify.status(now, || format!("core {} is\nbusy", second / 15));
        }
        notify.stopping();
        let expected = [
            "READY=1",
            "WATCHDOG=1",
            "STATUS=core 0 is?busy",
            "WATCHDOG=1",
            "STATUS=core 1 is?busy",
            "WATCHDOG=1",
            "WATCHDOG=1",
            "STATUS=core 2 is?busy",
            "STOPPING=1",
        ];
        assert_eq!(received(&systemd), expected);
    }

    #[test]
    fn a_socket_that_systemd_made_anew_gets_the_signs_of_life() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let before = UnixDatagram::bind(&path).unwrap();
        let mut notify = of(&[("NOTIFY_SOCKET", path.to_str().unwrap()), ("WATCHDOG_USEC", "30000000")]).unwrap();
        let (start, reloading) = (Instant::now(), notify.reloading());
        drop(before);
        std::fs::remove_file(&path).unwrap();
        notify.alive(start);
        let systemd = UnixDatagram::bind(&path).unwrap();
        // What was not sent is due at once.
        notify.alive(start);
        reloading.around(|| ());
        let told = received(&systemd);
        assert!(told.len() == 3 && told[0] == "WATCHDOG=1" && told[2] == "READY=1", "{told:?}");
    }

    #[test]
    fn a_watchdog_of_another_process_is_not_ours_and_an_abstract_name_is_found() {
        let name = format!("surefoot-test-{}", std::process::id());
        let systemd = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        let socket = ("NOTIFY_SOCKET", &*format!("@{name}"));
        let mut notify = of(&[socket, ("WATCHDOG_USEC", "30000000"), ("WATCHDOG_PID", "8")]).unwrap();
        notify.alive(Instant::now());
        assert_eq!(received(&systemd), Vec::<String>::new());
        let mut notify = of(&[socket, ("WATCHDOG_USEC", "30000000")]).unwrap();
        notify.alive(Instant::now());
        assert_eq!(received(&systemd), ["WATCHDOG=1"]);
        let mut nobody = of(&[("WATCHDOG_USEC", "30000000")]).unwrap();
        nobody.alive(Instant::now());
        nobody.status(Instant::now(), || panic!("nobody asked for it"));
    }

    #[test]
    fn what_systemd_says_wrongly_is_refused() {
        for (variables, why) in [
            (&[("NOTIFY_SOCKET", "/no/such/socket")][..], "NOTIFY_SOCKET: /no/such/socket cannot be reached"),
            (&[("NOTIFY_SOCKET", "vsock:2:1")], "neither a path nor an abstract name"),
        ] {
            let error = of(variables).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let _systemd = UnixDatagram::bind(&path).unwrap();
        let error = of(&[("NOTIFY_SOCKET", path.to_str().unwrap()), ("WATCHDOG_USEC", "1 min")]).unwrap_err();
        assert_eq!(error.to_string(), "WATCHDOG_USEC: '1 min' is not a whole number");
    }
}
