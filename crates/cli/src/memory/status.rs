//! `surefoot memory status`.

use super::bmc::BmcOptions;
use super::{fault, reported};
use crate::args::RUN_DIRECTORY;
use crate::history::options::FILE_DEFAULT;
use anyhow::Context;
use clap::Args;
use serde::Serialize;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use surefoot_console::exit::Outcome;
use surefoot_console::output;
use surefoot_console::table::{Table, paragraph};
use surefoot_console::units::{self, counted};
use surefoot_console::words::utc;
use surefoot_daemon::rooms::memory::CountsFile;
use surefoot_hostfs::{Root, Unsupported};
use surefoot_memory::bmc::join_all;
use surefoot_memory::counts::KeptFile;
use surefoot_memory::look::Looker;
use surefoot_memory::rate::Limit;
use surefoot_memory::read::machine;
use surefoot_model::{
    Certainty, ClosedFault, Dimm, ErrorSeverity, Fidelity, Finding, MemoryController, MemoryEvent, MemoryLook,
    MemoryProblem, MemorySource, Severity, SlotStay, one_line,
};
use surefoot_rooms::memory::{State, findings};

#[derive(Args)]
pub struct StatusOptions {
    /// A recorded tree with proc and sys instead of this host
    #[arg(long, value_name = "DIR")]
    host_root: Option<PathBuf>,
    /// File that keeps the counts between runs, through resets, reboots and moves of modules; made where it is not there
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Look a second time after this, so that the rates are those of this time; of the running host only
    #[arg(long, value_name = "TIME", value_parser = units::parse_time)]
    duration: Option<Duration>,
    /// Corrected-error rate limit per DIMM; above it the DIMM is shown as *over*
    #[arg(long, value_name = "RATE", default_value = "10/s", value_parser = units::parse_rate_per_s)]
    rate_limit: f64,
    /// Run directory of a watch that follows reports, which tell the fault of a module [default: /run/surefoot, for this host]
    #[arg(long, value_name = "DIR")]
    run_directory: Option<PathBuf>,
    /// History that a watch keeps, whose reports tell it, too [default: /var/lib/surefoot/history.db, for this host]
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
    /// Also show which module was in which slot, and when; a running watch or --state knows earlier ones
    #[arg(long)]
    slots: bool,
    #[command(flatten)]
    bmc: BmcOptions,
    /// JSON lines instead of a table
    #[arg(long)]
    json: bool,
}

/// How wide text for people is.
const COLUMNS: usize = 110;
/// Modules that the summary names of each kind.
const NAMES_MAX: usize = 3;
/// Findings that stand below the summary.
const URGENT_MAX: usize = 8;
/// Modules whose fault is shown with its map.
const FAULTS_MAX: usize = 8;

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "dimm")]
pub struct DimmLine<'a> {
    #[serde(flatten)]
    pub dimm: &'a Dimm,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "controller")]
pub struct ControllerLine<'a> {
    #[serde(flatten)]
    controller: &'a MemoryController,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "slot")]
pub struct SlotLine<'a> {
    #[serde(flatten)]
    stay: &'a SlotStay,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "problem")]
pub struct ProblemLine<'a> {
    #[serde(flatten)]
    problem: &'a MemoryProblem,
}

pub fn run(options: &StatusOptions) -> anyhow::Result<Outcome> {
    let seen = look(options)?;
    let look = &seen.look;
    let mut out = io::BufWriter::new(surefoot_console::people::stdout());
    if options.json {
        output::stream(&mut out, "memory status")?;
        look.dimms.iter().try_for_each(|dimm| output::line(&mut out, &DimmLine { dimm }))?;
        look.controllers.iter().try_for_each(|controller| output::line(&mut out, &ControllerLine { controller }))?;
        let slots = look.slots.iter().filter(|_| options.slots);
        slots.into_iter().try_for_each(|stay| output::line(&mut out, &SlotLine { stay }))?;
        look.problems.iter().try_for_each(|problem| output::line(&mut out, &ProblemLine { problem }))?;
    } else {
        out.write_all(text(&seen).as_bytes())?;
        if options.slots {
            out.write_all(slots(look).as_bytes())?;
        }
    }
    out.flush()?;
    if let Some(why) = seen.unsaved {
        return Err(why);
    }
    match &look.unsupported {
        Some(why) => Err(Unsupported::new(format!("memory errors are not supported here: {why}"), "").into()),
        None => Ok(Outcome::Done),
    }
}

