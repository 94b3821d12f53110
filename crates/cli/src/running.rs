//! A watch that is running: where its page is, told in a file of its run directory, and what it knows of raisers.
//!
//! Whoever asks for raisers while such a watch follows them need not attach anything: it takes the watch's report. The
//! file is believed only where this user or root wrote it, and the address only where that user's process listens there.
//! The socket beside it is asked first: over that the kernel tells each end who the other is.

use crate::stall::lines::RunningWatch;
use anyhow::Context;
use std::net::{SocketAddr, SocketAddrV4};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc;
use std::time::Duration;
use surefoot_daemon::SOCKET_NAME;
use surefoot_hostfs::privilege::{Privilege, Seccomp, Standing};
use surefoot_hostfs::{Root, cpus as lists, listening, peer};
use surefoot_model::{CpuId, WhoReport};
use surefoot_outside::http::{self, Answer, NoAnswer, Request};

/// The file's name in the run directory.
pub const FILE_NAME: &str = "address";

/// Bytes of the file, and of an answer, that are read.
const FILE_BYTES_MAX: u64 = 4096;
const ANSWER_BYTES_MAX: u64 = 16 << 20;

/// How long the watch may take to answer, from the first to the last byte.
const PATIENCE: Duration = Duration::from_secs(5);

/// What the file says: where the page is, and the cores whose raisers are followed.
pub fn announcement(address: SocketAddr, who: &[CpuId]) -> String {
    format!("{address} {}\n", lists::format_list(who))
}

/// What a running watch says of raisers.
pub struct Found {
    /// Where it is.
    pub address: SocketAddrV4,
    /// Its newest report, of these cores alone.
    pub report: WhoReport,
}

/// The report of the watch that runs from this directory, if one does and follows the raisers of all these cores; else
/// why not. `None` where there is no watch.
pub fn raisers(directory: &Path, cpus: &[CpuId], root: &Root) -> Option<anyhow::Result<Found>> {
    let own = Privilege::read(root).effective_uid;
    let (address, followed) = address(directory, own)?;
    let asked = ask(directory, address, cpus, &followed, own, root);
    Some(asked.with_context(|| format!("the watch at {address}")))
}

/// What a watch that runs from this directory knows of memory errors, as its page's address `/api/v1/memory` answers; `None` where
/// there is no watch of root or of this user.
pub fn memory(directory: &Path, root: &Root) -> Option<anyhow::Result<serde_json::Value>> {
    let own = Privilege::read(root).effective_uid;
    let answer = match socket(directory, own) {
        Some((stream, _)) => get_over(stream, "/api/v1/memory"),
        None => {
            let (address, _) = address(directory, own)?;
            let owner = listening::owner(root, address).ok()??;
            if !is_trusted(owner, own) {
                return None;
            }
            get_at(address, "/api/v1/memory")
        }
    };
    let value = answer.and_then(|answer| serde_json::from_str(&answer).context("its answer is not JSON"));
    Some(value.with_context(|| format!("the watch of {}", directory.display())))
}

/// Where a watch runs from this directory, if one says so.
pub fn of(directory: &Path, root: &Root) -> Option<SocketAddrV4> {
    let own = Privilege::read(root).effective_uid;
    let (address, _) = address(directory, own)?;
    let listens = || listening::owner(root, address).ok()?;
    (socket(directory, own).is_some() || listens().is_some()).then_some(address)
}

/// The address that this user or root wrote down, and the cores whose raisers are followed.
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
    cpus: &[CpuId],
    followed: &[CpuId],
    own: Option<u32>,
    root: &Root,
) -> anyhow::Result<Found> {
    let missing: Vec<String> = cpus.iter().filter(|cpu| !followed.contains(cpu)).map(CpuId::to_string).collect();
    // First, whether there is a watch at all: what a dead one wrote down follows nothing.
    let connected = socket(directory, own);
    if connected.is_none() {
        let owner = listening::owner(root, address)?.context("nothing listens there any more")?;
        anyhow::ensure!(is_trusted(owner, own), "user {owner} listens there, who is neither you nor root");
    }
    anyhow::ensure!(missing.is_empty(), "it does not follow the raisers of core {}", missing.join(", "));
    let answer = match connected {
        Some((stream, _)) => get_over(stream, "/api/v1/who")?,
        None => get_at(address, "/api/v1/who")?,
    };
    let answer: serde_json::Value = serde_json::from_str(&answer).context("its answer is not JSON")?;
    let who = answer.get("who").filter(|who| !who.is_null()).context("it has no report of raisers yet")?;
    let mut report: WhoReport = serde_json::from_value(who.clone()).context("it is of another version")?;
    report.interrupts.retain(|interrupt| cpus.contains(&interrupt.cpu));
    report.loop_gaps.retain(|gap| gap.cpu.is_none_or(|cpu| cpus.contains(&cpu)));
    Ok(Found { address, report })
}

