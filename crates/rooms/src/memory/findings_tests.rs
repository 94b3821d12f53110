#![allow(clippy::unwrap_used)]
use super::*;
use surefoot_model::{
    CheckResult, ClosedFault, ErrorReport, ErrorSeverity, FaultClosing, Fidelity, LossKind, MemoryAction, MemoryCheck,
    MemoryEvent, MemoryProblem, MemorySource, Spread,
};

fn dimm(id: &str) -> Dimm {
    Dimm {
        id: id.into(),
        label: "A1".into(),
        serial: None,
        serial_certainty: None,
        part: None,
        size_bytes: 0,
        controller: "mc0".into(),
        corrected_count: Some(0),
        uncorrected_count: Some(0),
        rate_per_s: 0.0,
        rate_window_s: 0.0,
        worst_rate_per_s: 0.0,
        worst_window_s: 0.0,
        is_over_rate: false,
        fidelity: Fidelity::Exact,
        unread: Vec::new(),
        unplaced: Vec::new(),
        sources: vec![MemorySource::Edac],
        spread: Spread::default(),
        fault_mode: FaultMode::None,
        fault: None,
        moved_from: None,
        mixed_with: Vec::new(),
        only_place: None,
        closed: None,
    }
}

fn fault(mode: FaultMode, persistence: Persistence, urgency: Severity) -> DimmFault {
    DimmFault {
        probability: None,
        runner_up: None,
        report_count: 1,
        mode,
        persistence,
        certainty: Certainty::Probable,
        evidence: "40 errors in 3 banks".into(),
        cells: Vec::new(),
        cells_left_out: 0,
        action: MemoryAction::Replace,
        urgency,
        advice: "Replace it.".into(),
    }
}

fn look(dimms: Vec<Dimm>) -> MemoryLook {
    MemoryLook { looked_realtime_ns: 1, dimms, ..MemoryLook::default() }
}

fn found(events: &[MemoryEvent]) -> Vec<Finding> {
    let mut state = State::default();
    events.iter().for_each(|event| state.seen(event));
    of(&state)
}

fn of_look(look: MemoryLook) -> Vec<(String, Severity)> {
    found(&[MemoryEvent::Look(look)]).into_iter().map(|finding| (finding.key, finding.severity)).collect()
}

#[test]
fn a_host_without_any_source_is_not_nagged_about() {
    assert!(found(&[]).is_empty());
    assert!(of_look(MemoryLook { unsupported: Some("a virtual machine".into()), ..look(vec![]) }).is_empty());
}

#[test]
fn where_no_module_is_known_none_is_to_be_replaced_but_found() {
    let place = Dimm { only_place: Some("socket 1, channel 2".into()), ..dimm("socket1/channel2") };
    let lost = Dimm { uncorrected_count: Some(2), is_over_rate: true, ..place.clone() };
    for finding in of_dimm(&lost, None) {
        let sentence = &finding.sentence;
        assert!(sentence.contains("of socket 1, channel 2 (socket1/channel2), not known which"), "{sentence}");
        assert!(sentence.contains(FIND_MODULE) && !sentence.contains("replace the module"), "{sentence}");
    }
    // A place is not counted as one of the modules.
    let findings = found(&[MemoryEvent::Look(look(vec![dimm("S1"), place]))]);
    assert_eq!(findings[0].sentence, "1 memory module, no errors counted.");
}

#[test]
fn healthy_modules_are_praised_once() {
    let findings = found(&[MemoryEvent::Look(look(vec![dimm("S1"), dimm("S2")]))]);
    assert_eq!(findings.len(), 1);
    assert_eq!(findings[0].sentence, "2 memory modules, no errors counted.");
    let mut some = dimm("S1");
    some.corrected_count = Some(3);
    let findings = found(&[MemoryEvent::Look(look(vec![some]))]);
    assert_eq!(findings[0].sentence, "1 memory module, 3 corrected errors in all; no action needed.");
}

#[test]
fn uncorrected_errors_are_critical_and_a_rate_over_the_bound_is_a_warning() {
    let mut bad = dimm("S1");
    bad.uncorrected_count = Some(2);
    bad.is_over_rate = true;
    bad.rate_per_s = 23.4;
    bad.fidelity = Fidelity::LowerBound;
    let findings = found(&[MemoryEvent::Look(look(vec![bad]))]);
    let [uncorrected, rate] = &findings[..] else { panic!("{findings:?}") };
    assert_eq!(uncorrected.key, "memory/uncorrected/dimm/S1");
    assert_eq!(uncorrected.severity, Severity::Critical);
    assert!(uncorrected.sentence.contains("A1 (S1) had at least 2 uncorrected errors"), "{}", uncorrected.sentence);
    assert_eq!((rate.key.as_str(), rate.severity), ("memory/rate/dimm/S1", Severity::Warning));
    assert!(rate.sentence.contains("at least 23.4 errors per second"), "{}", rate.sentence);
}

