#![allow(clippy::unwrap_used)]
use super::*;
use std::time::Instant;
use surefoot_model::{Dimm, ErrorSeverity, FaultMode, Fidelity};
use surefoot_testkit::HostTree;

const MC: &str = "sys/devices/system/edac/mc/mc0";
const PIPE: &str = "sys/kernel/tracing/trace_pipe";

/// A controller with two modules, as skx_edac lays it out.
fn host() -> HostTree {
    let mut tree = HostTree::new()
        .file("proc/uptime", "1000.00 0.00\n")
        .file(format!("{MC}/mc_name"), "Skylake Socket#0 IMC#0\n")
        .file(format!("{MC}/ce_count"), "0\n")
        .file(format!("{MC}/ue_count"), "0\n")
        .file(format!("{MC}/ce_noinfo_count"), "0\n")
        .file(format!("{MC}/ue_noinfo_count"), "0\n")
        .file(format!("{MC}/seconds_since_reset"), "100\n")
        .file(format!("{MC}/max_location"), "channel 1 slot 1 \n");
    for (number, label) in ["A1", "B1"].iter().enumerate() {
        let folder = format!("{MC}/dimm{number}");
        tree = tree
            .file(format!("{folder}/dimm_label"), format!("{label}\n"))
            .file(format!("{folder}/dimm_location"), format!("channel {number} slot 0 \n"))
            .file(format!("{folder}/size"), "32768\n")
            .file(format!("{folder}/dimm_ce_count"), "0\n")
            .file(format!("{folder}/dimm_ue_count"), "0\n");
    }
    tree
}

fn line(label: &str, row: u32, column: u32) -> String {
    format!(
        "     kworker/0:1-123     [000] .....   1.000000: mc_event: 1 Corrected error: memory read error on {label} (mc:0 \
         location:0:0:-1 address:0x00000000 grain:32 syndrome:0x00000000  err_code:0x0101:0x0090 ProcessorSocketId:0x0 \
         MemoryControllerId:0x0 PhysicalRankId:0x0 Row:{row:#x} Column:{column:#x} Bank:0x1 BankGroup:0x0)\n"
    )
}

fn looks(events: &[MemoryEvent]) -> Vec<&MemoryLook> {
    events.iter().filter_map(|event| if let MemoryEvent::Look(look) = event { Some(look) } else { None }).collect()
}

fn reports(events: &[MemoryEvent]) -> Vec<&ErrorReport> {
    events.iter().filter_map(|event| if let MemoryEvent::Report(one) = event { Some(one) } else { None }).collect()
}

fn of<'a>(look: &'a MemoryLook, label: &str) -> &'a Dimm {
    look.dimms.iter().find(|dimm| dimm.label == label).unwrap_or_else(|| panic!("{look:#?}"))
}

#[test]
fn counts_come_from_the_counters_and_the_fault_from_the_reports() {
    let tree = host();
    let mut watch = Watch::open(&Root::at(tree.path()), Settings::default());
    assert_eq!(looks(&watch.turn()).len(), 1, "the first look comes at once");
    assert!(watch.turn().is_empty(), "and the next in its time");

    let text: String = (0..40).map(|column| line("A1", 7, column * 8)).collect();
    tree.write(PIPE, text + &line("nobody's", 1, 1).replace("location:0:0", "location:9:9"));
    tree.write(format!("{MC}/dimm0/dimm_ce_count"), "40\n");
    tree.write(format!("{MC}/ce_count"), "40\n");
    let mut watch = Watch::open(&Root::at(tree.path()), Settings::default());
    let first = watch.turn();
    let told = reports(&first);
    assert_eq!(told.len(), 41);
    let id = &of(looks(&first)[0], "A1").id;
    assert!(told[..40].iter().all(|report| report.dimm.as_ref() == Some(id)) && told[40].dimm.is_none());
    let last = watch.finish();
    let look = looks(&last)[0];
    let bad = of(look, "A1");
    assert_eq!((bad.corrected(), bad.fault_mode, bad.spread.rows), (40, FaultMode::Row, 1));
    assert!(bad.sources.contains(&MemorySource::McEvent) && bad.sources.contains(&MemorySource::Edac), "{bad:?}");
    assert_eq!(of(look, "B1").fault_mode, FaultMode::None);
    assert!(look.problems.iter().any(|problem| problem.why.starts_with("1 reported error is of no")), "{look:?}");
}

