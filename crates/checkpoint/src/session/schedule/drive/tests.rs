//! What the published file says of a drive, right, wrong and old.

#![allow(clippy::unwrap_used)]
use super::*;
use crate::controller::Surefoot;
use crate::group::{ThreadGroup, thread_group};
use crate::session::Checkpointer;
use crate::testing::{Home, make_memory};
use crate::{Decision, Place};
use surefoot_model::{DriveSource, Sourced};

const HOUR_NS: u64 = 3_600_000_000_000;

/// A durable directory and the file of drives beside it.
struct Case {
    home: Home,
    file: DriveFile,
}

impl Case {
    fn new() -> Self {
        let home = Home::new();
        let file = DriveFile::new(Some(&home.path().join("drives.json")), [home.path()]);
        Case { home, file }
    }

    fn drive(&self, name: &str, rated_bytes: u64) -> DriveWear {
        let of = |value, source| Some(Sourced::new(value, source, ""));
        DriveWear {
            name: name.into(),
            device_numbers: vec!["999:1".into(), self.file.device_numbers[0].clone()],
            rated_bytes: of(rated_bytes, DriveSource::RatingTable),
            written_bytes: of(rated_bytes / 4, DriveSource::NvmeHealthLog),
            ..DriveWear::default()
        }
    }

    fn report(&self, drives: Vec<DriveWear>) -> DriveReport {
        let (version, boot_id) = (DriveReport::VERSION, clock::host());
        DriveReport { version, read_realtime_ns: clock::realtime_ns(), boot_id, drives, dropped_count: 0 }
    }

    /// Writes it as a whole, and looks.
    fn says(&mut self, text: impl AsRef<[u8]>) -> DriveFacts {
        let next = self.home.path().join("next");
        fs::write(&next, text).unwrap();
        fs::rename(&next, self.home.path().join("drives.json")).unwrap();
        self.look()
    }

    fn publishes(&mut self, report: &DriveReport) -> DriveFacts {
        self.says(serde_json::to_vec(report).unwrap())
    }

    fn look(&mut self) -> DriveFacts {
        self.file.look(&Endurance::default(), 1.0)
    }
}

fn rated(facts: &DriveFacts) -> Option<f64> {
    facts.drive().map(|drive| drive.rated_bytes)
}

#[test]
fn the_drive_of_the_directory_is_found_and_the_least_of_an_array_counts() {
    let mut case = Case::new();
    let elsewhere = DriveWear { device_numbers: vec!["999:9".into()], ..case.drive("sdz", 1_000) };
    let report = case.report(vec![elsewhere.clone(), case.drive("sda", 600_000)]);
    let facts = case.publishes(&report);
    assert_eq!((rated(&facts), facts.drive().unwrap().written_bytes), (Some(600_000.0), 150_000.0));
    assert!(facts.said.starts_with("sda: ") && !facts.said.contains("ago"), "{}", facts.said);
    let array = case.report(vec![case.drive("sda", 600_000), case.drive("sdb", 400_000), case.drive("sdc", 500_000)]);
    let facts = case.publishes(&array);
    assert_eq!(rated(&facts), Some(400_000.0));
    assert!(facts.said.contains("least endurance of 3"), "{}", facts.said);
    let only_elsewhere = case.report(vec![elsewhere]);
    let facts = case.publishes(&only_elsewhere);
    assert!(rated(&facts).is_none() && facts.said.contains("names no drive"), "{}", facts.said);
}

#[test]
fn an_old_reading_is_used_and_said_to_be_old() {
    let mut case = Case::new();
    let mut report = case.report(vec![case.drive("sda", 600_000)]);
    report.read_realtime_ns -= 30 * HOUR_NS;
    let facts = case.publishes(&report);
    assert!(rated(&facts).is_some() && facts.said.ends_with("read 30 hours ago"), "{}", facts.said);
    report.read_realtime_ns += 60 * HOUR_NS;
    let facts = case.publishes(&report);
    assert!(!facts.said.contains("ago"), "a clock that was set back: {}", facts.said);
}

