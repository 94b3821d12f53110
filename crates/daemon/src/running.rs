//! A running watch: where its page is, and what it knows about raisers and memory errors.
//!
//! While such a watch follows the raisers, no other program needs to attach its own: it asks for the watch's report. The
//! watch announces its address in a file in its run directory. The file is trusted only if this user or root wrote it, and
//! the address only if a process of that user listens there. The socket beside the file is asked first, because the kernel
//! tells each end of a socket who the other one is.

use crate::SOCKET_NAME;
use crate::why::Unwatched;
use serde::Deserialize;
use serde_json::Value;
use std::io::ErrorKind;
use std::net::{SocketAddr, SocketAddrV4};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc;
use std::time::Duration;
use surefoot_foreign::said;
use surefoot_hostfs::privilege::{Privilege, Standing};
use surefoot_hostfs::{Root, clock, cpus as lists, listening};
use surefoot_model::{CpuId, Finding, Health, HostDescription, Room, WhoReport};
use surefoot_outside::http::{self, Answer, NoAnswer, Request};
use surefoot_sys::peer;

/// The file's name in the run directory.
pub const FILE_NAME: &str = "address";

/// Bytes of the file, and of an answer, that are read.
const FILE_BYTES_MAX: u64 = 4096;
const ANSWER_BYTES_MAX: u64 = 16 << 20;

/// How long the watch may take to answer, from the first to the last byte.
const PATIENCE: Duration = Duration::from_secs(5);

/// The content of the file: the address of the page, and the cores whose raisers are followed.
pub fn announcement(address: SocketAddr, who: &[CpuId]) -> String {
    format!("{address} {}\n", lists::format_list(who))
}

/// The answer of a running watch about raisers.
pub struct WatchAnswer {
    /// The address of its page.
    pub address: SocketAddrV4,
    /// Its newest report, limited to the cores that were asked for.
    pub report: WhoReport,
}

/// Why a running watch gave no answer.
#[derive(Debug, thiserror::Error)]
#[error("the watch {at}: {why}")]
pub struct Unanswered {
    /// Where it runs: `at ADDRESS` or `of DIRECTORY`.
    pub at: String,
    /// Why.
    pub why: String,
}

/// A watch that runs from a directory.
#[derive(Debug)]
pub enum Runs {
    /// In a PID namespace that this process does not see, so its privileges are unknown.
    Elsewhere,
    /// This process, with these privileges.
    Here {
        /// The process.
        pid: u32,
        /// Its privileges.
        standing: Standing,
        /// Why it gave no answer that is a watch's; `None` where it answered.
        unanswered: Option<String>,
    },
    /// Something is there, and whether a watch runs is not known: why.
    Unknown(String),
}

/// What is found at the name of the socket in a run directory.
enum Socket {
    /// Nothing, or nobody listens there any more.
    None,
    /// A user who is neither this one nor root.
    Untrusted(u32),
    /// Something that cannot be asked: why.
    Unknown(String),
    /// A listener of this user or root, and its process.
    Here(UnixStream, u32),
}

impl Socket {
    fn stream(self) -> Option<UnixStream> {
        match self {
            Socket::Here(stream, _) => Some(stream),
            _ => None,
        }
    }
}

/// The report of the watch that runs from this directory, provided that it follows the raisers of all these cores. `None` if no
/// watch runs from it. With a range it covers the newest of the time, as far back as the watch goes.
pub fn raisers(
    directory: &Path,
    cpus: &[CpuId],
    last: Option<Duration>,
    root: &Root,
) -> Option<Result<WatchAnswer, Unanswered>> {
    let own = Privilege::read(root).effective_uid;
    let (address, followed) = address(directory, own)?;
    let asked = ask(directory, address, (cpus, last), &followed, own, root);
    Some(asked.map_err(|why| Unanswered { at: format!("at {address}"), why }))
}

/// The memory errors that the watch of this directory knows of: its answer to `/api/v1/memory`. `None` if neither root nor this
/// user runs a watch from it.
pub fn memory(directory: &Path, root: &Root) -> Option<Result<Value, Unanswered>> {
    answer(directory, root, "/api/v1/memory")
}

