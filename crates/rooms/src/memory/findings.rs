//! What the memory errors come to: a finding or more for each module that is bad, and some of their accounting. Pure.

pub use super::closed::closed_words;
use super::rules;
use super::state::State;
use surefoot_memory::fault::FIND_MODULE;
use surefoot_model::{
    Certainty, Dimm, DimmFault, ErrorSeverity, FaultMode, Fidelity, Finding, GoneController, LossKind, MemoryAction,
    MemoryController, MemoryLook, Part, Persistence, Severity, Subject, SubjectKind,
};

/// The rule of a DIMM's fault.
pub const FAULT_RULE: &str = rules::FAULT.name;
/// The rule of what is said where no module has a finding of its own.
pub const DIMMS_RULE: &str = rules::DIMMS.name;
/// The advice for a DIMM with few corrected errors.
const NOTHING_YET: &str = "Nothing yet: corrected errors alone are no reason to replace a module. Check again when a report locates \
                           them, or their rate rises.";
/// Modules that one is named to be mixed with.
const MIXED_NAMED_MAX: usize = 4;
/// Problems that one finding names.
const PROBLEMS_MAX: usize = 10;

/// Everything that is to be said now; nothing of a host that tells of no memory errors.
pub fn of(state: &State) -> Vec<Finding> {
    of_set(state, None)
}

/// As [`of`], where it is known which rate is borne, errors per second.
pub fn of_set(state: &State, limit_per_s: Option<f64>) -> Vec<Finding> {
    let Some(look) = state.look_if_supported() else { return Vec::new() };
    let mut findings: Vec<Finding> = look.dimms.iter().flat_map(|dimm| of_dimm(dimm, limit_per_s)).collect();
    findings.extend(look.controllers.iter().flat_map(|controller| of_controller(controller, look)));
    findings.extend(mixed(look));
    findings.extend(look.gone.iter().map(gone));
    findings.extend(checks(state));
    findings.extend(problems(look));
    findings.extend(lost(state));
    if findings.iter().all(|finding| finding.subject.kind != SubjectKind::Dimm) {
        let severity = if is_well(look) { Severity::Ok } else { Severity::Notice };
        let finding = rules::DIMMS.finding(Subject::host(), severity, well(look));
        findings.push(match is_unseen(look) {
            true => finding.with_certainty(Certainty::CannotTellApartHere),
            false => finding,
        });
    }
    if let Some(tree) = &look.recorded_tree {
        // Whoever reads one of them must not take it for a fault of the machine that it is read on.
        findings
            .iter_mut()
            .for_each(|finding| finding.sentence = format!("Recorded tree {tree}: {}", finding.sentence));
    }
    findings
}

/// What to call a module: its slot, and what it is known by.
pub fn name(dimm: &Dimm) -> String {
    if let Some(place) = &dimm.only_place {
        return format!("of {place} ({}), not known which,", dimm.id);
    }
    match dimm.label.as_str() {
        "" => dimm.id.clone(),
        label if label == dimm.id => label.to_owned(),
        label => format!("{label} ({})", dimm.id),
    }
}

/// The words for the part that fails.
fn mode_label(mode: FaultMode) -> &'static str {
    match mode {
        FaultMode::None => "none",
        FaultMode::Cell => "one cell",
        FaultMode::Row => "a row",
        FaultMode::Rows => "adjacent rows",
        FaultMode::Column => "a column",
        FaultMode::Bank => "a bank",
        FaultMode::Banks => "several banks",
        FaultMode::Rank => "a rank",
        FaultMode::Undetermined => "undetermined",
    }
}

/// How bad a module is: what its counts, its rate and its fault ask for.
pub fn severity(dimm: &Dimm) -> Severity {
    let of_counts = match (dimm.uncorrected_since(), dimm.corrected_since()) {
        (0, 0) if has_unread(dimm) || !dimm.unplaced.is_empty() || !dimm.mixed_with.is_empty() => Severity::Notice,
        (0, 0) => Severity::Ok,
        (0, _) => Severity::Notice,
        _ => Severity::Critical,
    };
    let of_rate = if dimm.is_over_rate { Severity::Warning } else { Severity::Ok };
    let of_fault = dimm.fault.as_ref().map_or(Severity::Ok, |fault| fault.urgency);
    of_counts.max(of_rate).max(of_fault)
}

