//! The checker is checked: a violation of each kind, planted into a good history, is found, and nothing else is.

use super::{Delivered, Kind, Outcome, Sent, VIOLATIONS_MAX, Verdict, Violation, check};
use proptest::prelude::*;
use surefoot_random::Random;

const STREAMS: u64 = 3;

/// A history in which all went well: its streams interleaved in one way by the senders, in another by the receivers.
fn good(lengths: &[usize], seed: u64) -> (Vec<Sent>, Vec<Delivered>) {
    let mut random = Random::new(seed);
    let mut sent = Vec::new();
    let mut delivered: Vec<Vec<Delivered>> = Vec::new();
    for (stream, length) in lengths.iter().enumerate() {
        let stream = stream as u64;
        let mut deliveries = Vec::new();
        for place in 0..*length as u64 {
            // Ids need not be in order, and other streams may have the same ones.
            let id = place ^ (seed & 0xff);
            let (bytes, checksum) = (random.below(5000), random.word());
            sent.push(Sent { stream, id, bytes, checksum, outcome: Outcome::Arrived });
            deliveries.push(Delivered { stream, id, bytes, checksum });
        }
        deliveries.reverse();
        delivered.push(deliveries);
    }
    let mut merged = Vec::new();
    while delivered.iter().any(|stream| !stream.is_empty()) {
        let stream = random.below(delivered.len() as u64) as usize;
        merged.extend(delivered[stream].pop());
    }
    // A stable order by a random rank per stream interleaves the senders and keeps each stream's own order.
    let mut queues: Vec<Vec<Sent>> = (0..lengths.len() as u64)
        .map(|stream| sent.iter().rev().filter(|send| send.stream == stream).copied().collect())
        .collect();
    let mut interleaved = Vec::new();
    while queues.iter().any(|queue| !queue.is_empty()) {
        let stream = random.below(queues.len() as u64) as usize;
        interleaved.extend(queues[stream].pop());
    }
    (interleaved, merged)
}

/// Spoils a good history in one way, and says what the checker must find: the kind, the stream, the id.
fn plant(kind: Kind, sent: &mut Vec<Sent>, delivered: &mut Vec<Delivered>, random: &mut Random) -> (u64, u64) {
    let at = random.below(delivered.len() as u64) as usize;
    let chosen = delivered[at];
    match kind {
        Kind::Lost => {
            delivered.remove(at);
        }
        Kind::Duplicated => {
            let later = at + 1 + random.below((delivered.len() - at) as u64) as usize;
            delivered.insert(later, chosen);
        }
        Kind::Corrupted => match random.below(2) {
            0 => delivered[at].checksum ^= 1 << random.below(64),
            _ => delivered[at].bytes += 1 + random.below(8),
        },
        Kind::Unexpected => {
            let stranger = Delivered { id: 1 << 40, ..chosen };
            delivered.insert(at, stranger);
            return (stranger.stream, stranger.id);
        }
        Kind::Ambiguous => {
            let twin = *sent.iter().find(|send| (send.stream, send.id) == (chosen.stream, chosen.id)).unwrap();
            sent.push(Sent { checksum: !twin.checksum, ..twin });
        }
        Kind::Reordered => {
            // The message moves behind the next one of its stream, which there must be.
            let stream =
                delivered.iter().find(|one| delivered.iter().filter(|other| other.stream == one.stream).count() >= 2);
            let stream = stream.unwrap().stream;
            let places: Vec<usize> = (0..delivered.len()).filter(|place| delivered[*place].stream == stream).collect();
            let first = random.below(places.len() as u64 - 1) as usize;
            let late = delivered[places[first]];
            delivered.swap(places[first], places[first + 1]);
            return (late.stream, late.id);
        }
    }
    (chosen.stream, chosen.id)
}

fn count(verdict: &Verdict, kind: Kind) -> u64 {
    match kind {
        Kind::Lost => verdict.lost_count,
        Kind::Duplicated => verdict.duplicated_count,
        Kind::Reordered => verdict.reordered_count,
        Kind::Corrupted => verdict.corrupted_count,
        Kind::Unexpected => verdict.unexpected_count,
        Kind::Ambiguous => verdict.ambiguous_count,
    }
}

const KINDS: [Kind; 6] =
    [Kind::Lost, Kind::Duplicated, Kind::Reordered, Kind::Corrupted, Kind::Unexpected, Kind::Ambiguous];

