use super::super::{PLAYED_NS, RECORDING, tour};
use super::{clock, events};
use std::path::Path;
use surefoot_model::{DeedOutcome, DeedReason, Event, FaultMode, MemoryEvent, Persistence, Window};
use surefoot_store::recording::{End, Existing, Reader, Writer};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/demo/demo.surefoot");
/// So much of the program may be this recording.
const BYTES_MAX: usize = 310_000;

fn write(path: &Path) {
    let mut writer = Writer::create(path, Existing::Replace).unwrap().small();
    events().iter().for_each(|event| writer.append(event).unwrap());
    writer.finish().unwrap();
}

#[test]
fn the_recording_is_the_day_that_is_made_here() {
    if std::env::var_os("SUREFOOT_UPDATE").is_some() {
        write(Path::new(PATH));
        return;
    }
    let mut reader = Reader::of_bytes("demo", RECORDING).unwrap();
    let kept: Vec<Event> = reader.by_ref().collect();
    assert_eq!(reader.end(), End::Complete);
    assert!(reader.skipped().is_empty(), "{}", reader.skipped());
    let made = events();
    assert_eq!(
        kept.len(),
        made.len(),
        "make it anew: SUREFOOT_UPDATE=1 cargo test -p surefoot-cli --bin surefoot demo"
    );
    for (kept, made) in kept.iter().zip(&made) {
        assert_eq!(kept, made, "make it anew: SUREFOOT_UPDATE=1 cargo test -p surefoot-cli --bin surefoot demo");
    }
    assert!(RECORDING.len() <= BYTES_MAX, "{} bytes", RECORDING.len());
}

fn windows() -> impl Iterator<Item = Window> {
    let events = events();
    events.into_iter().filter_map(|event| if let Event::Window(window) = event { Some(window) } else { None })
}

#[test]
fn each_window_adds_up_and_follows_the_one_before() {
    let mut end_ns = clock::at(0);
    for window in windows() {
        assert_eq!(window.start_ns, end_ns);
        end_ns = window.end_ns;
        for core in &window.cores {
            assert!(core.sums_up() && core.fault().is_none(), "{core:?}");
            for row in &core.lost {
                assert!(row.max_ns <= row.total_ns && row.histogram.count() == row.count, "{row:?}");
                assert!(row.while_idle_ns <= row.total_ns);
            }
        }
        assert_eq!(window.clone().check(), window, "nothing is left out or cut");
    }
    assert_eq!(end_ns, clock::at(24 * clock::H));
    let played = windows().filter(|window| window.end_ns > end_ns - PLAYED_NS).count() as u64;
    assert_eq!(played, PLAYED_NS / clock::S);
}

/// Whole hours from a moment to the end of the day.
fn hours_ago(at_realtime_ns: u64) -> u64 {
    (clock::real(24 * clock::H) - at_realtime_ns) / clock::H
}

#[test]
fn what_the_five_sentences_say_is_in_the_recording() {
    let sentence = |view: &str| tour().into_iter().find(|stop| stop.view == view).unwrap().sentence;
    assert_eq!(tour().len(), 5);
    let events = events();

    let who = events.iter().rev().find_map(|event| if let Event::Who(who) = event { Some(who) } else { None }).unwrap();
    let raiser = &who.interrupts[0].raisers[0];
    assert_eq!((raiser.comm.as_str(), raiser.syscall.as_str(), raiser.pid), ("stats", "munmap", 4711));
    assert!(!raiser.user_stack.is_empty() && !who.fix_first[0].remedy.is_empty());
    let last =
        events.iter().rev().find_map(|event| if let Event::Window(window) = event { Some(window) } else { None });
    for core in &last.unwrap().cores[2..] {
        let percent = (core.lost_ns() * 100 + core.busy_ns() / 2) / core.busy_ns();
        assert!(percent == 6 && sentence("lost-time").contains("lose 6 % of their busy time"), "{core:?}");
    }

    let mut looks = events.iter().filter_map(|event| match event {
        Event::Memory(MemoryEvent::Look(look)) => Some(look),
        _ => None,
    });
    let dimm = &looks.next_back().unwrap().dimms[0];
    let fault = dimm.fault.as_ref().unwrap();
    assert_eq!((fault.mode, fault.persistence), (FaultMode::Row, Persistence::Permanent), "{fault:?}");
    assert!(fault.urgency.needs_action() && fault.evidence.contains("0x2f4a"), "{fault:?}");
    assert!(sentence("memory").contains(&dimm.label));

    let happened = |kind: &str| -> Vec<u64> {
        let all = events.iter().flat_map(Event::happened).filter(|one| one.kind == kind);
        all.map(|one| hours_ago(one.at_realtime_ns)).collect()
    };
    assert_eq!(happened("restart"), [17]);
    assert_eq!(happened("interface_state"), [12, 12]);
    assert_eq!(happened("experiment_ended"), [9]);
    let of_today = happened("corrected_error").into_iter().filter(|&hours| hours < 24).collect::<Vec<_>>();
    assert!(of_today.len() > 30 && of_today.iter().all(|hours| (18..=20).contains(hours)), "{of_today:?}");

    let of_case: Vec<&str> = events
        .iter()
        .flat_map(Event::deeds)
        .filter(|deed| matches!(deed.reason, DeedReason::Case { case: 17, .. }) && deed.outcome != DeedOutcome::Begun)
        .map(|deed| deed.action.as_str())
        .collect();
    assert_eq!(of_case, ["recheck", "drain", "collect_errors", "soft_repair", "stress", "recheck", "return"]);
}
