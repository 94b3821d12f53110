//! The ranks of a job, and the one way in which they tell each other something: an agreement. Each has a message of a fixed
//! length (`message`); all are joined on their way to rank 0 (`tree`), and what rank 0 makes of them goes back to all
//! the same way. For one rank that is five messages sent and five received at most, for however many ranks.
//!
//! Both ways are made of exchanges between two ranks, so that a rank that closes its session can end the wait of its
//! neighbours in the tree by a farewell (`farewell`).
//!
//! A rank that cannot hear another one does not leave the others waiting: it passes that on in its own message, so that all
//! of them are told, each with the same error.
//!
//! Every message says where its rank is (`call`): the call, its number and the newest generation. So ranks that are out
//! of step find out in the first agreement of a call, before anything is written, and each of them is told who is where.

mod call;
mod farewell;
mod gathered;
mod message;
mod settings;
#[cfg(test)]
mod tests;
mod tree;

pub(super) use call::{Call, ranks_in_words, stretches};
pub(super) use gathered::{Gathered, OfDrives, OfNode, flag};
pub(super) use message::{BYTES, Message, OfRoot};
pub(super) use settings::digest;
pub(super) use tree::Tree;

use crate::generation::{GenerationId, MANIFEST_LONG_BYTES_MAX, Manifest};
use crate::{Error, Group};
use call::Stamp;
use message::{FailureKind, Refused};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::cell::{Cell, RefCell};
use tree::Turn;

/// The longest manifest that another rank is believed to have: the text of the longest, and what stands before it.
const TOLD_BYTES_MAX: usize = MANIFEST_LONG_BYTES_MAX + 4096;

/// The ranks of a job, as one of them sees them.
pub(super) struct Ranks {
    group: Box<dyn Group>,
    /// The tree by ranks alone. The first agreement of a call goes by it, because a rank that opens again while others go on knows
    /// no other: by two trees the ranks would wait for each other.
    flat: Tree,
    /// The tree by nodes, as soon as they are known.
    tree: Tree,
    /// Whether the next agreement is the first of a call.
    is_first: Cell<bool>,
    /// Whether the last one went by the tree of ranks alone.
    was_flat: Cell<bool>,
    /// For messages: a group may be that of several jobs.
    job: String,
    /// Where this rank is.
    stamp: Cell<Stamp>,
    /// Why the ranks could not go on together. Nothing is said to them from then on.
    broken: RefCell<Option<String>>,
    /// Why this rank closes its session, where it is known.
    parting: RefCell<Option<String>>,
    /// Who opened the session. A forked child has no part in it.
    process: u32,
}

impl Ranks {
    /// The ranks of a group, before it is known on which nodes they run.
    pub(super) fn new(group: Box<dyn Group>, job: &str) -> Self {
        let tree = Tree::flat(group.size(), group.rank());
        let (stamp, broken, parting) = (Cell::new(Stamp::opening()), RefCell::default(), RefCell::default());
        let (flat, is_first, process) = (tree.clone(), Cell::new(false), std::process::id());
        let was_flat = Cell::new(false);
        Ranks { group, flat, tree, is_first, was_flat, job: job.to_owned(), stamp, broken, parting, process }
    }

    /// Begins a call of all ranks: what they tell each other from now on says that it is of this call.
    ///
    /// # Errors
    /// [`Error::Group`] once the ranks could not go on together.
    pub(super) fn begin(&self, call: Call, is_preparing: bool, newest: GenerationId) -> Result<(), Error> {
        if let Some(why) = &*self.broken.borrow() {
            let why = format!("an earlier call failed, and this session takes none any more: {why}");
            return Err(Error::Group { why });
        }
        self.stamp.set(self.stamp.get().next(call, is_preparing, newest));
        self.is_first.set(true);
        Ok(())
    }

    /// Whether the first agreement of a call goes the same way as all others.
    pub(super) fn are_on_one_node(&self) -> bool {
        self.tree.is_flat()
    }

    /// Says no more to the others but farewell: who failed to reach them may be out of step.
    pub(super) fn end(&self, why: &str) {
        if self.broken.borrow().is_none() {
            self.say_farewell(&format!("rank {} ended its session after an error: {why}", self.rank()));
        }
        self.broken.borrow_mut().get_or_insert_with(|| why.to_owned());
    }