/// Whether errors of some severity may have been counted that nobody could read.
pub fn has_unread(dimm: &Dimm) -> bool {
    [ErrorSeverity::Corrected, ErrorSeverity::Uncorrected].into_iter().any(|severity| dimm.is_unread(severity))
}

/// What to do about a DIMM; `None` if no errors were counted since its fault was closed. A fault that reports locate has advice of its own.
pub fn advice(dimm: &Dimm) -> Option<String> {
    match &dimm.fault {
        Some(fault) => Some(fault.advice.clone()),
        None if dimm.uncorrected_since() > 0 => Some(of_uncorrected(dimm)),
        None if dimm.is_over_rate => Some(of_rate(dimm)),
        None if dimm.corrected_since() > 0 => Some(NOTHING_YET.to_owned()),
        None => None,
    }
}

fn of_uncorrected(dimm: &Dimm) -> String {
    match dimm.only_place {
        None => "Move work away and replace the module.".to_owned(),
        Some(_) => format!("Move work away. {FIND_MODULE}"),
    }
}

fn of_rate(dimm: &Dimm) -> String {
    match dimm.only_place {
        None => {
            "Look for what fails before the module is replaced: a count alone is no reason, and `surefoot memory doctor` says why no report locates it. \
             Reporting the errors costs time meanwhile."
                .to_owned()
        }
        Some(_) => format!("Move work away. {FIND_MODULE}"),
    }
}

/// "at least " before a number of a module whose counts are no more than that.
pub fn at_least(dimm: &Dimm) -> &'static str {
    if dimm.fidelity == Fidelity::Exact { "" } else { "at least " }
}

fn of_dimm(dimm: &Dimm, limit_per_s: Option<f64>) -> Vec<Finding> {
    let subject = Subject::new(SubjectKind::Dimm, &dimm.id);
    let name = name(dimm);
    let mut findings = Vec::new();
    if dimm.uncorrected_since() > 0 {
        let errors = counted(dimm.uncorrected_since(), "uncorrected error", "uncorrected errors");
        let at_least = at_least(dimm);
        let advice = of_uncorrected(dimm);
        let sentence =
            format!("Memory module {name} had {at_least}{errors}: the data at these addresses is lost. {advice}");
        findings.push(rules::UNCORRECTED.finding(subject.clone(), Severity::Critical, sentence));
    }
    if dimm.is_over_rate {
        // It stays over while errors of a moment ago leak away, or by a window that is too long for a rate now.
        let bound = match limit_per_s {
            Some(limit) => format!("the bound of {limit} per second"),
            None => "the bound".to_owned(),
        };
        let errors = match rate(dimm.rate_per_s) {
            Some(rate) => format!("{}{rate} errors per second, over {bound}", at_least(dimm)),
            None => format!("more errors than {bound} allows"),
        };
        let sentence = format!("Memory module {name} corrects {errors}: it is degrading. {}", of_rate(dimm));
        let worst = rate(dimm.worst_rate_per_s).unwrap_or_default();
        let worst = format!("worst: {worst} per second over {:.0} s", dimm.worst_window_s);
        findings.push(rules::RATE.finding(subject.clone(), Severity::Warning, sentence).with_evidence(vec![worst]));
    }
    findings.extend(dimm.fault.as_ref().and_then(|fault| of_fault(&name, subject, fault)));
    if let Some(words) = closed_words(dimm) {
        for finding in &mut findings {
            finding.sentence = format!("{} {}.", finding.sentence, sentence_begin(&words));
        }
    }
    if let Some(words) = mixed_words(dimm) {
        for finding in &mut findings {
            finding.certainty = Certainty::CannotTellApartHere;
            finding.evidence.push(words.clone());
        }
    }
    findings
}

/// That a module's counts may be another's; none where they are its own.
pub fn mixed_words(dimm: &Dimm) -> Option<String> {
    let (named, rest) = dimm.mixed_with.split_at(dimm.mixed_with.len().min(MIXED_NAMED_MAX));
    let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
    (!named.is_empty()).then(|| {
        let (id, others) = (&dimm.id, named.join(", "));
        format!("{id} cannot be told from {others}{more}, and they may have changed places: counts may be the other's")
    })
}

