//! Alerts, cases and the audit trail, in both databases by the same tests.

use std::collections::{BTreeMap, BTreeSet};
use surefoot_model::{
    Alert, AlertOrigin, AuditEntry, Case, CaseChange, CaseState, CaseStep, CaseWait, CaseWorld, HostFacts, Lease,
    LostRate, MachineId, Part, PartCount, Replaced, Room, Severity, StepState, SubjectKind,
};
use surefoot_store::Error;
use surefoot_store::cases::{
    ALERTS_PER_DECISION_MAX, Address, CaseStore, Claim, Claimed, HostBoard, HostView, Limits, MachineLimits, Opening,
    OrderState,
};
use surefoot_testkit::not_run::not_run;
use surefoot_testkit::postgres::Postgres;

/// Opens one more store of the same.
type Open<'a> = dyn Fn() -> CaseStore + 'a;

/// Declares tests that hold for both databases: each is a test with a file, and all of them are one with a server.
macro_rules! for_both {
    ($($(#[$about:meta])* fn $name:ident($open:ident) $body:block)*) => {
        $($(#[$about])* fn $name($open: &Open<'_>) $body)*

        mod file {
            $(#[test]
            fn $name() {
                super::with_file(&super::$name);
            })*
        }

        #[test]
        fn all_of_them_hold_with_a_server() {
            let server = match Postgres::start() {
                Ok(server) => server,
                Err(why) => return not_run("store::cases::all_of_them_hold_with_a_server", &why),
            };
            let tests: &[(&str, &dyn Fn(&Open<'_>))] = &[$((stringify!($name), &$name)),*];
            for (place, (name, test)) in tests.iter().enumerate() {
                eprintln!("{name}");
                let address = server.database(&format!("test{place}")).unwrap().parse().unwrap();
                test(&|| CaseStore::open(&address, None).unwrap());
            }
        }
    };
}

fn with_file(test: &dyn Fn(&Open<'_>)) {
    let home = tempfile::tempdir().unwrap();
    let address = format!("sqlite:{}", home.path().join("cases.sqlite").display()).parse().unwrap();
    test(&|| CaseStore::open(&address, None).unwrap());
}

fn claim(host: &str, letter: &str) -> Claim {
    let part = |kind: &str| Some(format!("{kind}-{letter}"));
    let machine = MachineId { hardware: part("hw"), system: part("sys") };
    Claim { host: host.into(), machine, address: "10.0.0.1".into() }
}

#[test]
fn who_only_reads_makes_no_store() {
    let home = tempfile::tempdir().unwrap();
    let address = |name: &str| format!("sqlite:{}", home.path().join(name).display()).parse::<Address>().unwrap();
    let read = |address: &Address| CaseStore::open_as(address, None, &Opening::existing());
    std::fs::write(home.path().join("empty"), "").unwrap();
    for (name, why) in [("typo", "no such file"), ("none/typo", "no such file"), ("empty", "the file is empty")] {
        let error = read(&address(name)).unwrap_err();
        let told = error.to_string();
        assert!(matches!(error, Error::NoStore { .. }) && told.contains("no store at sqlite:"), "{name}: {told}");
        assert!(told.contains(why), "{name}: {told}");
    }
    let left: Vec<_> = std::fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["empty"]);
    assert_eq!(std::fs::metadata(home.path().join("empty")).unwrap().len(), 0);
    CaseStore::open(&address("made"), None).unwrap().take(&[alert("a", "k", 5, true)]).unwrap();
    assert_eq!(read(&address("made")).unwrap().counts().unwrap().alerts, 1);
}

/// A controller that is started again after its store was lost does not begin with none of its cases.
#[test]
fn a_store_that_was_lost_is_not_begun_anew() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("cases.db");
    let address = format!("sqlite:{}", path.display()).parse::<Address>().unwrap();
    let refused = || match CaseStore::open(&address, None) {
        Err(Error::NoStore { why, .. }) => why,
        other => panic!("{other:?}"),
    };
    std::fs::write(&path, "").unwrap();
    let why = refused();
    assert!(
        why.contains("the file is empty")
            && why.contains("away together and keep them")
            && std::fs::metadata(&path).unwrap().len() == 0,
        "{why}"
    );
    std::fs::remove_file(&path).unwrap();
    let saved = home.path().join("cases.db.saved-1796000000");
    std::fs::write(&saved, "what was in it").unwrap();
    let why = refused();
    assert!(why.contains("cases.db.saved-1796000000 holds what was in it") && !path.exists(), "{why}");
    std::fs::rename(&saved, home.path().join("elsewhere")).unwrap();
    CaseStore::open(&address, None).unwrap().take(&[alert("a", "k", 5, true)]).unwrap();
    // An old copy beside a store that exists is no sign of loss.
    std::fs::write(&saved, "what was in it").unwrap();
    assert_eq!(CaseStore::open(&address, None).unwrap().counts().unwrap().alerts, 1);
}

/// Who finds a store cut or overwritten is told what to do with it, and it stays as it is.
#[test]
fn a_damaged_store_is_left_as_it_is_and_what_to_do_is_said() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("cases.db");
    let address = format!("sqlite:{}", path.display()).parse::<Address>().unwrap();
    let alerts: Vec<_> = (0..200).map(|key| alert("a", &key.to_string(), 5, true)).collect();
    CaseStore::open(&address, None).unwrap().take(&alerts).unwrap();
    let whole = std::fs::read(&path).unwrap();
    assert!(!home.path().join("cases.db-wal").exists() && whole.len() > 8 * 4096, "{}", whole.len());
    let mut zeroed = whole.clone();
    zeroed[4096..].fill(0);
    for (what, bytes) in [("cut", &whole[..whole.len() / 2]), ("zeroed", &zeroed)] {
        for opening in [Opening::create(), Opening::existing()] {
            std::fs::write(&path, bytes).unwrap();
            let used = CaseStore::open_as(&address, None, &opening).and_then(|mut store| {
                store.counts()?;
                store.take(&alerts).map(drop)
            });
            let told = used.unwrap_err().to_string();
            assert!(told.contains("damaged") && told.contains("copy a backup to"), "{what}: {told}");
            assert_eq!(std::fs::read(&path).unwrap().len(), bytes.len(), "{what}");
        }
    }
}

#[test]
fn who_only_reads_makes_no_tables_in_a_server() {
    let server = match Postgres::start() {
        Ok(server) => server,
        Err(why) => return not_run("store::cases::who_only_reads_makes_no_tables_in_a_server", &why),
    };
    let address = server.database("typo").unwrap().parse().unwrap();
    for _ in 0..2 {
        let error = CaseStore::open_as(&address, None, &Opening::existing()).unwrap_err();
        assert!(matches!(error, Error::NoStore { .. }), "{error}");
    }
    CaseStore::open(&address, None).unwrap();
    assert_eq!(CaseStore::open_as(&address, None, &Opening::existing()).unwrap().counts().unwrap().alerts, 0);
}

/// SQLite writes on into a file that is gone from its place, and says that all is well.
#[test]
fn a_store_whose_files_are_deleted_or_replaced_takes_nothing_more_and_is_saved_once() {
    for ending in ["", "-wal", "-shm"] {
        for is_replaced in [false, true] {
            let home = tempfile::tempdir().unwrap();
            let path = home.path().join("cases.db");
            let address = format!("sqlite:{}", path.display()).parse().unwrap();
            let opening = Opening::create();
            let open = || CaseStore::open_as(&address, None, &opening);
            let [mut store, mut beside] = [open().unwrap(), open().unwrap()];
            store.take(&[alert("a", "k", 5, true)]).unwrap();
            let file = format!("{}{ending}", path.display());
            std::fs::rename(&file, home.path().join("aside")).unwrap();
            if is_replaced {
                std::fs::write(&file, "").unwrap();
            }
            let refused = store.take(&[alert("b", "k", 6, true)]).unwrap_err();
            let Error::Moved { what, saved: Some(Ok(saved)) } = &refused else { panic!("{ending}: {refused:?}") };
            let became = if is_replaced { "was replaced by another file" } else { "was deleted or moved away" };
            assert!(what.contains(&file) && what.ends_with(became), "{refused}");
            // Whoever looks, and whoever comes later, is told the same, and is led to the same file.
            let others = [beside.counts().unwrap_err(), store.ready().unwrap_err(), open().unwrap_err()];
            assert!(others.iter().all(|other| other.to_string() == refused.to_string()), "{others:?}");
            assert_eq!(path.exists(), is_replaced || !ending.is_empty(), "no empty store is made in its place");
            let mut kept = CaseStore::open(&format!("sqlite:{}", saved.display()).parse().unwrap(), None).unwrap();
            assert_eq!(kept.counts().unwrap().alerts, 1, "what was taken is there, what was refused is not");
            assert_eq!(std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(saved).unwrap()) & 0o777, 0o600);
            // Back in its place it is the store again.
            std::fs::rename(home.path().join("aside"), &file).unwrap();
            store.take(&[alert("c", "k", 7, true)]).unwrap();
            assert_eq!(beside.counts().unwrap().alerts, 2);
        }
    }
}

/// The log of a store that was deleted would be read into the saved copy that takes its place.
#[test]
fn the_saved_copy_of_a_deleted_store_takes_its_place_whole_and_a_log_without_its_store_begins_no_new_one() {
    for is_asked in [true, false] {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("cases.db");
        let address: Address = format!("sqlite:{}", path.display()).parse().unwrap();
        let opening = Opening::create();
        let open = || CaseStore::open_as(&address, None, &opening).unwrap();
        let [mut store, beside] = [open(), open()];
        (0..40).for_each(|number| _ = store.take(&[alert("a", &format!("k{number}"), 5 + number, true)]).unwrap());
        std::fs::remove_file(&path).unwrap();
        if is_asked {
            let told = store.ready().unwrap_err().to_string();
            assert!(told.contains("--store sqlite:"), "{told}");
        }
        drop((store, beside));
        let left: Vec<_> = std::fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        let [saved] = &left[..] else { panic!("asked {is_asked}: {left:?}") };
        let refused = CaseStore::open(&address, None).unwrap_err().to_string();
        assert!(refused.contains(saved.to_str().unwrap()) && !path.exists(), "{refused}");
        std::fs::rename(saved, &path).unwrap();
        assert_eq!(CaseStore::open(&address, None).unwrap().counts().unwrap().alerts, 40);
    }
    // Of a controller that was killed the log is left.
    let home = tempfile::tempdir().unwrap();
    let [path, log, aside] = ["cases.db", "cases.db-wal", "aside"].map(|name| home.path().join(name));
    let address: Address = format!("sqlite:{}", path.display()).parse().unwrap();
    let mut store = CaseStore::open(&address, None).unwrap();
    store.take(&[alert("a", "k", 5, true)]).unwrap();
    std::fs::copy(&log, &aside).unwrap();
    drop(store);
    std::fs::remove_file(&path).unwrap();
    std::fs::rename(&aside, &log).unwrap();
    let before = std::fs::read(&log).unwrap();
    let refused = CaseStore::open(&address, None).unwrap_err();
    assert!(matches!(refused, Error::NoStore { .. }) && refused.to_string().contains("cases.db-wal"), "{refused}");
    assert!(!path.exists() && std::fs::read(&log).unwrap() == before);
}

/// A backup that is copied over the file while it is open, another store, or nothing: what is there then stays as it is, with nothing of
/// the former file's log in it.
#[test]
fn a_store_that_is_overwritten_in_place_takes_nothing_more_and_what_was_put_there_stays_as_it_is() {
    for what in ["backup", "other", "empty"] {
        let home = tempfile::tempdir().unwrap();
        let [path, backup, other] = ["cases.db", "backup", "other"].map(|name| home.path().join(name));
        let address = |path: &std::path::Path| format!("sqlite:{}", path.display()).parse().unwrap();
        let keys = |number: u64| [alert("a", &format!("k{number}"), 5 + number, true)];
        // The last connection that closes folds the log in.
        CaseStore::open(&address(&path), None).unwrap().take(&keys(0)).unwrap();
        std::fs::copy(&path, &backup).unwrap();
        let mut much = CaseStore::open(&address(&other), None).unwrap();
        (0..90).for_each(|number| _ = much.take(&keys(number)).unwrap());
        drop(much);
        std::fs::write(home.path().join("empty"), "").unwrap();

        let opening = Opening::create();
        let open = || CaseStore::open_as(&address(&path), None, &opening);
        open().unwrap().take(&keys(1)).unwrap();
        let [mut store, mut beside] = [open().unwrap(), open().unwrap()];
        store.take(&keys(2)).unwrap();
        assert_eq!(beside.counts().unwrap().alerts, 3, "{what}");
        std::fs::copy(home.path().join(what), &path).unwrap();
        let put = std::fs::read(&path).unwrap();
        let log = std::fs::read(home.path().join("cases.db-wal")).unwrap();
        let refused = store.take(&keys(3)).unwrap_err();
        assert!(refused.to_string().contains("was overwritten by another program"), "{refused}");
        let others = [store.take(&keys(4)).unwrap_err(), beside.counts().unwrap_err(), open().unwrap_err()];
        assert!(others.iter().all(|other| other.to_string() == refused.to_string()), "{what}: {others:?}");
        drop((store, beside));
        assert_eq!(std::fs::read(&path).unwrap(), put, "{what}: it was written to");
        assert!(!home.path().join("cases.db-wal").exists(), "{what}: the log of the former file is left");
        let names = std::fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().path());
        let kept: Vec<_> = names.filter(|path| path.to_str().unwrap().contains("-wal.saved-")).collect();
        assert!(
            kept.len() == 1 && std::fs::read(&kept[0]).unwrap() == log,
            "{what}: its newest cases are lost: {kept:?}"
        );
        assert!(refused.to_string().contains("cases.db-wal.saved-"), "{refused}");
        if what == "empty" {
            let lost = CaseStore::open(&address(&path), None).unwrap_err();
            assert!(matches!(lost, Error::NoStore { .. }), "nobody emptied it on purpose: {lost}");
            assert!(refused.to_string().contains("does not start with an empty file"), "{refused}");
            continue;
        }
        let mut anew = CaseStore::open(&address(&path), None).unwrap();
        let alerts = if what == "backup" { 1 } else { 90 };
        assert_eq!(anew.counts().unwrap().alerts, alerts, "{what}");
    }
}

/// A file that is touched, or whose log another process folds in, is the same one.
#[test]
fn a_store_that_is_touched_or_tidied_by_others_is_used_on() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("cases.db");
    let address = format!("sqlite:{}", path.display()).parse().unwrap();
    let mut store = CaseStore::open(&address, None).unwrap();
    for number in 0..20 {
        store.take(&[alert("a", &format!("k{number}"), 5, true)]).unwrap();
        if number % 2 == 0 {
            let file = std::fs::File::options().append(true).open(&path).unwrap();
            file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
            // Closing it drops SQLite's locks of this process, as no other process's program would.
            std::mem::forget(file);
        } else {
            let fold = "PRAGMA wal_checkpoint(TRUNCATE)";
            rusqlite::Connection::open(&path).unwrap().query_row(fold, [], |_| Ok(())).unwrap();
        }
    }
    assert_eq!(store.counts().unwrap().alerts, 20);
}

/// Longer than any test.
const LOOK_BACK_NS: u64 = 3_600_000_000_000;

pub fn alert(host: &str, key: &str, since_ns: u64, is_firing: bool) -> Alert {
    Alert {
        host: host.into(),
        key: key.into(),
        service: "web".into(),
        fault: "memory/rate".into(),
        subject: "dimm A1".into(),
        room: Some(Room::Memory),
        severity: Severity::Warning,
        sentence: "It has errors.".into(),
        evidence: vec!["a line".into()],
        labels: BTreeMap::new(),
        origin: AlertOrigin::Finding,
        is_firing,
        since_realtime_ns: since_ns,
    }
}

fn case_of(alert: &Alert) -> Case {
    Case {
        id: 0,
        host: alert.host.clone(),
        service: alert.service.clone(),
        fault: alert.fault.clone(),
        subject: alert.subject.clone(),
        alert_key: alert.key.clone(),
        severity: alert.severity,
        sentence: alert.sentence.clone(),
        evidence: alert.evidence.clone(),
        policy: "web".into(),
        state: CaseState::Waiting,
        steps: vec![CaseStep { step: "drain".into(), ..CaseStep::default() }],
        waits_for: String::new(),
        wait: CaseWait::Other,
        is_firing: alert.is_firing,
        is_drained: false,
        ticket: String::new(),
        part: None,
        replaced: None,
        since_realtime_ns: 5,
        state_since_realtime_ns: 5,
        began_realtime_ns: 0,
        quiet_since_realtime_ns: 0,
        ends_as: None,
        is_dry_run: false,
        lease: Lease::default(),
        revision: 0,
    }
}

fn line(action: &str) -> AuditEntry {
    AuditEntry {
        at_realtime_ns: 0,
        case: 0,
        actor: "controller a".into(),
        action: action.into(),
        target: "drain".into(),
        reason: String::new(),
    }
}

fn board(alerts: Vec<Alert>) -> HostBoard {
    HostBoard {
        host: "h1".into(),
        service: "web".into(),
        alerts,
        whole: Room::ALL.into(),
        fine: Vec::new(),
        parts: Vec::new(),
        view: None,
    }
}

/// Modules by slot and serial number.
fn modules(told: &[(&str, &str)]) -> Vec<Part> {
    let module = |(place, serial): &(&str, &str)| Part {
        kind: SubjectKind::Dimm,
        name: (*serial).into(),
        place: (*place).into(),
        serial: (*serial).into(),
        model: String::new(),
    };
    told.iter().map(module).collect()
}

fn of_module(serial: &str) -> Alert {
    Alert { subject: format!("dimm {serial}"), ..alert("h1", &format!("memory/rate/dimm/{serial}"), 0, true) }
}

/// What a decision is told now; it changes nothing.
fn world(store: &mut CaseStore) -> CaseWorld {
    let mut seen = CaseWorld::default();
    store
        .decide(LOOK_BACK_NS, &mut |world| {
            seen = world.clone();
            Vec::new()
        })
        .unwrap();
    seen
}

fn open_all(world: &CaseWorld) -> Vec<(CaseChange, AuditEntry)> {
    let open = |alert: &Alert| (CaseChange::Open(Box::new(case_of(alert))), line("opened"));
    world.alerts.iter().map(open).collect()
}

fn settle_all(world: &CaseWorld) -> Vec<(CaseChange, AuditEntry)> {
    let settle = |alert: &Alert| CaseChange::Settle { host: alert.host.clone(), key: alert.key.clone() };
    world.alerts.iter().map(|alert| (settle(alert), line("over"))).collect()
}

for_both! {
fn an_alert_is_one_however_often_and_in_which_order_it_is_told(open) {
        let mut store = open();
        let told = [alert("h1", "k", 10, true), alert("h1", "k", 20, false), alert("h1", "k", 30, true)];
        for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2], [1, 2, 0], [0, 2, 1], [2, 0, 1]] {
            for place in order {
                store.take(&[told[place].clone()]).unwrap();
                store.take(&[told[place].clone()]).unwrap();
            }
            assert_eq!(world(&mut store).alerts, [told[2].clone()], "{order:?}");
        }
        // All at once is the same; of one time the end counts.
        store.take(&told).unwrap();
        store.take(&[alert("h1", "k", 30, false), alert("h1", "k", 30, true)]).unwrap();
        assert_eq!(world(&mut store).alerts, [alert("h1", "k", 30, false)]);
        // One that is of a time to come would never be followed by another.
        store.take(&[alert("h1", "k", u64::MAX, true)]).unwrap();
        let now_ns = store.now_realtime_ns().unwrap();
        assert!(world(&mut store).alerts[0].since_realtime_ns <= now_ns);
}

fn an_alert_is_decided_on_once_and_again_when_it_tells_something_new(open) {
        let mut store = open();
        let settle = |world: &CaseWorld| {
            let settle = |alert: &Alert| {
                (CaseChange::Settle { host: alert.host.clone(), key: alert.key.clone() }, line("ignored"))
            };
            world.alerts.iter().map(settle).collect::<Vec<_>>()
        };
        store.take(&[alert("h1", "k", 10, true), alert("h2", "k", 10, true)]).unwrap();
        store.decide(LOOK_BACK_NS, &mut |world| settle(world)).unwrap();
        assert_eq!(world(&mut store).alerts, []);
        store.take(&[alert("h1", "k", 10, true), alert("h2", "k", 10, true)]).unwrap();
        assert_eq!(world(&mut store).alerts, [], "a repetition is nothing new");
        let worse = Alert { severity: Severity::Critical, ..alert("h1", "k", 10, true) };
        store.take(&[worse.clone(), alert("h2", "k", 20, false)]).unwrap();
        assert_eq!(world(&mut store).alerts, [worse, alert("h2", "k", 20, false)]);
        // What changes while it is being decided on is to be decided on again.
        let mut second = open();
        let is_file = store.name().starts_with("sqlite");
        store
            .decide(LOOK_BACK_NS, &mut |world| {
                if !is_file {
                    second.take(&[alert("h1", "k", 30, false)]).unwrap();
                }
                settle(world)
            })
            .unwrap();
        let left = if is_file { vec![] } else { vec![alert("h1", "k", 30, false)] };
        assert_eq!(world(&mut store).alerts, left);
}

fn an_alert_that_was_known_is_decided_on_when_the_other_case_is_closed(open) {
    let mut store = open();
    store.take(&[alert("h1", "warning", 10, true), alert("h1", "critical", 20, true), alert("h2", "other", 30, true)]).unwrap();
    let decided = |world: &CaseWorld| {
        let one = |alert: &Alert| match &*alert.key {
            "warning" => (CaseChange::Open(Box::new(case_of(alert))), line("opened")),
            key => (CaseChange::Settle { host: alert.host.clone(), key: key.into() }, line("known")),
        };
        world.alerts.iter().map(one).collect::<Vec<_>>()
    };
    let case = store.decide(LOOK_BACK_NS, &mut |world| decided(world)).unwrap().remove(0);
    assert_eq!(world(&mut store).alerts, []);
    store.take(&[alert("h1", "warning", 40, false)]).unwrap();
    let cleared = |world: &CaseWorld| {
        let case = Case { state: CaseState::Cleared, ..world.open[0].clone() };
        vec![(CaseChange::Update(Box::new(case)), line("cleared"))]
    };
    assert_eq!(store.decide(LOOK_BACK_NS, &mut |world| cleared(world)).unwrap()[0].id, case.id);
    assert_eq!(world(&mut store).alerts, [alert("h1", "critical", 20, true)]);
}

fn what_an_agent_finds_no_more_is_over(open) {
    let mut store = open();
    store.take(&[Alert { origin: AlertOrigin::Alertmanager, ..alert("h1", "am", 5, true) }]).unwrap();
    // Times of the host count for nothing.
    assert_eq!(store.take_boards(&[board(vec![alert("h1", "memory/a", 10, true), alert("x", "memory/b", u64::MAX, true)])]).unwrap(), 2);
    let told = world(&mut store).alerts;
    assert!(told[1..].iter().all(|alert| alert.host == "h1" && alert.since_realtime_ns > 1_700_000_000_000_000_000));
    assert_eq!(store.take_boards(&[board(vec![alert("h1", "memory/a", 10, true), alert("x", "memory/b", u64::MAX, true)])]).unwrap(), 0);
    assert_eq!(store.take_boards(&[board(vec![alert("h1", "memory/b", 0, true)])]).unwrap(), 1);
    let firing = |store: &mut CaseStore| {
        let mut alerts = world(store).alerts;
        alerts.retain(|alert| alert.is_firing);
        alerts.into_iter().map(|alert| alert.key).collect::<Vec<_>>()
    };
    assert_eq!(firing(&mut store), ["am", "memory/b"]);
    assert_eq!(store.take_boards(&[board(vec![alert("h1", "memory/a", 0, true)])]).unwrap(), 2);
    assert_eq!(firing(&mut store), ["am", "memory/a"]);
    // A board that is whole of other rooms says nothing of this one.
    let others = HostBoard { whole: [Room::Stall, Room::Nic].into(), ..board(Vec::new()) };
    assert_eq!(store.take_boards(std::slice::from_ref(&others)).unwrap(), 0);
    assert_eq!(firing(&mut store), ["am", "memory/a"]);
    let fine = HostBoard { fine: vec!["memory/a".into()], ..others };
    assert_eq!(store.take_boards(&[fine]).unwrap(), 1);
    assert_eq!(firing(&mut store), ["am"]);
}

fn the_hosts_are_read_with_what_holds_and_what_is_seen(open) {
    let mut store = open();
    let view = HostView {
        rooms: [(Room::Memory, 0), (Room::Nic, 3)].into(),
        facts: HostFacts { kernel: "6.1".into(), ..HostFacts::default() },
        lost: Some(LostRate { total_ns_per_s: 61_000_000, cores: 4, ..LostRate::default() }),
        parts: vec![PartCount { kind: SubjectKind::Dimm, model: "M1".into(), count: 16, faulty: 1 }],
    };
    let finding = |key: &str, severity| Alert {
        origin: AlertOrigin::Finding,
        room: Room::of_key(key),
        severity,
        ..alert("h1", key, 5, true)
    };
    let told = || HostBoard {
        view: Some(view.clone()),
        ..board(vec![finding("memory/a", Severity::Warning), finding("memory/b", Severity::Critical)])
    };
    store.take_boards(&[told()]).unwrap();
    store.take(&[Alert { room: None, ..alert("h2", "am", 5, true) }, alert("h3", "over", 5, false)]).unwrap();
    let fleet = store.fleet().unwrap();
    let [h1, h2] = &fleet.hosts[..] else { panic!("{fleet:?}") };
    assert_eq!((&*h1.host, &*h1.service, &h1.view), ("h1", "web", &view));
    assert!(fleet.now_ns >= h1.seen_ns && h1.seen_ns > 0, "{fleet:?}");
    let worst = &h1.found[&Some(Room::Memory)];
    assert_eq!((worst.severity, worst.count), (Severity::Critical, 2));
    assert_eq!((&*h2.host, h2.seen_ns, &h2.view, h2.found[&None].count), ("h2", 0, &HostView::default(), 1));
    assert_eq!((fleet.hosts_left_out, fleet.alerts_left_out), (0, 0));

    // Nothing is known of it for a while, and then the same as before.
    store.hosts_seen(&[("h1".into(), "web".into())]).unwrap();
    assert_eq!(store.fleet().unwrap().hosts[0].view, HostView::default());
    store.take_boards(&[told()]).unwrap();
    assert_eq!(store.fleet().unwrap().hosts[0].view, view);
    // One that may be another machine changes nothing of what is seen.
    store.take_boards(&[HostBoard { view: None, service: "db".into(), ..told() }]).unwrap();
    assert_eq!(store.fleet().unwrap().hosts[0].view, view);
}

fn a_case_is_opened_changed_and_closed_with_its_trail(open) {
        let mut store = open();
        let all: Vec<Alert> = (0..90).map(|number| alert(&format!("h{number:02}"), "k", 10 + number, true)).collect();
        store.take(&all).unwrap();
        let opened = store.decide(LOOK_BACK_NS, &mut |world| open_all(world)).unwrap();
        assert_eq!(opened.len(), 90);
        assert!(opened.iter().all(|case| case.id > 0 && case.revision == 1));
        let hosts = |cases: &[Case]| cases.iter().map(|case| case.host.clone()).collect::<Vec<_>>();
        assert_eq!(hosts(&opened), hosts(&world(&mut store).open), "in the order of their numbers");
        assert_eq!(world(&mut store).alerts, [], "an alert with a case is decided on");
        // All are changed by one decision.
        let begin = |world: &CaseWorld| {
            let begun = |case: &Case| {
                let mut case = case.clone();
                case.state = CaseState::Running;
                case.steps[0].state = StepState::Running;
                (CaseChange::Update(Box::new(case)), line("begun"))
            };
            world.open.iter().map(begun).collect::<Vec<_>>()
        };
        let begun = store.decide(LOOK_BACK_NS, &mut |world| begin(world)).unwrap();
        assert!(begun.iter().all(|case| case.revision == 2 && case.state == CaseState::Running));
        // One is closed while its alert holds, which is then to be decided on again.
        let first = begun[0].clone();
        let now_ns = store.now_realtime_ns().unwrap();
        let closed = Case { state: CaseState::Returned, state_since_realtime_ns: now_ns, ..first.clone() };
        let kept = store.update(&closed, &line("returned")).unwrap();
        assert_eq!((kept.revision, kept.state), (3, CaseState::Returned));
        let now = world(&mut store);
        assert_eq!((now.open.len(), hosts(&now.closed), now.alerts.len()), (89, vec!["h00".to_owned()], 1));
        let actions: Vec<String> = store.trail(first.id, 10).unwrap().into_iter().map(|line| line.action).collect();
        assert_eq!(actions, ["opened", "begun", "returned"]);
        assert_eq!(store.trail(0, 1_000).unwrap().len(), 181);
        assert_eq!(store.case(first.id).unwrap(), kept);
        assert_eq!(store.cases(true, 1_000).unwrap().len(), 89);
        assert_eq!(store.cases(false, 3).unwrap()[0].host, "h89");
        assert_eq!(hosts(&store.cases_of_host("h01", 10).unwrap()), ["h01"]);
        // What becomes of its part is told of a closed case too.
        let replaced = Some(Replaced { at_realtime_ns: now_ns, by: "S2".into(), tested_good_realtime_ns: 0 });
        let told = store.update(&Case { replaced, ..kept }, &line("replaced")).unwrap();
        assert_eq!(store.cases_of_host("h00", 10).unwrap(), [told]);
        let counts = store.counts().unwrap();
        assert_eq!((counts.cases["running"], counts.cases["returned"], counts.alerts_firing), (89, 1, 90));
}

fn a_swap_is_noted_by_itself(open) {
    let mut store = open();
    let told = |store: &mut CaseStore, host: &str, parts: &[(&str, &str)], alerts: Vec<Alert>| {
        store.take_boards(&[HostBoard { host: host.into(), parts: modules(parts), ..board(alerts) }]).unwrap();
    };
    told(&mut store, "h1", &[("A1", "S100"), ("B1", "S200")], vec![of_module("S100")]);
    let case = store.decide(LOOK_BACK_NS, &mut |world| open_all(world)).unwrap().remove(0);
    assert_eq!(case.part.as_ref().map(|part| (&*part.place, &*part.serial)), Some(("A1", "S100")));
    // A slot that tells nothing, and modules that changed places: nothing was replaced.
    told(&mut store, "h1", &[("B1", "S200")], vec![]);
    told(&mut store, "h1", &[("A1", "S200"), ("B1", "S100")], vec![]);
    told(&mut store, "h1", &[("A1", "S100"), ("B1", "S200")], vec![]);
    assert_eq!(store.case(case.id).unwrap().replaced, None);
    let moved = store.trail(0, 100).unwrap().into_iter().filter(|line| line.action == "moved").count();
    assert_eq!(moved, 4);
    told(&mut store, "h1", &[("A1", "S101"), ("B1", "S200")], vec![]);
    let after = store.case(case.id).unwrap();
    let replaced = after.replaced.clone().unwrap();
    assert_eq!((&*replaced.by, replaced.tested_good_realtime_ns, after.revision), ("S101", 0, case.revision + 1));
    let line = store.trail(case.id, 10).unwrap().pop().unwrap();
    assert_eq!((&*line.actor, &*line.action, &*line.target), ("agent h1", "swapped", "dimm in A1 of h1"));
    assert_eq!(line.reason, "S100 is out, and S101 is in its place");
    // Told again: once is enough.
    told(&mut store, "h1", &[("A1", "S101"), ("B1", "S200")], vec![]);
    assert_eq!(store.trail(case.id, 10).unwrap().len(), 2);

    // The same module turns up in another host: with its cases, and since when it was where.
    told(&mut store, "h2", &[("C1", "S900")], vec![]);
    told(&mut store, "h2", &[("C1", "S100")], vec![]);
    let trail = store.trail(0, 100).unwrap();
    let again = trail.iter().find(|line| line.action == "turned_up").unwrap();
    assert_eq!((&*again.actor, &*again.reason), ("agent h2", &*format!("S100 was in h1 before (case {})", case.id)));
    let next = Case { host: "h2".into(), part: modules(&[("C1", "S100")]).pop(), ..case.clone() };
    let book = store.part_book(&next, 100).unwrap();
    let stays: Vec<(&str, &str, &str)> =
        book.stays.iter().map(|stay| (&*stay.host, &*stay.place, &*stay.replaced_by)).collect();
    let swapped = ("h1", "A1", "S101");
    assert_eq!(stays, [("h1", "A1", ""), ("h1", "B1", ""), swapped, ("h2", "C1", "")]);
    assert_eq!((book.cases.len(), book.cases[0].id), (1, case.id));
    // A place that never tells the same twice is told of by two hosts of one name.
    for round in 0..10 {
        told(&mut store, "h3", &[("A1", &format!("S70{round}"))], vec![]);
    }
    let swaps = store.trail(0, 100).unwrap().into_iter().filter(|line| line.target == "dimm in A1 of h3").count();
    assert_eq!(swaps, 4);
}

fn a_decision_is_told_of_the_machines_of_hosts_with_open_cases(open) {
    let mut store = open();
    store.claim(&[claim("h1", "a"), claim("h2", "b")], &MachineLimits::default()).unwrap();
    store.take(&[alert("h1", "k", 10, true), alert("h3", "k", 10, true)]).unwrap();
    store.decide(LOOK_BACK_NS, &mut |world| open_all(world)).unwrap();
    let machines = world(&mut store).machines;
    assert_eq!(machines.keys().collect::<Vec<_>>(), ["h1", "h3"], "hosts without a case are not asked for");
    assert_eq!((machines["h1"].machine.clone(), &*machines["h1"].address), (claim("h1", "a").machine, "10.0.0.1"));
    assert!(machines["h3"].machine.is_unknown() && machines["h3"].address.is_empty());
    assert_eq!(store.machine_of("h2").unwrap().unwrap().machine, claim("h2", "b").machine);
    assert_eq!(store.machine_of("h3").unwrap(), None);
    store.release("h2", "user anna", "", &MachineLimits::default()).unwrap();
    assert_eq!(store.machine_of("h2").unwrap(), None, "a name that was released may be any machine's");
}

fn a_number_that_two_hosts_have_at_one_time_tells_no_part(open) {
    let mut store = open();
    let board = |host: &str, note: &str| HostBoard {
        host: host.into(),
        service: note.into(),
        parts: modules(&[("A1", "S100")]),
        ..board(vec![of_module("S100")])
    };
    store.take_boards(&[board("h1", "")]).unwrap();
    store.take_boards(&[board("h2", "")]).unwrap();
    let cases = store.decide(LOOK_BACK_NS, &mut |world| open_all(world)).unwrap();
    let of = |host: &str| cases.iter().find(|case| case.host == host).unwrap().clone();
    assert_eq!(store.trail(0, 100).unwrap().iter().filter(|line| line.action == "turned_up").count(), 0);
    // The first was not heard of since: it may have been moved.
    assert_eq!(store.part_book(&of("h2"), 100).unwrap().cases.len(), 2);
    store.take_boards(&[board("h1", "again"), board("h2", "again")]).unwrap();
    let book = store.part_book(&of("h2"), 100).unwrap();
    assert_eq!((book.cases.len(), book.stays.len()), (1, 1));
    let ids = |cases: &[Case]| cases.iter().map(|case| case.id).collect::<Vec<_>>();
    assert_eq!(ids(&store.part_book(&of("h1"), 100).unwrap().cases), [of("h1").id]);
}

fn the_history_of_a_part_is_made_of_few_and_short_cases(open) {
    let mut store = open();
    let mut ids = Vec::new();
    for number in 0..120 {
        store.take(&[alert("h1", &format!("k{number}"), 10 + number, true)]).unwrap();
        let mut case = store.decide(LOOK_BACK_NS, &mut |world| open_all(world)).unwrap().remove(0);
        let memo = |step: &str| CaseStep { step: step.into(), memo: "{}".into(), ..CaseStep::default() };
        case.steps = vec![memo("stress:1s"), memo("hard-repair:maker")];
        // One of three did nothing.
        case.state = if number % 3 == 0 { CaseState::Cleared } else { CaseState::Returned };
        let kept = store.update(&case, &line("closed")).unwrap();
        if kept.state == CaseState::Returned {
            ids.push(kept.id);
        }
        store.take(&[alert("h1", &format!("k{number}"), 500, false)]).unwrap();
        store.decide(LOOK_BACK_NS, &mut |world| settle_all(world)).unwrap();
    }
    ids.reverse();
    let about = store.case(ids[0]).unwrap();
    let book = store.part_book(&about, 1_000).unwrap();
    assert_eq!(book.cases.iter().map(|case| case.id).collect::<Vec<_>>(), ids);
    let memos: Vec<&str> = book.cases[0].steps.iter().map(|step| step.memo.as_str()).collect();
    assert_eq!((memos, book.cases[0].evidence.len()), (vec!["", "{}"], 0));
    let few = store.part_book(&about, 60).unwrap().cases;
    assert_eq!(few.iter().map(|case| case.id).collect::<Vec<_>>(), ids[..60]);
}

fn whoever_comes_second_is_refused_and_nothing_of_it_is_written(open) {
        let (mut store, mut second) = (open(), open());
        store.take(&[alert("h1", "k", 10, true), alert("h2", "k", 10, true)]).unwrap();
        let opened = store.decide(LOOK_BACK_NS, &mut |world| open_all(world)).unwrap();
        let old = opened[0].clone();
        let paused = Case { state: CaseState::Paused, ..old.clone() };
        second.update(&paused, &line("paused")).unwrap();
        let error = store.update(&Case { state: CaseState::Cancelled, ..old.clone() }, &line("cancelled")).unwrap_err();
        assert!(matches!(error, Error::CaseConflict { case, .. } if case == old.id), "{error}");
        assert!(error.to_string().contains("read with revision 1, and the store has 2"), "{error}");
        // Within a decision the other change is taken back as well.
        let error = store
            .decide(LOOK_BACK_NS, &mut |world| {
                let other = world.open.iter().find(|case| case.id != old.id).unwrap().clone();
                let changes = [other, old.clone()].map(|case| (CaseChange::Update(Box::new(case)), line("tried")));
                changes.to_vec()
            })
            .unwrap_err();
        assert!(matches!(error, Error::CaseConflict { .. }), "{error}");
        assert!(world(&mut store).open.iter().all(|case| case.host == "h1" || case.revision == 1));
        assert!(store.trail(0, 100).unwrap().iter().all(|line| line.action != "tried" && line.action != "cancelled"));
        // Nor is a second case of one alert opened, nor one changed that there is not.
        let twice = store.decide(LOOK_BACK_NS, &mut |_| vec![(CaseChange::Open(Box::new(old.clone())), line("opened"))]);
        assert!(matches!(twice.unwrap_err(), Error::CaseConflict { .. }));
        let none = Case { id: 999, ..old.clone() };
        assert!(matches!(store.update(&none, &line("x")).unwrap_err(), Error::NoCase { case: 999 }));
        let none = CaseChange::Update(Box::new(none));
        assert!(matches!(
            store.decide(LOOK_BACK_NS, &mut |_| vec![(none.clone(), line("x"))]).unwrap_err(),
            Error::NoCase { case: 999 }
        ));
        assert!(matches!(store.case(999).unwrap_err(), Error::NoCase { case: 999 }));
}

fn a_lease_is_held_by_its_fence_and_only_while_it_lasts(open) {
        let mut store = open();
        store.take(&[alert("h1", "k", 10, true)]).unwrap();
        let mut case = store.decide(LOOK_BACK_NS, &mut |world| open_all(world)).unwrap().remove(0);
        let now_ns = store.now_realtime_ns().unwrap();
        case.lease = Lease { owner: "a".into(), until_realtime_ns: now_ns + 60_000_000_000, fence: 7 };
        let case = store.update(&case, &line("begun")).unwrap();
        store.hold(case.id, 7, now_ns + 90_000_000_000).unwrap();
        let held = store.case(case.id).unwrap();
        assert_eq!((held.lease.until_realtime_ns, held.revision), (now_ns + 90_000_000_000, case.revision));
        assert!(matches!(store.hold(case.id, 6, now_ns).unwrap_err(), Error::CaseConflict { .. }));
        store.hold(case.id, 7, 1).unwrap();
        assert!(store.hold(case.id, 7, now_ns + 90_000_000_000).is_err(), "it has run out");
        assert_eq!(world(&mut store).open[0].lease.until_realtime_ns, 1);
}

fn an_open_case_knows_of_its_alert_without_being_changed(open) {
        let mut store = open();
        store.take(&[alert("h1", "k", 10, true)]).unwrap();
        let case = store.decide(LOOK_BACK_NS, &mut |world| open_all(world)).unwrap().remove(0);
        store.take(&[Alert { severity: Severity::Critical, ..alert("h1", "k", 11, true) }]).unwrap();
        store.take(&[alert("h1", "k", 20, false)]).unwrap();
        let now = world(&mut store).open.remove(0);
        assert_eq!((now.is_firing, now.revision), (false, case.revision));
        assert_eq!(world(&mut store).alerts, []);
        // The worst is kept with the next change.
        store.take(&[Alert { severity: Severity::Critical, ..alert("h1", "k", 30, true) }]).unwrap();
        let now = world(&mut store).open.remove(0);
        assert_eq!((now.is_firing, now.severity), (true, Severity::Critical));
        let kept = store.update(&now, &line("x")).unwrap();
        store.take(&[alert("h1", "k", 40, true)]).unwrap();
        assert_eq!(store.case(kept.id).unwrap().severity, Severity::Critical);
}

fn the_trail_is_only_added_to_and_pausing_is_seen_by_all(open) {
        let (mut store, mut second) = (open(), open());
        store.pause(true, &line("paused")).unwrap();
        store.note(&AuditEntry { reason: "a\0b".into(), ..line("policy_loaded") }).unwrap();
        assert!(second.is_paused().unwrap() && world(&mut second).is_paused);
        second.pause(false, &line("continued")).unwrap();
        assert!(!store.is_paused().unwrap());
        let trail = store.trail(0, 2).unwrap();
        assert_eq!(trail.iter().map(|line| &*line.action).collect::<Vec<_>>(), ["policy_loaded", "continued"]);
        assert_eq!(trail[0].reason, "a?b");
        assert!(trail[0].at_realtime_ns > 1_700_000_000_000_000_000);
}

fn what_is_old_is_forgotten_and_what_is_open_is_not(open) {
        let mut store = open();
        let alerts: Vec<Alert> = (0..6).map(|number| alert(&format!("h{number}"), "k", 10, true)).collect();
        store.take(&alerts).unwrap();
        store
            .hosts_seen(&[("h1".into(), "web".into()), ("h2".into(), "web".into()), ("h3".into(), "".into())])
            .unwrap();
        assert_eq!(world(&mut store).service_hosts, BTreeMap::from([("web".into(), 2), ("".into(), 1)]));
        for case in store.decide(LOOK_BACK_NS, &mut |world| open_all(world)).unwrap().into_iter().take(4) {
            store.take(&[alert(&case.host, "k", 20, false)]).unwrap();
            store.update(&Case { state: CaseState::Returned, ..case }, &line("returned")).unwrap();
        }
        let limits = Limits { alerts_kept_s: 60, closed_max: 2, hosts_kept_s: 60, ..Limits::default() };
        let pruned = store.prune(&limits).unwrap();
        assert_eq!((pruned.alerts, pruned.cases, pruned.hosts, pruned.audit), (4, 2, 0, 0));
        assert_eq!(store.cases(false, 100).unwrap().len(), 4);
        std::thread::sleep(std::time::Duration::from_millis(5));
        let pruned = store.prune(&Limits { audit_kept_s: 0, hosts_kept_s: 0, ..limits }).unwrap();
        assert_eq!((pruned.hosts, pruned.audit), (3, 10));
        assert_eq!(store.cases(true, 100).unwrap().len(), 2);
}

fn an_order_is_fetched_answered_or_withdrawn(open) {
        let (mut store, unknown) = (open(), MachineId::default());
        assert_eq!(store.fetch_orders("h1", &unknown, 10).unwrap(), []);
        assert_eq!(store.order("t1", "h1", "do it", 0).unwrap().state, OrderState::Waiting);
        assert_eq!(store.order("t1", "h1", "do something else", 0).unwrap().body, "do it", "a token is given once");
        store.order("t2", "h1", "and this", 0).unwrap();
        assert!(store.withdraw("t2").unwrap());
        assert!(!store.answer("t1", "h1", &unknown, "early").unwrap(), "nobody has fetched it");
        assert_eq!(store.fetch_orders("h2", &unknown, 10).unwrap(), []);
        assert_eq!(store.fetch_orders("h1", &unknown, 10).unwrap().len(), 1);
        assert!(!store.withdraw("t1").unwrap(), "the agent has it");
        assert_eq!(store.fetch_orders("h1", &unknown, 10).unwrap()[0].token, "t1", "until it answers");
        assert!(!store.answer("t1", "h2", &unknown, "done").unwrap(), "another host's");
        assert!(store.answer("t1", "h1", &unknown, "done").unwrap() && store.answer("t1", "h1", &unknown, "done").unwrap());
        assert!(!store.answer("t1", "h1", &unknown, "not done").unwrap());
        let order = store.order_of("t1").unwrap().unwrap();
        assert_eq!((order.state, &*order.answer), (OrderState::Answered, "done"));
        assert_eq!(store.fetch_orders("h1", &unknown, 10).unwrap(), []);
        assert_eq!(store.orders_under_way("h1").unwrap().len(), 1);
        store.consume("t1").unwrap();
        assert_eq!(store.orders_under_way("h1").unwrap(), []);
        assert!(store.answer("t1", "h1", &unknown, "done").unwrap(), "told again because the first word was lost");
        assert_eq!(store.order_of("t1").unwrap().unwrap().state, OrderState::Consumed);
        store.forget_order("t1").unwrap();
        assert_eq!(store.order("t1", "h1", "the next part", 0).unwrap().state, OrderState::Waiting);
        assert_eq!(store.order_of("none").unwrap(), None);
}

fn a_name_belongs_to_one_machine_whichever_controller_is_asked(open) {
        let (mut one, mut two, limits) = (open(), open(), MachineLimits::default());
        // Two in one batch, and one of another name.
        let claims = [claim("h1", "a"), claim("h1", "b"), claim("h2", "b")];
        let answers = one.claim(&claims, &limits).unwrap();
        assert_eq!((&answers[0], &answers[2]), (&Claimed::Own, &Claimed::Own));
        let Claimed::Refused { why } = &answers[1] else { panic!("{answers:?}") };
        for part in ["host h1 is machine hw-a (10.0.0.1)", "this report is of machine hw-b (10.0.0.1)", "release h1"] {
            assert!(why.contains(part), "{part}: {why}");
        }
        for _ in 0..3 {
            assert_eq!(two.claim(&claims[..1], &limits).unwrap(), [Claimed::Own]);
            assert!(matches!(&two.claim(&claims[1..2], &limits).unwrap()[..], [Claimed::Refused { .. }]));
        }
        // One that is unknown has it neither, and takes nothing.
        let unknown = Claim { host: "h1".into(), ..Claim::default() };
        let owner = Some("machine hw-a (10.0.0.1)".to_owned());
        assert_eq!(two.claim(&[unknown], &limits).unwrap(), [Claimed::Unknown { owner }]);
        let free = Claim { host: "h3".into(), ..Claim::default() };
        assert_eq!(two.claim(&[free.clone(), free], &limits).unwrap(), vec![Claimed::Unknown { owner: None }; 2]);
        // The same hardware with another installation; then that one by a user who may not read the hardware's number.
        let system = |hardware: &Option<String>| MachineId { hardware: hardware.clone(), system: Some("sys-new".into()) };
        for hardware in [&claims[0].machine.hardware, &None] {
            let again = Claim { machine: system(hardware), ..claims[0].clone() };
            assert_eq!(one.claim(&[again], &limits).unwrap(), [Claimed::Own]);
        }
        let rivals = two.rivals(&limits).unwrap();
        assert_eq!(rivals.len(), 1, "{rivals:?}");
        assert!(rivals[0].contains("two machines report as h1: machine hw-a"), "{rivals:?}");
        // Told once, however often it asked.
        let told = one.trail(0, 100).unwrap().into_iter().filter(|line| line.action == "machine_refused");
        assert_eq!(told.count(), 1);
    }

    fn of_machines_that_claim_a_name_at_once_one_has_it(open) {
        let letters = ["a", "b", "c", "d"];
        for round in 0..5 {
            let host = format!("h{round}");
            let start = std::sync::Barrier::new(letters.len());
            let owners = std::thread::scope(|scope| {
                let ask = |letter: &'static str| {
                    let (host, start, mut store) = (&host, &start, open());
                    scope.spawn(move || {
                        start.wait();
                        store.claim(&[claim(host, letter)], &MachineLimits::default()).unwrap() == [Claimed::Own]
                    })
                };
                let asking: Vec<_> = letters.into_iter().map(ask).collect();
                asking.into_iter().map(|one| one.join().unwrap()).filter(|is_own| *is_own).count()
            });
            assert_eq!(owners, 1, "{host}");
        }
    }

    fn a_silent_machine_loses_its_name_to_one_that_asked_all_the_while(open) {
        let mut store = open();
        let at_once = MachineLimits { silent_ns_max: 0, gap_ns_max: u64::MAX };
        assert_eq!(store.claim(&[claim("h1", "a")], &at_once).unwrap(), [Claimed::Own]);
        // The first question counts from now: before it, no controller may have run to which the other one could report.
        let refused = store.claim(&[claim("h1", "b")], &at_once).unwrap();
        assert!(matches!(refused[..], [Claimed::Refused { .. }]), "{refused:?}");
        std::thread::sleep(std::time::Duration::from_millis(2));
        assert_eq!(store.claim(&[claim("h1", "b")], &at_once).unwrap(), [Claimed::Own]);
        let with_gap = MachineLimits { silent_ns_max: 0, gap_ns_max: 0 };
        for _ in 0..3 {
            std::thread::sleep(std::time::Duration::from_millis(2));
            let refused = store.claim(&[claim("h1", "a")], &with_gap).unwrap();
            assert!(matches!(refused[..], [Claimed::Refused { .. }]), "it was not there all the while: {refused:?}");
        }
    }

    fn orders_of_a_machine_end_when_another_one_has_its_name(open) {
        let (mut store, limits) = (open(), MachineLimits::default());
        let (a, b) = (claim("h1", "a"), claim("h1", "b"));
        store.claim(&[a.clone(), b.clone(), claim("h2", "c")], &limits).unwrap();
        let began_ns = store.now_realtime_ns().unwrap();
        for (token, host) in [("fetched", "h1"), ("waiting", "h1"), ("other", "h2")] {
            store.order(token, host, "do it", began_ns).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        assert_eq!(store.fetch_orders("h1", &b.machine, 10).unwrap(), [], "it is not its name");
        assert_eq!(store.fetch_orders("h1", &MachineId::default(), 10).unwrap(), [], "nor that of an unknown one");
        assert_eq!(store.fetch_orders("h1", &a.machine, 1).unwrap()[0].token, "fetched");
        for stranger in [&b.machine, &MachineId::default()] {
            assert!(!store.answer("fetched", "h1", stranger, "done").unwrap(), "another machine's word");
        }
        let said = store.release("h1", "user anna", "it was replaced", &limits).unwrap();
        assert_eq!(said, "h1 is machine hw-b (10.0.0.1) now");
        assert_eq!(store.fetch_orders("h1", &b.machine, 10).unwrap(), []);
        assert_eq!(store.fetch_orders("h1", &a.machine, 10).unwrap(), []);
        assert!(!store.answer("fetched", "h1", &a.machine, "done").unwrap(), "too late");
        let mut state = |token: &str| store.order_of(token).unwrap().unwrap().state;
        assert_eq!(state("fetched"), OrderState::DisplacedFetched);
        assert_eq!((state("waiting"), state("other")), (OrderState::Displaced, OrderState::Waiting));
        // Nor does a case of the first machine order something of the second, which has orders of its own.
        assert_eq!(store.order("next", "h1", "do it", began_ns).unwrap().state, OrderState::Displaced);
        assert_eq!(store.order_of("next").unwrap(), None);
        let now_ns = store.now_realtime_ns().unwrap();
        assert_eq!(store.order("own", "h1", "do it", now_ns).unwrap().state, OrderState::Waiting);
        assert_eq!(store.fetch_orders("h1", &b.machine, 10).unwrap()[0].token, "own");
        assert!(matches!(store.claim(&[a], &limits).unwrap()[..], [Claimed::Refused { .. }]));
        let trail = store.trail(0, 100).unwrap();
        let line = trail.iter().find(|line| line.action == "machine_changed").unwrap();
        assert!(line.actor == "user anna" && line.target == "h1", "{line:?}");
        for part in ["machine hw-b", "taken from machine hw-a", "it was replaced", "2 orders of it end"] {
            assert!(line.reason.contains(part), "{part}: {line:?}");
        }
        let said = store.release("h22", "user anna", "", &limits).unwrap();
        assert!(said.contains("no machine is known to have the name h22") && said.ends_with("did you mean 'h2'?"), "{said}");
        // Without a rival the next one has it, and one that told nothing for long is forgotten.
        assert!(store.release("h2", "user anna", "", &limits).unwrap().contains("the next machine that reports"));
        assert_eq!(store.claim(&[claim("h2", "d")], &limits).unwrap(), [Claimed::Own]);
        store.prune(&Limits { hosts_kept_s: 0, ..Limits::default() }).unwrap();
        assert_eq!(store.claim(&[claim("h2", "e")], &limits).unwrap(), [Claimed::Own]);
    }

    fn findings_and_parts_of_a_machine_end_when_another_one_has_its_name(open) {
        let (mut store, limits) = (open(), MachineLimits::default());
        store.claim(&[claim("h1", "a"), claim("h1", "b")], &limits).unwrap();
        let board = |serial: &str| HostBoard {
            host: "h1".into(),
            service: "web".into(),
            alerts: vec![alert("h1", "memory/rate/dimm/A1", 0, true)],
            whole: BTreeSet::new(),
            fine: Vec::new(),
            parts: modules(&[("A1", serial)]),
            view: None,
        };
        store.take_boards(&[board("S1")]).unwrap();
        let told = Alert { origin: AlertOrigin::Alertmanager, ..alert("h1", "alertmanager/1", 10, true) };
        store.take(&[told]).unwrap();
        let opened = store.decide(LOOK_BACK_NS, &mut |world| open_all(world)).unwrap();
        assert_eq!(opened.len(), 2);
        let of = |store: &mut CaseStore, key: &str| {
            let case = opened.iter().find(|case| case.alert_key == key).unwrap();
            store.case(case.id).unwrap()
        };
        let firing = |store: &mut CaseStore, key: &str| {
            world(store).open.into_iter().find(|case| case.alert_key == key).unwrap().is_firing
        };
        store.release("h1", "user anna", "", &limits).unwrap();
        assert!(!firing(&mut store, "memory/rate/dimm/A1"), "the second machine has not said so");
        assert!(firing(&mut store, "alertmanager/1"), "Alertmanager says itself when it is over");
        let trail = store.trail(0, 100).unwrap();
        let lines: Vec<_> = trail.iter().filter(|line| line.action == "machine_changed").collect();
        let cases: BTreeSet<u64> = lines.iter().map(|line| line.case).collect();
        assert_eq!(cases, [0, opened[0].id, opened[1].id].into(), "{lines:?}");
        assert!(lines[0].reason.contains("1 finding of the first machine ends"), "{lines:?}");
        // The second machine's board says the same, of another module.
        store.take_boards(&[board("S2")]).unwrap();
        assert!(firing(&mut store, "memory/rate/dimm/A1"));
        assert_eq!(of(&mut store, "memory/rate/dimm/A1").replaced, None, "the module left with its machine");
        assert!(store.trail(0, 100).unwrap().iter().all(|line| line.action != "swapped"));
        store.release("h1", "user anna", "", &limits).unwrap();
        store.claim(&[claim("h1", "a")], &limits).unwrap();
        assert!(!firing(&mut store, "memory/rate/dimm/A1"));
        store.take_boards(&[board("S2")]).unwrap();
        assert!(firing(&mut store, "memory/rate/dimm/A1"), "a board that says the same as the last machine's is news");
    }

    fn several_controllers_decide_one_at_a_time(open) {
        open().take(&(0..40).map(|number| alert(&format!("h{number}"), "k", 10, true)).collect::<Vec<_>>()).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let mut store = open();
                scope.spawn(move || {
                    // Each opens cases of two alerts at a time, and never of more than 20 in all.
                    for _ in 0..20 {
                        let decided = store.decide(LOOK_BACK_NS, &mut |world| {
                            let room = 20usize.saturating_sub(world.open.len()).min(2);
                            open_all(world).into_iter().take(room).collect()
                        });
                        decided.unwrap();
                    }
                });
            }
        });
        let mut store = open();
        assert_eq!((store.cases(true, 100).unwrap().len(), store.trail(0, 100).unwrap().len()), (20, 20));
}

}