    /// Has the farewell of this rank say why it closes.
    pub(super) fn explain_close(&self, why: &str) {
        *self.parting.borrow_mut() = Some(why.to_owned());
    }

    /// Goes on to the next agreement; returns where this rank is in the one before.
    fn step(&self) -> Stamp {
        let stamp = self.stamp.get();
        self.stamp.replace(Stamp { number: stamp.number + 1, ..stamp })
    }

    /// From now on what is added up on a node is that of the ranks there; `of_ranks` has the number of each rank's node.
    pub(super) fn place(&mut self, of_ranks: &[u32]) {
        self.tree = Tree::new(of_ranks, self.rank());
    }

    #[cfg(test)]
    pub(super) fn take_group(&mut self) -> Box<dyn Group> {
        std::mem::replace(&mut self.group, Box::new(crate::Alone))
    }

    /// This rank, from 0.
    pub(super) fn rank(&self) -> u32 {
        self.group.rank()
    }

    /// How many ranks there are.
    pub(super) fn size(&self) -> u32 {
        self.group.size()
    }

    /// As [`Group::gather_all`]: what every rank says goes to every rank, so only at an opening and a restart.
    pub(super) fn gather_all(&self, own: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        let stamp = self.step();
        let mut all = self.gather_raw(&[&stamp.to_bytes(), own].concat())?;
        for (rank, said) in all.iter_mut().enumerate() {
            match Stamp::split(said) {
                Some((of, rest)) if of == stamp => *said = rest.to_vec(),
                _ => {
                    let why = format!("rank {rank} said something else than rank {} was to hear of it", self.rank());
                    return Err(Error::Group { why });
                }
            }
        }
        Ok(all)
    }

    /// As [`Ranks::gather_all`], of anything that can be written as JSON.
    pub(super) fn gather<T: Serialize + DeserializeOwned>(&self, own: &T) -> Result<Vec<T>, Error> {
        let unreadable = |error: serde_json::Error| Error::Group { why: error.to_string() };
        let text = serde_json::to_vec(own).map_err(unreadable)?;
        self.gather_all(&text)?.iter().map(|text| serde_json::from_slice(text).map_err(unreadable)).collect()
    }

    fn gather_raw(&self, own: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        let all = self.group.gather_all(own)?;
        match all.len() == self.size() as usize {
            true => Ok(all),
            false => Err(Error::Group { why: format!("{} of {} ranks were heard", all.len(), self.size()) }),
        }
    }

    /// As [`Group::exchange`].
    pub(super) fn exchange(&self, to: u32, send: &[u8], from: u32, receive: &mut [u8]) -> Result<(), Error> {
        self.group.exchange(to, send, from, receive)
    }

    /// As [`Group::exchange_buffer`].
    pub(super) fn exchange_buffer(&self, to: u32, send: &[u8], from: u32, receive: Vec<u8>) -> Result<Vec<u8>, Error> {
        self.group.exchange_buffer(to, send, from, receive)
    }

    pub(super) fn is_root(&self) -> bool {
        self.rank() == 0
    }

    /// Joins what all ranks tell; rank 0 adds what it makes of it, and all get that. Whether a rank failed is in it.
    ///
    /// # Errors
    /// [`Error::Group`] on all ranks that can be reached: also where they are in different calls, with who is in which.
    pub(super) fn tell(&self, mut own: Message, decide: impl FnOnce(&mut Message)) -> Result<Message, Error> {
        let stamp = self.step();
        (own.rank, own.size, own.stamp) = (self.rank(), self.size(), stamp);
        let is_first = self.is_first.replace(false);
        self.was_flat.set(is_first);
        let tree = if is_first { &self.flat } else { &self.tree };
        let (mut joined, lost) = self.join(own, tree);
        if self.is_root() {
            decide(&mut joined);
        }
        if self.size() > 1 {
            let (bytes, unsent) = self.pass_down(&joined, &lost, tree);
            let told = Message::from_bytes(&bytes).map_err(|why| Error::Group { why: not_understood(0, &why) })?;
            match told.failure.as_ref().map(|failure| (failure.kind, &failure.why)) {
                Some((FailureKind::OutOfStep, why)) => return Err(self.out_of_step(stamp, why)),
                Some((FailureKind::Broken, why)) => return Err(Error::Group { why: why.clone() }),
                Some((FailureKind::Closed, why)) => return Err(closed(stamp, why)),
                _ => {}
            }
            joined = self.check(told, stamp, 0).map_err(|refused| Error::Group { why: refused.why })?;
            unsent.map_or(Ok(()), Err)?;
        }
        // Rank 0 missed this rank's message, and did not notice.
        lost.unheard.map_or(Ok(joined), Err)
    }

