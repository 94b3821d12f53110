//! The live screen, in a terminal that the test holds: the real command behind a pseudo terminal, and vt100 to read what it draws.

use crate::strangers::wait_for;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Termios, Winsize, tcgetattr, tcsetwinsize};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use surefoot_e2e::command::binary;
use surefoot_e2e::http;
use surefoot_e2e::machine::{Need, signal, turn};

/// A terminal with a program in it, which is its only session.
struct Terminal {
    /// The end that people sit at.
    user: File,
    /// The other end, held open, so that its modes can be looked at after the program's end.
    program: File,
    screen: Arc<Mutex<vt100::Parser>>,
    reader: Option<JoinHandle<()>>,
    child: Child,
    before: Termios,
}

const COLUMNS: u16 = 80;
const LINES: u16 = 24;

fn size(columns: u16, lines: u16) -> Winsize {
    Winsize { ws_row: lines, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

impl Terminal {
    /// Runs a script of the shell in a terminal of this kind.
    fn run(script: &str, term: &str) -> Terminal {
        let user = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&user).unwrap();
        unlockpt(&user).unwrap();
        tcsetwinsize(&user, size(COLUMNS, LINES)).unwrap();
        let name = ptsname(&user, Vec::new()).unwrap().into_string().unwrap();
        const NO_CONTROLLING_TERMINAL: i32 = 0o400;
        let open = || {
            let mut options = OpenOptions::new();
            options.read(true).write(true).custom_flags(NO_CONTROLLING_TERMINAL).open(&name).unwrap()
        };
        let program = open();
        let before = tcgetattr(&program).unwrap();
        let child = Command::new("setsid")
            // Whoever runs the tests may ignore Ctrl-C, and a shell cannot undo that for what it starts.
            .args(["--ctty", "env", "--default-signal", "bash", "-c", script])
            .env("TERM", term)
            .env("SUREFOOT", binary())
            .env_remove("NO_COLOR")
            .stdin(Stdio::from(open()))
            .stdout(Stdio::from(open()))
            .stderr(Stdio::from(open()))
            .spawn()
            .unwrap();
        let screen =
            Arc::new(Mutex::new(vt100::Parser::new(LINES.try_into().unwrap(), COLUMNS.try_into().unwrap(), 500)));
        let user = File::from(user);
        let reader = {
            let (screen, mut user) = (Arc::clone(&screen), user.try_clone().unwrap());
            std::thread::spawn(move || {
                let mut bytes = [0; 4096];
                while let Ok(count @ 1..) = user.read(&mut bytes) {
                    screen.lock().unwrap().process(&bytes[..count]);
                }
            })
        };
        Terminal { user, program, screen, reader: Some(reader), child, before }
    }

    fn text(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    fn shows(&self, words: &str) {
        wait_for(&format!("'{words}' on the screen"), || self.text().contains(words).then_some(()));
    }

    fn send(&mut self, keys: &str) {
        self.user.write_all(keys.as_bytes()).unwrap();
    }

    fn modes(&self) -> Termios {
        tcgetattr(&self.program).unwrap()
    }

    fn resize(&self, columns: u16, lines: u16) {
        self.screen.lock().unwrap().screen_mut().set_size(lines.try_into().unwrap(), columns.try_into().unwrap());
        // The kernel tells the programs in the foreground.
        tcsetwinsize(&self.user, size(columns, lines)).unwrap();
    }

    /// The program ends by itself, and the terminal is as it was before it began.
    fn is_as_before(&mut self, what: &str) {
        let status = wait_for(what, || self.child.try_wait().unwrap());
        assert!(status.success(), "{what}: {status}: {}", self.text());
        self.has_its_modes(what);
        wait_for(what, || (!self.screen.lock().unwrap().screen().alternate_screen()).then_some(()));
        let screen = self.screen.lock().unwrap();
        assert!(!screen.screen().hide_cursor(), "{what}: the cursor is in sight");
        assert!(screen.screen().contents().starts_with("$ before"), "{what}: {}", screen.screen().contents());
        assert_eq!(screen.screen().scrollback_len(), 0, "{what}: nothing scrolled");
    }

    fn has_its_modes(&self, what: &str) {
        let (before, after) = (&self.before, self.modes());
        assert_eq!(after.local_modes, before.local_modes, "{what}");
        assert_eq!(after.input_modes, before.input_modes, "{what}");
        assert_eq!(after.output_modes, before.output_modes, "{what}");
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It leads its session: what the shell started ends with it, and no test waits for a reader whose terminal somebody holds.
        let group = format!("-{}", self.child.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status();
        let _ = self.child.wait();
        drop(self.reader.take());
    }
}

/// A watch that needs nothing and takes nothing.
const WATCH: &str = "\"$SUREFOOT\" watch --source counters --no-history";

fn watch(more: &str) -> Terminal {
    Terminal::run(&format!("echo '$ before'; exec {WATCH} {more}"), "xterm")
}

#[test]
fn the_demo_on_a_small_screen_shows_its_host_every_room_and_where_to_look() {
    let test = "the_demo_on_a_small_screen_shows_its_host_every_room_and_where_to_look";
    let Some(_turn) = turn(test, Need::Nothing) else { return };
    let mut terminal = Terminal::run("echo '$ before'; exec \"$SUREFOOT\" demo --no-page", "xterm");
    terminal.shows("warning: Demo data: ");
    terminal.shows("demo-host-17");
    terminal.shows("DEMO DATA: a made-up day");
    terminal.shows("TLB shootdown");
    // Each room has a place in the panes that follow; the last ones are notices, with the five sentences.
    for words in [
        "stats",
        "TLB shootdown flush_tlb_func",
        "CPU0_DIMM_A1",
        "weather-demo",
        "No problems found on 2 network interfaces",
        "experiment",
        "/var has 9 % left",
        "Every source works",
        "Remedies: case 17",
    ] {
        let is_there = |terminal: &Terminal| terminal.text().contains(words);
        for _ in 0..900 {
            if is_there(&terminal) {
                break;
            }
            terminal.send("\t");
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        terminal.shows(words);
    }
    // Hours and minutes ago there was another headline, which the history knows.
    for ago in ["t-18h\r", "lt-10m\r"] {
        terminal.send(ago);
        terminal.shows("from the history");
        assert!(!terminal.text().contains("is not known here"), "{}", terminal.text());
    }
    terminal.send("q");
    terminal.is_as_before("q");
}

/// The process that the shell became.
fn pid(terminal: &Terminal) -> u32 {
    terminal.child.id()
}

#[test]
fn the_screen_takes_keys_and_sizes_and_leaves_the_terminal_as_it_was() {
    let Some(_turn) = turn("the_screen_takes_keys_and_sizes_and_leaves_the_terminal_as_it_was", Need::Nothing) else {
        return;
    };
    let mut terminal = watch("--no-page");
    // The first window is there.
    terminal.shows(" last ");
    assert!(!terminal.modes().local_modes.intersects(LocalModes::ICANON | LocalModes::ECHO));
    terminal.send("?");
    terminal.shows("redraw");
    terminal.send("q");
    terminal.send("\t");
    terminal.shows("Causes");
    terminal.send("p");
    terminal.shows("PAUSED since");
    terminal.send("l,");
    terminal.shows("AT ");
    terminal.resize(40, 12);
    terminal.shows("? help  Tab pane");
    wait_for("the smaller screen", || (terminal.text().lines().count() <= 12).then_some(()));
    terminal.resize(COLUMNS, LINES);
    terminal.shows("q end");
    terminal.send("q");
    terminal.is_as_before("q");
}

#[test]
fn whatever_ends_the_watch_leaves_the_terminal_as_it_was() {
    let Some(_turn) = turn("whatever_ends_the_watch_leaves_the_terminal_as_it_was", Need::Nothing) else { return };
    for name in ["TERM", "HUP", "INT"] {
        let mut terminal = watch("--no-page");
        terminal.shows("lost most to");
        signal(pid(&terminal), name);
        terminal.is_as_before(name);
    }
    let mut terminal = watch("--no-page");
    terminal.shows("lost most to");
    terminal.send("\u{3}");
    terminal.is_as_before("Ctrl-C");
    let mut terminal = watch("--no-page --duration 2s");
    terminal.shows("lost most to");
    terminal.is_as_before("the end of its time");
}

/// A terminal that takes nothing more holds up nobody, and the watch can still be ended.
#[test]
fn a_terminal_that_is_stopped_stops_nothing_else() {
    let Some(_turn) = turn("a_terminal_that_is_stopped_stops_nothing_else", Need::Nothing) else { return };
    let run = tempfile::tempdir().unwrap();
    let mut terminal = watch(&format!("--port 0 --run-directory {}", run.path().display()));
    terminal.shows("page http://127.0.0.1:");
    // On the screen the address may be cut.
    let told = || fs::read_to_string(run.path().join("page-url")).ok();
    let url = wait_for("the address of the page", told);
    let address = url.strip_prefix("http://").unwrap().split('/').next().unwrap().to_owned();
    terminal.send("\u{13}");
    let written = || fs::metadata(run.path().join("health.json")).and_then(|file| file.modified()).ok();
    let (then, window) = (written(), http::event(&address, "/api/v1/events", "window"));
    // More than any buffer of the terminal holds.
    for _ in 0..40 {
        terminal.resize(200, 60);
        terminal.resize(COLUMNS, LINES);
        std::thread::sleep(std::time::Duration::from_millis(25));
    }
    assert_ne!(http::event(&address, "/api/v1/events", "window"), window, "the page goes on");
    wait_for("health.json goes on", || (written() > then).then_some(()));
    signal(pid(&terminal), "TERM");
    let status = wait_for("SIGTERM ends it", || terminal.child.try_wait().unwrap());
    assert!(status.success(), "{status}");
    terminal.has_its_modes("stopped");
}

#[test]
fn ctrl_z_suspends_the_watch_and_fg_brings_the_screen_back() {
    let Some(_turn) = turn("ctrl_z_suspends_the_watch_and_fg_brings_the_screen_back", Need::Nothing) else { return };
    let script = format!(
        "echo '$ before'; set -m; {WATCH} --no-page; echo is suspended; read -r line; echo goes on; fg >/dev/null"
    );
    let mut terminal = Terminal::run(&script, "xterm");
    terminal.shows("lost most to");
    terminal.send("\u{1a}");
    terminal.shows("is suspended");
    assert!(!terminal.screen.lock().unwrap().screen().alternate_screen());
    assert!(terminal.modes().local_modes.contains(LocalModes::ICANON | LocalModes::ECHO));
    terminal.send("\n");
    terminal.shows("lost most to");
    assert!(!terminal.modes().local_modes.contains(LocalModes::ICANON));
    terminal.send("q");
    terminal.is_as_before("q");
}

#[test]
fn a_terminal_without_keys_or_without_a_cursor_shows_what_it_can() {
    let Some(_turn) = turn("a_terminal_without_keys_or_without_a_cursor_shows_what_it_can", Need::Nothing) else {
        return;
    };
    let mut terminal = Terminal::run(&format!("echo '$ before'; {WATCH} --no-page </dev/null"), "xterm");
    terminal.shows("no keys");
    // Not a word of it reaches the watch, and Ctrl-C is the terminal's.
    terminal.send("q\u{3}");
    wait_for("the end", || terminal.child.try_wait().unwrap());
    terminal.has_its_modes("without keys");

    // A job in the background neither stops nor draws over what the shell shows.
    let script =
        format!("echo '$ before'; set -m; {WATCH} --no-page --duration 60s & sleep 3; jobs; kill %1; wait; echo over");
    let mut terminal = Terminal::run(&script, "xterm");
    terminal.shows("over");
    assert!(terminal.text().contains("Running") && !terminal.text().contains("lost most to"), "{}", terminal.text());
    wait_for("the end", || terminal.child.try_wait().unwrap());

    let colours = |terminal: &Terminal| {
        let screen = terminal.screen.lock().unwrap();
        let cells = (0..LINES).flat_map(|y| (0..COLUMNS).map(move |x| (y, x)));
        cells.filter_map(|(y, x)| screen.screen().cell(y, x)).any(|cell| cell.fgcolor() != vt100::Color::Default)
    };
    for (variable, has_colours) in [("NO_COLOR=", true), ("NO_COLOR=1", false)] {
        let terminal = Terminal::run(&format!("{variable} exec {WATCH} --no-page"), "xterm");
        terminal.shows("lost most to");
        assert_eq!(colours(&terminal), has_colours, "{variable}");
    }

    let terminal = Terminal::run(&format!("{WATCH} --no-page"), "dumb");
    terminal.shows("reduced: ");
    wait_for("a headline", || (terminal.text().lines().count() > 2).then_some(()));
    assert!(!terminal.screen.lock().unwrap().screen().alternate_screen());
    assert!(terminal.modes().local_modes.contains(LocalModes::ICANON));
}