#[test]
fn a_permanent_fault_of_many_banks_or_a_rank_is_as_bad_as_its_reach() {
    for (mode, persistence, urgency, wanted) in [
        (FaultMode::Rank, Persistence::Permanent, Severity::Ok, Some(Severity::Critical)),
        (FaultMode::Banks, Persistence::Permanent, Severity::Notice, Some(Severity::Warning)),
        (FaultMode::Banks, Persistence::Permanent, Severity::Critical, Some(Severity::Critical)),
        (FaultMode::Banks, Persistence::Transient, Severity::Notice, Some(Severity::Notice)),
        (FaultMode::Row, Persistence::Permanent, Severity::Notice, Some(Severity::Notice)),
        (FaultMode::Cell, Persistence::Transient, Severity::Ok, None),
        (FaultMode::None, Persistence::Undetermined, Severity::Critical, None),
    ] {
        let mut bad = dimm("S1");
        bad.fault_mode = mode;
        bad.fault = Some(fault(mode, persistence, urgency));
        let findings = of_look(look(vec![bad]));
        let of_fault = findings.iter().find(|(key, _)| key == "memory/fault/dimm/S1").map(|(_, severity)| *severity);
        assert_eq!(of_fault, wanted, "{mode:?} {persistence:?}");
    }
}

#[test]
fn a_fault_that_asks_for_nothing_is_no_finding() {
    let mut flipped = dimm("S1");
    let watch =
        DimmFault { action: MemoryAction::Watch, ..fault(FaultMode::Cell, Persistence::Transient, Severity::Notice) };
    flipped.fault = Some(watch);
    assert_eq!(of_look(look(vec![flipped])), [("memory/dimms/host".to_owned(), Severity::Ok)]);
}

#[test]
fn counts_that_do_not_add_up_and_errors_without_a_module_are_told_by_controller() {
    let controller = MemoryController {
        id: "mc1".into(),
        name: "Skylake".into(),
        corrected_count: Some(9),
        uncorrected_count: Some(1),
        no_information_count: Some(4),
        adds_up: Some(false),
        reset_s: None,
    };
    let findings = of_look(MemoryLook { controllers: vec![controller], ..look(vec![dimm("S1")]) });
    let wanted = [
        ("memory/uncorrected-mc1/host", Severity::Critical),
        ("memory/no-information-mc1/host", Severity::Notice),
        ("memory/sum-mc1/host", Severity::Notice),
        ("memory/dimms/host", Severity::Ok),
    ];
    assert_eq!(findings, wanted.map(|(key, severity)| (key.to_owned(), severity)));
}

#[test]
fn a_check_has_the_severity_of_the_doctor_and_what_cannot_be_read_is_named() {
    let check = |rule: &str, severity| MemoryCheck {
        rule: rule.into(),
        result: CheckResult::Found,
        severity,
        certainty: Certainty::Certain,
        evidence: "/sys/kernel/debug/ras/cec is there.".into(),
        consequence: "counts stay near zero".into(),
        remedy: "boot with ras=cec_disable".into(),
    };
    let problem = MemoryProblem { source: MemorySource::Edac, path: "/sys/x".into(), why: "is not a number".into() };
    let findings = found(&[
        MemoryEvent::Look(MemoryLook { problems: vec![problem], ..look(vec![]) }),
        MemoryEvent::Checks { checks: vec![check("cec", Severity::Critical), check("labels", Severity::Ok)] },
    ]);
    assert_eq!(findings[0].key, "memory/accounting-cec/host");
    assert_eq!(findings[0].severity, Severity::Critical);
    assert_eq!(
        findings[0].sentence,
        "/sys/kernel/debug/ras/cec is there. Counts stay near zero. To do: boot with ras=cec_disable."
    );
    assert_eq!(findings[1].evidence, ["/sys/x: is not a number"]);
    // Where nothing else was read, that is no word of no errors.
    let (last, of) = (findings.last().unwrap(), |severity, certainty| (severity, certainty));
    assert_eq!(of(last.severity, last.certainty), of(Severity::Notice, Certainty::CannotTellApartHere));
    assert!(last.sentence.starts_with("Whether there are memory errors is not known"), "{}", last.sentence);
}