/// What is said of them once, whether one of them has another finding or not.
fn mixed(look: &MemoryLook) -> Option<Finding> {
    let lines: Vec<String> = look.dimms.iter().filter_map(mixed_words).collect();
    let sentence = format!(
        "{} may have changed places with another of the same kind, and no serial number tells them apart: earlier counts may be the \
         other's. Before one is replaced, find out which it is.",
        counted(lines.len() as u64, "memory module", "memory modules")
    );
    let evidence = lines.iter().take(PROBLEMS_MAX).cloned().collect();
    (!lines.is_empty()).then(|| {
        rules::MIXED
            .finding(Subject::host(), Severity::Notice, sentence)
            .with_certainty(Certainty::CannotTellApartHere)
            .with_evidence(evidence)
    })
}

/// A rate in words that are not 0 where it is not; none where it is.
fn rate(per_s: f64) -> Option<String> {
    let words = if per_s < 0.05 { format!("{per_s:.1e}") } else { format!("{per_s:.1}") };
    (per_s > 0.0).then_some(words)
}

/// A fault that stays and takes banks or ranks with it is more than its errors: the code corrects one of them at a time.
fn of_fault(name: &str, subject: Subject, fault: &DimmFault) -> Option<Finding> {
    let is_permanent = fault.persistence == Persistence::Permanent;
    let least = match fault.mode {
        FaultMode::None => return None,
        FaultMode::Rank if is_permanent => Severity::Critical,
        FaultMode::Banks if is_permanent => Severity::Warning,
        _ => Severity::Ok,
    };
    let severity = fault.urgency.max(least);
    // What asks for nothing is on the page, and no finding.
    if severity == Severity::Ok || (severity == Severity::Notice && fault.action == MemoryAction::Watch) {
        return None;
    }
    let kind = match fault.persistence {
        Persistence::Transient => "transient fault",
        Persistence::Permanent => "permanent fault",
        Persistence::Undetermined => "fault",
    };
    let part = match fault.mode {
        FaultMode::Undetermined => "an undetermined part".to_owned(),
        mode => mode_label(mode).to_owned(),
    };
    let sentence = format!("Memory module {name} has a {kind} of {part}. {}", fault.advice);
    let finding =
        rules::FAULT.finding(subject, severity, sentence.trim_end().to_owned()).with_certainty(fault.certainty);
    Some(finding.with_evidence(vec![fault.evidence.clone()]))
}

fn of_controller(controller: &MemoryController, look: &MemoryLook) -> Vec<Finding> {
    let id = &controller.id;
    let mut findings = Vec::new();
    let of_dimms = || look.dimms.iter().filter(|dimm| dimm.controller == *id);
    let has_modules = of_dimms().next().is_some();
    let of_dimms = of_dimms().map(|dimm| dimm.uncorrected()).fold(0, u64::saturating_add);
    let unplaced = controller.uncorrected_count.unwrap_or(0).saturating_sub(of_dimms);
    if unplaced > 0 {
        let errors = counted(unplaced, "uncorrected error", "uncorrected errors");
        let sentence =
            format!("Memory controller {id} had {errors}, and the DIMM is unknown. Move work away. {FIND_MODULE}");
        findings.push(rules::UNCORRECTED_UNPLACED.finding_about(id, Subject::host(), Severity::Critical, sentence));
    }
    // Without modules all are of no known one.
    let of_no_module = controller.corrected_count.filter(|_| !has_modules);
    let no_information_count = of_no_module.max(controller.no_information_count).unwrap_or(0);
    if no_information_count > 0 {
        let errors = counted(no_information_count, "corrected error", "corrected errors");
        let sentence = format!("Memory controller {id} had {errors} of no known module.");
        findings.push(rules::NO_INFORMATION.finding_about(id, Subject::host(), Severity::Notice, sentence));
    }
    if controller.adds_up == Some(false) {
        let sentence = format!(
            "The counts of memory controller {id} do not add up: its total is not that of its modules and of the errors \
             without one."
        );
        let evidence = format!(
            "{id}: {} corrected errors in all, {no_information_count} without a module",
            controller.corrected_count.unwrap_or(0)
        );
        let finding = rules::SUM.finding_about(id, Subject::host(), Severity::Notice, sentence);
        findings.push(finding.with_evidence(vec![evidence]));
    }
    findings
}

fn gone(one: &GoneController) -> Finding {
    let called = if one.name.is_empty() { one.id.clone() } else { format!("{} ({})", one.id, one.name) };
    if let Some(now) = &one.now {
        let sentence = format!(
            "Memory controller {called} is {now} now: it has the same modules at the same places, and their counts go on there."
        );
        let finding = rules::RENUMBERED.finding_about(&one.id, Subject::host(), Severity::Ok, sentence);
        return finding.since(one.seen_realtime_ns);
    }
    let sentence = format!(
        "Memory controller {called} was there and is gone: errors of its modules are no longer counted. Load its EDAC driver again."
    );
    rules::GONE.finding_about(&one.id, Subject::host(), Severity::Warning, sentence).since(one.seen_realtime_ns)
}