/// The host itself, or the tree that was named.
pub fn root(host_root: Option<&PathBuf>) -> anyhow::Result<Root> {
    let Some(folder) = host_root else { return Ok(Root::host()) };
    anyhow::ensure!(
        folder.is_dir(),
        "--host-root {}: there is no such folder; name one that holds proc and sys",
        folder.display()
    );
    Ok(Root::at(folder))
}

/// A look, and what to say beside it.
struct Seen {
    look: MemoryLook,
    notes: Vec<String>,
    /// Why the counts could not be kept: what was seen is shown all the same.
    unsaved: Option<anyhow::Error>,
}

fn look(options: &StatusOptions) -> anyhow::Result<Seen> {
    let per_s = options.rate_limit;
    anyhow::ensure!(per_s.is_finite() && per_s > 0.0, "--rate-limit {per_s}: a rate is a number above 0, such as 10");
    let limit = Limit { per_s, depth: 10.0 * per_s };
    let root = root(options.host_root.as_ref())?;
    let bmc = options.bmc.sources(&root)?;
    let mut looker = Looker::new(root.clone()).with_limit(limit);
    let mut state = options.state.as_deref().map(open_state).transpose()?;
    let mut refused = None;
    if let Some(file) = &mut state {
        let loaded = file.load(machine(&root).as_deref()).map_err(|why| about_state(file, &why))?;
        looker = looker.with_kept(loaded.kept);
        refused = loaded.refused;
    }
    let mut look = looker.look();
    if let Some(duration) = options.duration {
        look = again(&mut looker, &root, duration, options.host_root.is_some());
    }
    let is_counted = look.unsupported.is_none();
    join_all(&mut look, &bmc.ask());
    let reported::Completed { mut notes, .. } =
        reported::complete(&mut look, &mut looker, &root, limit, &options.reported());
    notes.extend(no_rate(&look));
    let mut unsaved = None;
    if let Some(file) = &mut state {
        // Nothing is kept of a host that tells nothing: a mistaken tree would empty the file's ages.
        if is_counted {
            unsaved = file.save(looker.kept()).map_err(|why| about_state(file, &why)).err();
        }
        let path = file.path().display().to_string();
        let problem = refused.map(|why| MemoryProblem { source: MemorySource::Edac, path, why });
        look.problems.splice(0..0, problem);
    }
    Ok(Seen { look, notes, unsaved })
}

/// The file of `--state`, refused before anything is done where it could not be replaced.
pub fn open_state(path: &Path) -> anyhow::Result<CountsFile> {
    CountsFile::open(path).with_context(|| format!("--state: {} cannot keep the counts", path.display()))
}

fn about_state(file: &CountsFile, why: &str) -> anyhow::Error {
    anyhow::anyhow!("--state: {}: {why}", file.path().display())
}

/// Time until a second look. A tree whose clock does not advance gives no rate.
fn again(looker: &mut Looker, root: &Root, duration: Duration, is_tree: bool) -> MemoryLook {
    let clock = || root.read(root.proc("uptime")).ok();
    let before = clock();
    std::thread::sleep(duration);
    let mut look = looker.look();
    if is_tree && clock() == before {
        let why = "--duration gives no rate here: the clock of this tree (proc/uptime) did not advance between the two looks, \
        as in a recorded tree; omit --duration";
        let path = root.proc("uptime").display().to_string();
        look.problems.push(MemoryProblem { source: MemorySource::Edac, path, why: why.to_owned() });
    }
    look
}

/// Why no rate is shown, where none is.
fn no_rate(look: &MemoryLook) -> Option<String> {
    let has_errors = look.dimms.iter().any(|dimm| dimm.corrected() > 0);
    let is_known = look.dimms.iter().any(|dimm| dimm.rate_window_s > 0.0);
    (has_errors && !is_known).then(|| {
        "No rate now: it needs two readings within an hour. On the running host add --duration 10s, or --state FILE and look again."
            .to_owned()
    })
}

