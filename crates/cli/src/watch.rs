//! `surefoot watch`: the live table in the terminal and the page on 127.0.0.1.

use crate::args::{RUN_DIRECTORY, WatchOptions};
use crate::rooms::{self, Summary};
use crate::running;
use crate::stall::{record, report, who};
use anyhow::Context;
use std::collections::VecDeque;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use surefoot_console::exit::Outcome;
use surefoot_console::lost_time as text;
use surefoot_console::units::duration;
use surefoot_console::{output, people};
use surefoot_daemon::sources::Statistics;
use surefoot_daemon::{Config, Mode, Server};
use surefoot_hostfs::privilege::Privilege;
use surefoot_hostfs::roles::OfWatch;
use surefoot_hostfs::stdout::stdout;
use surefoot_hostfs::{Root, memory, peer, signals, terminal};
use surefoot_model::{
    Event, Finding, Gap, GapCorrection, Headline, HostDescription, Lost, Report, Severity, Window, one_line,
};
use surefoot_store::history::History;

/// Windows that the terminal's verdict and tables look back on.
const RECENT_WINDOWS: usize = 60;

/// Gaps of the recent windows that are kept.
const RECENT_GAPS: usize = 4096;

/// How long a recording may take to get into the page before its address is told.
const SETTLE: Duration = Duration::from_secs(30);

/// Findings beside the headline in the live table.
const FINDINGS_SHOWN: usize = 5;

/// By how much the lines of a sentence after the first are indented.
const INDENT: usize = 2;

/// Rows of causes in the live table.
const LIVE_CAUSES: usize = 12;

/// Rows of interrupts with their raisers in the live table.
const WHO_ROWS: usize = 6;

/// The file that keeps the counts of memory errors, beside the history.
const MEMORY_COUNTS: &str = "memory-counts.json";

/// How often free memory goes back to the kernel: the largest burst of records must not be what a watch holds for good.
const GIVE_BACK: Duration = Duration::from_secs(30);

pub fn run(options: &WatchOptions) -> anyhow::Result<Outcome> {
    match &options.replay {
        Some(file) => replay(options, file),
        None => live(options),
    }
}

fn live(options: &WatchOptions) -> anyhow::Result<Outcome> {
    let root = Root::host();
    report::check_workload(&options.what, &root)?;
    report::check_times(&options.what, options.interval, options.duration)?;
    check_group(options.page_group.as_deref(), &root)?;
    let page = options.page.open()?;
    let places = Places::of(options, true, &root);
    let written: Vec<PathBuf> = [&places.history, &places.run_directory].into_iter().flatten().cloned().collect();
    let (who, of_rooms) = (options.what.who.is_some(), options.what.rooms.privileges());
    let privileges =
        OfWatch::to_begin(&root, who, of_rooms, &written).context("privileges that a watch does not need")?;
    let mut what = options.what.clone();
    // Beside the history, with which it belongs together: both outlive the watch.
    what.rooms.memory_history.clone_from(&places.history);
    what.rooms.memory_state = places.history.as_ref().map(|history| history.with_file_name(MEMORY_COUNTS));
    let sources = rooms::sources(&root, &what, options.interval)?;
    let statistics = sources.statistics();
    let server = start_server(options, Mode::Live, &statistics, page, &root)?;
    announce(options, &server);
    options.what.forewarn(&root);
    let running = rooms::start(sources, &statistics, options.duration)?;
    privileges.go_on(&root).context("privileges that a watch needs no more")?;
    let mut screen = Screen::new(options, &server);
    if options.json {
        let mut out = output::patient();
        output::stream(&mut out, "watch")?;
        out.flush()?;
    }
    let mut given_back = Instant::now();
    while let Some(events) = running.next_turn() {
        if given_back.elapsed() >= GIVE_BACK {
            memory::give_back();
            given_back = Instant::now();
        }
        let is_window = events.iter().any(|event| matches!(event, Event::Window(_)));
        // A terminal that takes nothing more must not keep the page, the history and health.json from going on.
        events.iter().for_each(|event| server.publish(event.clone()));
        events.iter().try_for_each(|event| screen.add(event))?;
        // What the server itself has to say, of its history for instance, it has published already.
        for notice in server.take_notices() {
            screen.add(&Event::Notice(notice))?;
        }
        if is_window {
            screen.draw(&server)?;
        }
    }
    // What the server has goes to the history first: a source may hang for good.
    server.stop();
    rooms::end(running);
    Ok(Outcome::Done)
}

