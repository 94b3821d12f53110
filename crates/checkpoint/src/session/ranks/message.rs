//! What ranks tell each other when they agree: one message of a fixed length, the same for whatever they agree on. On its way
//! to rank 0 the messages of all are joined; what rank 0 makes of them goes back to all on the same way.
//!
//! # Layout
//! Little-endian words of eight bytes, and texts: a word with the length, and a fixed number of bytes. In this order: the
//! version, the magic number, the release, the sender and how many ranks it counts, where it is (`call`), what failed, sums,
//! maxima, what is known (`gathered`), the word of rank 0.
//!
//! The length, the version, the magic number and the release stay as they are in every later version, so that ranks of
//! different releases can say so.

use super::call::Stamp;
use super::gathered::Gathered;
use crate::Error;

/// Counts up with each change of the layout: ranks of one job run the same release, or they are told that they do not.
/// Version 1 had the length, and neither the magic number nor the release; up to version 2 rank 0 answered by a broadcast.
const VERSION: u64 = 3;

/// What the second word is since version 2: `SUREFOOT`.
const MAGIC: u64 = u64::from_le_bytes(*b"SUREFOOT");

/// The most bytes of a failure's text that other ranks see.
const WHY_BYTES: usize = 400;

/// The length of a message, in this version and in every other one.
pub const BYTES: usize = 1_776;

/// This release, as a word: 16 bits for each of its numbers.
fn release() -> u64 {
    let numbers = [env!("CARGO_PKG_VERSION_MAJOR"), env!("CARGO_PKG_VERSION_MINOR"), env!("CARGO_PKG_VERSION_PATCH")];
    numbers.iter().fold(0, |release, number| release << 16 | number.parse::<u64>().unwrap_or(u64::from(u16::MAX)))
}

fn release_in_words(release: u64) -> String {
    format!("{}.{}.{}", release >> 32, release >> 16 & 0xffff, release & 0xffff)
}

/// Why not all ranks can go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The first that failed.
    pub(super) rank: u32,
    pub(super) kind: FailureKind,
    /// As it says itself.
    pub(super) why: String,
}

/// What a failure means for the ranks; the worst counts. In a message it is its place here, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailureKind {
    /// Something failed of which all know now.
    Failed,
    /// Ranks are at different places.
    OutOfStep,
    /// Ranks cannot talk.
    Broken,
    /// A rank has ended its session, and takes part in nothing any more.
    Closed,
}

const FAILURE_KINDS: [FailureKind; 4] =
    [FailureKind::Failed, FailureKind::OutOfStep, FailureKind::Broken, FailureKind::Closed];

/// Why a message of another rank does not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) kind: FailureKind,
    pub(super) why: String,
}

/// The word of rank 0. The clocks of ranks differ by little, but decisions must not.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct OfRoot {
    /// As the situation's.
    pub since_any_s: f64,
    /// As the situation's.
    pub since_durable_s: f64,
    /// As the situation's.
    pub since_written_s: f64,
    /// As the situation's of the shared directory.
    pub since_shared_s: f64,
    /// As the situation's.
    pub step_s: f64,
    /// Where the checkpoint goes, as a number.
    pub place: u64,
    /// Whether the shared directory gets it, too: 1 or 0.
    pub is_shared: u64,
    /// What the next generation is known by.
    pub nonce: u64,
    /// `CLOCK_REALTIME`, nanoseconds.
    pub realtime_ns: u64,
}

/// What one rank tells, or several together.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Message {
    /// Who says so, and how many ranks it counts.
    pub rank: u32,
    pub size: u32,
    /// Where it is.
    pub stamp: Stamp,
    pub failure: Option<Failure>,
    /// Added up over all ranks; what is too much stays at the highest number.
    pub sums: [u64; 2],
    /// The largest of all ranks.
    pub mosts: [u64; 2],
    /// What ranks know before a decision.
    pub gathered: Gathered,
    /// What rank 0 makes of it.
    pub of_root: OfRoot,
}

impl Message {
    /// Says that this rank failed.
    pub fn fail(&mut self, rank: u32, reason: &str) {
        // Those that hear of it say themselves whose it is.
        let reason = reason.strip_prefix(&format!("rank {rank}: ")).unwrap_or(reason);
        self.join_failure(Some(Failure { rank, kind: FailureKind::Failed, why: cut(reason, WHY_BYTES) }));
    }

    /// Says that this rank cannot hear another one.
    pub(super) fn break_off(&mut self, rank: u32, error: &Error) {
        self.refuse(rank, Refused { kind: FailureKind::Broken, why: error.group_reason() });
    }

    /// Says why this rank cannot go on with another one.
    pub(super) fn refuse(&mut self, rank: u32, refused: Refused) {
        self.join_failure(Some(Failure { rank, kind: refused.kind, why: cut(&refused.why, WHY_BYTES) }));
    }

