//! What goes into a recording comes out of it, or a prefix of it and a word about the rest.

use crate::any_event::{self, plausible_gap, plausible_host, plausible_window};
use proptest::prelude::*;
use std::fs;
use std::path::Path;
use surefoot_model::{CpuId, Event, FaultySum, LedgerFault, Notice, Report};
use surefoot_store::recording::{End, Existing, Reader, Writer};

/// Writes the events, a frame per `per_frame` of them, and returns where each frame ends and how many events there
/// are up to there.
fn record(path: &Path, events: &[Event], per_frame: usize) -> Vec<(u64, usize)> {
    let mut writer = Writer::create(path, Existing::Replace).unwrap();
    let mut frame_ends = vec![(writer.bytes(), 0)];
    let mut written = 0;
    for chunk in events.chunks(per_frame) {
        for event in chunk {
            writer.append(event).unwrap();
        }
        writer.flush().unwrap();
        written += chunk.len();
        frame_ends.push((writer.bytes(), written));
    }
    let finished = writer.finish().unwrap();
    assert_eq!(finished.events as usize, events.len());
    assert_eq!(finished.bytes, fs::metadata(path).unwrap().len());
    frame_ends
}

fn replay(path: &Path) -> (Vec<Event>, End) {
    let mut reader = Reader::open(path).unwrap();
    let events = reader.by_ref().collect();
    let end = reader.end();
    assert!(reader.skipped().is_empty(), "{}", reader.skipped());
    (events, end)
}

fn small_stream() -> Vec<Event> {
    let mut events = vec![plausible_host(1)];
    for second in 0..3 {
        events.push(plausible_window(second, 1));
        events.push(plausible_gap(second, 20_000 + second));
    }
    events.push(Event::Notice(Notice { at_ns: 7, text: "core 3 went offline\n".into() }));
    events
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn every_event_that_can_be_true_comes_back_exactly(
        events in prop::collection::vec(any_event::event(), 0..12), per_frame in 1usize..5,
    ) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.surefoot");
        record(&path, &events, per_frame);
        let (replayed, end) = replay(&path);
        prop_assert_eq!(&end, &End::Complete);
        let events: Vec<Event> = events.into_iter().map(Event::checked).collect();
        prop_assert_eq!(&replayed, &events);
        prop_assert_eq!(Report::of(&replayed), Report::of(&events));
        for core in Report::of(&replayed).cores() {
            prop_assert!(core.lost_ns() <= core.wall_ns || core.wall_ns == u64::MAX, "{:?}", core);
            prop_assert!(core.lost.iter().all(|lost| lost.max_ns <= lost.total_ns), "{:?}", core);
        }
    }
}

#[test]
fn what_cannot_be_true_of_a_stranger_s_recording_is_in_no_sum_and_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.surefoot");
    let mut events = vec![plausible_host(2), plausible_window(0, 2), plausible_window(1, 2)];
    let Event::Window(window) = &mut events[2] else { unreachable!("it is a window") };
    window.cores[1].user_ns += 1_000 * any_event::SECOND_NS;
    window.cores[0].lost[0].max_ns = u64::MAX;
    record(&path, &events, 3);
    let report = Report::of(&replay(&path).0);
    let fault = LedgerFault::Sum { parts_ns: 1_001 * any_event::SECOND_NS, wall_ns: any_event::SECOND_NS };
    assert_eq!(report.faulty(), [FaultySum { cpu: CpuId(1), count: 1, fault }]);
    let cores = report.cores();
    assert_eq!((cores[0].wall_ns, cores[1].wall_ns), (2 * any_event::SECOND_NS, any_event::SECOND_NS));
    assert_eq!(
        (report.cost.capped_rows, cores[0].lost[0].max_ns),
        (1, 500_001),
        "no longer than the total of its window"
    );
}

#[test]
fn the_replayed_report_equals_the_live_one() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.surefoot");
    let mut events = vec![plausible_host(4)];
    for second in 0..200 {
        events.push(plausible_window(second, 4));
        events.push(plausible_gap(second, second * 977 % 50_000));
    }
    record(&path, &events, 7);
    let replayed = Reader::open(&path).unwrap().fold(Report::default(), |mut report, event| {
        report.add(&event);
        report
    });
    assert_eq!(replayed, Report::of(&events));
}