    /// Who is where, when all ranks know that they are at different places; `why` is what the first said that found out.
    fn out_of_step(&self, stamp: Stamp, why: &str) -> Error {
        let own = [&stamp.to_bytes(), self.job.as_bytes()].concat();
        let heard = self.gather_raw(&own).ok().and_then(|all| {
            let place = |said: &Vec<u8>| {
                let (stamp, job) = Stamp::split(said)?;
                Some((stamp, String::from_utf8_lossy(job).into_owned()))
            };
            all.iter().map(place).collect::<Option<Vec<_>>>()
        });
        let who = heard.map_or_else(|| why.to_owned(), |all| Stamp::say(&all));
        Error::Group {
            why: format!(
                "the ranks are out of step: {who}. All ranks make the same calls in the same order. The checkpoints taken before \
                 are as they were; close this session on all ranks and open it again"
            ),
        }
    }

    /// One way up: what this rank and those below it tell, and who does not take part.
    fn join(&self, mut joined: Message, tree: &Tree) -> (Message, Lost) {
        let (rank, mut lost) = (self.rank(), Lost::default());
        let stamp = joined.stamp;
        for round in 0..tree.rounds {
            if round == tree.node_rounds {
                tree.close_node(&mut joined);
            }
            match tree.turn(round) {
                Turn::From(other) => match self.receive(other, stamp) {
                    Ok(bytes) => match self.read(&bytes, stamp, other) {
                        Ok(message) => joined.join(message),
                        Err(refused) => {
                            lost.closed.extend(farewell::is_of(&bytes, stamp.session).then_some(other));
                            joined.refuse(rank, refused);
                        }
                    },
                    Err(error) => joined.break_off(rank, &error),
                },
                Turn::To(other) => lost.unheard = self.send(other, &joined.to_bytes()).err(),
                Turn::Idle => {
                    if let Err(error) = self.exchange_nothing(1) {
                        joined.break_off(rank, &error);
                        lost.unheard = Some(error);
                    }
                }
            }
        }
        if tree.is_flat() {
            tree.close_node(&mut joined);
        }
        (joined, lost)
    }

    /// The way back: the bytes of rank 0 that this rank is told and passes on, or why it is told nothing; and that it could
    /// not pass them on.
    fn pass_down(&self, joined: &Message, lost: &Lost, tree: &Tree) -> ([u8; BYTES], Option<Error>) {
        let (mut bytes, mut unsent) = (joined.to_bytes(), None);
        for round in (0..tree.rounds).rev() {
            let done = match tree.turn(round) {
                Turn::From(below) if lost.closed.contains(&below) => Ok(()),
                Turn::From(below) => self.send(below, &bytes),
                Turn::To(above) => {
                    bytes = self.receive(above, joined.stamp).unwrap_or_else(|error| {
                        let mut failed = Message { size: self.size(), stamp: joined.stamp, ..Message::default() };
                        failed.break_off(self.rank(), &error);
                        failed.to_bytes()
                    });
                    Ok(())
                }
                Turn::Idle => self.exchange_nothing(1),
            };
            unsent = unsent.or(done.err());
        }
        (bytes, unsent)
    }