/// What all rooms of the watch of this directory find, with its address; `None` if neither root nor this user runs a watch
/// from it.
pub fn overview(directory: &Path, root: &Root) -> Option<Result<Seen, Unanswered>> {
    let found = answer(directory, root, "/api/v1/overview")?;
    Some(found.and_then(|value| {
        let of_another = |error| Unanswered { at: at(directory), why: format!("it is of another version: {error}") };
        let seen: Seen = serde_json::from_value(value).map_err(of_another)?;
        match seen.rooms.is_empty() {
            false => Ok(seen),
            true => {
                Err(Unanswered { at: at(directory), why: "its answer has no rooms, and so tells nothing".to_owned() })
            }
        }
    }))
}

/// What the rooms of a running watch find.
#[derive(Debug, Deserialize)]
pub struct Seen {
    /// The age of its newest data, nanoseconds; `None` before the first.
    pub age_ns: Option<u64>,
    /// `None` until it is known.
    pub host: Option<HostDescription>,
    rooms: Vec<SeenRoom>,
}

#[derive(Debug, Deserialize)]
struct SeenRoom {
    room: Room,
    is_watched: bool,
    why: String,
    findings: Vec<Finding>,
    findings_left_out: u64,
}

impl Seen {
    /// Every finding that it listed, those that it did not list, and the rooms that look at nothing.
    pub fn into_parts(self) -> (Vec<Finding>, u64, Vec<Unwatched>) {
        let left_out = self.rooms.iter().map(|room| room.findings_left_out).sum();
        let unwatched = self.rooms.iter().filter(|room| !room.is_watched);
        let unwatched = unwatched.map(|room| Unwatched { room: room.room, why: room.why.clone() }).collect();
        (self.rooms.into_iter().flat_map(|room| room.findings).collect(), left_out, unwatched)
    }
}

/// Its answer to this path. `None` if neither root nor this user runs a watch from the directory.
fn answer(directory: &Path, root: &Root, path: &str) -> Option<Result<Value, Unanswered>> {
    let own = Privilege::read(root).effective_uid;
    let listens = || {
        let (address, _) = address(directory, own)?;
        let owner = listening::owner(root, address).ok()??;
        is_trusted(owner, own).then_some(address)
    };
    let answer = match socket(directory, own) {
        Socket::Here(stream, _) => get_over(stream, path),
        other => match (listens(), other) {
            (Some(address), _) => get_at(address, path),
            (None, Socket::Unknown(why)) => Err(why),
            (None, _) => return None,
        },
    };
    let value = answer.and_then(|answer| json(&answer));
    Some(value.map_err(|why| Unanswered { at: at(directory), why }))
}

fn at(directory: &Path) -> String {
    format!("of {}", directory.display())
}

/// The address of the watch that runs from this directory.
pub fn of(directory: &Path, root: &Root) -> Option<SocketAddrV4> {
    let own = Privilege::read(root).effective_uid;
    let (address, _) = address(directory, own)?;
    let listens = || listening::owner(root, address).ok()?;
    (socket(directory, own).stream().is_some() || listens().is_some()).then_some(address)
}

/// The address that this user or root announced, and the cores whose raisers are followed.
fn address(directory: &Path, own: Option<u32>) -> Option<(SocketAddrV4, Vec<CpuId>)> {
    let file = surefoot_foreign::hold_name(&directory.join(FILE_NAME)).ok()?.regular().ok()?;
    if !is_trusted(file.about().owner, own) || file.about().mode & surefoot_foreign::way::OTHERS_WRITE != 0 {
        return None;
    }
    let text = String::from_utf8(file.read(FILE_BYTES_MAX).ok()?).ok()?;
    let (address, followed) = text.trim_end().split_once(' ').unwrap_or((text.trim_end(), ""));
    let address: SocketAddrV4 = address.parse().ok()?;
    address.ip().is_loopback().then(|| (address, lists::parse_list(followed).unwrap_or_default()))
}

fn is_trusted(uid: u32, own: Option<u32>) -> bool {
    uid == 0 || Some(uid) == own
}

