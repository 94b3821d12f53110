//! Programs of others that know what we do not: their answer, or why there is none.
//!
//! None is waited for longer than it was given, and none may say more than a limit.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// The most text that is taken of an answer.
pub const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// How long a process that was told to end may take for it; one that a hung device holds in the kernel is left.
const END_PATIENCE: Duration = Duration::from_secs(1);

/// Where distributions put a program; no search path is used, because who asks has privilege.
pub fn find(name: &str) -> Option<PathBuf> {
    const FOLDERS: [&str; 4] = ["/usr/sbin", "/usr/bin", "/sbin", "/usr/local/sbin"];
    FOLDERS.iter().map(|folder| PathBuf::from(folder).join(name)).find(|path| path.is_file())
}

/// The standard output of a program that reads this on its standard input. It is ended by its id when it takes longer than
/// `patience` or says more than [`ANSWER_BYTES_MAX`]. How it ended is not asked: what it said tells more.
///
/// # Errors
/// Why there is no answer, in words.
pub fn answer(mut command: Command, input: &[u8], patience: Duration) -> Result<Vec<u8>, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let begun = Instant::now();
    let stdin = if input.is_empty() { Stdio::null() } else { Stdio::piped() };
    command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| format!("{name} cannot be run: {error}"))?;
    let Some(pipe) = child.stdout.take() else { return Err(format!("{name} has no output")) };
    if let Some(mut stdin) = child.stdin.take() {
        let input = input.to_owned();
        // A program that reads nothing holds this thread until it ends; one that has ended already is told nothing.
        std::thread::spawn(move || _ = stdin.write_all(&input));
    }
    let (send, receive) = mpsc::sync_channel(1);
    // Reading may last as long as the program; the thread ends with it.
    std::thread::spawn(move || {
        let mut text = Vec::new();
        let outcome = pipe.take(ANSWER_BYTES_MAX + 1).read_to_end(&mut text).map(|_| text);
        let _ = send.send(outcome);
    });
    let answer = receive.recv_timeout(patience);
    let ended = end(&mut child, patience.saturating_sub(begun.elapsed()), answer.is_ok());
    match answer {
        Err(_) if !ended => Err(format!("{name} gave no answer in {patience:?} and cannot be ended: the device hangs")),
        Err(_) => Err(format!("{name} gave no answer in {patience:?}")),
        Ok(Err(error)) => Err(format!("{name}: {error}")),
        Ok(Ok(text)) if text.len() as u64 > ANSWER_BYTES_MAX => {
            Err(format!("{name} said more than {ANSWER_BYTES_MAX} bytes"))
        }
        Ok(Ok(text)) => Ok(text),
    }
}

/// Waits for a program, for as long as `patience` where it has answered, and else ends it. Whether it is gone.
fn end(child: &mut Child, patience: Duration, has_answered: bool) -> bool {
    let gone_within = |child: &mut Child, patience: Duration| {
        let begun = Instant::now();
        loop {
            match child.try_wait() {
                Ok(Some(_)) | Err(_) => return true,
                Ok(None) if begun.elapsed() >= patience => return false,
                Ok(None) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    };
    if has_answered && gone_within(child, patience.min(END_PATIENCE)) {
        return true;
    }
    let _ = child.kill();
    gone_within(child, END_PATIENCE)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn shell(script: &str, input: &[u8], patience_ms: u64) -> Result<Vec<u8>, String> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        answer(command, input, Duration::from_millis(patience_ms))
    }

    #[test]
    fn a_program_is_told_and_heard() {
        assert_eq!(shell("tr a-z A-Z", b"what it reads", 20_000).unwrap(), b"WHAT IT READS");
        // Who reads nothing is told in vain.
        assert_eq!(shell("echo done", &[b'x'; 1 << 20], 20_000).unwrap(), b"done\n");
    }

    #[test]
    fn a_program_that_hangs_or_never_stops_is_ended() {
        let begun = Instant::now();
        assert!(shell("exec sleep 60", b"", 200).unwrap_err().contains("no answer in 200ms"));
        assert!(shell("exec cat /dev/zero", b"", 60_000).unwrap_err().contains("said more than 1048576 bytes"));
        // It closes its output and stays.
        assert_eq!(shell("echo said; exec sleep 600 >/dev/null", b"", 60_000).unwrap(), b"said\n");
        assert!(begun.elapsed() < Duration::from_secs(30));
        let none = answer(Command::new("/no/such/program"), b"", Duration::from_secs(1)).unwrap_err();
        assert!(none.starts_with("/no/such/program cannot be run"), "{none}");
    }
}
