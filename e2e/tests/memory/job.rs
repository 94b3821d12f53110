//! A job beside a watch that sees a module lose data: its checkpoints leave memory, and it says why.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use surefoot_checkpoint::controller::Place;
use surefoot_checkpoint::{Alone, Checkpointer, Config};
use surefoot_e2e::command::{Running, surefoot};
use surefoot_e2e::machine::{Need, turn};
use surefoot_model::{Health, Room, Severity};
use surefoot_testkit::HostTree;

/// A host with two modules on one controller, and its counts.
fn host(uncorrected: u64) -> HostTree {
    let mc = "sys/devices/system/edac/mc/mc0";
    let mut tree = HostTree::new()
        .file(format!("{mc}/mc_name"), "Skylake Socket#0 IMC#0\n")
        .file(format!("{mc}/ce_count"), "4\n")
        .file(format!("{mc}/ue_count"), format!("{uncorrected}\n"))
        .file(format!("{mc}/ce_noinfo_count"), "0\n")
        .file(format!("{mc}/ue_noinfo_count"), "0\n")
        .file(format!("{mc}/seconds_since_reset"), "1000\n");
    for (number, (corrected, uncorrected)) in [(4, uncorrected), (0, 0)].into_iter().enumerate() {
        let dimm = format!("{mc}/dimm{number}");
        tree = tree
            .file(format!("{dimm}/dimm_label"), format!("CPU_SrcID#0_MC#0_Chan#0_DIMM#{number}\n"))
            .file(format!("{dimm}/dimm_location"), format!("channel 0 slot {number}\n"))
            .file(format!("{dimm}/size"), "16384\n")
            .file(format!("{dimm}/dimm_ce_count"), format!("{corrected}\n"))
            .file(format!("{dimm}/dimm_ue_count"), format!("{uncorrected}\n"));
    }
    tree
}

/// A watch of that host, whose health is published below this folder.
fn watch(tree: &HostTree, run: &Path) -> Running {
    let mut watch =
        surefoot("watch --no-page --no-history --source counters --interval 200ms --run-directory").arg(run);
    watch = watch.arg("--host-root").arg(tree.path());
    watch.start()
}

/// Waits until the health of that host says this of its memory, and what it says.
fn health(run: &Path, severity: Severity) -> Health {
    let begun = Instant::now();
    loop {
        let text = std::fs::read(run.join(Health::FILE_NAME)).unwrap_or_default();
        let health = serde_json::from_slice::<Health>(&text).ok();
        match health {
            Some(health) if health.rooms.get(&Room::Memory).is_some_and(|room| room.severity == severity) => {
                return health;
            }
            other => assert!(begun.elapsed() < Duration::from_secs(60), "{other:?}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The images of checkpoints below a folder.
fn images(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let of = |path: PathBuf| match path.is_dir() {
        true => images(&path),
        false if path.extension().is_some_and(|extension| extension == "image") => vec![path],
        false => Vec::new(),
    };
    entries.flat_map(of).filter(|path| path.metadata().unwrap().len() > 8192).collect()
}

#[test]
fn a_job_keeps_its_checkpoints_off_memory_that_loses_data() {
    let Some(_turn) = turn("a_job_keeps_its_checkpoints_off_memory_that_loses_data", Need::Nothing) else { return };
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    for tier in ["memory", "ssd"] {
        std::fs::create_dir(folder.path().join(tier)).unwrap();
    }
    let mut config = Config::new("cfd/wing", folder.path().join("memory"), Some(folder.path().join("ssd")));
    config.set("drive_file", "none").unwrap();
    config.health_file = run.join(Health::FILE_NAME);
    let mut job = Checkpointer::open(config, Box::new(Alone)).unwrap();
    std::fs::write(job.route_file("state").unwrap(), [7; 50_000]).unwrap();
    job.restart().unwrap();
    let tree = host(0);
    let running = watch(&tree, &run);
    health(&run, Severity::Ok);
    let place = |saved: surefoot_checkpoint::Saved| (saved.decision.place, saved.decision.reasons.join("; "));
    let (first, reasons) = place(job.checkpoint().unwrap());
    assert!(matches!(first, Place::Memory | Place::Both), "{first:?}: {reasons}");
    job.take_notices();
    // A byte of its copy changes in memory, as a module that loses data does it.
    let image = images(&folder.path().join("memory")).pop().unwrap();
    let file = std::fs::File::options().read(true).write(true).open(&image).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, 4096).unwrap();
    file.write_all_at(&[byte[0] ^ 1], 4096).unwrap();
    // The second module loses a word.
    let mc = tree.path().join("sys/devices/system/edac/mc/mc0");
    std::fs::write(mc.join("dimm1/dimm_ue_count"), "1\n").unwrap();
    std::fs::write(mc.join("ue_count"), "1\n").unwrap();
    let health = health(&run, Severity::Critical);
    let said = &health.rooms[&Room::Memory].findings[0];
    assert!(said.sentence.contains("uncorrected") && said.subject.to_string().starts_with("dimm "), "{said:?}");
    // The next question already has every copy in memory verified, and the bad page repaired.
    job.need_checkpoint().unwrap();
    let notices = job.take_notices().join("\n");
    assert!(notices.contains("memory is suspect") && notices.contains("1 bad (0 of them refused"), "{notices}");
    job.need_checkpoint().unwrap();
    assert!(!job.take_notices().join("\n").contains("memory is suspect"), "once for each finding");
    let (second, reasons) = place(job.checkpoint().unwrap());
    assert_eq!(second, Place::Durable, "{reasons}");
    assert!(reasons.contains("uncorrected"), "{reasons}");
    running.ask_to_end();
    running.finish().expect_code(0);
}