impl StatusOptions {
    /// Who may know what was reported. For a recorded tree that is only a source that is named.
    fn reported(&self) -> reported::Sources {
        let is_tree = self.host_root.is_some();
        let source = |named: &Option<PathBuf>, default: &str| match named {
            Some(path) => Some((path.clone(), true)),
            None => (!is_tree).then(|| (PathBuf::from(default), false)),
        };
        reported::Sources {
            run_directory: source(&self.run_directory, RUN_DIRECTORY),
            history: source(&self.history, FILE_DEFAULT),
            has_trace: is_tree,
        }
    }
}

fn text(seen: &Seen) -> String {
    let look = &seen.look;
    let mut text = summary(look);
    if !look.dimms.is_empty() {
        text.push('\n');
        text += &dimms(&look.dimms);
        text.push('\n');
    }
    text += &faults(&look.dimms);
    if !look.controllers.is_empty() {
        text += &controllers(&look.controllers);
    }
    for dimm in &look.dimms {
        if let Some(before) = &dimm.moved_from {
            text += &format!("Moved: {} is in {} and was in {before} before\n", dimm.id, dimm.label);
        }
    }
    for dimm in &look.dimms {
        if let (Some(words), Some(closed)) = (findings::closed_words(dimm), &dimm.closed) {
            let since = counted_since(closed);
            let reason = match closed.reason.as_str() {
                "" => String::new(),
                reason => format!(" ({})", one_line(reason)),
            };
            text += &format!("Fault of {} {words}{reason}; since then {since}\n", one_line(&dimm.id));
        }
    }
    for words in look.dimms.iter().filter_map(findings::mixed_words) {
        text += &format!("Not told apart: {}\n", one_line(&words));
    }
    for problem in &look.problems {
        text += &format!("Problem: {}: {}\n", problem.path, problem.why);
    }
    if look.problems_left_out > 0 {
        text += &format!("{} more\n", counted(look.problems_left_out, "problem", "problems"));
    }
    for note in &seen.notes {
        text += &paragraph(note, 0, 0, COLUMNS);
    }
    text
}

fn counted_since(closed: &ClosedFault) -> String {
    format!(
        "{} corrected and {}",
        closed.corrected_since,
        counted(closed.uncorrected_since, "uncorrected error", "uncorrected errors")
    )
}

/// How things stand, the worst first: one line, and what to do where that is urgent.
fn summary(look: &MemoryLook) -> String {
    let mut state = State::default();
    // Who named the tree need not be told of it with every line.
    state.seen(&MemoryEvent::Look(MemoryLook { recorded_tree: None, ..look.clone() }));
    let mut urgent: Vec<Finding> = findings::of(&state);
    let worst = urgent.iter().map(|finding| finding.severity).max();
    let worst = look.dimms.iter().map(findings::severity).max().max(worst).unwrap_or(Severity::Ok);
    let mut text = match (look.dimms.is_empty(), look.controllers.is_empty()) {
        (true, true) => return String::new(),
        (true, false) => {
            let of_host = urgent.iter().find(|finding| finding.rule == findings::DIMMS_RULE);
            let words = of_host.map_or("no per-DIMM counters found", |finding| finding.sentence.as_str());
            format!("{}: {words}\n", worst.as_str().to_uppercase())
        }
        _ => headline(look, worst),
    };
    // The fault of a module stands below with its evidence.
    urgent.retain(|finding| finding.severity >= Severity::Warning && finding.rule != findings::FAULT_RULE);
    urgent.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    for finding in urgent.iter().take(URGENT_MAX) {
        let words = format!("{}: {}", finding.severity.as_str().to_uppercase(), one_line(&finding.sentence));
        text += &paragraph(&words, 0, 2, COLUMNS);
    }
    if urgent.len() > URGENT_MAX {
        text += &format!("{} more like these\n", urgent.len() - URGENT_MAX);
    }
    text
}