#[test]
fn the_file_is_read_again_only_when_it_changed() {
    let mut case = Case::new();
    let why = case.look().said;
    assert!(why.contains("there is no") && why.contains("surefoot checkpoint drive --write"), "{why}");
    assert_eq!(case.file.take_notice(), None, "that there is none is not a fault");
    let report = case.report(vec![case.drive("sda", 600_000)]);
    assert_eq!(rated(&case.publishes(&report)), Some(600_000.0));
    // The same inode, length and times: not read again.
    let path = case.home.path().join("drives.json");
    let before = fs::metadata(&path).unwrap();
    let text = fs::read_to_string(&path).unwrap().replace("600000", "500000");
    fs::write(&path, text).unwrap();
    let times = fs::FileTimes::new().set_modified(before.modified().unwrap());
    fs::File::options().write(true).open(&path).unwrap().set_times(times).unwrap();
    assert_eq!(rated(&case.look()), Some(600_000.0));
    let report = case.report(vec![case.drive("sda", 700_000)]);
    assert_eq!(rated(&case.publishes(&report)), Some(700_000.0));
    fs::remove_file(&path).unwrap();
    assert_eq!(rated(&case.look()), None);
}

#[test]
fn hostile_and_foreign_files_are_ignored_with_one_notice() {
    let mut case = Case::new();
    let good = case.report(vec![case.drive("sda", 600_000)]);
    let newer = serde_json::to_vec(&DriveReport { version: 2, ..good.clone() }).unwrap();
    let other_boot = serde_json::to_vec(&DriveReport { boot_id: "another".into(), ..good.clone() }).unwrap();
    let mut cut = serde_json::to_vec(&good).unwrap();
    cut.truncate(100);
    let deep = format!("{{\"version\":1,\"more\":{}", "[".repeat(100_000));
    for (text, words) in [
        (b"no JSON".to_vec(), "expected"),
        (Vec::new(), "EOF"),
        (cut, "EOF"),
        (deep.into_bytes(), "EOF"),
        (format!("{{\"version\":\"{}\"}}", "\\u001b[31m".repeat(10_000)).into_bytes(), "invalid type"),
        (vec![b' '; DriveReport::FILE_BYTES_MAX as usize + 1], "longer than"),
        (newer, "version 2"),
        (other_boot, "another machine"),
    ] {
        let facts = case.says(text);
        assert!(
            rated(&facts).is_none() && facts.said.contains("is not used") && facts.said.contains(words),
            "{facts:?}"
        );
        assert!(facts.said.len() < 400 && !facts.said.contains('\u{1b}'), "{words}");
        assert_eq!(case.file.take_notice(), Some(facts.said), "{words}");
        case.look();
        assert_eq!(case.file.take_notice(), None, "{words}");
    }
    assert_eq!(rated(&case.publishes(&good)), Some(600_000.0), "a good one is used again");
    let mut folder = DriveFile::new(Some(case.home.path()), [case.home.path()]);
    assert!(folder.look(&Endurance::default(), 1.0).said.contains("not a regular file"));
}

#[test]
fn what_is_said_by_hand_goes_first_and_does_without_a_file() {
    let mut case = Case::new();
    let hand = Endurance { rated_bytes: Some(5e12), ..Endurance::default() };
    let alone = case.file.look(&hand, 1.0);
    assert_eq!((rated(&alone), alone.said.as_str()), (Some(5e12), "all of it by hand"));
    let report = case.report(vec![case.drive("sda", 600_000)]);
    case.publishes(&report);
    let both = case.file.look(&hand, 1.0).drive().unwrap();
    assert_eq!((both.rated_bytes, both.written_bytes), (5e12, 150_000.0));
    let mut none = DriveFile::new(None, [case.home.path()]);
    assert_eq!(none.look(&Endurance::default(), 1.0).said, "drive_file is none");
}

