//! A file system that stops answering: a FUSE server with one program in it, in this process. The kernel has it mounted for
//! everybody, as a user does with `allow_other`.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tempfile::TempDir;

/// The name of the one file in it.
const NAME: &str = "program";
const ROOT_NODE: u64 = 1;
const FILE_NODE: u64 = 2;
const MESSAGE_BYTES: usize = 1 << 20;
/// How long the kernel may believe an answer, seconds: long, so that it asks for nothing but what is opened and read.
const BELIEVED_S: u64 = 3_600;

const NO_ENTRY: i32 = 2;
const NOT_KNOWN: i32 = 38;

/// The file system, until it is dropped.
#[derive(Debug)]
pub struct HangingFileSystem {
    home: TempDir,
    orders: Arc<Orders>,
    server: JoinHandle<()>,
    device: File,
}

/// What its server is told, and what it tells.
#[derive(Debug, Default)]
struct Orders {
    /// Hangs at the opening that brings it to 0 from 1; 0 for none.
    hangs_at_open: AtomicU32,
    /// Hangs at the first look for another name than the program's.
    hangs_at_name: AtomicBool,
    hangs: AtomicBool,
    stops: AtomicBool,
    delay_ms: AtomicU32,
    unanswered: AtomicU32,
}

impl HangingFileSystem {
    /// Mounts one that has the content of this file, executable.
    ///
    /// # Errors
    /// Why it cannot be mounted here, for a test that says *not run*.
    pub fn mount(content: &Path) -> Result<Self, String> {
        let device = OpenOptions::new().read(true).write(true).open("/dev/fuse");
        let device = device.map_err(|error| format!("/dev/fuse cannot be opened: {error}"))?;
        let home = tempfile::tempdir().map_err(|error| error.to_string())?;
        let content = fs::read(content).map_err(|error| format!("{}: {error}", content.display()))?;
        let given = device.try_clone().map_err(|error| error.to_string())?;
        let mounted = Command::new("mount")
            .args(["-i", "-t", "fuse", "-o", "fd=0,rootmode=40000,user_id=0,group_id=0,allow_other", "surefoot-test"])
            .arg(home.path())
            .stdin(Stdio::from(given))
            .output()
            .map_err(|error| format!("mount cannot be run: {error}"))?;
        if !mounted.status.success() {
            return Err(format!("mounting is not allowed here: {}", String::from_utf8_lossy(&mounted.stderr).trim()));
        }
        let serving = device.try_clone().map_err(|error| error.to_string())?;
        let orders = Arc::new(Orders::default());
        let theirs = Arc::clone(&orders);
        let server = std::thread::spawn(move || serve(serving, &content, &theirs));
        let mounted = HangingFileSystem { home, orders, server, device };
        // The kernel's introduction is answered by now: whoever waits for that can be killed.
        fs::metadata(mounted.program()).map_err(|error| format!("it does not work here: {error}"))?;
        Ok(mounted)
    }

    /// The program in it.
    pub fn program(&self) -> PathBuf {
        self.home.path().join(NAME)
    }