/// The modules in groups, the worst first, and the rows of places apart.
fn headline(look: &MemoryLook, worst: Severity) -> String {
    let has_fault = |dimm: &&Dimm| dimm.fault.as_ref().is_some_and(|fault| fault.urgency >= Severity::Warning);
    let is_lost = |dimm: &&Dimm| dimm.uncorrected_since() > 0;
    // Rows that stand for a place and no module are counted apart.
    let (modules, places): (Vec<&Dimm>, Vec<&Dimm>) = look.dimms.iter().partition(|dimm| dimm.only_place.is_none());
    let of = |fits: &dyn Fn(&&Dimm) -> bool| modules.iter().copied().filter(fits).collect::<Vec<&Dimm>>();
    let is_corrected =
        |dimm: &&Dimm| !is_lost(dimm) && !has_fault(dimm) && !dimm.is_over_rate && dimm.corrected_since() > 0;
    // That no uncorrected error was read is no "only" where that counter cannot be.
    let is_half_known = |dimm: &&Dimm| dimm.uncorrected_count.is_none() || findings::has_unread(dimm);
    let groups: [(&str, Vec<&Dimm>); 5] = [
        ("lost data", of(&is_lost)),
        ("with a fault to act on", of(&|dimm| !is_lost(dimm) && has_fault(dimm))),
        ("over the rate limit", of(&|dimm| !is_lost(dimm) && !has_fault(dimm) && dimm.is_over_rate)),
        ("with corrected errors, others not known", of(&|dimm| is_corrected(dimm) && is_half_known(dimm))),
        ("with corrected errors only", of(&|dimm| is_corrected(dimm) && !is_half_known(dimm))),
    ];
    let mut parts: Vec<String> = Vec::new();
    let mut bad = 0;
    for (words, dimms) in groups.iter().filter(|(_, dimms)| !dimms.is_empty()) {
        bad += dimms.len();
        parts.push(format!("{} {words} ({})", dimms.len(), names(dimms)));
    }
    parts.extend(well(&modules, bad));
    let unread = findings::unread_controllers(look);
    if !unread.is_empty() {
        let controllers = counted(unread.len() as u64, "controller", "controllers");
        let more =
            if unread.len() > NAMES_MAX { format!(" and {} more", unread.len() - NAMES_MAX) } else { String::new() };
        let names = unread.iter().take(NAMES_MAX).map(|id| one_line(id)).collect::<Vec<_>>().join(", ");
        parts.push(format!("{controllers} whose counts cannot be read ({names}{more})"));
    }
    let all = counted(modules.len() as u64, "module", "modules");
    let mut text = format!("{}: {all}: {}\n", worst.as_str().to_uppercase(), parts.join(", "));
    let (bad, good): (Vec<&Dimm>, Vec<&Dimm>) =
        places.into_iter().partition(|dimm| dimm.corrected_since() > 0 || dimm.uncorrected_since() > 0);
    if !bad.is_empty() {
        let rows = counted(bad.len() as u64, "row has", "rows have");
        text += &format!("Apart from these {rows} errors whose module is not known: {}\n", names(&bad));
    }
    if !good.is_empty() {
        text +=
            &format!("{} of counters of several modules, without errors\n", counted(good.len() as u64, "row", "rows"));
    }
    text
}

/// The modules of which no error is known, `bad` others apart: a module whose counts are no more than a lower bound may have had some.
fn well(modules: &[&Dimm], bad: usize) -> Vec<String> {
    let has_none = |dimm: &&&Dimm| dimm.corrected_since() == 0 && dimm.uncorrected_since() == 0;
    let (closed, clean): (Vec<&Dimm>, Vec<&Dimm>) =
        modules.iter().copied().filter(|dimm| has_none(&dimm)).partition(|dimm| dimm.closed.is_some());
    let (unknown, clean): (Vec<&Dimm>, Vec<&Dimm>) =
        clean.into_iter().partition(|dimm| dimm.fidelity == Fidelity::Unknown);
    let (unread, clean): (Vec<&Dimm>, Vec<&Dimm>) = clean.into_iter().partition(|dimm| findings::has_unread(dimm));
    let (unplaced, clean): (Vec<&Dimm>, Vec<&Dimm>) = clean.into_iter().partition(|dimm| !dimm.unplaced.is_empty());
    let (mixed, clean): (Vec<&Dimm>, Vec<&Dimm>) = clean.into_iter().partition(|dimm| !dimm.mixed_with.is_empty());
    let well = modules.len() - bad - closed.len() - unknown.len() - unread.len() - unplaced.len() - mixed.len();
    let words = match clean.iter().all(|dimm| dimm.fidelity == Fidelity::Exact) {
        true => "without errors",
        false => "with no error reported",
    };
    let mut parts = Vec::new();
    if !closed.is_empty() {
        parts.push(format!("{} with a closed fault ({})", closed.len(), names(&closed)));
    }
    if !unknown.is_empty() {
        parts.push(format!("{} whose errors nothing counts ({})", unknown.len(), names(&unknown)));
    }
    if !unread.is_empty() {
        parts.push(format!("{} with counters that cannot be read ({})", unread.len(), names(&unread)));
    }
    if !unplaced.is_empty() {
        parts.push(format!("{} possibly with errors whose module is unknown ({})", unplaced.len(), names(&unplaced)));
    }
    if !mixed.is_empty() {
        parts.push(format!("{} possibly with errors counted of another ({})", mixed.len(), names(&mixed)));
    }
    if well > 0 || parts.is_empty() {
        parts.push(format!("{well} {words}"));
    }
    parts
}

