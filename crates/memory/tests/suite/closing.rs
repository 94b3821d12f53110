//! Faults that a person closed: what came before is no evidence, what comes since is, and a fault that comes back says how often it did.

use super::tree::{MC, controller, dimm};
use surefoot_hostfs::{Root, clock};
use surefoot_journal::deeds::Record;
use surefoot_memory::closing::{NotFound, Plan, Planned, Wanted, close, plan, wanted};
use surefoot_memory::counts::Kept;
use surefoot_memory::look::Looker;
use surefoot_memory::reports::{McErrorType, McEvent, mc_event};
use surefoot_memory::watch::{Settings, Watch};
use surefoot_model::{
    ClosedModule, Deed, DeedOutcome, Dimm, ErrorReport, FaultClosing, FaultMode, MemoryEvent, MemoryLook, SlotStay,
};
use surefoot_testkit::HostTree;

const ID: &str = "mc0/dimm0";

fn host(errors: &[u64]) -> HostTree {
    controller(
        HostTree::new().file("proc/uptime", "1000.00 0.00\n").file(BOOT, "a0000000-0000-0000-0000-000000000000\n"),
        0,
        errors,
    )
}

const BOOT: &str = "proc/sys/kernel/random/boot_id";

fn count(tree: &HostTree, number: u32, errors: u64) {
    tree.write(format!("{MC}/mc0/dimm{number}/dimm_ce_count"), format!("{errors}\n"));
}

/// Closes the fault of a module as the command does.
fn close_as(tree: &HostTree, id: &str, closing: FaultClosing) -> Deed {
    let begun = begin(tree, id, closing);
    close(&record(tree), &begun, "checked", clock::realtime_ns).unwrap()
}

fn record(tree: &HostTree) -> Record {
    Record::OfHost(tree.path().to_owned())
}

fn begin(tree: &HostTree, id: &str, closing: FaultClosing) -> Deed {
    let at_realtime_ns = clock::realtime_ns();
    let mut looker = Looker::new(Root::at(tree.path()));
    let look = looker.look();
    let module = dimm(&look, id);
    let found = looker.module_now(module);
    let wanted = Wanted::Here(module);
    match plan(&Plan { closing, wanted, found, reason: "bank 3 was repaired", uid: 0, at_realtime_ns }) {
        Planned::Close { begun, .. } => *begun,
        other => panic!("{other:?}"),
    }
}

/// What a watch says of a module now; where it looks again is its own.
fn finish(watch: &mut Watch) -> MemoryLook {
    let mut looks = watch.finish().into_iter().filter_map(|event| match event {
        MemoryEvent::Look(look) => Some(look),
        _ => None,
    });
    looks.next_back().unwrap()
}

fn since(dimm: &Dimm) -> (u64, u64, u32, bool) {
    let closed = dimm.closed.as_ref().unwrap_or_else(|| panic!("{dimm:?}"));
    (closed.corrected_since, closed.uncorrected_since, closed.back_count, closed.back_realtime_ns.is_some())
}

#[test]
fn a_closed_fault_is_judged_by_what_came_since_and_reopens_with_its_count() {
    let tree = host(&[40, 3]);
    let mut watch = Watch::open(&Root::at(tree.path()), Settings::default());
    assert_eq!(dimm(&finish(&mut watch), ID).closed, None);
    close_as(&tree, ID, FaultClosing::Repaired);
    let look = finish(&mut watch);
    assert_eq!((dimm(&look, ID).corrected(), since(dimm(&look, ID))), (40, (0, 0, 0, false)), "the count stays");
    assert_eq!(dimm(&look, ID).fault_mode, FaultMode::None);
    assert_eq!(dimm(&look, "mc0/dimm1").closed, None, "no other module is closed");
    count(&tree, 0, 42);
    assert_eq!(since(dimm(&finish(&mut watch), ID)), (2, 0, 1, true));
    // Closed again, and it comes back again.
    close_as(&tree, ID, FaultClosing::Cleared);
    assert_eq!(since(dimm(&finish(&mut watch), ID)), (0, 0, 1, false));
    count(&tree, 0, 49);
    let look = finish(&mut watch);
    assert_eq!(since(dimm(&look, ID)), (7, 0, 2, true));
    let closed = dimm(&look, ID).closed.as_ref().unwrap();
    assert_eq!((closed.closed_count, closed.closing), (2, FaultClosing::Cleared));
}