#[test]
fn a_server_that_goes_away_is_asked_again() {
    let server = match Postgres::start() {
        Ok(server) => server,
        Err(why) => return not_run("store::cases::a_server_that_goes_away_is_asked_again", &why),
    };
    let mut store = CaseStore::open(&server.url().parse().unwrap(), None).unwrap();
    store.take(&[alert("h1", "k", 10, true)]).unwrap();
    server.down().unwrap();
    let error = store.take(&[alert("h2", "k", 10, true)]).unwrap_err();
    assert!(matches!(error, Error::Cases { .. }), "{error}");
    assert!(matches!(store.decide(LOOK_BACK_NS, &mut |world| open_all(world)).unwrap_err(), Error::Cases { .. }));
    server.up().unwrap();
    assert_eq!(store.decide(LOOK_BACK_NS, &mut |world| open_all(world)).unwrap().len(), 1);
    // In the middle of a decision: nothing of it is written, also not through a new connection.
    store.take(&[alert("h3", "k", 10, true)]).unwrap();
    let cut = store.decide(LOOK_BACK_NS, &mut |world| {
        server.down().unwrap();
        server.up().unwrap();
        open_all(world)
    });
    assert!(matches!(cut.unwrap_err(), Error::Cases { .. }));
    assert_eq!((store.cases(false, 10).unwrap().len(), world(&mut store).alerts.len()), (1, 1));
}