/// The first of them by name, and how many more there are.
fn names(dimms: &[&Dimm]) -> String {
    let names: Vec<String> = dimms.iter().take(NAMES_MAX).map(|dimm| one_line(&dimm.id)).collect();
    let more = if dimms.len() > NAMES_MAX { format!(" and {} more", dimms.len() - NAMES_MAX) } else { String::new() };
    names.join(", ") + &more
}

/// The fault of each module that has one, the worst first.
fn faults(dimms: &[Dimm]) -> String {
    let mut faulty: Vec<&Dimm> = dimms.iter().filter(|dimm| dimm.fault.is_some()).collect();
    faulty.sort_by_key(|dimm| std::cmp::Reverse(findings::severity(dimm)));
    let mut text: String = faulty.iter().take(FAULTS_MAX).map(|dimm| format!("{}\n", fault::text(dimm))).collect();
    if faulty.len() > FAULTS_MAX {
        text += &format!(
            "{} more with a fault; --json has all\n\n",
            counted((faulty.len() - FAULTS_MAX) as u64, "module", "modules")
        );
    }
    text
}

fn dimms(dimms: &[Dimm]) -> String {
    // A certain serial number is the module's name and not said twice.
    let has_serials = dimms.iter().any(|dimm| dimm.serial.as_deref().is_some_and(|serial| serial != dimm.id));
    let mut columns = vec![
        "module",
        "label",
        "serial",
        "size",
        "corrected",
        "uncorrected",
        "rate/s",
        "worst/s",
        "fault",
        "counts",
        "from",
    ];
    let mut left: &'static [usize] = &[0, 1, 2, 8, 9, 10];
    if !has_serials {
        columns.remove(2);
        left = &[0, 1, 7, 8, 9];
    }
    let mut table = Table::new(&columns, left);
    for dimm in dimms {
        let mut cells = vec![
            format!("{}{}", dimm.id, if dimm.is_over_rate { " !" } else { "" }),
            or_dash(&dimm.label),
            serial(dimm),
            size(dimm.size_bytes),
            corrected(dimm),
            uncorrected(dimm),
            rate(dimm, dimm.rate_per_s, dimm.rate_window_s),
            rate(dimm, dimm.worst_rate_per_s, dimm.worst_window_s),
            dimm.fault_mode.label().into(),
            dimm.fidelity.label().into(),
            dimm.sources.iter().map(|source| source.label()).collect::<Vec<_>>().join(", "),
        ];
        if !has_serials {
            cells.remove(2);
        }
        table.row(cells);
    }
    table.text()
}

/// Which module was in which slot.
fn slots(look: &MemoryLook) -> String {
    let columns = ["slot", "label", "module", "serial", "first seen", "last seen", "corrected", "uncorrected", "fault"];
    let mut table = Table::new(&columns, &[0, 1, 2, 3, 4, 5, 8]);
    for stay in &look.slots {
        let elsewhere = look.slots.iter().filter(|other| stay.has_ended && !other.has_ended);
        let moved = elsewhere.into_iter().find(|other| other.serial.is_some() && other.serial == stay.serial);
        let last = match (stay.has_ended, moved) {
            (false, _) => "still there".to_owned(),
            (true, Some(now)) if now.place == stay.place => format!("{} UTC", utc(stay.last_seen_realtime_ns)),
            (true, Some(now)) => format!("{} UTC, now in {}", utc(stay.last_seen_realtime_ns), slot_name(now)),
            (true, None) => format!("{} UTC", utc(stay.last_seen_realtime_ns)),
        };
        table.row(vec![
            one_line(&stay.place),
            or_dash(&one_line(&stay.label)),
            one_line(&stay.module),
            match (&stay.serial, stay.serial_certainty) {
                (Some(serial), Some(Certainty::Certain)) => one_line(serial),
                (Some(serial), _) => format!("{} (probable)", one_line(serial)),
                (None, _) => "unknown".into(),
            },
            format!("{} UTC", utc(stay.first_seen_realtime_ns)),
            last,
            stay.corrected_count.to_string(),
            stay.uncorrected_count.to_string(),
            stay.closed.map_or("-".into(), |closing| format!("closed: {}", closing.as_str())),
        ]);
    }
    let more = match look.slots_left_out {
        0 => String::new(),
        count => format!("{} older than these\n", counted(count, "module is", "modules are")),
    };
    format!("\n{}{more}", table.text())
}

