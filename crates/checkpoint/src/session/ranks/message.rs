//! What ranks tell each other when they agree: one message of a fixed length, the same for whatever they agree on. On its way
//! to rank 0 the messages of all are joined; what rank 0 makes of them goes back to all in one broadcast.
//!
//! # Layout
//! Little-endian words of eight bytes, and texts: a word with the length, and a fixed number of bytes. In this order: the
//! version, the number of the agreement, what failed, sums, maxima, what is known (`gathered`), the word of rank 0.

use super::gathered::Gathered;
use crate::Error;

/// Counts up with each change of the layout: ranks of one job run the same release, or they are told that they do not.
const VERSION: u64 = 1;

/// The most bytes of a failure's text that other ranks see.
const WHY_BYTES: usize = 400;

/// The length of a message.
pub(in super::super) const BYTES: usize = 1_776;

/// Why not all ranks can go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Failure {
    /// The first that failed.
    pub(super) rank: u32,
    /// Whether ranks cannot talk; otherwise something failed of which all know now.
    pub(super) is_broken: bool,
    /// As it says itself.
    pub(super) why: String,
}

/// The word of rank 0. The clocks of ranks differ by little, but decisions must not.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(in super::super) struct OfRoot {
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
pub(in super::super) struct Message {
    /// How many agreements there were before.
    pub(in super::super) number: u64,
    pub(in super::super) failure: Option<Failure>,
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
    /// Says that this rank failed, or that it cannot hear another one.
    pub(in super::super) fn fail(&mut self, rank: u32, reason: &str, is_broken: bool) {
        // Those that hear of it say themselves whose it is.
        let reason = reason.strip_prefix(&format!("rank {rank}: ")).unwrap_or(reason);
        self.join_failure(Some(Failure { rank, is_broken, why: cut(reason, WHY_BYTES) }));
    }

    /// Says that this rank cannot hear another one.
    pub(super) fn break_off(&mut self, rank: u32, error: &Error) {
        match error {
            Error::Group { why } => self.fail(rank, why, true),
            error => self.fail(rank, &error.to_string(), true),
        }
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

    /// That ranks cannot talk counts before anything else, then the first rank's.
    fn join_failure(&mut self, other: Option<Failure>) {
        let order = |failure: &Failure| (!failure.is_broken, failure.rank);
        if let Some(other) = other
            && self.failure.as_ref().is_none_or(|known| order(&other) < order(known))
        {
            self.failure = Some(other);
        }
    }

    pub(super) fn to_bytes(&self) -> [u8; BYTES] {
        let mut writing = Writing { bytes: [0; BYTES], at: 0 };
        let mut version = VERSION;
        writing.word(&mut version);
        self.clone().visit(&mut writing);
        writing.bytes
    }

    /// What another rank said.
    ///
    /// # Errors
    /// When it is not what a rank of this release says.
    pub(super) fn from_bytes(bytes: &[u8; BYTES]) -> Result<Self, String> {
        let mut reading = Reading { bytes, at: 0 };
        let mut version = 0;
        reading.word(&mut version);
        if version != VERSION {
            return Err(format!("it speaks version {version}, and this rank {VERSION}: run one release on all ranks"));
        }
        let mut message = Message::default();
        message.visit(&mut reading);
        Ok(message)
    }

    fn visit(&mut self, layout: &mut impl Layout) {
        layout.word(&mut self.number);
        let known = self.failure.take();
        let (mut kind, mut rank, mut why) = match known {
            None => (0, 0, String::new()),
            Some(failure) => (1 + u64::from(failure.is_broken), u64::from(failure.rank), failure.why),
        };
        layout.word(&mut kind);
        layout.word(&mut rank);
        layout.text(&mut why, WHY_BYTES);
        self.failure = (kind > 0).then_some(Failure { rank: rank as u32, is_broken: kind > 1, why });
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
    fn a_message_is_as_long_as_its_fields() {
        let mut counting = Counting(8);
        Message::default().visit(&mut counting);
        assert_eq!(counting.0, BYTES);
    }

    #[test]
    fn the_first_rank_s_failure_is_told_and_before_it_that_ranks_cannot_talk() {
        let lost = |rank: u32| {
            let mut message = Message::default();
            message.fail(rank, &format!("rank {rank}: it is lost"), false);
            message
        };
        let mut broken = Message::default();
        broken.break_off(9, &Error::Group { why: "rank 8 is gone".into() });
        let mut all = lost(4);
        [lost(7), Message::default(), lost(2), lost(3)].into_iter().for_each(|other| all.join(other));
        let first = all.failure.clone().unwrap();
        assert!(first.rank == 2 && !first.is_broken && first.why == "it is lost", "{first:?}");
        all.join(broken);
        all.join(lost(0));
        assert_eq!(all.failure.unwrap(), Failure { rank: 9, is_broken: true, why: "rank 8 is gone".into() });
    }

    #[test]
    fn another_version_is_said_to_be_one() {
        let mut bytes = Message::default().to_bytes();
        bytes[0] = 7;
        assert!(Message::from_bytes(&bytes).unwrap_err().contains("version 7"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused_and_what_is_read_comes_back(
            bytes in proptest::collection::vec(any::<u8>(), BYTES),
            is_ours: bool,
        ) {
            let mut bytes: [u8; BYTES] = bytes.try_into().unwrap();
            if is_ours {
                bytes[..8].copy_from_slice(&VERSION.to_le_bytes());
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
