//! What a rank says of itself in every message: which call it is in, which one that is of its session, and after which
//! generation. Ranks whose words differ are out of step, and all of them are told who is where.

use super::message::Layout;
use crate::controller::Place;
use crate::generation::GenerationId;
use std::collections::BTreeMap;

/// A call that all ranks make together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    Open,
    Need,
    /// To where the policy says, or to the place that the program names.
    Save(Option<Place>),
    Wait,
    Finish,
    Complete,
    Discard,
    Restart,
    RestartResized,
    OpenResized,
    ReadResized,
    /// Not a call of all ranks: where the farewell of a rank is from.
    Close,
    /// One of a name that is none: its number is no call's.
    Unknown,
}

/// The calls by the words that all languages have for them; their numbers in a message are their places here, from 1.
const CALLS: [(&str, Call); 15] = [
    ("open", Call::Open),
    ("need", Call::Need),
    ("save", Call::Save(None)),
    ("save to memory", Call::Save(Some(Place::Memory))),
    ("save to both", Call::Save(Some(Place::Both))),
    ("save to durable", Call::Save(Some(Place::Durable))),
    ("wait_for_copies", Call::Wait),
    ("finish", Call::Finish),
    ("complete", Call::Complete),
    ("discard", Call::Discard),
    ("restart", Call::Restart),
    ("restart_resized", Call::RestartResized),
    ("open_resized", Call::OpenResized),
    ("read_resized", Call::ReadResized),
    ("close", Call::Close),
];

/// Marks the preparation of a call by a layer above, such as the Python package.
const PREPARES: u64 = 1 << 32;

impl Call {
    fn number(self) -> u64 {
        let place = match self {
            Call::Save(Some(Place::Skip)) => Call::Save(None),
            call => call,
        };
        CALLS.iter().position(|(_, call)| *call == place).map_or(0, |at| at as u64 + 1)
    }

    /// The call of this name.
    pub fn of(name: &str) -> Option<Call> {
        CALLS.iter().find(|(known, _)| *known == name).map(|(_, call)| *call)
    }

    /// Whether the program may end after it: the other ranks are then to have its result first.
    pub fn may_be_last(self) -> bool {
        matches!(self, Call::Finish | Call::Complete | Call::Discard)
    }

    /// Whether a session that made no other call has only read what is there.
    pub fn only_reads(self) -> bool {
        matches!(self, Call::Wait | Call::Finish | Call::OpenResized | Call::ReadResized)
    }

    /// Whether its first agreement is a decision, which says in itself what call it is of.
    pub fn begins_with_decision(self) -> bool {
        matches!(self, Call::Need | Call::Save(_))
    }
}

pub(super) fn name_of(number: u64) -> String {
    let name = (number & !PREPARES).checked_sub(1).and_then(|at| CALLS.get(usize::try_from(at).ok()?));
    let name = name.map_or_else(
        || format!("a call that this release does not know ({})", number & !PREPARES),
        |(name, _)| (*name).to_owned(),
    );
    if number & PREPARES > 0 { format!("{name} (preparing it)") } else { name }
}

/// Where a rank is. All ranks of an agreement have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Stamp {
    /// Drawn by rank 0 at the opening: two jobs of one group are two sessions.
    pub(super) session: u64,
    /// The number of the call.
    pub(super) call: u64,
    /// How many such calls this session has made, this one included.
    pub(super) step: u64,
    /// The newest generation at the beginning of the call.
    pub(super) generation: u64,
    pub(super) nonce: u64,
    /// How many agreements there were before.
    pub(super) number: u64,
}

impl Stamp {
    pub(super) const BYTES: usize = 6 * 8;

    /// That of the opening.
    pub(super) fn opening() -> Self {
        Stamp { call: Call::Open.number(), ..Stamp::default() }
    }

    /// That of the next call.
    pub(super) fn next(self, call: Call, is_preparing: bool, newest: GenerationId) -> Self {
        let call = call.number() | if is_preparing { PREPARES } else { 0 };
        Stamp { call, step: self.step + 1, generation: newest.number, nonce: newest.nonce, ..self }
    }

    /// That of this rank's farewell.
    pub(super) fn farewell(self) -> Self {
        Stamp { call: Call::Close.number(), ..self }
    }

    pub(super) fn is_farewell(self) -> bool {
        self.call == Call::Close.number()
    }

    pub(super) fn visit(&mut self, layout: &mut impl Layout) {
        self.words_mut().into_iter().for_each(|word| layout.word(word));
    }

    fn words_mut(&mut self) -> [&mut u64; 6] {
        [&mut self.session, &mut self.call, &mut self.step, &mut self.generation, &mut self.nonce, &mut self.number]
    }

