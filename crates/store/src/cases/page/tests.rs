//! Pages, and cases that cannot be read, in both databases.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::cases::HostBoard;
use serde_json::json;
use std::collections::BTreeSet;
use surefoot_model::{CaseStep, CaseWorld, Part, SubjectKind};
use surefoot_testkit::not_run::not_run;
use surefoot_testkit::postgres::Postgres;

/// Longer than any test.
const LOOK_BACK_NS: u64 = 3_600_000_000_000;

/// Runs a test with a file and with a server.
fn in_both(name: &str, test: impl Fn(&mut CaseStore)) {
    let home = tempfile::tempdir().unwrap();
    let address = format!("sqlite:{}", home.path().join("cases.sqlite").display()).parse().unwrap();
    test(&mut CaseStore::open(&address, None).unwrap());
    match Postgres::start() {
        Ok(server) => test(&mut CaseStore::open(&server.database("pages").unwrap().parse().unwrap(), None).unwrap()),
        Err(why) => not_run(&format!("cases::page::tests::{name}"), &why),
    }
}

fn case(host: &str, key: u64, since_ns: u64, state: CaseState) -> Case {
    serde_json::from_value(json!({
        "id": 0, "host": host, "service": "web", "fault": "memory/rate", "subject": "dimm A1", "alert_key": format!("k{key}"),
        "severity": "warning", "sentence": "", "policy": "p", "state": state, "is_firing": true, "steps": [],
        "is_drained": false, "since_realtime_ns": since_ns, "state_since_realtime_ns": since_ns, "revision": 1,
    }))
    .unwrap()
}

/// Puts cases into the store as they are; their numbers count from 1.
fn put(store: &mut CaseStore, cases: &[Case]) {
    for case in cases {
        let words =
            "INSERT INTO remedy_case (host, service, alert_key, state, is_open, state_since_ns, revision, lease_fence,
            lease_until_ns, body) VALUES ($1, $2, $3, $4, $5, $6, 1, 0, 0, $7)";
        let values = [
            (*case.host).into(),
            (*case.service).into(),
            (*case.alert_key).into(),
            case.state.as_str().into(),
            case.state.is_open().into(),
            case.state_since_realtime_ns.into(),
            (*serde_json::to_string(case).unwrap()).into(),
        ];
        store.connected.sql.run(words, &values).unwrap();
    }
}

/// Cuts the text of a case in the middle.
fn damage(store: &mut CaseStore, id: u64) {
    let words = "UPDATE remedy_case SET body = substr(body, 1, 40), revision = revision + 1 WHERE id = $1";
    assert_eq!(store.connected.sql.run(words, &[id.into()]).unwrap(), 1);
}

fn world(store: &mut CaseStore) -> CaseWorld {
    let mut seen = CaseWorld::default();
    let mut look = |world: &CaseWorld| {
        seen = world.clone();
        Vec::new()
    };
    store.decide(LOOK_BACK_NS, &mut look).unwrap();
    seen
}

fn ids(cases: &[Case]) -> Vec<u64> {
    cases.iter().map(|case| case.id).collect()
}