/// The watch had counted 500 errors of earlier boots; the fault was closed, and errors came, while it was down.
#[test]
fn errors_between_the_closing_and_the_next_look_of_a_watch_count_as_since() {
    let tree = host(&[40, 3]);
    let mut before = Looker::new(Root::at(tree.path()));
    before.look();
    tree.write(BOOT, "b0000000-0000-0000-0000-000000000000\n");
    count(&tree, 0, 10);
    before.look();
    let kept = before.kept().clone();
    close_as(&tree, ID, FaultClosing::Repaired);
    count(&tree, 0, 13);
    let open = |tree: &HostTree, kept: &Kept| {
        let settings = Settings { kept: Some(kept.clone()), ..Settings::default() };
        Watch::open(&Root::at(tree.path()), settings)
    };
    let mut watch = open(&tree, &kept);
    let look = finish(&mut watch);
    assert_eq!((dimm(&look, ID).corrected(), since(dimm(&look, ID))), (53, (3, 0, 1, true)));
    // Another process goes on from the same counts, and the journal tells it nothing new.
    let kept = serde_json::from_str(&serde_json::to_string(watch.kept()).unwrap()).unwrap();
    let mut again = open(&tree, &kept);
    assert_eq!(since(dimm(&finish(&mut again), ID)), (3, 0, 1, true));
    // Without the journal, which was rotated away, the counts still know it.
    std::fs::remove_file(record(&tree).path()).unwrap();
    let mut without = open(&tree, &kept);
    assert_eq!(since(dimm(&finish(&mut without), ID)), (3, 0, 1, true));
    // A boot after the closing: what the counters have came since.
    close_as(&tree, ID, FaultClosing::Repaired);
    tree.write(BOOT, "c0000000-0000-0000-0000-000000000000\n");
    count(&tree, 0, 4);
    assert_eq!(since(dimm(&finish(&mut open(&tree, &kept)), ID)), (4, 0, 2, true));
}

/// Killed between the two lines: only the first is there.
#[test]
fn a_closing_that_only_began_closes_nothing() {
    let tree = host(&[40, 3]);
    let begun = begin(&tree, ID, FaultClosing::Cleared);
    record(&tree).append(&begun).unwrap();
    let mut watch = Watch::open(&Root::at(tree.path()), Settings::default());
    assert_eq!(dimm(&finish(&mut watch), ID).closed, None);
    let failed = begun.with_outcome(DeedOutcome::Failed { error: "x".into() }, begun.at_realtime_ns + 1);
    record(&tree).append(&failed).unwrap();
    assert_eq!(dimm(&finish(&mut watch), ID).closed, None);
    close_as(&tree, ID, FaultClosing::Cleared);
    assert_eq!(since(dimm(&finish(&mut watch), ID)), (0, 0, 0, false));
}

#[test]
fn a_journal_that_others_could_have_written_closes_nothing_and_is_told() {
    use std::os::unix::fs::PermissionsExt;
    let tree = host(&[40, 3]);
    close_as(&tree, ID, FaultClosing::Cleared);
    std::fs::set_permissions(record(&tree).path(), PermissionsExt::from_mode(0o622)).unwrap();
    let look = finish(&mut Watch::open(&Root::at(tree.path()), Settings::default()));
    assert_eq!(dimm(&look, ID).closed, None);
    let told = |problem: &&surefoot_model::MemoryProblem| problem.why.contains("shown as open");
    assert!(look.problems.iter().any(|problem| told(&problem)), "{:?}", look.problems);
}

fn report(row: u32, column: u32, at_realtime_ns: u64, error_type: McErrorType) -> ErrorReport {
    let driver_detail = format!("APEI location: rank:0 bank:2 row:{row} col:{column}");
    let event = McEvent { label: "DIMM_0_0".into(), driver_detail, error_type, error_count: 1, ..McEvent::default() };
    ErrorReport { at_realtime_ns, ..mc_event(&event) }
}