#[test]
fn a_recording_cut_at_every_byte_gives_its_intact_prefix() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("whole.surefoot");
    let cut_path = directory.path().join("cut.surefoot");
    let events = small_stream();
    let frame_ends = record(&path, &events, 2);
    let whole = fs::read(&path).unwrap();
    for length in 0..whole.len() {
        fs::write(&cut_path, &whole[..length]).unwrap();
        if length < 14 {
            let error = Reader::open(&cut_path).unwrap_err().to_string();
            assert!(error.contains(if length == 0 { "empty" } else { "within its header" }), "{length}: {error}");
            continue;
        }
        let &(intact_bytes, intact_events) = frame_ends.iter().rfind(|end| end.0 <= length as u64).unwrap();
        let (replayed, end) = replay(&cut_path);
        assert_eq!(replayed, events[..intact_events], "cut at {length}");
        match end {
            End::Torn { at_byte, intact_events: told, .. } => {
                assert_eq!((at_byte, told as usize), (intact_bytes, intact_events), "cut at {length}");
            }
            other => panic!("cut at {length}: {other}"),
        }
    }
    assert_eq!(replay(&path), (events, End::Complete));
}

#[test]
fn every_byte_flipped_never_gives_a_wrong_event() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("whole.surefoot");
    let flipped_path = directory.path().join("flipped.surefoot");
    let events = small_stream();
    let frame_ends = record(&path, &events, 3);
    let whole = fs::read(&path).unwrap();
    for at in 0..whole.len() {
        for mask in [0x01, 0x10, 0x80, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] ^= mask;
            fs::write(&flipped_path, &bytes).unwrap();
            let Ok(mut reader) = Reader::open(&flipped_path) else {
                assert!(at < 14, "byte {at} refused at opening");
                continue;
            };
            assert!(at >= 14, "byte {at} of the header went unnoticed");
            let replayed: Vec<Event> = reader.by_ref().collect();
            let &(_, intact_events) = frame_ends.iter().rfind(|end| end.0 <= at as u64).unwrap();
            assert_eq!(replayed, events[..intact_events], "byte {at} xor {mask:#x}");
            assert_ne!(reader.end(), End::Complete, "byte {at} xor {mask:#x}");
        }
    }
}

/// Numbers from a seed, in the shapes that these tests need.
struct Random(surefoot_random::Random);

impl Random {
    fn new(seed: u64) -> Self {
        Random(surefoot_random::Random::new(seed))
    }

    fn next(&mut self) -> u64 {
        self.0.word()
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

/// One to four changes: flip, insert, delete, copy a stretch elsewhere, zero a stretch.
fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(4) {
        if bytes.is_empty() {
            return;
        }
        let at = random.below(bytes.len());
        let length = 1 + random.below(40.min(bytes.len() - at));
        match random.below(5) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes.insert(at, random.next() as u8),
            2 => drop(bytes.drain(at..at + length)),
            3 => {
                let stretch: Vec<u8> = bytes[at..at + length].to_vec();
                let to = random.below(bytes.len());
                bytes.splice(to..to, stretch);
            }
            _ => bytes[at..at + length].fill(0),
        }
    }
}

#[test]
fn twenty_thousand_random_mutations_never_give_a_wrong_event() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("whole.surefoot");
    let mutated_path = directory.path().join("mutated.surefoot");
    let events = small_stream();
    record(&path, &events, 1);
    let whole = fs::read(&path).unwrap();
    for seed in 0..20_000 {
        let mut bytes = whole.clone();
        mutate(&mut bytes, &mut Random::new(seed));
        fs::write(&mutated_path, &bytes).unwrap();
        let Ok(mut reader) = Reader::open(&mutated_path) else { continue };
        let replayed: Vec<Event> = reader.by_ref().collect();
        // A frame that is copied whole to a boundary is intact, so the oracle is each event, not the prefix.
        assert!(replayed.iter().all(|event| events.contains(event)), "seed {seed}: a wrong event");
        if reader.end() == End::Complete {
            assert_eq!(replayed.len(), events.len(), "seed {seed}: complete with other events");
        }
    }
}