fn ask(
    directory: &Path,
    address: SocketAddrV4,
    (cpus, last): (&[CpuId], Option<Duration>),
    followed: &[CpuId],
    own: Option<u32>,
    root: &Root,
) -> Result<WatchAnswer, String> {
    let missing: Vec<String> = cpus.iter().filter(|cpu| !followed.contains(cpu)).map(CpuId::to_string).collect();
    // First whether there is a watch at all: the file may be left over from one that ended.
    let connected = socket(directory, own).stream();
    if connected.is_none() {
        let owner = listening::owner(root, address).map_err(|error| error.to_string())?;
        let owner = owner.ok_or("nothing listens there any more")?;
        if !is_trusted(owner, own) {
            return Err(format!("user {owner} listens there, who is neither you nor root"));
        }
    }
    if !missing.is_empty() {
        return Err(format!("it does not follow the raisers of core {}", missing.join(", ")));
    }
    // Whole seconds, and none that was asked for is left out.
    let path = last.map_or_else(
        || "/api/v1/who".to_owned(),
        |last| format!("/api/v1/who?range_s={}", last.as_secs() + u64::from(last.subsec_nanos() > 0)),
    );
    let answer = match connected {
        Some(stream) => get_over(stream, &path)?,
        None => get_at(address, &path)?,
    };
    let mut answer = json(&answer)?;
    let who = answer.get_mut("who").map(Value::take).filter(|who| !who.is_null());
    let who = who.ok_or("it has no report of raisers yet")?;
    let mut report: WhoReport =
        serde_json::from_value(who).map_err(|error| format!("it is of another version: {error}"))?;
    report.interrupts.retain(|interrupt| cpus.contains(&interrupt.cpu));
    report.loop_gaps.retain(|gap| gap.cpu.is_none_or(|cpu| cpus.contains(&cpu)));
    Ok(WatchAnswer { address, report })
}

/// What is at the name of the socket in this directory.
fn socket(directory: &Path, own: Option<u32>) -> Socket {
    let path = directory.join(SOCKET_NAME);
    let shown = path.display().to_string();
    match path.symlink_metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => return Socket::None,
        Err(error) => return Socket::Unknown(format!("{shown} cannot be looked at: {}", said(&error))),
        Ok(found) if !found.file_type().is_socket() => return Socket::Unknown(format!("{shown} is not a socket")),
        Ok(_) => {}
    }
    let (sender, connected) = mpsc::sync_channel(1);
    // A stopped watch accepts no connection, and connecting to it never ends.
    std::thread::spawn(move || sender.send(UnixStream::connect(path)));
    let stream = match connected.recv_timeout(PATIENCE) {
        Ok(Ok(stream)) => stream,
        // Its watch has ended.
        Ok(Err(error)) if [ErrorKind::ConnectionRefused, ErrorKind::NotFound].contains(&error.kind()) => {
            return Socket::None;
        }
        Ok(Err(error)) => return Socket::Unknown(format!("{shown} cannot be connected to: {}", said(&error))),
        Err(_) => {
            let s = PATIENCE.as_secs();
            return Socket::Unknown(format!(
                "a watch is there but does not answer: {shown} took no connection in {s} s"
            ));
        }
    };
    match peer::credentials(stream.as_fd()) {
        Some(listener) if is_trusted(listener.uid, own) => Socket::Here(stream, listener.pid),
        Some(listener) => Socket::Untrusted(listener.uid),
        None => Socket::Unknown(format!("the kernel does not tell who listens at {shown}")),
    }
}

/// The watch that root or this user runs from this directory, its privileges, and whether it answers; `None` if there is none.
pub fn runs(directory: &Path, root: &Root) -> Option<Runs> {
    let (stream, pid) = match socket(directory, Privilege::read(root).effective_uid) {
        Socket::Here(stream, pid) => (stream, pid),
        Socket::Unknown(why) => return Some(Runs::Unknown(why)),
        Socket::Untrusted(uid) => {
            let path = directory.join(SOCKET_NAME);
            return Some(Runs::Unknown(format!(
                "user {uid} listens at {}, who is neither you nor root",
                path.display()
            )));
        }
        Socket::None => return written(directory).map(Runs::Unknown),
    };
    if pid == 0 {
        // The kernel has no number for it here.
        return Some(Runs::Elsewhere);
    }
    Some(match Standing::of_process(root, pid) {
        Ok(standing) => Runs::Here { pid, standing, unanswered: unanswered(stream) },
        Err(error) => Runs::Unknown(format!("process {pid} listens, and cannot be looked at: {error}")),
    })
}

/// Why what listens there gave no answer of a watch; one that refuses this user has answered.
fn unanswered(stream: UnixStream) -> Option<String> {
    let answer = http::ask_over(stream, ANSWER_BYTES_MAX, &request("localhost", "/api/v1/overview"), PATIENCE);
    match answer {
        Err(why) => Some(why.to_string()),
        Ok(answer) if answer.status != 200 => None,
        Ok(answer) => serde_json::from_str::<Seen>(&answer.body)
            .err()
            .map(|error| format!("its answer is not a watch's: {error}")),
    }
}