#[test]
fn reports_that_are_not_listed_are_told_apart_by_what_became_of_them() {
    let of = |source, kind, count| MemoryEvent::Lost { source, kind, count, why: "the buffer was full".into() };
    let lost = |source, count| of(source, LossKind::NotRead, count);
    let report = ErrorReport {
        at_realtime_ns: 1,
        at_ns: None,
        source: MemorySource::McEvent,
        severity: ErrorSeverity::Corrected,
        dimm: None,
        label: String::new(),
        count: 1,
        fidelity: Fidelity::Exact,
        location: Default::default(),
        detail: String::new(),
    };
    let findings = found(&[
        MemoryEvent::Look(look(vec![dimm("S1")])),
        lost(MemorySource::McEvent, 5),
        MemoryEvent::Report(report),
        lost(MemorySource::McEvent, 7),
        lost(MemorySource::MceRecord, 1),
        of(MemorySource::McEvent, LossKind::NotListed, 900),
        of(MemorySource::McEvent, LossKind::NotUnderstood, 1),
    ]);
    let said: Vec<(&str, &str)> =
        findings.iter().map(|finding| (finding.key.as_str(), finding.sentence.as_str())).take(3).collect();
    let [read, understood, listed] = said[..] else { panic!("{said:?}") };
    assert!(read.1.starts_with("8 reports of memory errors were dropped by the kernel"), "{read:?}");
    assert!(understood.1.starts_with("1 report of a memory error could not be understood"), "{understood:?}");
    assert!(listed.1.starts_with("900 reports of memory errors came too fast"), "{listed:?}");
    assert_eq!(understood.0, "memory/reports-not-understood/host");
}

#[test]
fn what_a_recorded_tree_says_names_the_tree() {
    let bad = Dimm { uncorrected_count: Some(1), ..dimm("S1") };
    let recorded_tree = Some("/srv/node17".to_owned());
    let told = |dimm, recorded_tree| found(&[MemoryEvent::Look(MemoryLook { recorded_tree, ..look(vec![dimm]) })]);
    let findings = told(bad, recorded_tree.clone());
    let well = told(dimm("S1"), recorded_tree);
    for finding in findings.iter().chain(&well) {
        assert!(finding.sentence.starts_with("Recorded tree /srv/node17: "), "{}", finding.sentence);
    }
    assert!(findings.len() + well.len() >= 2);
}

#[test]
fn a_module_over_the_bound_is_never_said_to_correct_nothing() {
    let sentence = |now: f64| {
        let worst = Dimm { worst_rate_per_s: 0.02, worst_window_s: 600.0, ..dimm("mc0/dimm0") };
        let finding = of_dimm(&Dimm { rate_per_s: now, is_over_rate: true, ..worst }, None).remove(0);
        assert_eq!(finding.evidence, ["worst: 2.0e-2 per second over 600 s"]);
        finding.sentence
    };
    assert!(sentence(0.0).contains("corrects more errors than the bound allows:"), "{}", sentence(0.0));
    assert!(sentence(0.02).contains("corrects 2.0e-2 errors per second, over the bound:"), "{}", sentence(0.02));
    assert!(sentence(20.0).contains("corrects 20.0 errors per second, over the bound:"), "{}", sentence(20.0));
}

#[test]
fn a_module_is_a_part_only_where_its_serial_number_is_certain() {
    let of = |certainty| Dimm { serial: Some("03A10001".into()), serial_certainty: certainty, ..dimm("03A10001") };
    let part = part_of(&of(Some(Certainty::Certain))).unwrap();
    assert_eq!(
        (&*part.place, &*part.serial, part.subject()),
        ("A1", "03A10001", Subject::new(SubjectKind::Dimm, "03A10001"))
    );
    for unsure in [None, Some(Certainty::Probable), Some(Certainty::CannotTellApartHere)] {
        assert_eq!(part_of(&of(unsure)), None);
    }
    assert_eq!(part_of(&dimm("mc0/dimm0")), None);
}