/// Refuses a group that nobody can be in: its members would see less than was meant, without a word.
fn check_group(group: Option<&str>, root: &Root) -> anyhow::Result<()> {
    match group {
        Some(name) if !peer::is_group(root, name) => {
            anyhow::bail!("--page-group: /etc/group has no group '{name}'; members from elsewhere (LDAP) are not seen")
        }
        _ => Ok(()),
    }
}

/// Shows a recording: the report in the terminal, the page for as long as it is looked at.
fn replay(options: &WatchOptions, file: &std::path::Path) -> anyhow::Result<Outcome> {
    let stop = signals::stop_flag()?;
    let page = options.page.open()?;
    let mut events = Vec::new();
    let mut sum = Summary::default();
    let outcome = record::read(file, |event| {
        sum.add(&event);
        events.push(event);
    })?;
    let mut out = output::patient();
    sum.print(&mut out, &crate::args::Filter::default(), options.json)?;
    if options.no_page {
        return Ok(outcome);
    }
    let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned();
    let server = start_server(options, Mode::Replay { file: name }, &Statistics::default(), page, &Root::host())?;
    events.into_iter().for_each(|event| server.publish(event));
    // Who opens the page finds all of the recording there.
    server.settle(SETTLE);
    if let (false, Some(address)) = (options.json, server.address()) {
        writeln!(out, "\nThe recording as a page: http://{address}/ (Ctrl-C ends it)")?;
        out.flush()?;
    }
    drop(out);
    let start = Instant::now();
    while !stop.load(Ordering::Relaxed) && options.duration.is_none_or(|duration| start.elapsed() < duration) {
        std::thread::sleep(Duration::from_millis(50));
    }
    server.stop();
    Ok(outcome)
}

/// Tells in the run directory where the page is, for `stall who`.
fn announce(options: &WatchOptions, server: &Server) {
    if let Some(address) = server.address() {
        let who = options.what.who.clone().unwrap_or_default().0;
        server.tell(running::FILE_NAME, running::announcement(address, &who));
    }
}

/// Where a watch writes.
struct Places {
    history: Option<PathBuf>,
    run_directory: Option<PathBuf>,
}

impl Places {
    /// What is named, and otherwise where root's watch of this host writes. What a recorded tree says is not this host's: it goes
    /// only where it is told to.
    fn of(options: &WatchOptions, is_live: bool, root: &Root) -> Self {
        let is_own = is_live && options.what.rooms.host_root.is_none() && Privilege::read(root).is_root();
        let default = |path: &str| is_own.then(|| PathBuf::from(path));
        let history = match (&options.history, options.no_history || !is_live) {
            (_, true) => None,
            (Some(path), false) => Some(path.clone()),
            (None, false) => default("/var/lib/surefoot/history.db"),
        };
        let run_directory = options.run_directory.clone().or_else(|| default(RUN_DIRECTORY));
        Places { history, run_directory }
    }
}

fn start_server(
    options: &WatchOptions,
    mode: Mode,
    statistics: &Statistics,
    page: rooms::ShownFiles,
    root: &Root,
) -> anyhow::Result<Server> {
    let Places { history, run_directory } = Places::of(options, mode == Mode::Live, root);
    // Before anything is made. A file that was not named is root's own, and a watch goes on without it.
    if options.history.is_some()
        && let Some(path) = &history
    {
        History::check(path).with_context(|| format!("--history {}", path.display()))?;
    }
    for folder in [history.as_deref().and_then(std::path::Path::parent), run_directory.as_deref()].into_iter().flatten()
    {
        if !folder.as_os_str().is_empty() {
            std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        }
    }
    // SQLite takes the files beside a history for its own, by name.
    let folder = history.as_deref().and_then(std::path::Path::parent).filter(|folder| !folder.as_os_str().is_empty());
    if let Some(why) = folder.map(surefoot_foreign::way::others_in).transpose()?.flatten() {
        anyhow::bail!("--history: {why}; use a file in a directory that only you can write (mode 700)");
    }
    if options.history.is_some()
        && let Some(path) = history.as_deref().filter(|path| !path.exists())
    {
        // A full disk may have room again.
        let is_for_good = |error: &io::Error| {
            matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
        };
        match std::fs::File::create_new(path).and_then(|_| std::fs::remove_file(path)) {
            Err(error) if is_for_good(&error) => {
                return Err(error).with_context(|| format!("--history {}: cannot be created", path.display()));
            }
            _ => {}
        }
    }
    let config = Config {
        port: (!options.no_page).then_some(options.port),
        history,
        mode,
        run_directory,
        rooms: page.add_to(options.what.rooms.for_daemon()?),
        sources: statistics.clone(),
        trusted: options.health_users.clone(),
        page_group: options.page_group.clone(),
        ..Config::default()
    };
    Ok(Server::start(config)?)
}

