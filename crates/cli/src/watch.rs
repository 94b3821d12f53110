//! `surefoot watch`: the live table in the terminal and the page on 127.0.0.1.

use crate::args::WatchOptions;
use crate::exit::Outcome;
use crate::units::duration;
use crate::{output, record, report, table, who};
use anyhow::Context;
use std::collections::VecDeque;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use surefoot_daemon::{Config, Mode, Server, verdict};
use surefoot_hostfs::privilege::Privilege;
use surefoot_hostfs::{Root, signals, terminal};
use surefoot_model::{Event, Gap, HostDescription, Lost, Report, Window};
use surefoot_stall::Collector;

/// Windows that the terminal's verdict and tables look back on.
const RECENT_WINDOWS: usize = 60;

/// Gaps of the recent windows that are kept.
const RECENT_GAPS: usize = 4096;

/// Rows of causes in the live table.
const LIVE_CAUSES: usize = 12;

/// Rows of interrupts with their raisers in the live table.
const WHO_ROWS: usize = 6;

pub fn run(options: &WatchOptions) -> anyhow::Result<Outcome> {
    let stop = signals::stop_flag()?;
    match &options.replay {
        Some(file) => replay(options, file, stop),
        None => live(options, stop),
    }
}

fn live(options: &WatchOptions, stop: &AtomicBool) -> anyhow::Result<Outcome> {
    let root = Root::host();
    report::check_process(&options.what, &root)?;
    report::check_times(&options.what, options.interval, options.duration)?;
    let config = report::config(&options.what, options.interval).checked(&root)?;
    report::settle(&options.what, &root);
    let server = start_server(options, Mode::Live, &root)?;
    let mut collector = Collector::start(&root, config)?;
    let mut screen = Screen::new(options, server.as_ref());
    let start = Instant::now();
    for event in collector.opening() {
        take(event, server.as_ref(), &mut screen)?;
    }
    while !stop.load(Ordering::Relaxed) && options.duration.is_none_or(|duration| start.elapsed() < duration) {
        for event in collector.next_window(stop)? {
            take(event, server.as_ref(), &mut screen)?;
        }
        // What the server itself has to say, of its history for instance, it has published already.
        for notice in server.iter().flat_map(Server::take_notices) {
            screen.add(&Event::Notice(notice))?;
        }
        screen.draw()?;
    }
    for event in collector.closing() {
        take(event, server.as_ref(), &mut screen)?;
    }
    if let Some(server) = server {
        server.stop();
    }
    Ok(Outcome::Done)
}

fn take(event: Event, server: Option<&Server>, screen: &mut Screen) -> anyhow::Result<()> {
    screen.add(&event)?;
    if let Some(server) = server {
        server.publish(event);
    }
    Ok(())
}

/// Shows a recording: the report in the terminal, the page for as long as it is looked at.
fn replay(options: &WatchOptions, file: &std::path::Path, stop: &AtomicBool) -> anyhow::Result<Outcome> {
    let mut events = Vec::new();
    let outcome = record::read(file, |event| events.push(event))?;
    let sum = Report::of(&events);
    let mut out = io::stdout().lock();
    report::print(&mut out, &sum, &crate::args::Filter::default(), options.json)?;
    let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned();
    let Some(server) = start_server(options, Mode::Replay { file: name }, &Root::host())? else {
        return Ok(outcome);
    };
    events.into_iter().for_each(|event| server.publish(event));
    if !options.json {
        writeln!(out, "\nThe recording as a page: http://{}/ (Ctrl-C ends it)", server.address())?;
    }
    drop(out);
    let start = Instant::now();
    while !stop.load(Ordering::Relaxed) && options.duration.is_none_or(|duration| start.elapsed() < duration) {
        std::thread::sleep(Duration::from_millis(50));
    }
    server.stop();
    Ok(outcome)
}

fn start_server(options: &WatchOptions, mode: Mode, root: &Root) -> anyhow::Result<Option<Server>> {
    if options.no_page {
        return Ok(None);
    }
    let is_live = mode == Mode::Live;
    let is_root = Privilege::read(root).is_root();
    let default = |path: &str| (is_live && is_root).then(|| PathBuf::from(path));
    let history = match (&options.history, options.no_history || !is_live) {
        (_, true) => None,
        (Some(path), false) => Some(path.clone()),
        (None, false) => default("/var/lib/surefoot/history.db"),
    };
    let run_directory = options.run_directory.clone().or_else(|| default("/run/surefoot"));
    for folder in [history.as_deref().and_then(std::path::Path::parent), run_directory.as_deref()].into_iter().flatten()
    {
        if !folder.as_os_str().is_empty() {
            std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        }
    }
    // Absolute, because the page shows commands that somebody pastes elsewhere.
    let checkpoints = options.checkpoints.iter().map(std::path::absolute).collect::<io::Result<_>>();
    let checkpoints = checkpoints.context("cannot tell the working directory, which --checkpoints is relative to")?;
    let config = Config { port: options.port, history, mode, run_directory, checkpoints, ..Config::default() };
    Ok(Some(Server::start(config)?))
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
}