#[test]
fn what_is_no_store_of_cases_is_refused_and_left() {
    let home = tempfile::tempdir().unwrap();
    let open =
        |name: &str| CaseStore::open(&format!("sqlite:{}", home.path().join(name).display()).parse().unwrap(), None);
    std::fs::write(home.path().join("text"), "a poem").unwrap();
    assert!(open("text").unwrap_err().to_string().contains("it is no SQLite database"));
    let history = home.path().join("history");
    drop(surefoot_store::history::History::open(&history, surefoot_store::history::Limits::default()).unwrap());
    assert!(open("history").unwrap_err().to_string().contains("the database of another program"));
    assert!(open("").is_err());
    for (address, why) in [
        ("postgres://u:secret@db.example/d", "nothing is encrypted on the way"),
        ("postgres://u:secret@/d", "it names no host"),
        ("postgres://u:secret@localhost:x/d", "invalid"),
    ] {
        let error = CaseStore::open(&address.parse().unwrap(), None).unwrap_err().to_string();
        assert!(error.contains(why) && !error.contains("secret"), "{error}");
    }
}

/// SQLite would take a log that lies there for its own.
#[test]
fn a_folder_of_others_is_no_place_for_a_store() {
    use std::os::unix::fs::PermissionsExt;
    let home = tempfile::tempdir().unwrap();
    let open = |mode: u32| {
        std::fs::set_permissions(home.path(), std::fs::Permissions::from_mode(mode)).unwrap();
        CaseStore::open(&format!("sqlite:{}", home.path().join("cases.db").display()).parse().unwrap(), None)
    };
    for mode in [0o777, 0o1777] {
        let why = open(mode).unwrap_err().to_string();
        assert!(why.contains("other users can create files in"), "{mode:o}: {why}");
    }
    assert!(!home.path().join("cases.db").exists());
    open(0o700).unwrap();
}