    /// Adds what other ranks tell.
    pub(super) fn join(&mut self, other: Message) {
        self.join_failure(other.failure);
        for (sum, more) in self.sums.iter_mut().zip(other.sums) {
            *sum = sum.saturating_add(more);
        }
        for (most, more) in self.mosts.iter_mut().zip(other.mosts) {
            *most = (*most).max(more);
        }
        self.gathered.join(other.gathered);
    }

    /// The worst counts, and of several the first rank's.
    fn join_failure(&mut self, other: Option<Failure>) {
        let order = |failure: &Failure| (std::cmp::Reverse(failure.kind), failure.rank);
        if let Some(other) = other
            && self.failure.as_ref().is_none_or(|known| order(&other) < order(known))
        {
            self.failure = Some(other);
        }
    }

    pub(super) fn to_bytes(&self) -> [u8; BYTES] {
        let mut writing = Writing { bytes: [0; BYTES], at: 0 };
        for mut word in [VERSION, MAGIC, release()] {
            writing.word(&mut word);
        }
        self.clone().visit(&mut writing);
        writing.bytes
    }

    /// What another rank said.
    ///
    /// # Errors
    /// When it is not what a rank of this release says.
    pub(super) fn from_bytes(bytes: &[u8; BYTES]) -> Result<Self, String> {
        let mut reading = Reading { bytes, at: 0 };
        let [mut version, mut magic, mut from] = [0; 3];
        [&mut version, &mut magic, &mut from].into_iter().for_each(|word| reading.word(word));
        if (version, magic, from) != (VERSION, MAGIC, release()) {
            let theirs = match (version, magic) {
                (_, MAGIC) => format!("Surefoot {} (protocol {version})", release_in_words(from)),
                (1, _) => "an earlier release of Surefoot (protocol 1)".to_owned(),
                _ => "something that is no release of Surefoot".to_owned(),
            };
            let own = release_in_words(release());
            return Err(format!(
                "it runs {theirs}, and this rank Surefoot {own} (protocol {VERSION}): run one release on all ranks"
            ));
        }
        let mut message = Message::default();
        message.visit(&mut reading);
        Ok(message)
    }

    fn visit(&mut self, layout: &mut impl Layout) {
        let mut ranks = u64::from(self.rank) << 32 | u64::from(self.size);
        layout.word(&mut ranks);
        (self.rank, self.size) = ((ranks >> 32) as u32, ranks as u32);
        self.stamp.visit(layout);
        let known = self.failure.take();
        let (mut kind, mut rank, mut why) = match known {
            None => (0, 0, String::new()),
            Some(failure) => (1 + failure.kind as u64, u64::from(failure.rank), failure.why),
        };
        layout.word(&mut kind);
        layout.word(&mut rank);
        layout.text(&mut why, WHY_BYTES);
        // A kind that this release does not know is the worst.
        let known = usize::try_from(kind).ok().and_then(|kind| FAILURE_KINDS.get(kind.checked_sub(1)?)).copied();
        let kind = (kind > 0).then_some(known.unwrap_or(FailureKind::Broken));
        self.failure = kind.map(|kind| Failure { rank: rank as u32, kind, why });
        self.sums.iter_mut().chain(&mut self.mosts).for_each(|word| layout.word(word));
        self.gathered.visit(layout);
        let of_root = &mut self.of_root;
        for number in [
            &mut of_root.since_any_s,
            &mut of_root.since_durable_s,
            &mut of_root.since_written_s,
            &mut of_root.since_shared_s,
            &mut of_root.step_s,
        ] {
            layout.number(number);
        }
        for word in [&mut of_root.place, &mut of_root.is_shared, &mut of_root.nonce, &mut of_root.realtime_ns] {
            layout.word(word);
        }
    }
}

/// Goes over the fields of a message in the order in which they lie: to write them, or to read them.
pub(super) trait Layout {
    fn word(&mut self, word: &mut u64);

    /// So many bytes at most.
    fn text(&mut self, text: &mut String, bytes: usize);

    fn number(&mut self, number: &mut f64) {
        let mut bits = number.to_bits();
        self.word(&mut bits);
        *number = f64::from_bits(bits);
    }
}

struct Writing {
    bytes: [u8; BYTES],
    at: usize,
}

impl Layout for Writing {
    fn word(&mut self, word: &mut u64) {
        self.bytes[self.at..self.at + 8].copy_from_slice(&word.to_le_bytes());
        self.at += 8;
    }

    fn text(&mut self, text: &mut String, bytes: usize) {
        let text = cut(text, bytes);
        self.word(&mut (text.len() as u64));
        self.bytes[self.at..self.at + text.len()].copy_from_slice(text.as_bytes());
        self.at += bytes;
    }
}

