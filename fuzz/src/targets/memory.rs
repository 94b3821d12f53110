use crate::scratch::{with_folder, write};
use std::path::Path;
use surefoot_hostfs::Root;
use surefoot_memory::counts::Kept;
use surefoot_memory::doctor::Hest;
use surefoot_memory::fault::Evidence;
use surefoot_memory::follow::Follower;
use surefoot_memory::import::{Clock, Format, Import, Modules, detect};
use surefoot_memory::look::Looker;
use surefoot_memory::pages::SeenPages;
use surefoot_memory::reports::{McEvent, mc_event};
use surefoot_model::is_harmful;

/// What a log gives: each line counted once, each report sound, and a judgement of whatever came out.
fn log(format: Format, bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let clock =
        Clock { now_realtime_ns: 1_800_000_000_000_000_000, booted_realtime_ns: Some(1_790_000_000_000_000_000) };
    let _ = detect(text.lines());
    let mut import = Import::new(format, clock);
    let mut reports = Vec::new();
    text.lines().for_each(|line| import.line(line, &mut reports));
    let totals = import.end(&mut reports);
    let lines =
        totals.of_report_count + totals.other_count + totals.not_from_kernel_count + totals.not_understood_count;
    assert_eq!((lines, totals.report_count), (totals.line_count, reports.len() as u64));
    let (mut modules, mut pages) = (Modules::default(), SeenPages::default());
    for report in &reports {
        assert!(report.count >= 1);
        assert!(![&report.label, &report.detail].iter().any(|text| text.chars().any(is_harmful)));
        if let Some(module) = modules.add(report) {
            pages.add(report, &module);
        }
    }
    for dimm in modules.dimms() {
        let offline = pages.offline(&dimm);
        assert!(offline.pages.iter().all(|page| page.address % 4096 == 0));
    }
}

/// Lines of a kernel: EDAC's, machine checks, records of firmware.
pub fn kernel_log(bytes: &[u8]) {
    log(Format::KernelLog, bytes);
}

/// Records of mcelog.
pub fn mcelog(bytes: &[u8]) {
    log(Format::Mcelog, bytes);
}

/// Lists of ipmitool.
pub fn sel(bytes: &[u8]) {
    log(Format::Sel, bytes);
}

/// The words of a driver in `ras:mc_event`, behind a label and a line end; each line is an event.
pub fn driver_detail(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut evidence = Evidence::default();
    for line in text.lines() {
        let (label, detail) = line.split_once('\t').unwrap_or(("", line));
        let report = mc_event(&McEvent { label: label.into(), driver_detail: detail.into(), ..McEvent::default() });
        assert!(!report.detail.chars().any(is_harmful));
        evidence.add(&report);
    }
    let (spread, fault) = evidence.judge();
    assert!(fault.cells.len() <= spread.cells as usize);
}

const CONTROLLER: &str = "sys/devices/system/edac/mc/mc0";

/// Runs with a host of one module, whose tree stays from one run to the next.
fn with_host(run: impl FnOnce(&Root, &Path)) {
    with_folder(|folder| {
        if !folder.join(CONTROLLER).is_dir() {
            for (name, text) in [
                ("mc_name", "Skylake Socket#0 IMC#0\n"),
                ("ce_count", "7\n"),
                ("ue_count", "0\n"),
                ("seconds_since_reset", "900\n"),
                ("dimm0/dimm_label", "DIMM_A1\n"),
                ("dimm0/dimm_ce_count", "7\n"),
                ("dimm0/dimm_ue_count", "0\n"),
                ("dimm0/dimm_location", "channel 0 slot 0\n"),
                ("dimm0/size", "16384\n"),
            ] {
                put(folder, &format!("{CONTROLLER}/{name}"), text.as_bytes());
            }
        }
        run(&Root::at(folder), folder);
    });
}

/// Writes a file of a tree, with its folders.
fn put(tree: &Path, name: &str, bytes: &[u8]) {
    let parent = tree.join(name).parent().map(Path::to_path_buf).unwrap_or_default();
    std::fs::create_dir_all(parent).unwrap_or_else(|error| panic!("{name}: {error}"));
    write(tree, name, bytes);
}

/// Firmware's tables, joined to a module by its slot.
pub fn smbios(bytes: &[u8]) {
    with_host(|root, tree| {
        put(tree, "sys/firmware/dmi/tables/DMI", bytes);
        let look = Looker::new(root.clone()).look();
        let [dimm] = look.dimms.as_slice() else { panic!("one module is there: {look:?}") };
        assert_eq!(dimm.corrected(), 7);
        let texts = [Some(&dimm.id), dimm.serial.as_ref(), dimm.part.as_ref()];
        assert!(!texts.into_iter().flatten().any(|text| text.chars().any(is_harmful)), "{dimm:?}");
    });
}

/// Firmware's table of error sources.
pub fn hest(bytes: &[u8]) {
    if let Some(found) = Hest::parse(bytes) {
        // Each generic source has 64 bytes or more.
        assert!(found.generic_sources as usize <= bytes.len() / 64 + 1);
    }
}

/// What a state file holds, and a look that counts on from it.
pub fn state(bytes: &[u8]) {
    let Ok(kept) = Kept::from_text(bytes) else { return };
    let text = kept.to_text().unwrap_or_else(|error| panic!("what was read can be written: {error}"));
    assert_eq!(Kept::from_text(&text).as_ref(), Ok(&kept));
    with_host(|root, _| {
        let mut looker = Looker::new(root.clone()).with_kept(kept);
        looker.look();
        let look = looker.look();
        assert!(look.dimms.iter().all(|dimm| dimm.rate_per_s >= 0.0 && dimm.worst_rate_per_s >= 0.0), "{look:?}");
        let text = looker.kept().to_text().unwrap_or_else(|error| panic!("{error}"));
        assert!(Kept::from_text(&text).is_ok(), "what is kept is what is believed");
    });
}

/// Lines of `trace_pipe`.
pub fn trace_pipe(bytes: &[u8]) {
    with_host(|root, tree| {
        put(tree, "sys/kernel/tracing/trace_pipe", bytes);
        let Ok(mut follower) = Follower::open(root) else { panic!("the file is there") };
        let mut reports = Vec::new();
        while follower.turn(1 << 10, &mut |report| reports.push(report)).unwrap_or_else(|error| panic!("{error}")) {}
        follower.finish(&mut |report| reports.push(report));
        let lost = follower.lost().len();
        assert!(lost < 10 && reports.len() <= bytes.len());
        for report in &reports {
            assert!(![&report.label, &report.detail].iter().any(|text| text.chars().any(is_harmful)), "{report:?}");
        }
    });
}
