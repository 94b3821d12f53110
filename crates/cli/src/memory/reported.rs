//! What was reported of the modules, beside what their counters say: only reports tell which part of a module fails.
//!
//! Three may know: a watch that runs, the history that one keeps, and the trace in a recorded tree.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use surefoot_console::units::counted;
use surefoot_hostfs::{Root, clock};
use surefoot_memory::closing::{Closing, Journal};
use surefoot_memory::follow::Follower;
use surefoot_memory::look::Looker;
use surefoot_memory::rate::Limit;
use surefoot_memory::reports::place_of;
use surefoot_memory::watch::{Labels, Suspects};
use surefoot_model::{Deed, Dimm, ErrorReport, FaultMode, MemoryLook, MemoryProblem, MemorySource, Room, SlotStay};
use surefoot_store::history::{KeptRecord, View};

/// What is read of a recorded trace.
const TRACE_BYTES_MAX: usize = 64 << 20;

/// Who is asked.
pub struct Sources {
    /// The run directory of a watch; one that nobody named need not have any.
    pub run_directory: Option<(PathBuf, bool)>,
    /// A history; one that nobody named need not be there.
    pub history: Option<(PathBuf, bool)>,
    /// Whether the tree that is looked at may hold a trace.
    pub has_trace: bool,
}

/// What reports go by that tell neither a module nor a place.
const NO_PLACE: &str = "module unknown";

/// Modules of other hosts that are named.
const OTHERS_MAX: usize = 1024;

/// What is known beside the look.
pub struct Completed {
    /// Where the faults are from, or who could tell.
    pub notes: Vec<String>,
    /// The modules as a running watch has them; empty without one.
    pub watched: Vec<Dimm>,
    /// Modules of other hosts in the history, as `memory import` keeps them: `host: module`.
    pub others: Vec<String>,
}

/// Adds to a look what was reported, and says in sentences where that is from, or who could tell.
pub fn complete(look: &mut MemoryLook, looker: &mut Looker, root: &Root, limit: Limit, sources: &Sources) -> Completed {
    let mut suspects = Suspects::new(limit);
    let labels = Labels::of(look);
    let (mut known, mut watched, mut others) = (Vec::new(), Vec::new(), BTreeSet::new());
    let mut past = Vec::new();
    if let Some((path, is_named)) = &sources.history
        && (*is_named || path.exists())
    {
        match history(path) {
            Ok(records) => past = records,
            Err(why) => look.problems.push(problem(path, why)),
        }
    }
    close(look, looker, root, &past, &mut suspects);
    if sources.has_trace && trace(root, &labels, looker, &mut suspects) {
        known.push("the recorded trace".to_owned());
    }
    let is_reported = |record: &KeptRecord| {
        let Ok(report) = serde_json::from_value::<ErrorReport>(record.body.clone()) else { return false };
        others.extend(report.dimm.clone().filter(|dimm| dimm.contains(": ") && others.len() < OTHERS_MAX));
        add(report, &labels, looker, &mut suspects)
    };
    if let (Some((path, _)), true) = (&sources.history, past.iter().map(is_reported).filter(|is| *is).count() > 0) {
        known.push(format!("the history {}", path.display()));
    }
    suspects.complete(look);
    looker.tell_closed(look, |module| suspects.since_closed(module));
    if let Some((directory, is_named)) = &sources.run_directory {
        match surefoot_daemon::running::memory(directory, &Root::host()) {
            None if *is_named => {
                let why = "no watch of root or of this user runs from it; name the --run-directory of one that does";
                look.problems.push(problem(directory, why.to_owned()));
            }
            None => {}
            Some(Ok(answer)) => match take(look, &answer) {
                Ok(dimms) => {
                    known.push(format!("the watch of {}", directory.display()));
                    watched = dimms;
                }
                Err(why) => look.problems.push(problem(directory, why)),
            },
            Some(Err(why)) => look.problems.push(problem(directory, why.to_string())),
        }
    }
    Completed { notes: says(look, &known, sources), watched, others: others.into_iter().collect() }
}