/// The socket of a watch of root or of this user that runs from this directory, and the process that listens.
pub fn socket(directory: &Path, own: Option<u32>) -> Option<(UnixStream, u32)> {
    let path = directory.join(SOCKET_NAME);
    let (sender, connected) = mpsc::sync_channel(1);
    // A watch that was stopped takes nobody in, and then connecting has no end.
    std::thread::spawn(move || sender.send(UnixStream::connect(path)));
    let stream = connected.recv_timeout(PATIENCE).ok()?.ok()?;
    let listener = peer::credentials(stream.as_fd())?;
    is_trusted(listener.uid, own).then_some((stream, listener.pid))
}

/// The watch of root or of this user that runs from this directory, and what it runs with; `None` where none does.
pub fn standing(directory: &Path, root: &Root) -> Option<RunningWatch> {
    let (_, pid) = socket(directory, Privilege::read(root).effective_uid)?;
    if pid == 0 {
        // The kernel has no number for it here.
        surefoot_console::tell!(
            "surefoot: a watch answers in {} from outside this PID namespace; what it runs with cannot be seen from here",
            directory.display()
        );
        return None;
    }
    let standing = Standing::of_process(root, pid).ok()?;
    Some(RunningWatch {
        pid,
        uid: standing.uid,
        capabilities: standing.capabilities.names(),
        no_new_privileges: standing.no_new_privileges,
        seccomp: match standing.seccomp {
            Seccomp::None => "none",
            Seccomp::Strict => "strict",
            Seccomp::Filter => "filter",
        },
        unit: standing.unit,
    })
}

/// What the watch at this socket answers.
fn get_over(stream: UnixStream, path: &str) -> anyhow::Result<String> {
    body(http::ask_over(stream, ANSWER_BYTES_MAX, &request("localhost", path), PATIENCE))
}

/// What the watch at this address answers.
fn get_at(address: SocketAddrV4, path: &str) -> anyhow::Result<String> {
    let request = request(&address.to_string(), path);
    body(http::ask_up_to(ANSWER_BYTES_MAX, &request, PATIENCE, &AtomicBool::new(false)))
}

fn request(host: &str, path: &str) -> Request {
    Request { method: "GET", url: format!("http://{host}{path}"), ..Request::default() }
}

fn body(answer: Result<Answer, NoAnswer>) -> anyhow::Result<String> {
    let answer = answer?;
    anyhow::ensure!(answer.status == 200, "it answered {}", answer.status_text());
    Ok(answer.body)
}

#[cfg(test)]
mod tests {
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

    /// As a watch that was stopped, or that never finishes its answer.
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
        let why = get_over(ours, "/").unwrap_err().to_string();
        assert!(why.contains("timed out") && begun.elapsed() < 3 * PATIENCE, "{why}");
        theirs.write_all(b"x").unwrap_err();
        over.join().unwrap();
        let accepting = std::thread::spawn(move || listener.accept().unwrap().0);
        let asking = std::thread::spawn(move || get_at(address, "/").unwrap_err().to_string());
        let at = drips(Box::new(accepting.join().unwrap()));
        let why = asking.join().unwrap();
        assert!(why.contains("no answer") && begun.elapsed() < 6 * PATIENCE, "{why}");
        at.join().unwrap();
    }

    #[test]
    fn a_file_that_a_dead_watch_left_behind_leads_nowhere() {
        let home = tempfile::tempdir().unwrap();
        assert!(raisers(home.path(), &[CpuId(0)], &Root::host()).is_none());
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let path = home.path().join(FILE_NAME);
        fs::write(&path, announcement(address, &[CpuId(0)])).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let refused = raisers(home.path(), &[CpuId(0)], &Root::host()).unwrap().err().unwrap();
        assert!(format!("{refused:#}").contains("nothing listens"), "{refused:#}");
        let refused = raisers(home.path(), &[CpuId(1)], &Root::host()).unwrap().err().unwrap();
        assert!(format!("{refused:#}").contains("nothing listens"), "{refused:#}");
        assert_eq!(of(home.path(), &Root::host()), None);
    }
}