    pub(super) fn to_bytes(mut self) -> [u8; Stamp::BYTES] {
        let mut bytes = [0; Stamp::BYTES];
        for (eight, word) in bytes.chunks_exact_mut(8).zip(self.words_mut()) {
            eight.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// The stamp that a message begins with, and the rest.
    pub(super) fn split(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (own, rest) = bytes.split_at_checked(Stamp::BYTES)?;
        let mut stamp = Stamp::default();
        for (eight, word) in own.chunks_exact(8).zip(stamp.words_mut()) {
            *word = u64::from_le_bytes(eight.try_into().ok()?);
        }
        Some((stamp, rest))
    }

    /// Why ranks are not at the same place: each place with its ranks. `all` are by rank.
    pub(super) fn say(all: &[(Stamp, String)]) -> String {
        let mut places: BTreeMap<&(Stamp, String), Vec<u32>> = BTreeMap::new();
        for (rank, place) in (0..).zip(all) {
            places.entry(place).or_default().push(rank);
        }
        let differ = |word: &dyn Fn(&Stamp) -> u64| {
            let mut words = places.keys().map(|(stamp, _)| word(stamp));
            let first = words.next();
            words.any(|word| Some(word) != first)
        };
        let is_of_jobs = differ(&|stamp| stamp.session);
        let is_of_steps = differ(&|stamp| stamp.step);
        let is_of_generations = differ(&|stamp| stamp.generation) || differ(&|stamp| stamp.nonce);
        let is_of_numbers = !is_of_jobs && !is_of_steps && !is_of_generations && !differ(&|stamp| stamp.call);
        let mut said: Vec<(u32, String)> = Vec::new();
        for ((stamp, job), ranks) in &places {
            let verb = if ranks.len() == 1 { "calls" } else { "call" };
            let mut text = format!("{} {verb} {}", ranks_in_words(ranks), name_of(stamp.call));
            if is_of_jobs {
                text += &format!(" of job {job:?}");
            }
            if is_of_steps {
                text += &format!(", call {} since open", stamp.step);
            }
            if is_of_generations {
                text += &format!(", after generation {} ({:016x})", stamp.generation, stamp.nonce);
            }
            if is_of_numbers {
                text += &format!(", message {}", stamp.number);
            }
            said.push((ranks.first().copied().unwrap_or(0), text));
        }
        said.sort();
        said.truncate(PLACES_MAX);
        said.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join("; ")
    }
}

/// The most places that a message names.
const PLACES_MAX: usize = 8;

/// The most stretches of ranks that are named.
const STRETCHES_MAX: usize = 8;

/// Ranks in rising order as stretches, the last one included.
pub fn stretches<'a>(ranks: impl IntoIterator<Item = &'a u32>) -> Vec<(u32, u32)> {
    let mut stretches: Vec<(u32, u32)> = Vec::new();
    for &rank in ranks {
        match stretches.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(rank) => *last = rank,
            _ => stretches.push((rank, rank)),
        }
    }
    stretches
}

/// `rank 3`, `ranks 0, 2-5`; in rising order.
pub fn ranks_in_words(ranks: &[u32]) -> String {
    let stretches = stretches(ranks);
    let said = |&(first, last): &(u32, u32)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    let mut text = stretches.iter().take(STRETCHES_MAX).map(said).collect::<Vec<_>>().join(", ");
    if stretches.len() > STRETCHES_MAX {
        text += " and more";
    }
    format!("{} {text}", if ranks.len() == 1 { "rank" } else { "ranks" })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_call_has_its_own_number_and_name() {
        for (number, (name, call)) in (1..).zip(CALLS) {
            assert_eq!((call.number(), Call::of(name)), (number, Some(call)));
            assert_eq!(name_of(number), name);
            assert!(name_of(number | PREPARES).starts_with(name));
        }
        assert_eq!(Call::Save(Some(Place::Skip)).number(), Call::Save(None).number());
        assert_eq!(Call::of("saev"), None);
        assert!([0, 16, u64::MAX].iter().all(|number| name_of(*number).contains("does not know")));
    }

    #[test]
    fn who_is_where_is_said_with_the_ranks_and_only_with_what_differs() {
        let job = || "job".to_owned();
        let need = Stamp::opening().next(Call::Need, false, GenerationId { number: 4, nonce: 1 });
        let save = Stamp::opening().next(Call::Save(None), false, GenerationId { number: 4, nonce: 1 });
        let said = Stamp::say(&[(need, job()), (save, job()), (need, job()), (need, job())]);
        assert_eq!(said, "ranks 0, 2-3 call need; rank 1 calls save");
        let later = Stamp { step: 9, generation: 5, nonce: 2, ..need };
        let said = Stamp::say(&[(later, job()), (need, job())]);
        let wanted = "rank 0 calls need, call 9 since open, after generation 5 (0000000000000002); rank 1 calls need, call 1 \
                      since open, after generation 4 (0000000000000001)";
        assert_eq!(said, wanted);
        let said = Stamp::say(&[(Stamp { session: 7, ..need }, "a".into()), (need, "b".into())]);
        assert_eq!(said, "rank 0 calls need of job \"a\"; rank 1 calls need of job \"b\"");
        let said = Stamp::say(&[(need, job()), (Stamp { number: 5, ..need }, job())]);
        assert_eq!(said, "rank 0 calls need, message 0; rank 1 calls need, message 5");
        assert_eq!(ranks_in_words(&(0..40).step_by(2).collect::<Vec<_>>()), "ranks 0, 2, 4, 6, 8, 10, 12, 14 and more");
    }

    #[test]
    fn a_stamp_comes_back_from_its_bytes() {
        let stamp = Stamp { session: 1, call: 2, step: 3, generation: 4, nonce: u64::MAX, number: 6 };
        let bytes = [&stamp.to_bytes()[..], b"rest"].concat();
        assert_eq!(Stamp::split(&bytes), Some((stamp, &b"rest"[..])));
        assert_eq!(Stamp::split(&bytes[..Stamp::BYTES - 1]), None);
    }
}
