//! What the two processes say to each other: one message for a question, one for its answer. Neither believes the other:
//! every length is checked, and what does not fit is no message.

use surefoot_hostfs::images::FileKey;

/// The longest message.
pub(super) const MESSAGE_BYTES_MAX: usize = 64 << 10;

/// Places of one question.
pub(super) const PLACES_MAX: usize = 128;

/// Functions at one place, inlined ones included.
const NAMES_MAX: usize = 32;

/// The longest name, bytes.
pub(super) const NAME_BYTES_MAX: usize = 400;

/// Bytes of a message that names may take together.
const NAMES_BYTES_MAX: usize = MESSAGE_BYTES_MAX - PLACES_MAX * 2 - 64;

/// What the child says when it is ready for questions.
pub(super) const READY: &[u8] = b"ready";

/// What a file is asked as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A program or library; places are offsets in it.
    Elf = 1,
    /// The list of a compiler at run time; places are addresses.
    PerfMap = 2,
}

/// Which functions are at these places of a file?
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) number: u64,
    pub(super) kind: Kind,
    pub(super) key: FileKey,
    pub(super) places: Vec<u64>,
}

/// A function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) text: String,
    /// Whether it was inlined into the one after it.
    pub(crate) is_inlined: bool,
}

/// The functions at each place, innermost first; none where no name is known.
pub(super) type Names = Vec<Vec<Name>>;

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    Names(Names),
    /// The file is not known, or not any more: it must come with the question.
    NeedsFile,
    /// Why the file cannot be read.
    Refused(Fault),
}

/// Why a file gives no names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Fault {
    #[error("its file cannot be read")]
    Unreadable = 1,
    #[error("its file is no program of 64 bits")]
    NotElf = 2,
    #[error("its file contradicts itself")]
    Malformed = 3,
}

impl Question {
    pub(super) fn encode(&self) -> Vec<u8> {
        let FileKey { device, inode, bytes, changed_ns } = self.key;
        let mut message = vec![self.kind as u8];
        for number in [self.number, device, inode, bytes, changed_ns as u64].iter().chain(&self.places) {
            message.extend(number.to_le_bytes());
        }
        message
    }

    pub(super) fn decode(message: &[u8]) -> Option<Self> {
        let (&kind, numbers) = message.split_first()?;
        let kind = [Kind::Elf, Kind::PerfMap].into_iter().find(|known| *known as u8 == kind)?;
        if numbers.len() % 8 != 0 || numbers.len() > (PLACES_MAX + 5) * 8 {
            return None;
        }
        let mut numbers = numbers.chunks_exact(8).filter_map(|bytes| Some(u64::from_le_bytes(bytes.try_into().ok()?)));
        let mut next = || numbers.next();
        let number = next()?;
        let key = FileKey { device: next()?, inode: next()?, bytes: next()?, changed_ns: next()? as i64 };
        Some(Question { number, kind, key, places: numbers.collect() })
    }
}

impl Answer {
    /// The message, with the processor time that the answer took.
    pub(super) fn encode(&self, number: u64, took_ns: u64) -> Vec<u8> {
        let mut message = number.to_le_bytes().to_vec();
        message.extend(took_ns.to_le_bytes());
        match self {
            Answer::NeedsFile => message.push(1),
            Answer::Refused(fault) => message.extend([2, *fault as u8]),
            Answer::Names(places) => {
                message.push(0);
                let mut room = NAMES_BYTES_MAX;
                for names in places.iter().take(PLACES_MAX) {
                    let at = message.len();
                    message.push(0);
                    for Name { text, is_inlined } in names.iter().take(NAMES_MAX) {
                        let text = shortened(text);
                        let Some(left) = room.checked_sub(text.len() + 3) else { break };
                        room = left;
                        message[at] += 1;
                        message.push(u8::from(*is_inlined));
                        message.extend((text.len() as u16).to_le_bytes());
                        message.extend(text.as_bytes());
                    }
                }
            }
        }
        message
    }

    /// The answer to the question of this number, which had so many places, and the processor time that it took; control
    /// characters in names are gone.
    pub(super) fn decode(message: &[u8], number: u64, places: usize) -> Option<(Self, u64)> {
        let (own, mut rest) = message.split_at_checked(8)?;
        if own != number.to_le_bytes() {
            return None;
        }
        let took_ns = u64::from_le_bytes(take(&mut rest, 8)?.try_into().ok()?);
        Some((Self::decode_rest(rest, places)?, took_ns))
    }