#[test]
fn of_several_nodes_the_drive_that_bears_least_decides() {
    let facts = |rated_bytes: f64| {
        let drive = Drive { rated_bytes, written_bytes: 0.0, remaining_s: 10.0, rated_life_s: 10.0 };
        DriveFacts::new(Some(drive), format!("{rated_bytes} rated"))
    };
    let unknown = DriveFacts::new(None, "no file".into());
    let of_nodes = |nodes: &[&DriveFacts]| {
        let mut all = OfDrives::default();
        // From whichever node the word comes first.
        for (node, facts) in (0..nodes.len() as u32).zip(nodes).rev() {
            all.join(facts.told(node, 1.0));
        }
        of_all(&all)
    };
    assert_eq!(of_nodes(&[&facts(5.0)]).1, "5 rated");
    let (drive, said) = of_nodes(&[&facts(9.0), &unknown, &facts(5.0)]);
    assert_eq!(drive.unwrap().rated_bytes, 5.0);
    assert_eq!(said, "5 rated; the one with the least endurance of 2 known on 3 nodes");
    assert_eq!(of_nodes(&[&unknown, &DriveFacts::default()]), (None, "no file".into()));
    assert_eq!(of_nodes(&[]), (None, String::new()));
    assert_eq!(
        DriveFacts::new(facts(1.0).drive().map(|drive| Drive { rated_bytes: f64::INFINITY, ..drive }), String::new())
            .numbers,
        None
    );
}

/// A rank of a job whose ranks each run on a node of their own, with a drive of their own.
fn run_rank(home: &Path, rank: u32, group: ThreadGroup) -> Vec<Decision> {
    let mut config = Config::new("job", home.join("memory"), Some(home.join("ssd")));
    config.health_file = home.join("none");
    config.drive_file = Some(home.join(format!("drives-{rank}.json")));
    // A durable checkpoint always pays, and its copy is never too old: only the drive holds back.
    config.policy =
        Policy::Surefoot(Surefoot { hard_failures_per_s: 1e9, staleness_max_s: 1e9, ..Surefoot::default() });
    let mut job = Checkpointer::open_on(format!("node {rank}"), config, Box::new(group)).unwrap();
    let mut state = vec![rank as u8; 100_000];
    // SAFETY: the state outlives the session and is left alone meanwhile.
    unsafe { job.protect("state", state.as_mut_ptr(), state.len()).unwrap() };
    let mut decisions = Vec::new();
    // A busy machine is slow to write, and a second one is due no sooner than the first took.
    while decisions.len() < 30 && decisions.iter().filter(|of: &&Decision| of.place == Place::Both).count() < 2 {
        decisions.push(job.checkpoint().unwrap().decision);
        job.wait_for_copies().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(5 * decisions.len() as u64));
    }
    decisions
}

#[test]
fn all_ranks_obey_the_most_worn_drive_of_their_nodes() {
    let case = Case::new();
    let home = case.home.path();
    make_memory(&home.join("memory"));
    fs::create_dir(home.join("ssd")).unwrap();
    let publish = |worn_percent: u64| {
        for (rank, percent) in [(0, 1), (1, worn_percent)] {
            let mut drive = case.drive(&format!("disk{rank}"), 600_000_000_000_000);
            drive.percent_used = Some(Sourced::new(percent, DriveSource::NvmeHealthLog, ""));
            let text = serde_json::to_vec(&case.report(vec![drive])).unwrap();
            fs::write(home.join(format!("drives-{rank}.json")), text).unwrap();
        }
    };
    let run = || -> Vec<Vec<Decision>> {
        std::thread::scope(|scope| {
            let ranks = thread_group(2, None).into_iter().enumerate();
            let ranks: Vec<_> =
                ranks.map(|(rank, group)| scope.spawn(move || run_rank(home, rank as u32, group))).collect();
            ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
        })
    };
    publish(2);
    let places = |rank: &[Decision]| rank.iter().map(|decision| decision.place).collect::<Vec<_>>();
    let healthy = run();
    assert_eq!(places(&healthy[0]), places(&healthy[1]));
    assert_eq!(healthy[0].last().unwrap().place, Place::Both, "{healthy:#?}");
    publish(120);
    for rank in run() {
        // The bucket begins with one checkpoint; then nothing is left of the drive of node 1.
        assert_eq!(places(&rank)[0], Place::Both, "{rank:#?}");
        assert!(places(&rank)[1..].iter().all(|&place| place == Place::Memory) && rank.len() == 30, "{rank:#?}");
        let said = rank[1].reasons.join("; ");
        assert!(said.contains("bears 0.00 MB/s") && said.contains("disk1") && said.contains("120 % used"), "{said}");
        assert!(said.contains("of 2 known on 2 nodes"), "{said}");
    }
}
