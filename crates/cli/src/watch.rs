//! `surefoot watch`: the live screen in the terminal and the page on 127.0.0.1.

use crate::args::{RUN_DIRECTORY, WatchOptions};
use crate::config::{self, Question};
use crate::rooms::{self, Summary};
use crate::service::{self, Journal, Notify};
use crate::stall::{record, report};
use anyhow::Context;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use surefoot_console::exit::Outcome;
use surefoot_console::{output, people};
use surefoot_daemon::sources::Statistics;
use surefoot_daemon::{Config, Extent, Listen, Mode, Server};
use surefoot_hostfs::Root;
use surefoot_hostfs::privilege::Privilege;
use surefoot_model::{Event, HostDescription, one_line};
use surefoot_settings::Origin;
use surefoot_store::history::History;
use surefoot_sys::roles::OfWatch;
use surefoot_sys::stdout::stdout;
use surefoot_sys::terminal::{self, Terminal, Way};
use surefoot_sys::{memory, peer, signals};
use surefoot_terminal::{Kept, Look, RoomState};

/// How long a recording may take to get into the page before its address is told.
const SETTLE: Duration = Duration::from_secs(30);

/// The file that keeps the counts of memory errors, beside the history.
const MEMORY_COUNTS: &str = "memory-counts.json";

/// How often it is told at least what is found.
const JUDGED: Duration = Duration::from_secs(1);

/// How often free memory goes back to the kernel: the largest burst of records must not be what a watch holds for good.
const GIVE_BACK: Duration = Duration::from_secs(30);

pub fn run(options: &WatchOptions) -> anyhow::Result<Outcome> {
    if let Some(file) = &options.replay {
        return replay(options, file);
    }
    let root = Root::host();
    // First of all: until then SIGHUP ends the process.
    let wishes = signals::wishes(&root)?;
    let question = Question::of(options, &root);
    let held = question.ask()?;
    live(&config::applied(options, &held)?, wishes.map(|wishes| (wishes, question)))
}

fn live(options: &WatchOptions, reload: Option<(signals::Wishes, Question)>) -> anyhow::Result<Outcome> {
    let root = Root::host();
    expect_possible(options, &root)?;
    let page = options.page.open()?;
    let places = Places::of(options, true, &root);
    // Before privileges go: it may be another user's.
    let terminal = terminal_of(options.json);
    let sockets = options.listen.listen.iter().filter_map(|place| match place {
        Listen::Unix(path) => Some(path),
        Listen::Tcp(_) => None,
    });
    let written: Vec<PathBuf> =
        [&places.history, &places.run_directory].into_iter().flatten().chain(sockets).cloned().collect();
    let (who, of_rooms) = (options.what.who.is_some(), options.what.rooms.privileges());
    let mut notify = Notify::of_environment()?;
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
    if let Some((wishes, question)) = reload {
        read_again(&server, wishes, question, notify.reloading())?;
    }
    let is_stall_watched = options.what.rooms.settings.now().settings.stall.watched;
    if is_stall_watched {
        options.what.forewarn(&root);
    }
    let running = rooms::start(sources, &statistics, options.duration)?;
    privileges.go_on(&root).context("privileges that a watch needs no more")?;
    let mut told = Output::new(options, &server, terminal, places.history)?;
    let (mut given_back, mut judged) = (Instant::now(), Instant::now());
    // Lines are for windows; a journal and a screen also tell of what changes between two, and where lost time is not watched.
    let judged_every = match told {
        Output::Lines if is_stall_watched => options.interval.saturating_mul(2),
        Output::Lines => options.interval,
        Output::Json | Output::Journal(_) | Output::Live(_) => JUDGED,
    };
    notify.ready();
    while let Some(events) = running.next_turn() {
        if given_back.elapsed() >= GIVE_BACK {
            memory::give_back();
            given_back = Instant::now();
        }
        let is_window = events.iter().any(|event| matches!(event, Event::Window(_)));
        // A reader of lines that stopped reading must not keep the page, the history and health.json from going on. The screen of a
        // terminal never waits for it.
        events.iter().for_each(|event| server.publish(event.clone()));
        events.iter().try_for_each(|event| told.add(event, options, &server))?;
        // What the server itself has to say, of its history for instance, it has published already.
        for notice in server.take_notices() {
            told.add(&Event::Notice(notice), options, &server)?;
        }
        if is_window || judged.elapsed() >= judged_every {
            judged = Instant::now();
            told.judge(&server)?;
            notify.status(Instant::now(), || server.findings().0.sentence);
        }
        // By this thread, between two turns: one that hangs in a turn gives no sign of life.
        if server.is_at_work() {
            notify.alive(Instant::now());
        }
    }
    notify.stopping();
    // The terminal first: the rest may take seconds.
    drop(told);
    // What the server has goes to the history first: a source may hang for good.
    server.stop();
    rooms::end(running);
    Ok(Outcome::Done)
}