/// Thousands of hosts may wait for the end of a cool-down or of a silence.
#[test]
fn alerts_that_wait_do_not_hide_those_that_follow() {
    with_file(&|open| {
        let mut store = open();
        let many: Vec<Alert> =
            (0..ALERTS_PER_DECISION_MAX).map(|number| alert(&format!("h{number:05}"), "k", 10, true)).collect();
        store.take(&many).unwrap();
        store.take(&[alert("h00000", "late", 10, true), alert("later", "k", 20, true)]).unwrap();
        let told = [world(&mut store), world(&mut store), world(&mut store)].map(|world| world.alerts);
        assert_eq!(told[0].len(), ALERTS_PER_DECISION_MAX);
        let all: std::collections::BTreeSet<_> =
            told[..2].iter().flatten().map(|alert| (&alert.host, &alert.key)).collect();
        assert_eq!((all.len(), told[1].len()), (ALERTS_PER_DECISION_MAX + 2, 2));
        assert_eq!(told[2].len(), ALERTS_PER_DECISION_MAX, "and from the beginning");
    });
}

/// A store of an earlier release, which knew no machines.
#[test]
fn a_store_without_machines_gets_them_and_keeps_what_it_has() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("cases.sqlite");
    let address = format!("sqlite:{}", path.display()).parse().unwrap();
    let open = || CaseStore::open(&address, None).unwrap();
    open().order("t1", "h1", "do it", 0).unwrap();
    rusqlite::Connection::open(&path).unwrap().execute_batch("DROP TABLE remedy_machine").unwrap();
    let mut store = open();
    let of_old_agent = Claim { host: "h1".into(), ..Claim::default() };
    let limits = MachineLimits::default();
    assert_eq!(store.claim(&[of_old_agent], &limits).unwrap(), [Claimed::Unknown { owner: None }]);
    assert_eq!(store.fetch_orders("h1", &MachineId::default(), 10).unwrap()[0].token, "t1");
    // The agent is updated: the name is its machine's, and so is the order.
    let updated = claim("h1", "a");
    assert_eq!(store.claim(std::slice::from_ref(&updated), &limits).unwrap(), [Claimed::Own]);
    assert_eq!(store.fetch_orders("h1", &updated.machine, 10).unwrap()[0].token, "t1");
    assert!(matches!(store.claim(&[claim("h1", "b")], &limits).unwrap()[..], [Claimed::Refused { .. }]));
}