#[test]
fn the_advice_of_a_module_is_that_of_its_findings() {
    assert_eq!(advice(&dimm("S1")), None);
    let some = Dimm { corrected_count: Some(4), ..dimm("S1") };
    assert!(advice(&some).unwrap().starts_with("Nothing yet"));
    let often = Dimm { is_over_rate: true, ..some.clone() };
    let lost = Dimm { uncorrected_count: Some(1), ..often.clone() };
    let found_at =
        Dimm { fault: Some(fault(FaultMode::Row, Persistence::Permanent, Severity::Warning)), ..often.clone() };
    for one in [&often, &lost, &found_at] {
        let place = Dimm { only_place: Some("socket 1".into()), ..one.clone() };
        for one in [one, &place] {
            let (advice, findings) = (advice(one).unwrap(), of_dimm(one, None));
            assert!(findings.iter().any(|finding| finding.sentence.ends_with(&advice)), "{advice}: {findings:?}");
        }
    }
    assert_eq!(advice(&found_at).as_deref(), Some("Replace it."));
    assert_eq!(advice(&lost).as_deref(), Some("Move work away and replace the module."));
}

#[test]
fn errors_without_a_module_and_counters_unread_are_not_all_well() {
    let controller = |corrected_count, uncorrected_count| MemoryController {
        id: "mc0".into(),
        name: "skx".into(),
        corrected_count,
        uncorrected_count,
        no_information_count: Some(0),
        adds_up: None,
        reset_s: None,
    };
    let said = |corrected, uncorrected| {
        let look = MemoryLook { controllers: vec![controller(corrected, uncorrected)], ..look(vec![]) };
        let findings = found(&[MemoryEvent::Look(look)]);
        let of_host = findings.iter().find(|finding| finding.rule == DIMMS_RULE).unwrap();
        let of_controller = findings.iter().map(|finding| finding.rule.as_str()).find(|rule| *rule != DIMMS_RULE);
        (of_host.severity, of_host.sentence.clone(), of_controller.map(str::to_owned))
    };
    let none = "No per-DIMM counters found; 1 memory controller counted ";
    assert_eq!(said(Some(0), Some(0)), (Severity::Ok, format!("{none}0 corrected and 0 uncorrected errors."), None));
    let corrected = "no-information-mc0".to_owned();
    assert_eq!(
        said(Some(60), Some(0)),
        (Severity::Notice, format!("{none}60 corrected and 0 uncorrected errors."), Some(corrected))
    );
    let unknown = format!("{none}0 corrected and an unknown number of uncorrected errors.");
    assert_eq!(said(Some(0), None), (Severity::Notice, unknown, None));
    // A controller with modules: those that were read speak for themselves.
    let unread = Dimm { unread: vec![ErrorSeverity::Uncorrected], ..dimm("S1") };
    let findings = found(&[MemoryEvent::Look(look(vec![unread]))]);
    assert_eq!((findings.len(), findings[0].severity), (1, Severity::Notice));
    // Another controller, which could not be read.
    let unread = MemoryController { id: "mc1".into(), ..controller(None, None) };
    let beside = MemoryLook { controllers: vec![controller(Some(0), Some(0)), unread], ..look(vec![dimm("S1")]) };
    let findings = found(&[MemoryEvent::Look(beside)]);
    let sentence = "1 memory module; no error was read. The counters of 1 memory controller (mc1) cannot be read: what they counted is \
                    not known.";
    assert_eq!((findings[0].severity, findings[0].sentence.as_str()), (Severity::Notice, sentence));
}

#[test]
fn a_controller_that_went_is_a_warning_and_its_errors_stay() {
    let gone = GoneController { id: "mc2".into(), name: "skx".into(), seen_realtime_ns: 7, now: None };
    let bad = Dimm {
        uncorrected_count: Some(1),
        unread: vec![ErrorSeverity::Corrected, ErrorSeverity::Uncorrected],
        controller: "mc2".into(),
        ..dimm("S1")
    };
    let findings = found(&[MemoryEvent::Look(MemoryLook { gone: vec![gone.clone()], ..look(vec![bad]) })]);
    let of = |rule: &str| findings.iter().find(|finding| finding.rule == rule).unwrap();
    assert_eq!(of("controller-gone-mc2").severity, Severity::Warning);
    assert_eq!(of("controller-gone-mc2").since_realtime_ns, 7);
    let renumbered = super::gone(&GoneController { now: Some("mc5".into()), ..gone.clone() });
    assert_eq!(
        (renumbered.severity, renumbered.rule.as_str()),
        (Severity::Ok, "controller-renumbered-mc2"),
        "{}",
        renumbered.sentence
    );
    assert_eq!(of(rules::UNCORRECTED.name).severity, Severity::Critical);
}