/// A row that lost bits and was repaired; a history still has its reports.
#[test]
fn reports_from_before_the_closing_are_no_evidence() {
    let tree = host(&[40, 3]);
    let now_ns = clock::realtime_ns();
    let day_ns = 86_400_000_000_000;
    let row = |from_ns: u64| {
        (0..6).map(move |at| report(7, at * 8, from_ns + u64::from(at) * day_ns / 2, McErrorType::Uncorrected))
    };
    let before: Vec<ErrorReport> = row(now_ns - 20 * day_ns).collect();
    let open = |reports: Vec<ErrorReport>| {
        let settings = Settings { kept_reports: reports, ..Settings::default() };
        finish(&mut Watch::open(&Root::at(tree.path()), settings))
    };
    assert_eq!(dimm(&open(before.clone()), ID).fault.as_ref().unwrap().mode, FaultMode::Row);
    let deed = close_as(&tree, ID, FaultClosing::Repaired);
    let look = open(before.clone());
    assert_eq!(dimm(&look, ID).fault, None);
    assert_eq!(since(dimm(&look, ID)), (0, 0, 0, false));
    // The same row after it.
    let both = before.into_iter().chain(row(deed.begun_realtime_ns + 1)).collect();
    let look = open(both);
    let fault = dimm(&look, ID).fault.as_ref().unwrap();
    assert_eq!((fault.mode, fault.report_count), (FaultMode::Row, 6));
    assert_eq!(since(dimm(&look, ID)).2, 1);
}

/// A module that only reports know, such as one behind CXL.
#[test]
fn a_module_without_counters_is_closed_by_the_time_of_its_reports() {
    let tree = HostTree::new().file("proc/uptime", "1000.00 0.00\n");
    let at = |at_ns: u64| ErrorReport { dimm: Some("A1".into()), ..report(7, 8, at_ns, McErrorType::Corrected) };
    let open = |reports: &[ErrorReport]| {
        let settings = Settings { kept_reports: reports.to_vec(), ..Settings::default() };
        finish(&mut Watch::open(&Root::at(tree.path()), settings))
    };
    let now_ns = clock::realtime_ns();
    let look = open(&[at(now_ns - 5), at(now_ns - 4)]);
    let module = dimm(&look, "A1");
    let found = Looker::new(Root::at(tree.path())).module_now(module);
    let ask = Plan {
        closing: FaultClosing::Cleared,
        wanted: Wanted::Here(module),
        found,
        reason: "x",
        uid: 0,
        at_realtime_ns: now_ns,
    };
    let Planned::Close { begun, .. } = plan(&ask) else { panic!() };
    close(&record(&tree), &begun, "checked", clock::realtime_ns).unwrap();
    let look = open(&[at(now_ns - 5), at(now_ns - 4)]);
    assert_eq!((dimm(&look, "A1").corrected(), since(dimm(&look, "A1"))), (2, (0, 0, 0, false)));
    let look = open(&[at(now_ns - 5), at(now_ns - 4), at(now_ns + 1)]);
    assert_eq!((dimm(&look, "A1").corrected(), since(dimm(&look, "A1"))), (3, (1, 0, 1, true)));
}

fn stay(place: &str, label: &str, module: &str, serial: Option<&str>, last: u64, has_ended: bool) -> SlotStay {
    SlotStay {
        place: place.into(),
        label: label.into(),
        module: module.into(),
        serial: serial.map(str::to_owned),
        serial_certainty: None,
        part: None,
        size_bytes: 0,
        first_seen_realtime_ns: 1,
        last_seen_realtime_ns: last,
        has_ended,
        corrected_count: 5,
        uncorrected_count: 1,
        closed: None,
    }
}

fn with(dimms: Vec<Dimm>, slots: Vec<SlotStay>) -> MemoryLook {
    MemoryLook { dimms, slots, ..MemoryLook::default() }
}

fn module(id: &str, label: &str, serial: Option<&str>) -> Dimm {
    let tree = host(&[4]);
    let mut module = dimm(&super::tree::look(&tree), ID).clone();
    (module.id, module.label, module.serial) = (id.into(), label.into(), serial.map(str::to_owned));
    module.serial_certainty = module.serial.as_ref().map(|_| surefoot_model::Certainty::Certain);
    module
}