#[test]
fn every_case_is_on_one_page_and_each_page_says_what_it_leaves_out() {
    in_both("every_case_is_on_one_page_and_each_page_says_what_it_leaves_out", |store| {
        let all: Vec<Case> = (1..=30)
            .map(|number| {
                let (host, state) = match number % 3 {
                    0 => ("n1", CaseState::Returned),
                    1 => ("n2", CaseState::Waiting),
                    _ => ("n2", CaseState::Returned),
                };
                case(host, number, number * 1_000, state)
            })
            .collect();
        put(store, &all);
        let (mut seen, mut before) = (Vec::new(), None);
        loop {
            let page = store.page(&CaseQuery { limit: 7, before, ..CaseQuery::default() }).unwrap();
            seen.extend(ids(&page.cases));
            assert_eq!((page.total, page.left_out), (30, 30 - seen.len() as u64));
            let Some(next) = page.next else { break };
            before = Some(Before::Case(next));
        }
        assert_eq!(seen, (1..=30).rev().collect::<Vec<_>>());
        let of_host = CaseQuery { host: Some("n1".into()), limit: 4, ..CaseQuery::default() };
        let page = store.page(&of_host).unwrap();
        assert_eq!((ids(&page.cases), page.total, page.left_out), (vec![30, 27, 24, 21], 10, 6));
        let open = CaseQuery { open_only: true, limit: 100, ..of_host.clone() };
        assert_eq!(store.page(&open).unwrap(), CasePage::default());
        // Times lead to the case that was opened then, or the next one.
        for (at_ns, first) in
            [(0, None), (1_000, None), (1_001, Some(1)), (20_000, Some(19)), (20_500, Some(20)), (99_000, Some(30))]
        {
            let page =
                store.page(&CaseQuery { before: Some(Before::Time(at_ns)), limit: 1, ..CaseQuery::default() }).unwrap();
            assert_eq!(page.cases.first().map(|case| case.id), first, "{at_ns}");
        }
        // Also past rows that say nothing of when they were opened, and rows that are gone.
        [14, 15, 16].iter().for_each(|id| damage(store, *id));
        store.connected.sql.batch("DELETE FROM remedy_case WHERE id IN (19, 20)").unwrap();
        let page =
            store.page(&CaseQuery { before: Some(Before::Time(20_500)), limit: 5, ..CaseQuery::default() }).unwrap();
        assert_eq!((ids(&page.cases), page.left_out), (vec![18, 17], 13));
        assert_eq!(page.unread.iter().map(|unread| unread.id).collect::<Vec<_>>(), [16, 15, 14]);
    });
}

#[test]
fn a_case_that_cannot_be_read_is_named_everywhere_and_a_person_can_close_it() {
    in_both("a_case_that_cannot_be_read_is_named_everywhere_and_a_person_can_close_it", |store| {
        let now_ns = store.now_realtime_ns().unwrap();
        put(store, &[case("n1", 1, now_ns, CaseState::Waiting), case("n2", 2, now_ns, CaseState::WithPerson)]);
        put(store, &[case("n3", 3, now_ns, CaseState::Returned), case("n4", 4, now_ns, CaseState::Waiting)]);
        assert_eq!((world(store).open.len(), world(store).unread.len()), (3, 0));
        [1, 3].iter().for_each(|id| damage(store, *id));
        // A text that can be read and is of another host than its row.
        store.connected.sql.batch("UPDATE remedy_case SET host = 'n5', revision = 2 WHERE id = 4").unwrap();
        for _ in 0..2 {
            let world = world(store);
            assert_eq!((ids(&world.open), ids(&world.closed)), (vec![2], vec![]));
            let unread: Vec<_> = world.unread.iter().map(|unread| (unread.id, &*unread.host, unread.is_open)).collect();
            assert_eq!(unread, [(1, "n1", true), (4, "n5", true), (3, "n3", false)]);
        }
        let counts = store.counts().unwrap();
        assert_eq!(store.counted.keys().collect::<std::collections::BTreeSet<_>>(), [1, 2, 4].iter().collect());
        assert_eq!((counts.open, counts.unread.1, counts.people.cases), (3, 2, 1));
        assert_eq!((&counts.people.hosts, counts.people.host_count), (&vec!["n2".to_owned()], 1));
        let page = store.page(&CaseQuery { limit: 10, ..CaseQuery::default() }).unwrap();
        assert_eq!((ids(&page.cases), page.unread.len(), page.total, page.left_out), (vec![2], 3, 4, 0));
        let error = store.case(1).unwrap_err();
        assert!(matches!(error, Error::CaseUnread { case: 1, .. }), "{error}");
        assert!(error.to_string().starts_with("case 1 of n1 cannot be read (EOF while parsing"), "{error}");

        let line = AuditEntry {
            at_realtime_ns: 0,
            case: 0,
            actor: "user anna".into(),
            action: "cancelled".into(),
            target: String::new(),
            reason: "seen".into(),
        };
        assert!(matches!(store.close_unread(2, &line).unwrap_err(), Error::CaseConflict { case: 2, .. }));
        assert!(matches!(store.close_unread(9, &line).unwrap_err(), Error::NoCase { case: 9 }));
        let closed = store.close_unread(1, &line).unwrap();
        assert_eq!((closed.state, &*closed.host, closed.revision), (CaseState::Cancelled, "n1", 3));
        assert!(closed.began_realtime_ns >= now_ns, "its host is left alone for a cool-down");
        assert!(
            closed.evidence[0].starts_with("{\"id\":0,\"host\":\"n1\""),
            "what was in the row is kept: {:?}",
            closed.evidence
        );
        let trail = store.trail(1, 10).unwrap();
        assert!(
            trail[0].actor == "user anna" && trail[0].reason.starts_with("seen; case 1 of n1 cannot be read"),
            "{trail:?}"
        );
        let world = world(store);
        assert_eq!((ids(&world.closed), world.unread.len()), (vec![1], 2));
        assert_eq!((store.counts().unwrap().open, store.counted.len()), (2, 2), "what is closed is forgotten");
    });
}