    /// Waits until the ranks below this one in the tree have heard all that was said. Once a call that may be the program's
    /// last has its result, its process may end, and what it posted before (`send`) is lost with it where a layer such as
    /// gloo sends only what the other rank already waits for. A rank that is gone by then has its result, or will find out
    /// in the next call that this one is.
    pub(super) fn settle(&self) {
        // What is not posted is there when the exchange that sent it returns.
        if self.size() == 1 || self.broken.borrow().is_some() || !self.group.can_post() {
            return;
        }
        let stamp = self.step();
        let own = Message { rank: self.rank(), size: self.size(), stamp, ..Message::default() };
        // The way that the last message came.
        let tree = if self.was_flat.get() { &self.flat } else { &self.tree };
        for round in 0..tree.rounds {
            match tree.turn(round) {
                Turn::From(below) => {
                    if let Ok(bytes) = self.receive(below, stamp)
                        && farewell::is_of(&bytes, stamp.session)
                    {
                        self.keep_farewell(below, bytes);
                    }
                }
                // Who cannot be reached finds out in the next call; the result of this one stands.
                Turn::To(above) => drop(self.send(above, &own.to_bytes())),
                Turn::Idle => drop(self.exchange_nothing(1)),
            }
        }
    }

    /// Sends a message of an agreement, where possible without waiting for the rank that takes it.
    fn send(&self, to: u32, bytes: &[u8; BYTES]) -> Result<(), Error> {
        match self.group.post(to, bytes)? {
            true => Ok(()),
            false => self.group.exchange(to, bytes, to, &mut []),
        }
    }

    fn read(&self, bytes: &[u8; BYTES], stamp: Stamp, from: u32) -> Result<Message, Refused> {
        let message = Message::from_bytes(bytes)
            .map_err(|why| Refused { kind: FailureKind::Broken, why: not_understood(from, &why) })?;
        // What a rank below it found out goes on to rank 0.
        let known = message.failure.as_ref().filter(|failure| failure.kind >= FailureKind::Broken);
        let known = known.map(|failure| Refused { kind: failure.kind, why: failure.why.clone() });
        self.check(message, stamp, from).map_err(|refused| known.unwrap_or(refused))
    }

    /// Refuses what a rank said that sees other ranks than this one, or is elsewhere.
    fn check(&self, message: Message, stamp: Stamp, from: u32) -> Result<Message, Refused> {
        let (rank, size) = (self.rank(), self.size());
        if (message.rank, message.size) != (from, size) {
            let why = format!(
                "what came from rank {from} says that it is rank {} of {}, and rank {rank} counts {size} ranks",
                message.rank, message.size
            );
            return Err(Refused { kind: FailureKind::Broken, why });
        }
        if message.stamp != stamp {
            let two = [(stamp, self.job.clone()), (message.stamp, self.job.clone())];
            let why = format!("ranks {rank} and {from} are not at the same place: {}", Stamp::say(&two));
            return Err(Refused { kind: FailureKind::OutOfStep, why });
        }
        Ok(message)
    }

    /// Takes part in so many exchanges of other ranks.
    pub(super) fn exchange_nothing(&self, count: u32) -> Result<(), Error> {
        (0..count).try_for_each(|_| self.exchange(self.rank(), &[], self.rank(), &mut []))
    }

    /// Sends a manifest, as its bytes, to one rank while it receives one from another; two exchanges. The outer error means
    /// that ranks cannot talk; the inner one, that what came is no manifest.
    pub(super) fn exchange_manifest(&self, to: u32, own: &[u8], from: u32) -> Result<Result<Manifest, Error>, Error> {
        let mut length = [0; 8];
        self.exchange(to, &(own.len() as u64).to_le_bytes(), from, &mut length)?;
        let length = u64::from_le_bytes(length);
        let too_long = || Error::Group { why: format!("rank {from} announced a manifest of {length} bytes") };
        let length = usize::try_from(length).ok().filter(|length| *length <= TOLD_BYTES_MAX).ok_or_else(too_long)?;
        let mut theirs = vec![0; length];
        self.exchange(to, own, from, &mut theirs)?;
        let no_manifest = |why| Error::Option { option: "manifest", why: format!("rank {from} sent none: {why}") };
        Ok(Manifest::from_bytes(&theirs).map_err(no_manifest))
    }