proptest! {
    #[test]
    fn a_good_history_is_perfect(lengths in prop::collection::vec(0_usize..40, 1..4), seed: u64) {
        let (sent, delivered) = good(&lengths, seed);
        let verdict = check(&sent, &delivered);
        let count = sent.len() as u64;
        prop_assert_eq!(verdict, Verdict { sent_count: count, delivered_count: count, ..Verdict::default() });
    }

    #[test]
    fn each_planted_violation_is_found_and_no_other(
        kind in prop::sample::select(KINDS.to_vec()),
        lengths in prop::collection::vec(2_usize..40, 1..4),
        seed: u64,
    ) {
        let (mut sent, mut delivered) = good(&lengths, seed);
        let (stream, id) = plant(kind, &mut sent, &mut delivered, &mut Random::new(seed ^ 0x5eed));
        let verdict = check(&sent, &delivered);
        prop_assert_eq!(count(&verdict, kind), 1, "{:?}", verdict);
        prop_assert_eq!(verdict.violation_count(), 1, "{:?}", verdict);
        let found = verdict.violations[0];
        prop_assert_eq!((found.kind, found.stream, found.id), (kind, stream, id));
        prop_assert!(!verdict.is_perfect());
    }

    #[test]
    fn many_violations_in_different_messages_are_all_counted(seed: u64) {
        let (sent, mut delivered) = good(&[30, 30, 30], seed);
        let mut random = Random::new(seed);
        // Each of three streams gets a kind of its own, so that none hides another.
        let mut spoilt = Vec::new();
        let mut wanted = [0_u64; STREAMS as usize];
        for delivery in &delivered {
            let planted = random.below(4) == 0;
            wanted[delivery.stream as usize] += u64::from(planted);
            match (planted, delivery.stream) {
                (false, _) => spoilt.push(*delivery),
                (true, 0) => {}
                (true, 1) => spoilt.extend([*delivery, *delivery]),
                (true, _) => spoilt.push(Delivered { checksum: !delivery.checksum, ..*delivery }),
            }
        }
        std::mem::swap(&mut delivered, &mut spoilt);
        let verdict = check(&sent, &delivered);
        prop_assert_eq!([verdict.lost_count, verdict.duplicated_count, verdict.corrupted_count], wanted);
        prop_assert_eq!(verdict.violation_count(), wanted.iter().sum::<u64>());
        prop_assert_eq!(verdict.violations.len(), VIOLATIONS_MAX.min(wanted.iter().sum::<u64>() as usize));
    }

    /// Whatever the two sides claim, each message has one fate.
    #[test]
    fn the_counts_add_up_for_any_history(
        sends in prop::collection::vec((0_u64..2, 0_u64..12, 0_u8..4), 0..30),
        deliveries in prop::collection::vec((0_u64..2, 0_u64..12, 0_u64..2), 0..30),
    ) {
        let outcomes = [
            Outcome::Arrived,
            Outcome::Pending,
            Outcome::Refused { may_have_arrived: false },
            Outcome::Refused { may_have_arrived: true },
        ];
        let sent: Vec<Sent> = sends
            .iter()
            .map(|(stream, id, outcome)| Sent {
                stream: *stream, id: *id, bytes: 1, checksum: 0, outcome: outcomes[*outcome as usize],
            })
            .collect();
        let delivered: Vec<Delivered> = deliveries
            .iter()
            .map(|(stream, id, checksum)| Delivered { stream: *stream, id: *id, bytes: 1, checksum: *checksum })
            .collect();
        let verdict = check(&sent, &delivered);
        let arrived = verdict.sent_count
            - verdict.ambiguous_count - verdict.lost_count - verdict.pending_count - verdict.refused_count;
        prop_assert_eq!(verdict.delivered_count, arrived + verdict.duplicated_count + verdict.unexpected_count);
        prop_assert!(verdict.corrupted_count + verdict.reordered_count <= arrived);
    }
}

fn sent(id: u64, outcome: Outcome) -> Sent {
    Sent { stream: 1, id, bytes: 4, checksum: id, outcome }
}

fn delivered(id: u64) -> Delivered {
    Delivered { stream: 1, id, bytes: 4, checksum: id }
}

#[test]
fn what_the_sender_was_told_decides_between_lost_and_pending() {
    let refused = |may_have_arrived| Outcome::Refused { may_have_arrived };
    let sends = [
        sent(1, Outcome::Arrived),
        sent(2, Outcome::Pending),
        sent(3, Outcome::Pending),
        sent(4, refused(true)),
        sent(5, refused(true)),
        sent(6, refused(false)),
        sent(7, refused(false)),
    ];
    let verdict = check(&sends, &[delivered(3), delivered(5), delivered(7)]);
    let counts = (verdict.lost_count, verdict.pending_count, verdict.refused_count, verdict.unexpected_count);
    // Message 7 was refused for good and came all the same; 7 itself was then never delivered as a message of its own.
    assert_eq!(counts, (1, 1, 3, 1), "{verdict:?}");
}

#[test]
fn an_id_of_another_stream_is_unexpected_and_its_own_stream_lost_it() {
    let stray = Delivered { stream: 2, ..delivered(1) };
    let verdict = check(&[sent(1, Outcome::Arrived)], &[stray]);
    assert_eq!((verdict.lost_count, verdict.unexpected_count), (1, 1));
}

#[test]
fn the_late_message_is_blamed_and_not_those_that_overtook_it() {
    let sends: Vec<Sent> = (1..=4).map(|id| sent(id, Outcome::Arrived)).collect();
    let verdict = check(&sends, &[delivered(2), delivered(3), delivered(1), delivered(4)]);
    let late = Violation { kind: Kind::Reordered, stream: 1, id: 1, place: 2 };
    assert_eq!((verdict.reordered_count, verdict.violations), (1, vec![late]));
    // One message that comes far too early makes late ones of all that it overtook.
    assert_eq!(check(&sends, &[delivered(4), delivered(1), delivered(2), delivered(3)]).reordered_count, 3);
}

#[test]
fn the_checker_uses_nothing_of_what_it_judges() {
    let source = include_str!("mod.rs");
    let uses: Vec<&str> = source.lines().filter(|line| line.trim_start().starts_with("use ")).collect();
    assert_eq!(uses, ["use std::collections::HashMap;"]);
    assert!(!source.contains("crate::") && !source.contains("super::"));
}