/// The collector, or a driver that counts elsewhere: reports of 40 errors, and a counter that stands still.
#[test]
fn reports_that_the_counters_do_not_have_are_told_in_one_sentence() {
    let text: String = (0..40).map(|column| line("A1", 7, column * 8)).collect();
    let told = |counts: [&str; 2]| {
        let tree = host();
        let mut watch = Watch::open(&Root::at(tree.path()), Settings::default());
        watch.turn();
        tree.write(PIPE, &text);
        watch.follower = Some(Follower::open(&Root::at(tree.path())).unwrap());
        tree.write(format!("{MC}/dimm0/dimm_ce_count"), counts[0]);
        tree.write(format!("{MC}/ce_count"), counts[0]);
        watch.turn();
        let first = watch.finish();
        // The kernel counts after it has reported: it may come until the next look.
        tree.write(format!("{MC}/dimm0/dimm_ce_count"), counts[1]);
        tree.write(format!("{MC}/ce_count"), counts[1]);
        let second = watch.finish();
        [first, second].map(|events| {
            let problems = looks(&events).pop().unwrap().problems.clone();
            problems.into_iter().filter(|problem| problem.why.contains("its counters counted")).collect::<Vec<_>>()
        })
    };
    let [first, second] = told(["0\n", "0\n"]);
    assert!(first.is_empty() && second.len() == 1, "{first:?} {second:?}");
    assert!(
        second[0].why.contains("40 corrected and 0 uncorrected errors of A1, and its counters counted 0 and 0"),
        "{second:?}"
    );
    assert!(told(["0\n", "40\n"]).iter().all(Vec::is_empty));
    assert!(told(["41\n", "41\n"]).iter().all(Vec::is_empty));
}

/// EDAC's list of labels with no layer known: one group of suspects, and none of its modules.
#[test]
fn a_list_of_labels_is_one_group_of_suspects() {
    let list =
        line("A1 or B1", 7, 8).replace("location:0:0:-1", "location:-1:-1:-1").replace(" Corrected", " Uncorrected");
    let tree = host().file(PIPE, list.repeat(3));
    let mut watch = Watch::open(&Root::at(tree.path()), Settings::default());
    let mut events = watch.turn();
    events.extend(watch.finish());
    assert!(reports(&events).iter().all(|report| report.dimm.as_deref() == Some("A1 or B1")));
    let look = looks(&events).pop().unwrap();
    let group = of(look, "A1 or B1");
    assert_eq!((group.uncorrected(), group.only_place.as_deref()), (3, Some("A1 or B1")));
    let advice = &group.fault.as_ref().unwrap().advice;
    assert!(advice.contains(crate::fault::FIND_MODULE) && !advice.contains("replace the module"), "{advice}");
    assert!(["A1", "B1"].iter().all(|label| of(look, label).fault.is_none()), "{look:?}");
}

#[test]
fn a_module_that_no_counter_knows_has_the_counts_of_its_reports() {
    let cxl = |row: u32| {
        format!(
            "      irq/40-mem-77      [000] .....   1.000000: cxl_dram: memdev=mem0 host=x serial=4660 log=Warning : time=1 \
             uuid=0 len=128 flags='' handle=1 : dpa=1000 descriptor='' type='ECC Error' channel=1 rank=0 bank_group=2 bank=3 \
             row={row} column=8 validity_flags='CHANNEL|RANK|BANK GROUP|BANK|ROW|COLUMN'\n"
        )
    };
    let tree = HostTree::new().folder("sys/bus/cxl/devices/mem0").file(PIPE, cxl(1) + &cxl(2));
    let mut watch = Watch::open(&Root::at(tree.path()), Settings::default());
    let mut events = watch.turn();
    events.extend(watch.finish());
    let looks = looks(&events);
    assert!(looks.iter().all(|look| look.unsupported.is_none()), "{looks:?}");
    let module = of(looks[looks.len() - 1], "mem0");
    assert_eq!((module.id.as_str(), module.corrected()), ("cxl:0x1234", 2));
    assert_eq!(module.fidelity, Fidelity::LowerBound);
}

/// Reports through the whole way: lines, fields, reports, evidence. Time and memory are bounded and nothing goes uncounted.
/// Two million of them where the code is optimised, as bench/results/memory.md has it.
#[test]
fn a_storm_is_counted_and_told_in_part() {
    const BLOCK: u64 = 2_000;
    const STORM: u64 = if cfg!(debug_assertions) { 40_000 } else { 2_000_000 };
    let tree = host();
    let block: String =
        (0..BLOCK as u32).map(|number| line(["A1", "B1"][number as usize % 2], number % 509, number % 127)).collect();
    tree.write(PIPE, block);
    let mut watch = Watch::open(&Root::at(tree.path()), Settings::default());
    let begun = Instant::now();
    let mut told = 0;
    let mut fed = 0;
    let mut turns = 0;
    while fed < STORM {
        // The file is read again from its start, as if so much more had come.
        watch.follower.as_mut().unwrap().rewind();
        let turn_begun = Instant::now();
        let events = watch.turn();
        told += reports(&events).len() as u64;
        // More may be told while a machine stands still in the middle of a turn.
        let most = TOLD_AT_ONCE + 8.0 + TOLD_PER_S * turn_begun.elapsed().as_secs_f64();
        assert!(events.len() as f64 <= most, "{} events in a turn, {most:.0} allowed", events.len());
        fed += BLOCK;
        turns += 1;
    }
    let took = begun.elapsed();
    let untold: u64 = watch.allowance.untold().values().sum();
    assert_eq!(told + untold, STORM, "each was told or counted");
    let most = TOLD_AT_ONCE + TOLD_PER_S * (took.as_secs_f64() + 1.0);
    assert!(told as f64 <= most, "{told} told, {most:.0} allowed in {took:?}");
    assert!(took.as_secs() < 120, "{took:?}");
    let last = watch.finish();
    let look = looks(&last)[0];
    let located: u64 = look.dimms.iter().map(|dimm| dimm.spread.located_count).sum();
    assert_eq!(located, STORM, "the evidence counts all of them");
    let held: usize = last.iter().map(|event| surefoot_model::Event::Memory(event.clone()).held_bytes()).sum();
    assert!(held < 256 << 10, "{held} bytes");
    println!("{STORM} reports in {turns} turns and {took:?}: {told} told, {untold} counted");
}

