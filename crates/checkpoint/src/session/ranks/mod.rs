//! The ranks of a job, and the one way in which they tell each other something: an agreement. Each has a message of a fixed
//! length (`message`); all are joined on their way to rank 0 (`tree`), and what rank 0 makes of them goes to all in one
//! broadcast. For one rank that is one message sent and four received, and a share of the broadcast, for however many ranks.
//!
//! The way up is made of the exchanges that a [`Group`] has anyway: a program that describes its group with three functions, as
//! the headers for MPI do, needs no fourth, and one that was built with an earlier release goes on working.
//!
//! A rank that cannot hear another one does not leave the others waiting: it passes that on in its own message, so that all
//! of them are told, each with the same error.

mod gathered;
mod message;
#[cfg(test)]
mod tests;
mod tree;

pub(super) use gathered::{Gathered, OfDrives, OfNode, flag};
pub(super) use message::{BYTES, Message, OfRoot};
pub(super) use tree::Tree;

use crate::generation::{MANIFEST_LONG_BYTES_MAX, Manifest};
use crate::session::nodes::Nodes;
use crate::{Error, Group};
use std::cell::Cell;
use tree::Turn;

/// The longest manifest that another rank is believed to have: the text of the longest, and what stands before it.
const TOLD_BYTES_MAX: usize = MANIFEST_LONG_BYTES_MAX + 4096;

/// The ranks of a job, as one of them sees them.
pub(super) struct Ranks {
    group: Box<dyn Group>,
    tree: Tree,
    /// Agreements so far. Ranks that are in different ones notice it.
    count: Cell<u64>,
}

impl Ranks {
    /// The ranks of a group, before it is known on which nodes they run.
    pub(super) fn new(group: Box<dyn Group>) -> Self {
        let tree = Tree::flat(group.size(), group.rank());
        Ranks { group, tree, count: Cell::new(0) }
    }

    /// From now on what is added up on a node is that of the ranks there.
    pub(super) fn place(&mut self, nodes: &Nodes) {
        self.tree = Tree::new(nodes.of_ranks(), self.rank());
    }

    #[cfg(test)]
    pub(super) fn into_group(self) -> Box<dyn Group> {
        self.group
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
        self.group.gather_all(own)
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
    /// [`Error::Group`] on all ranks that can be reached.
    pub(super) fn tell(&self, mut own: Message, decide: impl FnOnce(&mut Message)) -> Result<Message, Error> {
        own.number = self.count.replace(self.count.get() + 1);
        let (mut joined, lost) = self.join(own);
        if self.is_root() {
            decide(&mut joined);
        }
        if self.size() > 1 {
            let number = joined.number;
            let mut bytes = joined.to_bytes();
            self.group.broadcast(&mut bytes, 0)?;
            joined = self.read(&bytes, number, 0).map_err(|why| Error::Group { why })?;
        }
        match (joined.failure.as_ref().filter(|failure| failure.is_broken), lost) {
            (Some(failure), _) => Err(Error::Group { why: failure.why.clone() }),
            // Rank 0 missed this rank's message, and did not notice.
            (None, Some(error)) => Err(error),
            (None, None) => Ok(joined),
        }
    }

    /// One way up: what this rank and those below it tell, and why it could not pass that on.
    fn join(&self, mut joined: Message) -> (Message, Option<Error>) {
        let (rank, mut lost) = (self.rank(), None);
        let number = joined.number;
        for round in 0..self.tree.rounds {
            if round == self.tree.node_rounds {
                self.close_node(&mut joined);
            }
            match self.tree.turn(round) {
                Turn::From(other) => {
                    let mut bytes = [0; BYTES];
                    let heard = self.group.exchange(other, &[], other, &mut bytes);
                    let heard =
                        heard.and_then(|()| self.read(&bytes, number, other).map_err(|why| Error::Group { why }));
                    match heard {
                        Ok(message) => joined.join(message),
                        Err(error) => joined.break_off(rank, &error),
                    }
                }
                Turn::To(other) => {
                    lost = self.group.exchange(other, &joined.to_bytes(), other, &mut []).err();
                }
                Turn::Idle => {
                    if let Err(error) = self.group.exchange(rank, &[], rank, &mut []) {
                        joined.break_off(rank, &error);
                        lost = Some(error);
                    }
                }
            }
        }
        if self.tree.rounds == self.tree.node_rounds {
            self.close_node(&mut joined);
        }
        (joined, lost)
    }

    fn close_node(&self, joined: &mut Message) {
        if self.tree.is_first_of_node() {
            joined.gathered.close_node();
        }
    }

    fn read(&self, bytes: &[u8; BYTES], number: u64, from: u32) -> Result<Message, String> {
        let message = Message::from_bytes(bytes).map_err(|why| format!("rank {from} is not understood: {why}"))?;
        if message.number != number {
            return Err(format!(
                "rank {from} is in its agreement {}, and rank {} in its {number}: all ranks make the same calls in the same \
                 order",
                message.number,
                self.rank()
            ));
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
            message.fail(self.rank(), &error.reason(), false);
        }
        let told = self.tell(message, |_| ())?;
        let value = own?;
        told.expect_all().map(|told| (value, told))
    }

    /// As [`Ranks::agree`], with nothing else to tell.
    pub(super) fn all_or_none<T>(&self, own: Result<T, Error>) -> Result<T, Error> {
        self.agree(own, Message::default()).map(|(value, _)| value)
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