    /// Whether every rank succeeded: then each gets its own result, and what all told; otherwise all get an error, those
    /// that succeeded the first one of another rank.
    pub(super) fn agree<T>(&self, own: Result<T, Error>, numbers: Message) -> Result<(T, Message), Error> {
        let mut message = numbers;
        if let Err(error) = &own {
            message.fail(self.rank(), &error.reason());
        }
        let told = self.tell(message, |_| ())?;
        let value = own?;
        told.expect_all().map(|told| (value, told))
    }

    /// As [`Ranks::agree`], with nothing else to tell.
    pub(super) fn all_or_none<T>(&self, own: Result<T, Error>) -> Result<T, Error> {
        self.agree(own, Message::default()).map(|(value, _)| value)
    }

    /// Tells all ranks at what this one failed, in words, if it did.
    ///
    /// # Errors
    /// On all ranks, with the first that failed.
    pub(super) fn tell_failure(&self, failure: Option<&str>) -> Result<(), Error> {
        let mut message = Message::default();
        if let Some(why) = failure {
            message.fail(self.rank(), why);
        }
        self.tell(message, |_| ())?.expect_all().map(drop)
    }

    /// As [`Ranks::all_or_none`], and the largest number of all ranks.
    pub(super) fn all_and_most<T>(&self, own: Result<T, Error>, number: u64) -> Result<(T, u64), Error> {
        let (value, told) = self.agree(own, Message { mosts: [number, 0], ..Message::default() })?;
        Ok((value, told.mosts[0]))
    }

    /// The largest number of all ranks.
    pub(super) fn most(&self, own: u64) -> Result<u64, Error> {
        self.most_of_each([own, 0]).map(|[most, _]| most)
    }

    /// The largest of each of two numbers of all ranks.
    pub(super) fn most_of_each(&self, own: [u64; 2]) -> Result<[u64; 2], Error> {
        self.tell(Message { mosts: own, ..Message::default() }, |_| ()).map(|told| told.mosts)
    }

    /// The sum of all ranks' numbers.
    pub(super) fn sum(&self, own: u64) -> Result<u64, Error> {
        self.tell(Message { sums: [own, 0], ..Message::default() }, |_| ()).map(|told| told.sums[0])
    }

    /// Rank 0's number.
    pub(super) fn of_root(&self, own: u64) -> Result<u64, Error> {
        let told = self.tell(Message::default(), |all| all.of_root.realtime_ns = own)?;
        Ok(told.of_root.realtime_ns)
    }
}

impl Tree {
    fn close_node(&self, joined: &mut Message) {
        if self.is_first_of_node() {
            joined.gathered.close_node();
        }
    }
}

/// Takes apart that ranks cannot talk, which ends a call, and that something failed, of which all ranks know.
///
/// # Errors
/// [`Error::Group`].
pub(super) fn told_on_all<T>(outcome: Result<T, Error>) -> Result<Result<T, Error>, Error> {
    match outcome {
        Err(Error::Group { why }) => Err(Error::Group { why }),
        outcome => Ok(outcome),
    }
}

/// Who does not take part in an agreement, as one rank sees it.
#[derive(Default)]
struct Lost {
    /// The ranks below it that said farewell: they are sent nothing any more.
    closed: Vec<u32>,
    /// Why the rank above it did not hear it.
    unheard: Option<Error>,
}

fn closed(stamp: Stamp, why: &str) -> Error {
    Error::Group {
        why: format!(
            "{why}, and this rank calls {}, which all ranks must make. The checkpoints taken before are as they were; close this \
             session on all ranks and open it again, and close it only after the last call of all ranks",
            call::name_of(stamp.call)
        ),
    }
}

impl Message {
    /// The first rank that failed, and why.
    pub(super) fn first_failure(&self) -> Option<(u32, &str)> {
        self.failure.as_ref().map(|failure| (failure.rank, failure.why.as_str()))
    }

    /// Refuses what a rank could not do.
    ///
    /// # Errors
    /// [`Error::OtherRank`].
    pub(super) fn expect_all(self) -> Result<Message, Error> {
        match self.failure {
            Some(failure) => Err(Error::OtherRank { rank: failure.rank, why: failure.why }),
            None => Ok(self),
        }
    }
}

fn not_understood(rank: u32, why: &str) -> String {
    format!("rank {rank} is not understood: {why}")
}