/// The part's first repairs lie behind thousand other cases of its host.
#[test]
fn the_history_of_a_part_reaches_beyond_the_newest_cases_of_its_host() {
    in_both("the_history_of_a_part_reaches_beyond_the_newest_cases_of_its_host", |store| {
        let repair = CaseStep { step: "run:/repair".into(), ..CaseStep::default() };
        let of_part =
            |number: u64| Case { steps: vec![repair.clone()], ..case("n1", number, number, CaseState::Returned) };
        let other = |number: u64| Case { subject: "dimm B1".into(), ..case("n1", number, number, CaseState::Returned) };
        put(store, &[of_part(1), of_part(2)]);
        let others: Vec<Case> = (3..1_103).map(other).collect();
        store.connected.sql.begin(true).unwrap();
        put(store, &others);
        store.connected.sql.commit().unwrap();
        put(store, &[of_part(1_103)]);
        let about = store.case(1_103).unwrap();
        let book = store.part_book(&about, 1_000).unwrap();
        assert_eq!((ids(&book.cases), book.left_out, book.unread.len()), (vec![1_103, 2, 1], 0, 0));
        let book = store.part_book(&about, 2).unwrap();
        assert_eq!((ids(&book.cases), book.left_out), (vec![1_103, 2], 1));
        damage(store, 2);
        let book = store.part_book(&about, 1_000).unwrap();
        assert_eq!((ids(&book.cases), book.unread.len(), book.unread[0].id), (vec![1_103, 1], 1, 2));

        // A swap is noted in the newest case about the part, however many others came after it.
        let part = |serial: &str| Part {
            kind: SubjectKind::Dimm,
            name: serial.into(),
            place: "A1".into(),
            serial: serial.into(),
            model: String::new(),
        };
        put(store, &[Case { part: Some(part("S100")), ..case("n2", 1, 1, CaseState::Returned) }]);
        let first = store.page(&CaseQuery { limit: 1, ..CaseQuery::default() }).unwrap().cases[0].id;
        store.connected.sql.begin(true).unwrap();
        put(store, &others.iter().map(|case| Case { host: "n2".into(), ..case.clone() }).collect::<Vec<_>>());
        store.connected.sql.commit().unwrap();
        let tell = |store: &mut CaseStore, serial: &str| {
            let board = HostBoard {
                host: "n2".into(),
                service: String::new(),
                alerts: Vec::new(),
                whole: BTreeSet::new(),
                fine: Vec::new(),
                parts: vec![part(serial)],
                view: None,
            };
            store.take_boards(&[board]).unwrap();
        };
        tell(store, "S100");
        tell(store, "S101");
        assert_eq!(store.case(first).unwrap().replaced.map(|replaced| replaced.by).as_deref(), Some("S101"));
    });
}