/// What the terminal shows.
struct Screen {
    json: bool,
    is_terminal: bool,
    address: Option<String>,
    host: Option<HostDescription>,
    windows: VecDeque<Window>,
    gaps: VecDeque<Gap>,
    notices: VecDeque<String>,
    who: String,
    /// Whose memory errors these are, where they are not this host's.
    banner: Option<String>,
}

/// What to say of memory errors that are those of a recorded tree.
fn banner(options: &WatchOptions) -> Option<String> {
    let tree = options.what.rooms.host_root.as_ref()?;
    let tree = surefoot_model::one_line(&tree.display().to_string());
    Some(format!(
        "Memory errors: those of the recorded tree {tree}, not of this host; health.json and a history are written only where \
         --run-directory and --history say"
    ))
}

impl Screen {
    fn new(options: &WatchOptions, server: &Server) -> Self {
        Screen {
            json: options.json,
            is_terminal: io::stdout().is_terminal(),
            address: server.address().map(|address| format!("http://{address}/")),
            host: None,
            windows: VecDeque::new(),
            gaps: VecDeque::new(),
            notices: VecDeque::new(),
            who: String::new(),
            banner: banner(options),
        }
    }

    fn add(&mut self, event: &Event) -> anyhow::Result<()> {
        if self.json {
            let mut out = output::patient();
            output::line(&mut out, event)?;
            out.flush()?;
        }
        match event {
            Event::Host(host) => {
                self.host = Some(host.clone());
                if !self.is_terminal {
                    self.announce(host)?;
                }
            }
            // Without a table nobody looks at them.
            Event::Window(_) | Event::Gap(_) if self.json || !self.is_terminal => {}
            Event::Window(window) => {
                self.windows.push_back(window.clone());
                if self.windows.len() > RECENT_WINDOWS {
                    self.windows.pop_front();
                }
                let oldest_ns = self.windows.front().map_or(0, |window| window.start_ns);
                self.gaps.retain(|gap| gap.start_ns >= oldest_ns);
            }
            Event::Gap(gap) => {
                if self.gaps.len() == RECENT_GAPS {
                    self.gaps.pop_front();
                }
                self.gaps.push_back(gap.clone());
            }
            Event::GapCorrection(GapCorrection { gap, .. }) => {
                if let Some(kept) = self.gaps.iter_mut().rfind(|kept| kept.is_same(gap)) {
                    kept.clone_from(gap);
                }
            }
            Event::Clock(change) => self.notice(&change.to_string())?,
            Event::Notice(notice) => self.notice(&notice.text)?,
            Event::Who(found) => self.who = who::summary(found, WHO_ROWS),
            // The page has these, and findings tell of them here.
            _ => {}
        }
        Ok(())
    }

    fn notice(&mut self, text: &str) -> io::Result<()> {
        let text = one_line(text);
        if !self.is_terminal && !self.json {
            stdout().write_all(format!("notice: {text}\n").as_bytes())?;
        }
        if self.notices.len() == 3 {
            self.notices.pop_front();
        }
        self.notices.push_back(text);
        Ok(())
    }

    /// What is said once when stdout is not a terminal; on standard error when the output is for a program.
    fn announce(&self, host: &HostDescription) -> io::Result<()> {
        let mut text = String::new();
        if let Some(address) = &self.address {
            text += &format!("page: {address}\n");
        }
        if let Some(banner) = &self.banner {
            text += &format!("{banner}\n");
        }
        if !host.missing.is_empty() {
            text += &format!("reduced: {}\n", host.missing);
        }
        let text = people::clean(&text);
        if self.json { io::stderr().write_all(text.as_bytes()) } else { stdout().write_all(text.as_bytes()) }
    }