/// What the health file in a directory without a listener says of a watch; `None` without such a file, which a watch removes at its end.
fn written(directory: &Path) -> Option<String> {
    let path = directory.join(Health::FILE_NAME);
    let held = match surefoot_foreign::hold(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return None,
        held => held,
    };
    let shown = path.display();
    let bytes = match held.and_then(|held| held.regular()?.read(Health::FILE_BYTES_MAX)) {
        Err(error) => return Some(format!("{shown} cannot be read: {}", said(&error))),
        Ok(bytes) => bytes,
    };
    let now_ns = clock::realtime_ns();
    Some(match serde_json::from_slice::<Health>(&bytes) {
        Err(error) => format!("{shown} is not what a watch writes: {error}"),
        Ok(health) if health.is_current(now_ns) => {
            format!("nothing listens in {}, but a watch wrote {shown} less than a minute ago", directory.display())
        }
        Ok(_) => format!(
            "nothing listens in {}, and {shown}, which a watch removes when it ends, is old: that watch was killed, or it hangs",
            directory.display()
        ),
    })
}

fn json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("its answer is not JSON: {error}"))
}

/// The answer of the watch at this socket.
fn get_over(stream: UnixStream, path: &str) -> Result<String, String> {
    body(http::ask_over(stream, ANSWER_BYTES_MAX, &request("localhost", path), PATIENCE))
}

/// The answer of the watch at this address.
fn get_at(address: SocketAddrV4, path: &str) -> Result<String, String> {
    let request = request(&address.to_string(), path);
    body(http::ask_up_to(ANSWER_BYTES_MAX, &request, PATIENCE, &AtomicBool::new(false)))
}

fn request(host: &str, path: &str) -> Request {
    Request { method: "GET", url: format!("http://{host}{path}"), ..Request::default() }
}

