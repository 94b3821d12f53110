//! A screen of our own on a pseudo terminal: what a process that holds it leaves behind.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::{Command, Stdio};
use std::time::Duration;
use surefoot_sys::terminal::{self, Terminal, Way};

const CHILD: &str = "SUREFOOT_TEST_TERMINAL";

fn way() -> Way {
    Way { enter: b"<enter>".to_vec(), leave: b"<leave>".to_vec() }
}

fn modes(of: &OwnedFd) -> libc::termios {
    // SAFETY: termios is made of integers, and the call fills it.
    unsafe {
        let mut modes: libc::termios = std::mem::zeroed();
        assert_eq!(libc::tcgetattr(of.as_raw_fd(), &mut modes), 0);
        modes
    }
}

/// What this test's program does in the terminal of the other one.
fn child(what: &str) {
    let way = way();
    let screen = Terminal::open(&way).unwrap();
    assert!(screen.has_keys());
    terminal::leave_at_panic(|| std::thread::current().name() != Some("source"));
    screen.enter();
    assert_eq!(screen.write(&way.enter).unwrap(), way.enter.len());
    // What is written to standard error does not reach the screen.
    eprintln!("said aside");
    let ready = screen.wait(false, Duration::from_secs(60));
    assert!(ready.errors && !ready.is_gone, "{ready:?}");
    assert_eq!(screen.read_errors(), b"said aside\n");
    match what {
        "panic" => panic!("it panics"),
        _ => {
            let source = std::thread::Builder::new().name("source".into()).spawn(|| panic!("a source dies")).unwrap();
            assert!(source.join().is_err());
            // The screen is still there, and what the thread said is on it and not beside it.
            screen.wait(false, Duration::from_secs(60));
            assert!(String::from_utf8_lossy(&screen.read_errors()).contains("a source dies"));
            assert_eq!(screen.write(b"<goes on>").unwrap(), 9);
            terminal::leave();
        }
    }
}

#[test]
fn a_panic_leaves_the_terminal_as_it_was_and_one_of_a_source_leaves_the_screen() {
    if let Some(what) = std::env::var_os(CHILD) {
        return child(&what.to_string_lossy());
    }
    for what in ["panic", "source"] {
        let (mut user, mut program) = (-1, -1);
        let none = std::ptr::null_mut();
        // SAFETY: the call writes to two locals; both descriptors are then owned here alone.
        let (user, program) = unsafe {
            assert_eq!(libc::openpty(&mut user, &mut program, none, none.cast(), none.cast()), 0);
            (File::from_raw_fd(user), OwnedFd::from_raw_fd(program))
        };
        let before = modes(&program);
        let end = || Stdio::from(program.try_clone().unwrap());
        let test = "suite::terminal::a_panic_leaves_the_terminal_as_it_was_and_one_of_a_source_leaves_the_screen";
        let mut run = Command::new(std::env::current_exe().unwrap());
        run.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(CHILD, what);
        let mut child = run.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        // It holds the other end as well.
        drop(run);
        // A terminal holds some kilobytes, a panic's stack can have more.
        let reader = std::thread::spawn(move || {
            let mut said = Vec::new();
            // The end of a terminal without another end is an error.
            let _ = { user }.read_to_end(&mut said);
            said
        });
        let status = child.wait().unwrap();
        let after = modes(&program);
        drop(program);
        let said = reader.join().unwrap();
        let said = String::from_utf8_lossy(&said);
        assert_eq!(status.success(), what == "source", "{said}");
        assert_eq!((after.c_lflag, after.c_iflag, after.c_oflag), (before.c_lflag, before.c_iflag, before.c_oflag));
        let (_, screen) = said.split_once("<enter>").unwrap();
        let (shown, rest) = screen.split_once("<leave>").unwrap();
        assert_eq!(shown, if what == "source" { "<goes on>" } else { "" }, "{said}");
        assert_eq!(rest.contains("it panics"), what == "panic", "it is told once the terminal is back: {said}");
    }
}
