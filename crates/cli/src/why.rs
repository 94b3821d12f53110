//! `surefoot why`: what matters most now, and who takes time from a process.

use crate::args::{Command, RUN_DIRECTORY, Source, StallCommand, What, can_attach};
use crate::rooms::Summary;
use crate::stall::{report, threads};
use clap::{Args, Parser};
use serde::Serialize;
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use surefoot_console::exit::Outcome;
use surefoot_console::table::Table;
use surefoot_console::units::{duration, parse_time, percent};
use surefoot_console::{output, words};
use surefoot_daemon::running;
use surefoot_daemon::why::{Unwatched, Why};
use surefoot_daemon::{Config, Server};
use surefoot_hostfs::namespaces::{Kind, Namespaces, Place};
use surefoot_hostfs::{Root, clock, cpus};
use surefoot_model::{Event, Finding, HostDescription, Lost, Report, one_line};
use surefoot_rooms::rules::Next;
use surefoot_stall::WINDOW_RANGE;
use surefoot_stall::victim::{Account, Counts, Course, Took, of_unit};

/// Lines of evidence and takers that are shown.
const EVIDENCE_SHOWN: usize = 3;
const TAKERS_SHOWN: usize = 5;
const FROM_CORES_SHOWN: usize = 3;

/// How long the judge may take nothing in before the answer is of a part of what was seen.
const SETTLE: Duration = Duration::from_secs(60);

/// The shortest part of a wait from before the look that is reported: less is the two clocks' difference.
const TOLD_BEFORE_NS: u64 = 1_000_000;

/// Options of [`What`] that work here as in `surefoot watch` and are not in this command's help: it is about one answer now.
const NOT_IN_HELP: [&str; 12] = [
    "sentinel",
    "min_gap",
    "workload",
    "experiments",
    "redfish",
    "redfish_system",
    "redfish_ca",
    "redfish_insecure",
    "event_log",
    "bmc_user",
    "bmc_password_file",
    "bmc_timeout",
];

#[derive(Args)]
#[command(
    mut_arg("pid", |pid| pid.help("Say who takes time from this process")),
    mut_arg("comm", |comm| comm.help("Say who takes time from the threads with this name")),
    mut_args(|option| { let hide = NOT_IN_HELP.contains(&option.get_id().as_str()); option.hide(hide) }),
)]
pub struct WhyOptions {
    #[command(flatten)]
    pub what: What,
    /// Say who takes time from the processes of this systemd unit
    #[arg(long, value_name = "UNIT", conflicts_with_all = ["pid", "comm", "workload"])]
    pub unit: Option<String>,
    /// How long to look, where a process is named or no watch runs
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_time)]
    pub duration: Duration,
    /// Where a running watch is looked for
    #[arg(long, value_name = "DIR", default_value = RUN_DIRECTORY)]
    pub run_directory: PathBuf,
    /// JSON lines instead of text
    #[arg(long)]
    pub json: bool,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "WhyLine"))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Line<'a> {
    /// What matters most on this host.
    Why {
        /// The worst finding; `null` where nothing is known.
        finding: Option<&'a Finding>,
        /// What to run next; `null` where no command helps.
        next: Option<&'a Next>,
        /// Findings above OK beside it.
        others: usize,
        /// Rooms that look at nothing: of these nothing is known.
        not_watched: &'a [Unwatched],
        /// Age of the newest data of the watch that was asked; `null` where it was looked for this answer.
        watch_age_ns: Option<u64>,
    },
    /// Who took time from a process.
    Victim {
        /// The processes, as they were named.
        of: &'a str,
        /// How long was looked.
        duration_ns: u64,
        /// Time on a core, by the scheduler's count, nanoseconds; `null` where it is not known.
        ran_ns: Option<u64>,
        /// Time ready to run without a core, by the scheduler's count, nanoseconds; `null` where it is not known.
        waited_ns: Option<u64>,
        /// What was left out of waits that ended during the look, because they had begun before it; `null` where it is not known.
        waited_before_ns: Option<u64>,
        /// Threads that ended during the look; both times lack what they took after they were last looked at.
        lost_threads: Option<usize>,
        /// What the tasks below took together, nanoseconds; `null` where that is not traced.
        named_ns: Option<u64>,
        /// What is left of the wait, nanoseconds; `null` where either is not known.
        unnamed_ns: Option<u64>,
        /// Tasks that had the core while it waited, largest first; `null` where that is not traced.
        takers: Option<&'a [Lost]>,
        /// What interrupts, kernel threads and the hypervisor took from the cores, from any task that ran there.
        from_cores: &'a [Lost],
    },
}