/// Checks of the doctor that found something, at the severity that the doctor gave them.
fn checks(state: &State) -> impl Iterator<Item = Finding> {
    let bad = state.checks.iter().filter(|check| check.severity > Severity::Ok);
    bad.map(|check| {
        let parts = [&check.evidence, &check.consequence, &check.remedy].map(|part| part.trim_end_matches('.'));
        let [evidence, consequence, remedy] = parts;
        // A remedy may begin with a command, whose letters stay as they are.
        let to_do = if remedy.is_empty() { String::new() } else { format!(" To do: {remedy}.") };
        let sentence = format!("{} {}{to_do}", sentence(evidence), sentence(consequence));
        let finding = rules::ACCOUNTING.finding_about(&check.rule, Subject::host(), check.severity, sentence);
        finding.with_certainty(check.certainty).with_evidence(vec![check.evidence.clone()])
    })
}

/// A clause as a sentence.
fn sentence(clause: &str) -> String {
    format!("{}.", sentence_begin(clause))
}

fn sentence_begin(clause: &str) -> String {
    let mut letters = clause.chars();
    letters.next().map_or_else(String::new, |first| format!("{}{}", first.to_uppercase(), letters.as_str()))
}

fn problems(look: &MemoryLook) -> Option<Finding> {
    let count = look.problems_left_out.saturating_add(look.problems.len() as u64);
    let lines = look.problems.iter().take(PROBLEMS_MAX).map(|problem| format!("{}: {}", problem.path, problem.why));
    let sentence = match count {
        0 => return None,
        1 => "One problem was met in reading memory errors.".to_owned(),
        count => format!("{count} problems were met in reading memory errors."),
    };
    Some(rules::PROBLEMS.finding(Subject::host(), Severity::Notice, sentence).with_evidence(lines.collect()))
}

/// Reports that are not listed, one finding for each thing that became of them: to have been read and counted is no loss.
fn lost(state: &State) -> Vec<Finding> {
    let of = |kind: LossKind| {
        let those = state.lost.iter().filter(move |((_, own, _), _)| *own == kind);
        let count = those.clone().map(|(_, count)| *count).fold(0, u64::saturating_add);
        let evidence = those.map(|((source, _, why), count)| format!("{}: {count}: {why}", source.label()));
        (count > 0).then(|| finding_of(kind, count, evidence.take(PROBLEMS_MAX).collect()))
    };
    [LossKind::NotRead, LossKind::NotUnderstood, LossKind::NotListed].into_iter().filter_map(of).collect()
}

fn finding_of(kind: LossKind, count: u64, evidence: Vec<String>) -> Finding {
    let reports = counted(count, "report of a memory error", "reports of memory errors");
    let were = if count == 1 { "was" } else { "were" };
    let (rule, sentence) = match kind {
        LossKind::NotRead => (
            rules::NOT_READ,
            format!(
                "{reports} {were} dropped by the kernel before surefoot read them: where these errors are is not known."
            ),
        ),
        LossKind::NotUnderstood => (
            rules::NOT_UNDERSTOOD,
            format!(
                "{reports} could not be understood: this kernel words them in a way that this release does not know. The \
                 counters of the modules are read all the same."
            ),
        ),
        LossKind::NotListed => (
            rules::NOT_LISTED,
            format!(
                "{reports} came too fast to be listed one by one: each was read, and counts for its module's fault."
            ),
        ),
    };
    rule.finding(Subject::host(), Severity::Notice, sentence).with_certainty(Certainty::Certain).with_evidence(evidence)
}

/// The controllers with a counter that cannot be read: how many errors they had of no known module is not known.
pub fn unread_controllers(look: &MemoryLook) -> Vec<&str> {
    let is_unread = |one: &&MemoryController| one.corrected_count.is_none() || one.uncorrected_count.is_none();
    look.controllers.iter().filter(is_unread).map(|one| one.id.as_str()).collect()
}