    fn draw(&mut self, server: &Server) -> io::Result<()> {
        if self.json {
            return Ok(());
        }
        let (headline, findings) = server.findings();
        if !self.is_terminal {
            let mut out = output::patient();
            writeln!(out, "{}", headline.sentence)?;
            return out.flush();
        }
        // What is drawn with are commands to the terminal, and the only ones.
        let mut out = io::BufWriter::new(stdout());
        let width = terminal::columns().unwrap_or(120);
        // Home, then each line cleared as it is written, then everything below.
        let mut text = String::from("\x1b[H");
        for line in people::clean(&self.text(&headline, &findings, width)).lines() {
            text.extend(line.chars().take(width));
            text.push_str("\x1b[K\n");
        }
        text.push_str("\x1b[J");
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    /// Sentences go on in the next line where the terminal ends; tables are cut there.
    fn text(&self, headline: &Headline, findings: &[Finding], width: usize) -> String {
        let wrapped = |text: &str| -> String {
            text.lines()
                .map(|line| surefoot_console::table::paragraph(line, 0, INDENT, width.saturating_add(1)))
                .collect()
        };
        let mut sum = Report::default();
        self.windows.iter().for_each(|window| sum.add_window(window));
        let mut text = self.banner.as_deref().map_or(String::new(), wrapped);
        text += &wrapped(&headline.sentence);
        // The headline is the first of them.
        let others = findings.iter().filter(|finding| finding.severity > Severity::Ok).skip(1).take(FINDINGS_SHOWN);
        others.for_each(|finding| text += &wrapped(&format!("{}: {}", finding.severity, finding.sentence)));
        if let Some(host) = &self.host {
            let mut about =
                one_line(&format!("{} · last {} · {}", host.hostname, duration(sum.duration_ns()), host.source));
            about += &self.address.as_ref().map_or(String::new(), |address| format!(" · page {address}"));
            text += &wrapped(&(about + " · Ctrl-C ends"));
            if !host.missing.is_empty() {
                text += &wrapped(&format!("Reduced: {}", one_line(&host.missing)));
            }
        }
        let cores = sum.cores();
        text += "\n";
        text += &text::cores(&cores, self.host.as_ref());
        text += &wrapped(&text::faulty(&sum));
        text += "\n";
        let causes: Vec<Lost> = sum.causes().into_iter().take(LIVE_CAUSES).collect();
        text += &text::causes(&causes, &cores, self.host.as_ref(), |_| true);
        let mut longest: Vec<Gap> = self.gaps.iter().cloned().collect();
        longest.sort_by_key(|gap| std::cmp::Reverse(gap.duration_ns));
        longest.truncate(5);
        text += &format!("\nThe longest of {} recent gaps (time against now):\n", self.gaps.len());
        text += &if longest.is_empty() { "none\n".to_owned() } else { text::gap_table(&longest, sum.end_ns) };
        if !self.who.is_empty() {
            text += "\nWho interrupted the cores since the start:\n";
            text += &self.who;
        }
        text += "\n";
        text += &wrapped(&text::cost(&sum.cost, sum.duration_ns()));
        for notice in &self.notices {
            text += &wrapped(&format!("Notice: {notice}"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn sentences_go_on_in_the_next_line_where_the_terminal_ends() {
        let sentence = |word: &str| vec![word; 40].join(" ");
        let mut screen = Screen {
            json: false,
            is_terminal: true,
            address: None,
            host: None,
            windows: VecDeque::new(),
            gaps: VecDeque::new(),
            notices: VecDeque::new(),
            who: String::new(),
            banner: Some(sentence("banner")),
        };
        screen.notice(&sentence("noticed")).unwrap();
        let headline = Headline { severity: Severity::Notice, sentence: sentence("headline") };
        for width in [40, 80, 100] {
            let text = screen.text(&headline, &[], width);
            for word in ["headline", "noticed", "banner"] {
                let lines: Vec<&str> = text.lines().filter(|line| line.contains(word)).collect();
                assert!(lines.iter().all(|line| line.chars().count() <= width), "{width}: {lines:#?}");
                assert_eq!(lines.iter().map(|line| line.matches(word).count()).sum::<usize>(), 40, "none is cut");
            }
            let cost = &text[text.find("Own cost").unwrap()..];
            assert!(cost.lines().all(|line| line.chars().count() <= width), "{width}: {cost}");
        }
    }

    /// A recorded tree is another machine, or none: whoever reads this host's health.json would act on it.
    #[test]
    fn what_a_recorded_tree_says_is_published_only_where_it_is_told_to() {
        let root_of_all = surefoot_testkit::HostTree::new()
            .file("proc/self/status", "Uid:\t0\t0\t0\t0\n")
            .file("proc/self/uid_map", "         0          0 4294967295\n");
        let root = Root::at(root_of_all.path());
        let places = |words: &[&str]| {
            let options = Line::try_parse_from(["watch"].iter().chain(words)).unwrap().options;
            let Places { history, run_directory } = Places::of(&options, true, &root);
            (history, run_directory)
        };
        let path = |path: &str| Some(PathBuf::from(path));
        assert_eq!(places(&[]), (path("/var/lib/surefoot/history.db"), path(RUN_DIRECTORY)));
        assert_eq!(places(&["--host-root", "/tree"]), (None, None));
        let named = ["--host-root", "/tree", "--run-directory", "run", "--history", "kept.db"];
        assert_eq!(places(&named), (path("kept.db"), path("run")));
    }

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        options: WatchOptions,
    }
}