/// The reports of this host's modules in a history, without those from before the fault of their module was closed. Where nothing names a module, its reports go by the place that they tell.
pub fn of_history(root: &Root, path: &Path) -> Result<OfHistory, String> {
    let past = history(path)?;
    let hosts = View::open(path).and_then(|view| view.hosts()).map_err(|error| error.to_string())?;
    let has_unknown_host = hosts.unknown_count > 0;
    let hosts = hosts.rows.into_iter().map(|(_, host)| host.hostname).collect();
    let mut looker = Looker::new(root.clone());
    let mut look = looker.look();
    let labels = Labels::of(&look);
    close(&mut look, &mut looker, root, &past, &mut Suspects::new(Limit::default()));
    let closed: BTreeMap<String, u64> = looker.kept().all_closed().map(|(name, at)| (name.to_owned(), at)).collect();
    let (mut reports, mut elsewhere_count) = (Vec::new(), 0);
    for record in past {
        let Ok(mut report) = serde_json::from_value::<ErrorReport>(record.body) else { continue };
        let is_uncounted = report.source == MemorySource::CxlEvent && report.dimm.is_some();
        let names_module = report.dimm.is_some() && report.dimm != place_of(&report);
        match labels.module_of_kept(&looker, &report) {
            Some(id) => report.dimm = Some(id),
            None if is_uncounted => {}
            None if names_module => {
                elsewhere_count += 1;
                continue;
            }
            None => report.dimm = Some(place_of(&report).unwrap_or_else(|| NO_PLACE.to_owned())),
        }
        let closed_ns = report.dimm.as_ref().and_then(|dimm| closed.get(dimm));
        if closed_ns.is_none_or(|&at_ns| report.at_realtime_ns > at_ns) {
            reports.push(report);
        }
    }
    Ok(OfHistory { reports, elsewhere_count, hosts, has_unknown_host })
}

/// What a history has of memory errors.
pub struct OfHistory {
    /// The reports of this host's modules, or of no known module.
    pub reports: Vec<ErrorReport>,
    /// Reports of modules that are not here.
    pub elsewhere_count: u64,
    /// The names of the hosts whose watches wrote it; none for one that only imports wrote.
    pub hosts: Vec<String>,
    /// Whether it has a host that cannot be understood, which may be any.
    pub has_unknown_host: bool,
}

/// Takes in the faults that were closed: by the journal of deeds, and by the history, which goes on when a journal is rotated away.
fn close(look: &mut MemoryLook, looker: &mut Looker, root: &Root, past: &[KeptRecord], suspects: &mut Suspects) {
    let deeds = past.iter().filter(|record| record.kind.starts_with("deed"));
    let deeds = deeds.filter_map(|record| serde_json::from_value::<Deed>(record.body.clone()).ok());
    let mut closings: Vec<Closing> = deeds.filter_map(|deed| Closing::of(&deed)).collect();
    let mut journal = Journal::of(root);
    closings.extend(journal.news());
    closings.sort_by_key(|closing| closing.at_realtime_ns);
    closings.iter().for_each(|closing| _ = looker.close(closing));
    look.problems.extend(journal.problem().cloned());
    looker.kept().all_closed().for_each(|(module, at_ns)| suspects.close(module, at_ns));
}

/// The words of an error may begin with the path, which a problem names by itself.
fn problem(path: &Path, why: String) -> MemoryProblem {
    let path = path.display().to_string();
    let words = why.strip_prefix(&format!("{path}: ")).unwrap_or(&why);
    MemoryProblem { source: MemorySource::McEvent, why: surefoot_console::exit::without_number(words), path }
}

/// Adds a report whose module is here, or is one that only reports know.
fn add(mut report: ErrorReport, labels: &Labels, looker: &Looker, suspects: &mut Suspects) -> bool {
    let is_uncounted = report.source == MemorySource::CxlEvent && report.dimm.is_some();
    match labels.module_of_kept(looker, &report) {
        Some(id) => report.dimm = Some(id),
        // A module that was taken out since, or one of another host.
        None if !is_uncounted => return false,
        None => {}
    }
    suspects.add(&report, clock::monotonic_ns());
    true
}

/// Whether there is a trace.
fn trace(root: &Root, labels: &Labels, looker: &Looker, suspects: &mut Suspects) -> bool {
    let Ok(mut follower) = Follower::open(root) else { return false };
    let mut reports = Vec::new();
    let read = follower.turn(TRACE_BYTES_MAX, &mut |report| reports.push(report));
    follower.finish(&mut |report| reports.push(report));
    for report in reports {
        add(report, labels, looker, suspects);
    }
    read.is_ok()
}

/// What the history has of memory errors.
fn history(path: &Path) -> Result<Vec<KeptRecord>, String> {
    let records = View::open(path).and_then(|view| view.records(0..i64::MAX, Some(Room::Memory)));
    records.map(|records| records.rows).map_err(|error| error.to_string())
}