struct Reading<'a> {
    bytes: &'a [u8; BYTES],
    at: usize,
}

impl Layout for Reading<'_> {
    fn word(&mut self, word: &mut u64) {
        let eight = self.bytes[self.at..].first_chunk::<8>();
        *word = eight.map_or(0, |eight| u64::from_le_bytes(*eight));
        self.at += 8;
    }

    fn text(&mut self, text: &mut String, bytes: usize) {
        let mut length = 0;
        self.word(&mut length);
        let length = usize::try_from(length).unwrap_or(bytes).min(bytes);
        *text = cut(&String::from_utf8_lossy(&self.bytes[self.at..self.at + length]), bytes);
        self.at += bytes;
    }
}

/// The beginning of a text, of so many bytes at most.
pub(super) fn cut(text: &str, bytes: usize) -> String {
    let mut end = text.len().min(bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    /// Counts the bytes.
    struct Counting(usize);

    impl Layout for Counting {
        fn word(&mut self, _: &mut u64) {
            self.0 += 8;
        }

        fn text(&mut self, _: &mut String, bytes: usize) {
            self.0 += 8 + bytes;
        }
    }

    #[test]
    fn the_fields_fit_into_a_message_whose_length_never_changes() {
        let mut counting = Counting(3 * 8);
        Message::default().visit(&mut counting);
        assert!(counting.0 <= BYTES && BYTES == 1_776, "{} bytes", counting.0);
    }

    #[test]
    fn the_first_rank_s_failure_is_told_and_before_it_that_ranks_cannot_talk() {
        let lost = |rank: u32| {
            let mut message = Message::default();
            message.fail(rank, &format!("rank {rank}: it is lost"));
            message
        };
        let mut broken = Message::default();
        broken.break_off(9, &Error::Group { why: "rank 8 is gone".into() });
        let mut all = lost(4);
        [lost(7), Message::default(), lost(2), lost(3)].into_iter().for_each(|other| all.join(other));
        let first = all.failure.clone().unwrap();
        assert!(first.rank == 2 && first.kind == FailureKind::Failed && first.why == "it is lost", "{first:?}");
        let mut apart = Message::default();
        apart.refuse(8, Refused { kind: FailureKind::OutOfStep, why: "rank 9 is elsewhere".into() });
        all.join(apart);
        assert_eq!(all.failure.as_ref().unwrap().rank, 8);
        all.join(broken);
        all.join(lost(0));
        let wanted = Failure { rank: 9, kind: FailureKind::Broken, why: "rank 8 is gone".into() };
        assert_eq!(all.failure, Some(wanted.clone()));
        assert_eq!(Message::from_bytes(&all.to_bytes()).unwrap().failure, Some(wanted));
    }

    #[test]
    fn another_release_is_named_whatever_its_layout_is() {
        let own = Message::default().to_bytes();
        let with = |at: usize, bytes: &[u8]| {
            let mut changed = own;
            changed[at..at + bytes.len()].copy_from_slice(bytes);
            Message::from_bytes(&changed).unwrap_err()
        };
        let later =
            with(0, &[&7u64.to_le_bytes()[..], b"SUREFOOT", &(3u64 << 32 | 5 << 16 | 9).to_le_bytes()].concat());
        assert!(later.contains("Surefoot 3.5.9 (protocol 7)") && later.contains("(protocol 3)"), "{later}");
        let same_layout = with(16, &(9u64 << 32).to_le_bytes());
        assert!(same_layout.contains("Surefoot 9.0.0 (protocol 3)"), "{same_layout}");
        let before = with(0, &[1u64.to_le_bytes(), 12u64.to_le_bytes()].concat());
        assert!(before.contains("an earlier release of Surefoot (protocol 1)"), "{before}");
        assert!(with(8, b"NOTHING.").contains("no release of Surefoot"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused_and_what_is_read_comes_back(
            bytes in proptest::collection::vec(any::<u8>(), BYTES),
            is_ours: bool,
        ) {
            let mut bytes: [u8; BYTES] = bytes.try_into().unwrap();
            if is_ours {
                bytes[..24].copy_from_slice(&Message::default().to_bytes()[..24]);
            }
            if let Ok(message) = Message::from_bytes(&bytes) {
                let again = message.to_bytes();
                prop_assert_eq!(Message::from_bytes(&again).unwrap().to_bytes(), again);
            } else {
                prop_assert!(!is_ours);
            }
        }

        #[test]
        fn a_text_is_cut_between_letters(text in ".{0,300}", bytes in 0usize..900) {
            let short = cut(&text, bytes);
            prop_assert!(short.len() <= bytes && text.starts_with(&short) && short.len() + 4 > bytes.min(text.len()));
        }
    }
}