/// Whether every counter was read, and those that belong to no module are 0.
fn is_well(look: &MemoryLook) -> bool {
    let of_controllers = || look.controllers.iter().flat_map(|one| [one.corrected_count, one.uncorrected_count]);
    let is_known =
        look.dimms.iter().any(|dimm| dimm.only_place.is_none()) || of_controllers().all(|count| count == Some(0));
    let has_all = unread_controllers(look).is_empty() && look.dimms.iter().all(|dimm| !has_unread(dimm));
    is_known && has_all && !is_unseen(look)
}

/// Whether there is neither a module nor a controller, and something could not be read that may have had them.
fn is_unseen(look: &MemoryLook) -> bool {
    let has_problem = !look.problems.is_empty() || look.problems_left_out > 0;
    look.dimms.is_empty() && look.controllers.is_empty() && has_problem
}

fn well(look: &MemoryLook) -> String {
    let unread = unread_controllers(look);
    let has_modules = look.dimms.iter().any(|dimm| dimm.only_place.is_none());
    match unread.len() as u64 {
        // Without modules the sentence is about controllers.
        0 => well_by_modules(look, true),
        _ if !has_modules => well_by_modules(look, true),
        count => {
            let controllers = counted(count, "memory controller", "memory controllers");
            let names = unread.iter().take(MIXED_NAMED_MAX).copied().collect::<Vec<_>>().join(", ");
            let more = if unread.len() > MIXED_NAMED_MAX { ", ..." } else { "" };
            format!(
                "{} The counters of {controllers} ({names}{more}) cannot be read: what they counted is not known.",
                well_by_modules(look, false)
            )
        }
    }
}

/// `is_all`: every controller's counters were read.
fn well_by_modules(look: &MemoryLook, is_all: bool) -> String {
    let corrected = look.dimms.iter().map(|dimm| dimm.corrected()).fold(0, u64::saturating_add);
    let at_least = look.dimms.iter().map(at_least).max().unwrap_or_default();
    let unread = look.dimms.iter().filter(|dimm| dimm.only_place.is_none() && has_unread(dimm)).count();
    let module_count = look.dimms.iter().filter(|dimm| dimm.only_place.is_none()).count();
    let modules = counted(module_count as u64, "memory module", "memory modules");
    match (module_count, corrected) {
        (0, _) if !look.controllers.is_empty() => {
            let sum = |of: fn(&MemoryController) -> Option<u64>| {
                look.controllers.iter().try_fold(0_u64, |sum, one| Some(sum.saturating_add(of(one)?)))
            };
            let number = |sum: Option<u64>, what: &str| match sum {
                Some(sum) => format!("{sum} {what}"),
                None => format!("an unknown number of {what}"),
            };
            format!(
                "No per-DIMM counters found; {} counted {} and {}.",
                counted(look.controllers.len() as u64, "memory controller", "memory controllers"),
                number(sum(|one| one.corrected_count), "corrected"),
                number(sum(|one| one.uncorrected_count), "uncorrected errors"),
            )
        }
        (0, 0) if is_unseen(look) => {
            "Whether there are memory errors is not known: nothing that counts them could be read.".to_owned()
        }
        (0, 0) => "No memory errors reported; no per-DIMM counters found.".to_owned(),
        (_, 0) if unread > 0 => {
            format!("{modules}; no error was read, and the counters of {unread} of them could not all be read.")
        }
        (_, 0) if !is_all => format!("{modules}; no error was read."),
        (_, 0) => format!("{modules}, no errors counted."),
        (_, errors) => {
            let errors = counted(errors, "corrected error", "corrected errors");
            let closed = look.dimms.iter().filter(|dimm| dimm.closed.is_some()).count() as u64;
            let closed = match closed {
                0 => String::new(),
                count => format!(" ({} closed)", counted(count, "fault", "faults")),
            };
            format!("{modules}, {at_least}{errors} in all{closed}; no action needed.")
        }
    }
}

/// The module as a part; none where it is not certain that its serial number is that of its slot.
pub fn part_of(dimm: &Dimm) -> Option<Part> {
    let is_certain = dimm.serial_certainty == Some(Certainty::Certain) && dimm.only_place.is_none();
    let serial = dimm.serial.clone().filter(|_| is_certain)?;
    let model = dimm.part.clone().unwrap_or_default();
    Some(Part { kind: SubjectKind::Dimm, name: dimm.id.clone(), place: dimm.label.clone(), serial, model })
}

fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

#[cfg(test)]
#[path = "findings_tests.rs"]
mod tests;