fn slot_name(stay: &SlotStay) -> String {
    one_line(if stay.label.is_empty() { &stay.place } else { &stay.label })
}

fn or_dash(text: &str) -> String {
    if text.is_empty() { "-".into() } else { text.into() }
}

fn serial(dimm: &Dimm) -> String {
    match (&dimm.serial, dimm.serial_certainty) {
        (Some(serial), _) if *serial == dimm.id => "as named".into(),
        (Some(serial), Some(Certainty::Certain)) => serial.clone(),
        (Some(serial), Some(Certainty::Probable)) => format!("{serial} (probable)"),
        (Some(serial), _) => format!("{serial} (not unique)"),
        (None, _) => "-".into(),
    }
}

/// Corrected errors, with ≥ where they are no more than a lower bound; a dash where no counter could be read.
pub fn corrected(dimm: &Dimm) -> String {
    number(dimm, ErrorSeverity::Corrected, dimm.corrected())
}

/// Uncorrected errors in the same way, but without one 0 needs no ≥: each is one report, and no threshold hides it.
pub fn uncorrected(dimm: &Dimm) -> String {
    match dimm.uncorrected() {
        0 if dimm.is_all(ErrorSeverity::Uncorrected) => "0".into(),
        count => number(dimm, ErrorSeverity::Uncorrected, count),
    }
}

fn number(dimm: &Dimm, severity: ErrorSeverity, count: u64) -> String {
    match (dimm.is_unread(severity), count) {
        (true, 0) => "-".into(),
        (false, count) if dimm.fidelity == Fidelity::Exact && !dimm.unplaced.contains(&severity) => count.to_string(),
        (_, count) => format!("≥{count}"),
    }
}

/// A rate with the time that it is taken over.
pub fn rate(dimm: &Dimm, per_s: f64, window_s: f64) -> String {
    let number = match per_s {
        0.0 => return if window_s > 0.0 { "0".into() } else { "-".into() },
        small if small < 0.01 => format!("{small:.1e}"),
        rate if rate < 100.0 => format!("{rate:.2}"),
        rate => format!("{rate:.0}"),
    };
    let at_least = if dimm.fidelity == Fidelity::Exact { "" } else { "≥" };
    format!("{at_least}{number} ({})", window(window_s))
}

fn window(seconds: f64) -> String {
    match seconds {
        none if none <= 0.0 => "-".into(),
        short if short < 120.0 => units::duration((short * 1e9) as u64),
        minutes if minutes < 7_200.0 => format!("{:.0} min", minutes / 60.0),
        hours if hours < 172_800.0 => format!("{:.1} h", hours / 3_600.0),
        days => format!("{:.1} d", days / 86_400.0),
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        0 => "-".into(),
        whole if whole % (1 << 30) == 0 => format!("{} GiB", whole >> 30),
        other => units::bytes(other),
    }
}

fn read(count: Option<u64>) -> String {
    count.map_or("-".into(), |count| count.to_string())
}

fn controllers(controllers: &[MemoryController]) -> String {
    let columns = ["controller", "name", "corrected", "uncorrected", "no module known", "adds up", "counts since"];
    let mut table = Table::new(&columns, &[0, 1, 5]);
    for one in controllers {
        table.row(vec![
            one.id.clone(),
            or_dash(&one.name),
            read(one.corrected_count),
            read(one.uncorrected_count),
            read(one.no_information_count),
            one.adds_up.map_or("not checkable", |adds_up| if adds_up { "yes" } else { "no" }).into(),
            one.reset_s.map_or("-".into(), |seconds| window(seconds as f64)),
        ]);
    }
    table.text()
}