/// Reads the settings again at each wish, for as long as the process runs.
fn read_again(
    server: &Server,
    mut wishes: signals::Wishes,
    question: Question,
    told: service::Reloading,
) -> anyhow::Result<()> {
    let reloader = server.reloader();
    let again = move || {
        while wishes.wait() {
            told.around(|| _ = reloader.reload(question.ask()));
        }
    };
    std::thread::Builder::new().name("surefoot-settings".to_owned()).spawn(again)?;
    Ok(())
}

/// Refuses what cannot be watched on this host, before anything is changed; an error about a setting says where it was set.
///
/// # Errors
/// What, and why.
pub fn expect_possible(options: &WatchOptions, root: &Root) -> anyhow::Result<()> {
    let held = options.what.rooms.settings.now();
    let of = |keys: &[&str], outcome: anyhow::Result<()>| {
        let set = |key: &&&str| matches!(held.origin(key), Origin::File { .. } | Origin::Variable(_));
        let places: Vec<String> = keys.iter().filter(set).map(|key| format!("{}: {key}", held.origin(key))).collect();
        match places.is_empty() {
            true => outcome,
            false => outcome.with_context(|| places.join(", ")),
        }
    };
    report::check_workload(&options.what, root)?;
    of(&["stall.interval", "stall.min_gap"], report::check_times(&options.what, options.interval, options.duration))?;
    let cores = report::config(&options.what, options.interval).checked(root);
    of(&["stall.cores", "stall.who", "stall.sentinel"], cores.map(drop).map_err(Into::into))?;
    of(&["page.group"], check_group(options.page_group.as_deref(), root))?;
    let rooms = options.what.rooms.for_daemon().map(drop);
    of(&["memory.redfish", "memory.event_log", "memory.bmc_user", "memory.bmc_password_file", "remedy.checks"], rooms)?;
    if let Some(path) = options.history.as_deref().filter(|_| !options.no_history) {
        of(&["history.file"], check_history(path))?;
    }
    let listening = options.listen.listening().map(drop).and_then(|()| {
        let is_served = !options.no_page || options.listen.listen.is_empty();
        anyhow::ensure!(is_served, "--listen serves what page.served = false or --no-page switches off");
        Ok(options.listen.listening()?.check()?)
    });
    let files = ["listen.certificate", "listen.key", "listen.client_authority", "listen.roles"];
    of(&[&["page.served", "listen.addresses"], &files[..]].concat(), listening)
}

/// Refuses a history that cannot be one, or whose directory is not there: a name that was typed wrongly makes no directory.
fn check_history(path: &std::path::Path) -> anyhow::Result<()> {
    History::check(path).with_context(|| format!("--history {}", path.display()))?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| matches!(folder.try_exists(), Ok(false))) {
        anyhow::bail!(
            "--history {}: {} does not exist; create it first, for you alone (mkdir -m 700)",
            path.display(),
            folder.display()
        );
    }
    Ok(())
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
    let mut sum = Summary::judging()?;
    let outcome = record::read(file, |event| {
        sum.add(&event);
        events.push(event);
    })?;
    let mut out = output::patient();
    sum.print(&mut out, &crate::args::Filter::all(), options.json)?;
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
        server.tell(surefoot_daemon::running::FILE_NAME, surefoot_daemon::running::announcement(address, &who));
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
    let held = options.what.rooms.settings.now();
    let set = &held.settings;
    let kept = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
    let config = Config {
        port: (!options.no_page).then_some(options.port),
        history,
        mode,
        run_directory,
        rooms: page.add_to(options.what.rooms.for_daemon()?),
        sources: statistics.clone(),
        trusted: options.health_users.clone(),
        page_group: options.page_group.clone(),
        listen: options.listen.listening()?,
        metrics: Extent {
            detail: options.metrics_detail,
            series_max: options.metrics_series.map(|series| series as usize),
            edac: options.metrics_edac,
        },
        keep_windows: kept(set.page.windows),
        keep_gaps: kept(set.page.gaps),
    };
    Ok(Server::start(config)?)
}

/// Where a watch tells what it sees.
enum Output {
    /// JSON lines.
    Json,
    /// The headline at each window, and notices.
    Lines,
    /// The journal of a service: findings when they change, and notices.
    Journal(Box<Journal>),
    /// A terminal.
    Live(surefoot_terminal::Screen),
}