fn body(answer: Result<Answer, NoAnswer>) -> Result<String, String> {
    let answer = answer.map_err(|why| why.to_string())?;
    if answer.status != 200 {
        return Err(format!("it answered {}", answer.status_text()));
    }
    Ok(answer.body)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::fs;
    use std::net::Ipv4Addr;
    use std::os::unix::fs::PermissionsExt;

    const LOCAL: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 7077);

    fn own() -> Option<u32> {
        Privilege::read(&Root::host()).effective_uid
    }

    #[test]
    fn an_address_is_believed_where_this_user_wrote_it_and_nobody_else_could() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(address(home.path(), own()), None);
        let path = home.path().join(FILE_NAME);
        fs::write(&path, announcement(LOCAL.into(), &[CpuId(1), CpuId(2)])).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(address(home.path(), own()), Some((LOCAL, vec![CpuId(1), CpuId(2)])));
        assert!(!is_trusted(1234, Some(1000)) && is_trusted(0, Some(1000)) && is_trusted(1000, Some(1000)));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!(address(home.path(), own()), None, "others can write it");
        fs::remove_file(&path).unwrap();
        for (text, why) in [("192.0.2.1:80", "not of this machine"), ("127.0.0.1", "no port"), ("", "empty")] {
            fs::write(&path, text).unwrap();
            assert_eq!(address(home.path(), own()), None, "{why}");
        }
    }

    /// A watch that was stopped, or that never finishes its answer.
    #[test]
    fn a_watch_that_drips_is_given_up_after_one_bounded_wait() {
        use std::io::Write;
        use std::time::Instant;
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let std::net::SocketAddr::V4(address) = listener.local_addr().unwrap() else { panic!() };
        // Each ends when the other side has given up; without a limit on the whole it never would.
        let drips = |mut stream: Box<dyn Write + Send>| {
            std::thread::spawn(move || {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nx: ");
                while stream.write_all(b"x").is_ok() {
                    std::thread::sleep(Duration::from_millis(200));
                }
            })
        };
        let begun = Instant::now();
        let own = theirs.try_clone().unwrap();
        let over = drips(Box::new(own));
        let why = get_over(ours, "/").unwrap_err();
        assert!(why.contains("timed out") && begun.elapsed() < 3 * PATIENCE, "{why}");
        theirs.write_all(b"x").unwrap_err();
        over.join().unwrap();
        let accepting = std::thread::spawn(move || listener.accept().unwrap().0);
        let asking = std::thread::spawn(move || get_at(address, "/").unwrap_err());
        let at = drips(Box::new(accepting.join().unwrap()));
        let why = asking.join().unwrap();
        assert!(why.contains("no answer") && begun.elapsed() < 6 * PATIENCE, "{why}");
        at.join().unwrap();
    }

    /// Whoever listens there answers each request with that text, or with nothing at all.
    fn listens(directory: &Path, answer: Option<&'static str>) {
        use std::io::{Read, Write};
        let listener = std::os::unix::net::UnixListener::bind(directory.join(SOCKET_NAME)).unwrap();
        std::thread::spawn(move || {
            let mut held = Vec::new();
            for mut stream in listener.incoming().flatten() {
                let _ = stream.read(&mut [0; 4096]);
                match answer {
                    Some(body) => {
                        let head =
                            format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
                        let _ = stream.write_all(format!("{head}{body}").as_bytes());
                    }
                    None => held.push(stream),
                }
            }
        });
    }

    #[test]
    fn what_is_no_watch_and_what_does_not_answer_is_not_taken_for_none() {
        let root = Root::host();
        let home = tempfile::tempdir().unwrap();
        assert!(runs(home.path(), &root).is_none());
        let unknown = |directory: &Path| match runs(directory, &root) {
            Some(Runs::Unknown(why)) => why,
            other => panic!("{other:?}"),
        };
        // What another Surefoot would have written.
        let health = home.path().join(Health::FILE_NAME);
        for junk in ["", "{}", "junk"] {
            fs::write(&health, junk).unwrap();
            assert!(unknown(home.path()).contains("is not what a watch writes"), "{junk:?}");
        }
        let mut written = Health {
            version: Health::VERSION,
            updated_realtime_ns: clock::realtime_ns(),
            host: String::new(),
            headline: surefoot_model::Headline::new(surefoot_model::Severity::Ok, ""),
            data_age_ns: None,
            lost: None,
            rooms: Default::default(),
            parts: Vec::new(),
            parts_left_out: 0,
        };
        fs::write(&health, serde_json::to_vec(&written).unwrap()).unwrap();
        assert!(unknown(home.path()).contains("but a watch wrote"));
        written.updated_realtime_ns = 1;
        fs::write(&health, serde_json::to_vec(&written).unwrap()).unwrap();
        assert!(unknown(home.path()).contains("was killed, or it hangs"));
        fs::write(home.path().join(SOCKET_NAME), "").unwrap();
        assert!(unknown(home.path()).contains("is not a socket"));
        assert!(memory(home.path(), &root).unwrap().unwrap_err().why.contains("is not a socket"));
        for (answer, why) in
            [(None, "timed out"), (Some("{}"), "its answer is not a watch's"), (Some("x"), "not a watch's")]
        {
            let home = tempfile::tempdir().unwrap();
            listens(home.path(), answer);
            match runs(home.path(), &root) {
                Some(Runs::Here { pid, unanswered: Some(said), .. }) => {
                    assert_eq!(pid, std::process::id());
                    assert!(said.contains(why), "{said}");
                }
                other => panic!("{other:?}"),
            }
            assert!(overview(home.path(), &root).unwrap().is_err());
        }
        let home = tempfile::tempdir().unwrap();
        listens(home.path(), Some("{\"age_ns\":1,\"host\":null,\"rooms\":[]}"));
        assert!(overview(home.path(), &root).unwrap().unwrap_err().why.contains("no rooms"));
    }

    #[test]
    fn a_file_that_a_dead_watch_left_behind_leads_nowhere() {
        let home = tempfile::tempdir().unwrap();
        assert!(raisers(home.path(), &[CpuId(0)], None, &Root::host()).is_none());
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let path = home.path().join(FILE_NAME);
        fs::write(&path, announcement(address, &[CpuId(0)])).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let refused = raisers(home.path(), &[CpuId(0)], None, &Root::host()).unwrap().err().unwrap();
        assert!(format!("{refused}").contains("nothing listens"), "{refused}");
        let refused = raisers(home.path(), &[CpuId(1)], None, &Root::host()).unwrap().err().unwrap();
        assert!(format!("{refused}").contains("nothing listens"), "{refused}");
        assert_eq!(of(home.path(), &Root::host()), None);
    }
}