#[test]
fn a_name_stands_for_one_module_or_says_why_not() {
    use FaultClosing::{Cleared, Repaired, Replaced};
    let mut group = module("A1 or B1", "A1 or B1", None);
    group.only_place = Some("A1 or B1".into());
    let look = with(
        vec![module("S1", "A1", Some("S1")), module("S2", "B1", Some("S2")), module("S3", "B1", Some("S3")), group],
        vec![stay("mc0/dimm0", "A1", "OLD", Some("OLD"), 5, true), stay("mc0/dimm0", "A1", "S1", Some("S1"), 9, false)],
    );
    let others = vec!["node17: DIMM_X".to_owned()];
    let id = |name: &str, closing| match wanted(&look, &others, name, closing) {
        Ok(Wanted::Here(dimm)) => dimm.id.clone(),
        Ok(Wanted::Gone(stay, now)) => format!("gone {}, now {:?}", stay.module, now.map(|now| now.module.as_str())),
        Err(why) => why.to_string(),
    };
    assert_eq!([id("S1", Repaired), id("A1", Repaired), id("A1 or B1", Cleared)], ["S1", "S1", "A1 or B1"]);
    assert!(id("B1", Cleared).contains("2 modules have this label (S2, S3)"));
    for closing in [Repaired, Replaced] {
        assert!(id("A1 or B1", closing).contains("the module is unknown"), "{}", id("A1 or B1", closing));
    }
    assert!(id("S4", Repaired).contains("no such module; known here: S1, S2, S3"), "{}", id("S4", Repaired));
    for name in ["DIMM_X", "node17: DIMM_X"] {
        assert!(id(name, Cleared).contains("DIMM_X is a module of host node17"), "{}", id(name, Cleared));
    }
    // A slot's name stands for the module that was replaced.
    assert_eq!([id("A1", Replaced), id("OLD", Replaced)], ["gone OLD, now Some(\"S1\")"; 2]);
    assert_eq!(id("S1", Replaced), "S1");
    assert!(matches!(wanted(&look, &others, "", Cleared), Err(NotFound::Unknown { .. })));
}

#[test]
fn replaced_needs_another_module_in_the_slot_or_says_that_nothing_proves_it() {
    let planned = |wanted: Wanted<'_>, found: ClosedModule| {
        plan(&Plan { closing: FaultClosing::Replaced, wanted, found, reason: "x", uid: 0, at_realtime_ns: 1 })
    };
    let known = ClosedModule { label: "A1".into(), serial: Some("S1".into()), ..ClosedModule::default() };
    let unknown = ClosedModule { label: "A1".into(), ..ClosedModule::default() };
    let (named, nameless) = (module("S1", "A1", Some("S1")), module("mc0/dimm0", "A1", None));
    let same = planned(Wanted::Here(&named), known.clone());
    assert!(matches!(&same, Planned::Refused(why) if why.contains("still in A1")), "{same:?}");
    let unread = planned(Wanted::Here(&nameless), unknown.clone());
    assert!(
        matches!(&unread, Planned::Close { evidence, is_verified: false, .. } if evidence.contains("unverified")),
        "{unread:?}"
    );
    let old = stay("mc0/dimm0", "A1", "OLD", Some("OLD"), 5, true);
    let new = stay("mc0/dimm0", "A1", "NEW", Some("NEW"), 9, false);
    let blind = stay("mc0/dimm0", "A1", "mc0/dimm0", None, 9, false);
    let proof = planned(Wanted::Gone(&old, Some(&new)), unknown.clone());
    assert!(matches!(&proof, Planned::Close { is_verified: true, .. }), "{proof:?}");
    assert!(matches!(
        planned(Wanted::Gone(&old, Some(&blind)), unknown.clone()),
        Planned::Close { is_verified: false, .. }
    ));
    assert!(matches!(planned(Wanted::Gone(&old, None), unknown.clone()), Planned::Close { is_verified: true, .. }));
    let closed = SlotStay { closed: Some(FaultClosing::Replaced), ..old.clone() };
    assert!(matches!(planned(Wanted::Gone(&closed, Some(&new)), unknown.clone()), Planned::NotNeeded(_)));
    let clean = Dimm { corrected_count: Some(0), ..named };
    assert!(matches!(planned(Wanted::Here(&clean), known), Planned::NotNeeded(_)));
}