pub fn run(options: &WhyOptions) -> anyhow::Result<Outcome> {
    let root = Root::host();
    report::check_duration(options.duration)?;
    let is_of_process = options.what.pid.is_some() || options.what.comm.is_some() || options.unit.is_some();
    let mut out = output::patient();
    if is_of_process {
        of_process(options, &root, &mut out)?;
    } else {
        of_host(options, &root, &mut out)?;
    }
    out.flush()?;
    Ok(Outcome::Done)
}

fn of_host(options: &WhyOptions, root: &Root, out: &mut impl Write) -> anyhow::Result<()> {
    let began_realtime_ns = clock::realtime_ns();
    let (why, missing, age_ns) = match running::overview(&options.run_directory, root) {
        Some(Ok(seen)) => {
            let cores = cores_of(seen.host.as_ref().map_or(&[], |host| &host.cpus), root);
            let age_ns = seen.age_ns;
            let missing = seen.host.as_ref().map_or_else(String::new, |host| host.missing.clone());
            let (findings, left_out, unwatched) = seen.into_parts();
            let mut why = Why::of(findings, unwatched, &cores);
            // Those that are left out are none that is worse.
            why.others = why.others.saturating_add(usize::try_from(left_out)?);
            (why, missing, Some(age_ns))
        }
        asked => {
            if let Some(Err(why)) = asked {
                surefoot_console::tell!(
                    "surefoot: {why}; this looks at the host itself, for {}",
                    duration(nanoseconds(options.duration))
                );
            }
            let (why, missing) = look(options, root)?;
            (why, missing, None)
        }
    };
    let here = Here::of(Namespaces::of_this_process());
    if options.json {
        output::stream(out, "why")?;
        let Why { finding, next, others, not_watched, .. } = &why;
        let (finding, next) = (finding.as_ref(), next.as_ref().filter(|next| here.runs(&next.command)));
        let line = Line::Why { finding, next, others: *others, not_watched, watch_age_ns: age_ns.flatten() };
        return Ok(output::line(out, &line)?);
    }
    write!(out, "{}", text(&why, began_realtime_ns, here))?;
    if !missing.is_empty() {
        writeln!(out, "Reduced: {}", one_line(&missing))?;
    }
    match age_ns {
        Some(Some(age)) => {
            writeln!(out, "From the running watch; its newest data are {} old.", words::time(age as f64 / 1e9))?;
        }
        Some(None) => writeln!(out, "From the running watch, which has no data yet.")?,
        None => writeln!(
            out,
            "Measured for {}; `surefoot watch` measures all the time.",
            duration(nanoseconds(options.duration))
        )?,
    }
    Ok(())
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The cores that a command is to look at: those of the data, otherwise all.
fn cores_of(cores: &[surefoot_model::CpuId], root: &Root) -> String {
    match cores {
        [] => cpus::online(root).map_or_else(|_| "0".to_owned(), |all| cpus::format_list(&all)),
        some => cpus::format_list(some),
    }
}

/// The cores that these processes may run on; `None` where that cannot be read of one of them.
fn allowed_cores(root: &Root, pids: &[u32]) -> Option<String> {
    let of = |pid: &u32| {
        let status = root.read(root.proc(format!("{pid}/status"))).ok()?;
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
        cpus::parse_list(list.trim()).ok()
    };
    let all: Option<BTreeSet<surefoot_model::CpuId>> =
        pids.iter().map(of).collect::<Option<Vec<_>>>().map(|lists| lists.into_iter().flatten().collect());
    let online = cpus::online(root).ok()?;
    let cores: Vec<_> = online.into_iter().filter(|core| all.as_ref().is_some_and(|all| all.contains(core))).collect();
    (!cores.is_empty()).then(|| cpus::format_list(&cores))
}

/// Looks at this host for a while, with what a watch would find, and says what lacks to see more.
fn look(options: &WhyOptions, root: &Root) -> anyhow::Result<(Why, String)> {
    let window = options.duration.clamp(WINDOW_RANGE.0, Duration::from_secs(1));
    report::check_times(&options.what, window, Some(options.duration))?;
    let config = Config { port: None, rooms: options.what.rooms.for_daemon()?, ..Config::default() };
    let server = Server::start(config)?;
    let mut host = None;
    report::collect(root, &options.what, window, options.duration, |event| {
        if let Event::Host(seen) = &event {
            host = Some((seen.cpus.clone(), seen.missing.clone()));
        }
        server.publish(event);
        Ok(())
    })?;
    if !server.settle(SETTLE) {
        surefoot_console::tell!(
            "surefoot: this machine was too busy to judge all that was seen; the answer is of a part of it"
        );
    }
    let (_, findings) = server.findings();
    let unwatched = server.rooms().into_iter().filter_map(|(room, why)| Some(Unwatched { room, why: why? })).collect();
    server.stop();
    let (cpus, missing) = host.unwrap_or_default();
    Ok((Why::of(findings, unwatched, &cores_of(&cpus, root)), missing))
}

/// `began_realtime_ns` is when this command began: without a watch nothing was seen to begin.
fn text(why: &Why, began_realtime_ns: u64, here: Here) -> String {
    let mut text = String::new();
    match &why.finding {
        None => text += "Nothing is known yet: nothing has been checked.\n",
        Some(finding) => {
            let severity = finding.severity.as_str().to_uppercase();
            text += &format!("{severity}, {}: {}\n", finding.certainty.label(), finding.sentence);
            for line in finding.evidence.iter().take(EVIDENCE_SHOWN) {
                text += &format!("  {line}\n");
            }
            if let more @ 1.. = finding.evidence.len().saturating_sub(EVIDENCE_SHOWN) {
                text += &format!("  and {more} more\n");
            }
            let (since_ns, now_ns) = (finding.since_realtime_ns, clock::realtime_ns());
            let since = words::utc(since_ns);
            text += &match now_ns.checked_sub(since_ns) {
                _ if since_ns == 0 || (began_realtime_ns..=now_ns).contains(&since_ns) => String::new(),
                Some(age_ns) => format!("Seen since {since} UTC, for {}.\n", words::time(age_ns as f64 / 1e9)),
                None => format!("Seen since {since} UTC, which is in the future by this host's clock.\n"),
            };
        }
    }
    match (&why.next, why.to_do) {
        (Some(next), _) => text += &here.to_run(&next.command, &next.effect),
        (None, "") => {}
        (None, to_do) => text += &format!("What to do: {to_do}\n"),
    }
    if let others @ 1.. = why.others {
        let are = if others == 1 { "1 more finding".to_owned() } else { format!("{others} more findings") };
        text += &format!("{are}: `surefoot watch` lists all, `surefoot history` those of the past.\n");
    }
    if !why.not_watched.is_empty() {
        let rooms: Vec<&str> = why.not_watched.iter().map(|unwatched| unwatched.room.label()).collect();
        text += &format!("Not checked: {}.\n", rooms.join(", "));
    }
    text
}

fn of_process(options: &WhyOptions, root: &Root, out: &mut impl Write) -> anyhow::Result<()> {
    report::check_workload(&options.what, root)?;
    if can_attach(root) {
        threads::expect_comm(options.what.comm.as_deref(), root)?;
    }
    let window = options.duration.clamp(WINDOW_RANGE.0, Duration::from_secs(1));
    report::check_times(&options.what, window, Some(options.duration))?;
    let mut what = options.what.clone();
    let (name, pids) = match (&options.unit, what.pid, &what.comm) {
        (Some(unit), ..) => {
            let pids = of_unit(root, unit).map_err(|why| anyhow::anyhow!("--unit {unit}: {why}"))?;
            (format!("unit {unit}"), pids)
        }
        (None, Some(pid), _) => (format!("process {pid}"), vec![pid]),
        (None, None, comm) => {
            let comm = comm.as_deref().unwrap_or_default();
            (format!("threads called {comm}"), Vec::new())
        }
    };
    let is_traced = what.source != Source::Counters && can_attach(root);
    if is_traced {
        what.processes = if options.unit.is_some() { pids.clone() } else { Vec::new() };
    } else {
        // The scheduler says how long it waited; who ran meanwhile only tracing says.
        anyhow::ensure!(
            !pids.is_empty(),
            "--comm needs eBPF, and so root; --pid says without it how long a process waited"
        );
        what = What { source: Source::Counters, pid: None, ..what };
    }
    let allowed = allowed_cores(root, &pids);
    let comm = options.what.comm.as_deref().filter(|_| pids.is_empty());
    let counts = || match comm {
        Some(comm) => Some(Counts::read_named(root, comm)),
        None => (!pids.is_empty()).then(|| Counts::read(root, &pids)),
    };
    let mut looks: Option<(io::Result<Course>, Instant)> = None;
    let mut sum = Summary::default();
    let mut counted = Duration::ZERO;
    report::collect(root, &what, window, options.duration, |event| {
        match &mut looks {
            None => {
                let began = Instant::now();
                looks = counts().map(|first| (first.map(Course::begin), began));
            }
            Some((course, began)) if matches!(event, Event::Window(_)) => {
                let later = counts();
                counted = began.elapsed();
                match (course.as_mut(), later) {
                    (Ok(course), Some(Ok(later))) => course.look(later, counted),
                    (_, Some(Err(error))) => *course = Err(error),
                    _ => {}
                }
            }
            Some(_) => {}
        }
        sum.add(&event);
        Ok(())
    })?;
    let took = match looks {
        Some((Ok(course), _)) => Some(course.took()),
        Some((Err(error), _)) => {
            surefoot_console::tell!("surefoot: how long {name} waited is not known: {error}");
            None
        }
        None => None,
    };
    let account = Account::of(&sum.stall, took.as_ref());
    let cores = allowed.unwrap_or_else(|| cores_of(sum.stall.host.as_ref().map_or(&[], |host| &host.cpus), root));
    if options.json {
        output::stream(out, "why")?;
        let line = Line::Victim {
            of: &name,
            duration_ns: nanoseconds(counted),
            ran_ns: took.map(|took| took.ran_ns),
            waited_ns: took.map(|took| took.waited_ns),
            waited_before_ns: took.map(|took| took.waited_before_ns),
            lost_threads: took.map(|took| took.lost_threads),
            named_ns: is_traced.then_some(account.named_ns),
            unnamed_ns: account.unnamed_ns.filter(|_| is_traced),
            takers: is_traced.then_some(&account.takers),
            from_cores: &account.from_cores,
        };
        output::line(out, &line)?;
    } else {
        write!(
            out,
            "{}",
            victim(
                &name,
                counted,
                &sum.stall,
                took.as_ref(),
                &account,
                &cores,
                Here::of(Namespaces::of_this_process())
            )
        )?;
    }
    Ok(())
}

fn victim(
    name: &str,
    counted: Duration,
    report: &Report,
    took: Option<&Took>,
    account: &Account,
    cores: &str,
    here: Here,
) -> String {
    let wall = duration(if took.is_some() { nanoseconds(counted) } else { report.duration_ns() });
    let is_traced = report.host.as_ref().is_some_and(HostDescription::is_traced);
    let mut text = match took {
        Some(took) if took.ran_ns == 0 && took.waited_ns == 0 => {
            format!("In {wall}, {name} neither ran nor waited for a core: it slept, or was stopped.\n")
        }
        Some(took) => {
            let wanted = took.ran_ns.saturating_add(took.waited_ns);
            let bound = if took.lost_threads > 0 { "at least " } else { "" };
            // Of several threads at once the sum may be more than the time.
            let together =
                if took.threads > 1 { format!(" ({} threads together)", took.threads) } else { String::new() };
            format!(
                "In {wall}, {name}{together} ran for {bound}{} and waited for a core for {bound}{}: {} of the time in which it could run.\n",
                duration(took.ran_ns),
                duration(took.waited_ns),
                percent(took.waited_ns, wanted),
            )
        }
        None => format!("In {wall}; how long {name} ran and waited is not known.\n"),
    };
    if let Some(before_ns @ TOLD_BEFORE_NS..) = took.map(|took| took.waited_before_ns) {
        text += &format!("{} of waits that had begun before are not counted.\n", duration(before_ns));
    }
    if let Some(Took { threads: 0, .. }) = took {
        text += "None of its threads is there any more.\n";
    }
    if took.is_some_and(|took| took.ran_ns == 0 && took.waited_ns == 0 && took.lost_threads == 0) {
        return text + "So nothing took time from it.\n";
    }
    if let Some(lost @ 1..) = took.map(|took| took.lost_threads) {
        text += &format!(
            "{lost} of its threads ended or could not be read; what they ran and waited after the last look at them is not counted.\n"
        );
    }
    if !is_traced {
        text +=
            "Who had the core while it waited is not known: that needs eBPF, and root; `surefoot status` says more.\n";
        return text;
    }
    if account.takers.is_empty() {
        text += "No other task was seen to run while it waited.\n";
    } else {
        let mut table = Table::new(&["had the core", "times", "in all", "of the wait", "longest"], &[0]);
        let whole = took.map_or(account.named_ns, |took| took.waited_ns.max(account.named_ns));
        for lost in account.takers.iter().take(TAKERS_SHOWN) {
            table.row(vec![
                lost.cause.name.clone(),
                lost.known_count().map_or("-".to_owned(), |count| count.to_string()),
                duration(lost.total_ns),
                percent(lost.total_ns, whole),
                lost.known_max_ns().map_or("-".to_owned(), duration),
            ]);
        }
        text += "\n";
        text += &table.text();
        if let Some(rest) = account.takers.get(TAKERS_SHOWN..).filter(|rest| !rest.is_empty()) {
            let sum = rest.iter().fold(0u64, |sum, lost| sum.saturating_add(lost.total_ns));
            text += &format!("and {} more, {} together\n", rest.len(), duration(sum));
        }
    }
    if let Some(unnamed @ 1..) = account.unnamed_ns {
        text += &format!(
            "{} of the wait: not known who had the core (threads that wait at once each count; kernel threads below; waits that ended on another core).\n",
            duration(unnamed)
        );
    }
    if let Some((first, with, without)) = account.longest {
        let taker = &account.takers[first].cause.name;
        text += &format!(
            "Its longest wait was at least {}, behind {taker}; the longest behind any other was at least {}.\n",
            duration(with),
            duration(without)
        );
    }
    let from_cores: Vec<String> = account.from_cores.iter().take(FROM_CORES_SHOWN).map(told).collect();
    if !from_cores.is_empty() {
        text += &format!("Taken from the cores, from any task that ran there: {}.\n", from_cores.join(", "));
    }
    if let Some(host) = report.host.as_ref().filter(|host| !host.missing.is_empty()) {
        text += &format!("Reduced: {}\n", one_line(&host.missing));
    }
    text + &next_of(account, cores, here)
}

fn told(lost: &Lost) -> String {
    format!("{} {}", lost.cause, duration(lost.while_busy_ns()))
}

/// The command that goes on: whether the cores can be kept free of the takers, or who raised the interrupts.
fn next_of(account: &Account, cores: &str, here: Here) -> String {
    let interrupts = account.from_cores.iter().fold(0u64, |sum, lost| sum.saturating_add(lost.while_busy_ns()));
    let (command, effect) = match account.named_ns >= interrupts {
        true => (
            format!("surefoot stall audit --cpu {cores}"),
            "Changes nothing. It checks what keeps other tasks off these cores, and names each setting.",
        ),
        false => (
            format!("surefoot stall who --cpu {cores} --duration 10s"),
            "Changes no setting. It names what interrupts these cores, who raised it, and what would end it.",
        ),
    };
    here.to_run(&command, effect)
}

/// Whether this is a place where commands that name the tasks of the whole host are refused.
#[derive(Clone, Copy)]
struct Here {
    is_in_pid_namespace: bool,
}

impl Here {
    fn of(namespaces: &Namespaces) -> Here {
        Here { is_in_pid_namespace: namespaces.place(Kind::Pid) != Place::Initial }
    }

    fn runs(self, command: &str) -> bool {
        let names_raisers = || {
            let parsed = crate::args::Arguments::try_parse_from(command.split(' '));
            parsed.is_ok_and(|parsed| matches!(parsed.command, Command::Stall { command: StallCommand::Who(_) }))
        };
        !self.is_in_pid_namespace || !names_raisers()
    }

    fn to_run(self, command: &str, effect: &str) -> String {
        match self.runs(command) {
            true => format!("Run next: {command}\n  {effect}\n"),
            false => format!(
                "Run next, on the host: {command}\n  It is refused in this PID namespace, where what interrupts a core cannot be named.\n"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use surefoot_model::{Certainty, Room, Severity, Subject};

    const ON_HOST: Here = Here { is_in_pid_namespace: false };

    #[test]
    fn one_finding_fits_a_screen_and_says_what_is_not_known() {
        let lines = (1..=5).map(|line| format!("core {line}: 7 ms per second")).collect();
        let lost = Finding::new(Room::Stall, "lost-time", Subject::host(), Severity::Warning, "Core 1 lost 7 %.");
        let lost = lost.with_certainty(Certainty::Probable).with_evidence(lines);
        let unwatched = Unwatched { room: Room::Memory, why: "No driver.".to_owned() };
        let why = Why::of(vec![lost], vec![unwatched], "0-3");
        let elsewhere = text(&why, 1, Here { is_in_pid_namespace: true });
        assert!(elsewhere.contains("Run next, on the host: surefoot stall who --cpu 0-3"), "{elsewhere}");
        assert!(
            !elsewhere.contains("Run next: ") && elsewhere.contains("refused in this PID namespace"),
            "{elsewhere}"
        );
        let told = text(&why, 1, ON_HOST);
        let expected = "WARNING, probable: Core 1 lost 7 %.\n  core 1: 7 ms per second\n  core 2: 7 ms per second\n  \
             core 3: 7 ms per second\n  and 2 more\nRun next: surefoot stall who --cpu 0-3 --duration 10s\n";
        assert!(told.starts_with(expected), "{told}");
        assert!(told.ends_with("Not checked: Memory errors.\n"), "{told}");
        assert!(text(&Why::of(Vec::new(), Vec::new(), "0"), 1, ON_HOST).starts_with("Nothing is known yet"));
    }

    /// An hour reads as one, and what a look of its own sees has no age: when it began nobody saw.
    #[test]
    fn an_age_is_told_where_it_was_seen_and_in_units_of_its_size() {
        let finding = Finding::new(Room::Stall, "lost-time", Subject::host(), Severity::Warning, "Core 1 lost 7 %.");
        let now_ns = clock::realtime_ns();
        let told = |since_ns, began_ns| {
            text(&Why::of(vec![finding.clone().since(since_ns)], Vec::new(), "0"), began_ns, ON_HOST)
        };
        let hours = told(now_ns - 7_200_000_000_000, now_ns);
        assert!(hours.contains(" UTC, for 2.00 h.\n"), "{hours}");
        for of_the_look in [told(now_ns, now_ns - 1), told(0, now_ns)] {
            assert!(!of_the_look.contains("ince "), "{of_the_look}");
        }
        let ahead = told(now_ns + 7_200_000_000_000, now_ns);
        assert!(ahead.contains("in the future"), "{ahead}");
    }

    /// Each command that a rule names is one that this program takes.
    #[test]
    fn every_next_command_is_one_of_ours() {
        let mut seen = 0;
        for rule in surefoot_rooms::rules::all() {
            let Some((command, effect)) = rule.next else { continue };
            let command = command.replace("{cores}", "0-1").replace("{name}", "eth0");
            let parsed = crate::args::Arguments::try_parse_from(command.split(' '));
            assert!(parsed.is_ok(), "{}: {command}: {}", rule.name, parsed.err().unwrap());
            assert!(effect.starts_with("Changes no"), "{}: say what it changes: {effect}", rule.name);
            seen += 1;
        }
        assert!(seen > 20, "{seen}");
    }
}