/// A newer release wrote it, or it is damaged: nobody would hear of what it says.
#[test]
fn an_alert_that_cannot_be_read_is_counted_and_told_once_and_the_others_are_decided_on() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("cases.db");
    let mut store = CaseStore::open(&format!("sqlite:{}", path.display()).parse().unwrap(), None).unwrap();
    store.take(&[alert("a", "k1", 5, true), alert("b", "k2", 6, true)]).unwrap();
    let spoil = |body: &str| {
        let words = "UPDATE remedy_alert SET body = ?1, change_number = change_number + 1 WHERE host = 'a'";
        rusqlite::Connection::open(&path).unwrap().execute(words, [body]).unwrap();
    };
    let told = |store: &mut CaseStore| {
        let mut hosts = Vec::new();
        store
            .decide(LOOK_BACK_NS, &mut |world| {
                hosts = world.alerts.iter().map(|alert| alert.host.clone()).collect();
                Vec::new()
            })
            .unwrap();
        let trail = store.trail(0, 100).unwrap();
        let lines: Vec<&AuditEntry> = trail.iter().filter(|line| line.action == "alert_unread").collect();
        assert!(
            lines.iter().all(|line| line.target == "a k1" && line.reason.contains("no case is opened")),
            "{lines:?}"
        );
        (hosts, store.alerts_unread(), lines.len())
    };
    assert_eq!(told(&mut store), (vec!["a".to_owned(), "b".to_owned()], 0, 0));
    spoil("{\"severity\": \"dire\"}");
    for _ in 0..3 {
        assert_eq!(told(&mut store), (vec!["b".to_owned()], 1, 1));
    }
    spoil("junk");
    assert_eq!(told(&mut store), (vec!["b".to_owned()], 1, 2), "it is another one now");
    store.take(&[alert("a", "k1", 9, true)]).unwrap();
    assert_eq!(told(&mut store), (vec!["b".to_owned(), "a".to_owned()], 0, 2));
}