#[test]
fn what_is_uncorrected_is_told_in_the_middle_of_a_storm() {
    let tree = host();
    let storm: String = (0..500).map(|number| line("A1", number, 1)).collect();
    let lost = line("B1", 3, 3).replace("1 Corrected", "1 Uncorrected");
    tree.write(PIPE, storm + &lost);
    let mut watch = Watch::open(&Root::at(tree.path()), Settings::default());
    let events = watch.turn();
    let told = reports(&events);
    assert!((50..60).contains(&told.len()), "{}", told.len());
    assert_eq!(told.last().map(|report| report.severity), Some(ErrorSeverity::Uncorrected));
    let lost = events.iter().any(|event| matches!(event, MemoryEvent::Lost { count, .. } if *count >= 440));
    assert!(lost, "{:?}", events.last());
}

#[test]
fn what_a_history_has_tells_of_faults_and_is_no_error_of_now() {
    let tree = host();
    let report = |dimm: Option<&str>, label: &str, day: u64| {
        let mut report =
            crate::reports::mc_event(&crate::reports::McEvent { label: label.into(), ..Default::default() });
        let location = &mut report.location;
        (location.rank, location.bank, location.row, location.column) =
            (Some(0), Some(1), Some(7), Some(8 * day as u32));
        report.at_realtime_ns = (1 + day) * 86_400_000_000_000;
        report.dimm = dimm.map(str::to_owned);
        report
    };
    // An import names modules by label; a watch by serial number, and that module was taken out since.
    let mut kept: Vec<ErrorReport> = (0..6).map(|day| report(Some("A1"), "A1", day)).collect();
    kept.extend((0..6).map(|day| report(Some("0DEAD"), "B1", day)));
    kept.push(report(None, "unknown memory", 1));
    let settings = Settings { kept_reports: kept, ..Settings::default() };
    let events = Watch::open(&Root::at(tree.path()), settings).turn();
    let look = looks(&events)[0];
    let fault = of(look, "A1").fault.as_ref().unwrap();
    assert_eq!(fault.mode, FaultMode::Row);
    assert_eq!((of(look, "A1").corrected(), of(look, "A1").rate_per_s), (0, 0.0), "counters count, not reports");
    assert!(of(look, "B1").fault.is_none());
    assert!(
        look.problems.iter().any(|problem| problem.why.starts_with("6 reports in the history are of modules")),
        "{look:?}"
    );
    assert!(reports(&events).is_empty(), "nothing of it is told again");
}

#[test]
fn where_no_counter_knows_a_module_the_history_does() {
    let mut report =
        crate::reports::mc_event(&crate::reports::McEvent { label: "A1".into(), error_count: 3, ..Default::default() });
    report.dimm = Some("A1".into());
    let tree = HostTree::new().file("proc/uptime", "1000.00 0.00\n");
    let settings = Settings { kept_reports: vec![report], ..Settings::default() };
    let events = Watch::open(&Root::at(tree.path()), settings).turn();
    let dimm = of(looks(&events)[0], "A1");
    assert_eq!((dimm.corrected(), dimm.rate_per_s, dimm.fidelity), (3, 0.0, Fidelity::LowerBound));
}

#[test]
fn without_reports_the_totals_of_the_controllers_tell_when_to_look() {
    let tree = host();
    let mut watch = Watch::open(&Root::at(tree.path()), Settings::default());
    assert!(watch.follower.is_none());
    watch.turn();
    let busy_ns = LOOK_PERIOD_BUSY.as_nanos() as u64;
    watch.looked_ns = watch.looked_ns.saturating_sub(busy_ns);
    assert!(looks(&watch.turn()).is_empty(), "nothing was counted, so there is nothing to see yet");
    tree.write(format!("{MC}/dimm0/dimm_ce_count"), "40\n");
    tree.write(format!("{MC}/ce_count"), "40\n");
    let events = watch.turn();
    assert_eq!(of(looks(&events)[0], "A1").corrected(), 40);
    watch.looked_ns = watch.looked_ns.saturating_sub(busy_ns);
    assert!(looks(&watch.turn()).is_empty());
}