    /// Starts the program in it, which must be `sleep`; it sleeps on return, and needs nothing of the file system any more.
    ///
    /// # Errors
    /// Why it cannot be started.
    pub fn start_sleeping(&self) -> std::io::Result<Child> {
        let mut program = Command::new(self.program()).arg("600").spawn()?;
        // nanosleep and clock_nanosleep.
        let sleeps = |call: String| call.starts_with("35 ") || call.starts_with("230 ");
        let place = format!("/proc/{}/syscall", program.id());
        while !fs::read_to_string(&place).is_ok_and(sleeps) {
            if let Some(status) = program.try_wait()? {
                return Err(std::io::Error::other(format!("it ended with {status}")));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(program)
    }

    /// From now on it takes every request and answers none. Whoever asked cannot be killed then.
    pub fn hang(&self) {
        self.orders.hangs.store(true, Ordering::SeqCst);
    }

    /// As [`HangingFileSystem::hang`], from the opening on that comes after so many.
    pub fn hang_after_opens(&self, count: u32) {
        // 0 is for never.
        self.orders.hangs_at_open.store(count + 1, Ordering::SeqCst);
    }

    /// As [`HangingFileSystem::hang`], from the first look for a name on that is not its program's: its root can be opened and listed.
    pub fn hang_at_another_name(&self) {
        self.orders.hangs_at_name.store(true, Ordering::SeqCst);
    }

    /// From now on it takes no request, as a server that is stopped. Whoever asks waits, and can be killed.
    pub fn stop(&self) {
        self.orders.stops.store(true, Ordering::SeqCst);
        // It waits for a request, this one or another: then this one waits.
        let nothing = self.home.path().join("nothing");
        std::thread::spawn(move || fs::metadata(nothing).is_ok());
        while !self.server.is_finished() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// From now on each answer takes so long.
    pub fn slow_down(&self, delay_ms: u32) {
        self.orders.delay_ms.store(delay_ms, Ordering::SeqCst);
    }

    /// Requests that wait for an answer.
    pub fn unanswered(&self) -> u32 {
        self.orders.unanswered.load(Ordering::SeqCst)
    }
}

impl Drop for HangingFileSystem {
    fn drop(&mut self) {
        // Whoever waits is told that it is gone, and the server's thread with them.
        let text = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let place = self.home.path().to_string_lossy().into_owned();
        let minor = text.lines().find_map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            (words.get(4) == Some(&place.as_str()))
                .then(|| words[2].split(':').next_back().map(str::to_owned))
                .flatten()
        });
        let connections = tempfile::tempdir();
        if let (Some(minor), Ok(connections)) = (minor, &connections) {
            let control = Command::new("mount").args(["-i", "-t", "fusectl", "none"]).arg(connections.path()).status();
            let _ = fs::write(connections.path().join(minor).join("abort"), "1");
            if control.is_ok_and(|status| status.success()) {
                let _ = Command::new("umount").arg(connections.path()).status();
            }
        }
        let _ = Command::new("umount").arg("-l").arg(self.home.path()).status();
        let _ = self.device.flush();
    }
}

/// Answers until the file system is unmounted. The format is the kernel's, linux/fuse.h, version 7.31.
fn serve(mut device: File, content: &[u8], orders: &Orders) {
    let mut message = vec![0; MESSAGE_BYTES];
    while !orders.stops.load(Ordering::SeqCst) {
        let Ok(bytes) = device.read(&mut message) else { return };
        let request = &message[..bytes];
        let word = |at: usize| u32::from_le_bytes(request[at..at + 4].try_into().unwrap_or_default());
        let long = |at: usize| u64::from_le_bytes(request[at..at + 8].try_into().unwrap_or_default());
        let (operation, unique, node) = (word(4), long(8), long(16));
        const FORGET: u32 = 2;
        const INTERRUPT: u32 = 36;
        const BATCH_FORGET: u32 = 42;
        const OPEN: u32 = 14;
        const LOOK_UP: u32 = 1;
        if [FORGET, INTERRUPT, BATCH_FORGET].contains(&operation) {
            continue;
        }
        if operation == OPEN && orders.hangs_at_open.load(Ordering::SeqCst) > 0 {
            let left = orders.hangs_at_open.fetch_sub(1, Ordering::SeqCst);
            orders.hangs.fetch_or(left == 1, Ordering::SeqCst);
        }
        if operation == LOOK_UP && !request[40..].starts_with(NAME.as_bytes()) {
            orders.hangs.fetch_or(orders.hangs_at_name.load(Ordering::SeqCst), Ordering::SeqCst);
        }
        if orders.hangs.load(Ordering::SeqCst) {
            orders.unanswered.fetch_add(1, Ordering::SeqCst);
            continue;
        }
        std::thread::sleep(Duration::from_millis(orders.delay_ms.load(Ordering::SeqCst).into()));
        let answer = match operation {
            LOOK_UP if request[40..].starts_with(NAME.as_bytes()) => Ok(entry(content.len() as u64)),
            LOOK_UP => Err(NO_ENTRY),
            3 => Ok([&BELIEVED_S.to_le_bytes()[..], &[0; 8], &attributes(node, content.len() as u64)].concat()),
            // Opened, and what was read stays in the kernel's cache no longer than that.
            OPEN | 27 => Ok(vec![0; 16]),
            15 => {
                let (offset, size) = (long(48) as usize, word(56) as usize);
                let from = offset.min(content.len());
                Ok(content[from..(from + size).min(content.len())].to_vec())
            }
            18 | 25 | 29 => Ok(Vec::new()),
            26 => Ok(introduction()),
            _ => Err(NOT_KNOWN),
        };
        let (error, body) = answer.map_or_else(|error| (-error, Vec::new()), |body| (0, body));
        let length = u32::try_from(16 + body.len()).unwrap_or(0);
        let reply = [&length.to_le_bytes()[..], &error.to_le_bytes(), &unique.to_le_bytes(), &body].concat();
        // Who asked may be gone by now.
        let _ = device.write_all(&reply);
    }
}

fn introduction() -> Vec<u8> {
    let mut body = vec![0; 64];
    body[..4].copy_from_slice(&7u32.to_le_bytes());
    body[4..8].copy_from_slice(&31u32.to_le_bytes());
    // The longest write; the kernel asks for 4 KiB at least.
    body[20..24].copy_from_slice(&65_536u32.to_le_bytes());
    body
}

fn entry(bytes: u64) -> Vec<u8> {
    let believed = BELIEVED_S.to_le_bytes();
    [&FILE_NODE.to_le_bytes()[..], &[0; 8], &believed, &believed, &[0; 8], &attributes(FILE_NODE, bytes)].concat()
}

fn attributes(node: u64, bytes: u64) -> Vec<u8> {
    let (mode, bytes): (u32, u64) = if node == ROOT_NODE { (0o040_755, 0) } else { (0o100_755, bytes) };
    let mut body = vec![0; 88];
    body[..8].copy_from_slice(&node.to_le_bytes());
    body[8..16].copy_from_slice(&bytes.to_le_bytes());
    body[16..24].copy_from_slice(&bytes.div_ceil(512).to_le_bytes());
    body[60..64].copy_from_slice(&mode.to_le_bytes());
    body[64..68].copy_from_slice(&1u32.to_le_bytes());
    body[80..84].copy_from_slice(&4096u32.to_le_bytes());
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_program_runs_until_it_hangs() {
        let mounted = match HangingFileSystem::mount(Path::new("/bin/true")) {
            Ok(mounted) => mounted,
            Err(why) => return crate::not_run::not_run("hanging::its_program_runs_until_it_hangs", &why),
        };
        assert!(Command::new(mounted.program()).status().is_ok_and(|status| status.success()));
        mounted.hang();
        assert_eq!(mounted.unanswered(), 0);
        let program = mounted.program();
        let reads = std::thread::spawn(move || fs::read(program).map(|bytes| bytes.len()));
        while mounted.unanswered() == 0 {
            assert!(!reads.is_finished(), "it was read from a file system that answers nothing");
            std::thread::sleep(Duration::from_millis(10));
        }
        drop(mounted);
        assert!(reads.join().is_ok_and(|read| read.is_err()), "it was read after all");
    }
}