/// What the user's terminal can do, from its environment; `None` where standard output is none, or one that can move no cursor.
pub fn terminal_of(is_json: bool) -> Option<(Terminal, Way, Look)> {
    let variable = |name| std::env::var_os(name).unwrap_or_default().to_string_lossy().into_owned();
    let term = variable("TERM");
    if is_json || !io::stdout().is_terminal() || matches!(term.as_str(), "" | "dumb" | "unknown") {
        return None;
    }
    let colours = variable("NO_COLOR").is_empty() && !term.starts_with("vt") && !term.ends_with("-m");
    let way = surefoot_terminal::way(&term, terminal::size().map_or(24, |size| size.1));
    Terminal::open(&way).ok().map(|terminal| (terminal, way, Look { colours }))
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

impl Output {
    fn new(
        options: &WatchOptions,
        server: &Server,
        terminal: Option<(Terminal, Way, Look)>,
        history: Option<PathBuf>,
    ) -> io::Result<Self> {
        if options.json {
            let mut out = output::patient();
            output::stream(&mut out, "watch")?;
            out.flush()?;
            return Ok(Output::Json);
        }
        let Some((terminal, way, look)) = terminal else {
            let journal = Journal::of_stdout(&Root::host());
            return Ok(journal.map_or(Output::Lines, |journal| Output::Journal(Box::new(journal))));
        };
        let address = server.address().map(|address| format!("http://{address}/"));
        let kept = Kept::new(address, banner(options));
        let past = history.map(surefoot_terminal::history::reader);
        surefoot_terminal::Screen::begin(terminal, kept, look, way, past).map(Output::Live)
    }

    fn add(&mut self, event: &Event, options: &WatchOptions, server: &Server) -> anyhow::Result<()> {
        match (self, event) {
            (Output::Live(screen), event) => screen.add(event),
            (Output::Journal(journal), Event::Host(host)) => {
                opening(host, options, server).lines().try_for_each(|line| journal.line(service::INFO, line))?;
            }
            (Output::Journal(journal), Event::Clock(change)) => journal.line(service::NOTICE, &change.to_string())?,
            (Output::Journal(journal), Event::Notice(told)) => journal.line(service::NOTICE, &told.text)?,
            (Output::Json, event) => {
                let mut out = output::patient();
                output::line(&mut out, event)?;
                out.flush()?;
                if let Event::Host(host) = event {
                    io::stderr().write_all(opening(host, options, server).as_bytes())?;
                }
            }
            (Output::Lines, Event::Host(host)) => stdout().write_all(opening(host, options, server).as_bytes())?,
            (Output::Lines, Event::Clock(change)) => notice(&change.to_string())?,
            (Output::Lines, Event::Notice(told)) => notice(&told.text)?,
            // The page has these, and findings tell of them here.
            (Output::Lines | Output::Journal(_), _) => {}
        }
        Ok(())
    }

    /// After a window: what the judge says.
    fn judge(&mut self, server: &Server) -> io::Result<()> {
        match self {
            Output::Json => {}
            Output::Lines => {
                let mut out = output::patient();
                writeln!(out, "{}", server.findings().0.sentence)?;
                out.flush()?;
            }
            Output::Journal(journal) => journal.findings(&server.findings().1)?,
            Output::Live(screen) => {
                let (headline, findings) = server.findings();
                let state = |(room, why_not_watched)| RoomState { room, why_not_watched };
                screen.judge(headline, findings, server.rooms().into_iter().map(state).collect());
            }
        }
        Ok(())
    }
}

fn notice(text: &str) -> io::Result<()> {
    stdout().write_all(format!("notice: {}\n", one_line(text)).as_bytes())
}

/// What is said once when stdout is not a terminal; on standard error when the output is for a program.
fn opening(host: &HostDescription, options: &WatchOptions, server: &Server) -> String {
    let mut text = String::new();
    if let Some(address) = server.address() {
        text += &format!("page: http://{address}/\n");
    }
    let scheme = if options.listen.tls_certificate.is_some() { "https" } else { "http" };
    for place in server.places() {
        text += &match place {
            Listen::Tcp(address) => format!("by roles: {scheme}://{address}/\n"),
            Listen::Unix(_) => format!("by roles: {place}\n"),
        };
    }
    if let Some(banner) = banner(options) {
        text += &format!("{banner}\n");
    }
    if !host.missing.is_empty() {
        text += &format!("reduced: {}\n", host.missing);
    }
    people::clean(&text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    /// A recorded tree is another machine, or none: whoever reads this host's health.json would act on it.
    #[test]
    fn what_a_recorded_tree_says_is_published_only_where_it_is_told_to() {
        let root_of_all = surefoot_testkit::HostTree::new()
            .file("proc/self/status", "Uid:\t0\t0\t0\t0\n")
            .file("proc/self/uid_map", "         0          0 4294967295\n");
        let root = Root::at(root_of_all.path());
        let places = |words: &[&str]| {
            let options = TestArguments::try_parse_from(["watch"].iter().chain(words)).unwrap().options;
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
    struct TestArguments {
        #[command(flatten)]
        options: WatchOptions,
    }
}