/// Takes from a watch's answer what it knows of the fault of each module, of its closing and of the slots: it has seen more than the history
/// lists. Gives the modules as the watch has them.
fn take(look: &mut MemoryLook, answer: &serde_json::Value) -> Result<Vec<Dimm>, String> {
    let dimms =
        answer["dimms"].as_array().ok_or("the answer of its watch has no list of modules, and so tells nothing")?;
    let (mut wrong, mut watched) = (None, Vec::new());
    for told in dimms {
        let told = match serde_json::from_value::<Dimm>(told.clone()) {
            Ok(told) => told,
            Err(error) => {
                wrong = Some(error);
                continue;
            }
        };
        watched.push(told.clone());
        match look.dimms.iter_mut().find(|dimm| dimm.id == told.id) {
            Some(dimm) => {
                let closed_ns = |dimm: &Dimm| dimm.closed.as_ref().map(|closed| closed.closed_realtime_ns);
                // What the watch has not read yet is newer.
                if closed_ns(dimm) > closed_ns(&told) {
                    continue;
                }
                dimm.closed.clone_from(&told.closed);
                let is_better = |dimm: &Dimm| {
                    dimm.fault.as_ref().is_none_or(|fault| fault.mode == FaultMode::Undetermined)
                        || dimm.spread.located_count < told.spread.located_count
                };
                if told.fault.is_some() && is_better(dimm) {
                    (dimm.spread, dimm.fault_mode) = (told.spread, told.fault_mode);
                    dimm.sources.extend(
                        told.sources.iter().filter(|one| !dimm.sources.contains(one)).copied().collect::<Vec<_>>(),
                    );
                    dimm.fault = told.fault;
                }
            }
            // Behind CXL, which no counter knows.
            None if told.sources.first() == Some(&MemorySource::CxlEvent) => look.dimms.push(told),
            None => {}
        }
    }
    match serde_json::from_value::<Vec<SlotStay>>(answer["slots"].clone()) {
        Ok(slots) => look.slots = slots,
        // Of an older release.
        Err(_) if answer["slots"].is_null() => {}
        Err(error) => {
            return Err(format!(
                "slots in the answer of its watch are not understood; it is of another version: {error}"
            ));
        }
    }
    look.slots_left_out = answer["slots_left_out"].as_u64().unwrap_or(0);
    match wrong {
        None => Ok(watched),
        Some(error) => {
            Err(format!("modules in the answer of its watch are not understood; it is of another version: {error}"))
        }
    }
}

/// Where the faults are from; and of whom none is known, who could tell.
fn says(look: &MemoryLook, known: &[String], sources: &Sources) -> Vec<String> {
    let mut says = Vec::new();
    let told = look.dimms.iter().filter(|dimm| dimm.fault.is_some()).count();
    if told > 0 {
        says.push(format!("Faults and places as reported to {}.", known.join(" and ")));
    }
    let has_errors = |dimm: &&Dimm| dimm.corrected_since() > 0 || dimm.uncorrected_since() > 0;
    let untold = look.dimms.iter().filter(has_errors).filter(|dimm| dimm.fault.is_none());
    let (modules, places): (Vec<&Dimm>, Vec<&Dimm>) = untold.partition(|dimm| dimm.only_place.is_none());
    if modules.len() + places.len() > 0 {
        let modules = (modules.len() as u64, "module with errors", "modules with errors");
        let places = (places.len() as u64, "row without a module", "rows without a module");
        let those: Vec<String> =
            [modules, places].into_iter().filter(|one| one.0 > 0).map(|one| counted(one.0, one.1, one.2)).collect();
        let those = those.join(" and ");
        let (asked, remedy) = match (known, sources.has_trace) {
            ([], true) => (
                "this tree has no trace of them".to_owned(),
                "Name the history or the watch that followed them on that host: --history FILE or --run-directory DIR.",
            ),
            ([], false) => (
                "no watch runs here and no history holds any".to_owned(),
                "Run `surefoot watch`, which follows them from now on; `surefoot memory import FILE --into HISTORY` reads what \
                 rasdaemon, mcelog or the kernel's log recorded before.",
            ),
            (known, _) => (
                format!("{} has none of them", known.join(" and ")),
                "`surefoot memory import FILE` reads what rasdaemon, mcelog or the kernel's log recorded before.",
            ),
        };
        says.push(format!(
            "Fault undetermined for {those}: counters do not tell which part fails, reports do, and {asked}. {remedy}"
        ));
    }
    says
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn an_answer_without_modules_is_no_answer() {
        let mut look = MemoryLook::default();
        for answer in [serde_json::json!({}), serde_json::json!([]), serde_json::json!({ "dimms": null })] {
            assert!(take(&mut look, &answer).unwrap_err().contains("no list of modules"));
        }
        assert!(take(&mut look, &serde_json::json!({ "dimms": [{}] })).unwrap_err().contains("not understood"));
        assert_eq!(take(&mut look, &serde_json::json!({ "dimms": [] })), Ok(Vec::new()));
    }

    #[test]
    fn a_problem_names_its_path_once_and_no_number_of_the_kernel() {
        let path = Path::new("/var/lib/surefoot/history.db");
        let error = surefoot_store::Error::Open { path: path.to_owned(), source: io::Error::from_raw_os_error(13) };
        let problem = problem(path, error.to_string());
        assert_eq!(problem.path, "/var/lib/surefoot/history.db");
        assert_eq!(problem.why, "cannot be opened: Permission denied");
    }
}