/// Of a module that may be another one no finding is sure, and one says why.
#[test]
fn counts_that_may_be_another_modules_are_nobodys_for_certain() {
    let of = |id: &str, with: &[&str], uncorrected| Dimm {
        mixed_with: with.iter().map(|&id| id.to_owned()).collect(),
        uncorrected_count: Some(uncorrected),
        ..dimm(id)
    };
    let dimms = vec![of("mc0/dimm0", &["mc0/dimm1"], 2), of("mc0/dimm1", &["mc0/dimm0"], 0), of("mc0/dimm2", &[], 0)];
    assert_eq!(dimms.iter().map(severity).collect::<Vec<_>>(), [Severity::Critical, Severity::Notice, Severity::Ok]);
    let findings = found(&[MemoryEvent::Look(look(dimms))]);
    let lost = findings.iter().find(|finding| finding.rule == "uncorrected").unwrap();
    assert_eq!(lost.certainty, Certainty::CannotTellApartHere);
    assert!(lost.evidence.iter().any(|line| line.contains("mc0/dimm1")), "{lost:?}");
    let mixed = findings.iter().find(|finding| finding.rule == "mixed").unwrap();
    assert!(mixed.sentence.starts_with("2 memory modules") && mixed.evidence.len() == 2, "{mixed:?}");
    let apart = found(&[MemoryEvent::Look(look(vec![dimm("a"), dimm("b")]))]);
    assert!(apart.iter().all(|finding| finding.rule != "mixed"));
}

fn closed(closing: FaultClosing, since: (u64, u64), back: Option<(u64, u32)>) -> ClosedFault {
    const DAY_NS: u64 = 86_400_000_000_000;
    let closed_realtime_ns = 20_785 * DAY_NS;
    ClosedFault {
        closing,
        closed_realtime_ns,
        reason: "SECRET".into(),
        corrected_since: since.0,
        uncorrected_since: since.1,
        closed_count: back.map_or(1, |(_, count)| count),
        back_realtime_ns: back.map(|(days, _)| closed_realtime_ns + days * DAY_NS + 5),
        back_count: back.map_or(0, |(_, count)| count),
    }
}

#[test]
fn a_closed_fault_is_no_finding_until_it_comes_back_and_then_says_how_often() {
    let bad = Dimm { uncorrected_count: Some(3), corrected_count: Some(70), ..dimm("S1") };
    assert_eq!(severity(&bad), Severity::Critical);
    let quiet = Dimm { closed: Some(closed(FaultClosing::Repaired, (0, 0), None)), ..bad.clone() };
    assert_eq!((severity(&quiet), advice(&quiet)), (Severity::Ok, None));
    let findings = found(&[MemoryEvent::Look(look(vec![quiet]))]);
    assert_eq!(findings[0].sentence, "1 memory module, 70 corrected errors in all (1 fault closed); no action needed.");
    let back = Dimm { closed: Some(closed(FaultClosing::Repaired, (0, 1), Some((3, 2)))), ..bad.clone() };
    let findings = found(&[MemoryEvent::Look(look(vec![back]))]);
    let sentence = &findings[0].sentence;
    assert!(sentence.contains("(S1) had 1 uncorrected error: the data"), "{sentence}");
    let said = "Closed 2026-11-28 as repaired (second closing); came back after 3 days; second time.";
    assert!(sentence.ends_with(said) && !sentence.contains("SECRET"), "{sentence}");
    assert_eq!((findings[0].rule.as_str(), findings[0].severity), ("uncorrected", Severity::Critical));
    let thrice = Dimm { closed: Some(closed(FaultClosing::Cleared, (9, 0), Some((0, 11)))), ..bad };
    let words = closed_words(&thrice).unwrap();
    assert_eq!(words, "closed 2026-11-28 as cleared (11th closing); came back after 0 seconds; 11th time");
}

/// A person's words are in the deed, and there for those who see everything.
#[test]
fn the_reason_of_a_closing_is_for_those_who_see_everything() {
    use crate::viewer::Private;
    use crate::viewer::Viewer;
    let mut state = State::default();
    let quiet = Dimm { closed: Some(closed(FaultClosing::Cleared, (0, 0), None)), ..dimm("S1") };
    state.seen(&MemoryEvent::Look(look(vec![quiet])));
    let reason = |sees_all| {
        let seen = state.clone().seen_by(Viewer { uid: Some(1000), sees_all, named: None });
        seen.look.unwrap().dimms[0].closed.clone().unwrap().reason
    };
    assert_eq!((reason(true).as_str(), reason(false).as_str()), ("SECRET", ""));
}