impl Screen {
    fn new(options: &WatchOptions, server: Option<&Server>) -> Self {
        Screen {
            json: options.json,
            is_terminal: io::stdout().is_terminal(),
            address: server.map(|server| format!("http://{}/", server.address())),
            host: None,
            windows: VecDeque::new(),
            gaps: VecDeque::new(),
            notices: VecDeque::new(),
            who: String::new(),
        }
    }

    fn add(&mut self, event: &Event) -> anyhow::Result<()> {
        if self.json {
            let mut out = io::stdout().lock();
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
            Event::Notice(notice) => {
                if !self.is_terminal && !self.json {
                    writeln!(io::stdout().lock(), "notice: {}", notice.text)?;
                }
                if self.notices.len() == 3 {
                    self.notices.pop_front();
                }
                self.notices.push_back(notice.text.clone());
            }
            Event::Who(found) => self.who = who::summary(found, WHO_ROWS),
            Event::Capabilities { .. } => {}
        }
        Ok(())
    }

    /// What is said once where the output is no terminal; on standard error when the output is for a program.
    fn announce(&self, host: &HostDescription) -> io::Result<()> {
        let mut text = String::new();
        if let Some(address) = &self.address {
            text += &format!("page: {address}\n");
        }
        if !host.missing.is_empty() {
            text += &format!("reduced: {}\n", host.missing);
        }
        if self.json { io::stderr().write_all(text.as_bytes()) } else { io::stdout().write_all(text.as_bytes()) }
    }

    fn draw(&mut self) -> io::Result<()> {
        if self.json {
            return Ok(());
        }
        let gaps: Vec<Gap> = self.gaps.iter().cloned().collect();
        let sentence = verdict::of(self.windows.make_contiguous(), &gaps).sentence;
        let mut out = io::stdout().lock();
        if !self.is_terminal {
            writeln!(out, "{sentence}")?;
            return out.flush();
        }
        let width = terminal::columns().unwrap_or(120);
        // Home, then each line cleared as it is written, then everything below.
        let mut text = String::from("\x1b[H");
        for line in self.text(&sentence, &gaps).lines() {
            text.extend(line.chars().take(width));
            text.push_str("\x1b[K\n");
        }
        text.push_str("\x1b[J");
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    fn text(&mut self, sentence: &str, gaps: &[Gap]) -> String {
        let mut sum = Report::default();
        for window in &self.windows {
            sum.add(&Event::Window(window.clone()));
        }
        let mut text = format!("{sentence}\n");
        if let Some(host) = &self.host {
            text += &format!("{} · last {} · {}", host.hostname, duration(sum.duration_ns()), host.source);
            text += &self.address.as_ref().map_or(String::new(), |address| format!(" · page {address}"));
            text += " · Ctrl-C ends\n";
            if !host.missing.is_empty() {
                text += &format!("Reduced: {}\n", host.missing);
            }
        }
        let cores = sum.cores();
        text += "\n";
        text += &table::cores(&cores);
        text += "\n";
        let causes: Vec<Lost> = sum.causes().into_iter().take(LIVE_CAUSES).collect();
        text += &table::causes(&causes, &cores, |_| true);
        let mut longest: Vec<Gap> = gaps.to_vec();
        longest.sort_by_key(|gap| std::cmp::Reverse(gap.duration_ns));
        longest.truncate(5);
        text += &format!("\nThe longest of {} recent gaps (time against now):\n", gaps.len());
        text += &if longest.is_empty() { "none\n".to_owned() } else { table::gap_table(&longest, sum.end_ns) };
        if !self.who.is_empty() {
            text += "\nWho interrupted the cores since the start:\n";
            text += &self.who;
        }
        text += "\n";
        text += &table::cost(&sum.cost, sum.duration_ns());
        for notice in &self.notices {
            text += &format!("Notice: {notice}\n");
        }
        text
    }
}