    fn decode_rest(mut rest: &[u8], places: usize) -> Option<Self> {
        match take(&mut rest, 1)?[0] {
            0 => {}
            1 => return rest.is_empty().then_some(Answer::NeedsFile),
            2 => {
                let faults = [Fault::Unreadable, Fault::NotElf, Fault::Malformed];
                let fault = faults.into_iter().find(|fault| rest == [*fault as u8])?;
                return Some(Answer::Refused(fault));
            }
            _ => return None,
        }
        let mut all = Vec::with_capacity(places);
        for _ in 0..places {
            let count = usize::from(take(&mut rest, 1)?[0]);
            let mut names = Vec::new();
            for _ in 0..count {
                let is_inlined = take(&mut rest, 1)?[0] != 0;
                let length = u16::from_le_bytes(take(&mut rest, 2)?.try_into().ok()?);
                let text = String::from_utf8_lossy(take(&mut rest, usize::from(length))?);
                let text = text.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
                names.push(Name { text, is_inlined });
            }
            all.push(names);
        }
        rest.is_empty().then_some(Answer::Names(all))
    }
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(count)?;
    *rest = left;
    Some(taken)
}

/// A name that fits, cut between two characters.
fn shortened(name: &str) -> &str {
    let mut end = name.len().min(NAME_BYTES_MAX);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name() -> impl Strategy<Value = Name> {
        ("[a-zäß:<>]{0,40}", any::<bool>()).prop_map(|(text, is_inlined)| Name { text, is_inlined })
    }

    proptest! {
        #[test]
        fn questions_and_answers_arrive_as_they_were_sent(
            number in any::<u64>(),
            key in any::<(u64, u64, u64, i64)>(),
            places in prop::collection::vec(any::<u64>(), 0..PLACES_MAX),
            names in prop::collection::vec(prop::collection::vec(name(), 0..5), 0..PLACES_MAX),
        ) {
            let key = FileKey { device: key.0, inode: key.1, bytes: key.2, changed_ns: key.3 };
            let question = Question { number, kind: Kind::PerfMap, key, places };
            prop_assert_eq!(Question::decode(&question.encode()), Some(question));
            let answer = Answer::Names(names.clone());
            prop_assert_eq!(Answer::decode(&answer.encode(number, 5), number, names.len()), Some((answer.clone(), 5)));
            prop_assert_eq!(Answer::decode(&answer.encode(number, 5), number.wrapping_add(1), names.len()), None);
        }

        #[test]
        fn any_bytes_are_a_message_or_none(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = Question::decode(&bytes);
            let mut answer = 7u64.to_le_bytes().to_vec();
            answer.extend(&bytes);
            if let Some((Answer::Names(names), _)) = Answer::decode(&answer, 7, 3) {
                prop_assert_eq!(names.len(), 3);
            }
        }
    }

    #[test]
    fn what_is_too_much_for_a_message_is_left_out_and_never_cut_in_a_character() {
        let long = Name { text: "ä".repeat(5_000), is_inlined: false };
        let all = vec![vec![long; 100]; PLACES_MAX];
        let message = Answer::Names(all).encode(1, 0);
        assert!(message.len() <= MESSAGE_BYTES_MAX);
        let Some((Answer::Names(names), 0)) = Answer::decode(&message, 1, PLACES_MAX) else { panic!("{message:?}") };
        assert_eq!((names[0].len(), names[0][0].text.len()), (NAMES_MAX, NAME_BYTES_MAX));
        assert!(names[PLACES_MAX - 1].is_empty());
        let escape = Name { text: "a\u{1b}[2J\u{9b}b".into(), is_inlined: true };
        let decoded = Answer::decode(&Answer::Names(vec![vec![escape]]).encode(1, 0), 1, 1).map(|(answer, _)| answer);
        assert_eq!(decoded, Some(Answer::Names(vec![vec![Name { text: "a?[2J?b".into(), is_inlined: true }]])));
        for answer in [Answer::NeedsFile, Answer::Refused(Fault::Malformed)] {
            assert_eq!(Answer::decode(&answer.encode(3, 9), 3, 1), Some((answer, 9)));
        }
    }
}
