//! How the ranks of one job talk; a layer above, such as MPI, fills it in.

mod threads;

pub use threads::{ThreadGroup, Traffic, thread_group};

use crate::Error;

/// The ranks of one job. Every call is collective: all ranks make the same calls in the same order. How long one waits for a rank
/// that makes none is the group's to decide, and what it returns then is [`Error::Group`].
pub trait Group: Send {
    /// This rank, from 0.
    fn rank(&self) -> u32;

    /// How many ranks there are, at least 1.
    fn size(&self) -> u32;

    /// Gives the root's bytes to every rank; all pass a buffer of the same length.
    ///
    /// # Errors
    /// [`Error::Group`] when a rank does not take part.
    fn broadcast(&self, bytes: &mut [u8], root: u32) -> Result<(), Error>;

    /// Gives every rank what each rank passes, in the order of the ranks; lengths may differ.
    ///
    /// # Errors
    /// [`Error::Group`] when a rank does not take part.
    fn gather_all(&self, own: &[u8]) -> Result<Vec<Vec<u8>>, Error>;

    /// Sends bytes to one rank while it receives as many as its buffer holds from another: every rank sends once and
    /// receives once, and the two lengths of a pair are equal. A length of 0 needs no message: a rank that has nothing to
    /// say in an exchange of others names itself, with nothing to send and to receive.
    ///
    /// # Errors
    /// [`Error::Group`] when a rank does not take part, or lengths differ.
    fn exchange(&self, to: u32, send: &[u8], from: u32, receive: &mut [u8]) -> Result<(), Error>;

    /// Sends bytes to one rank without waiting for it: that rank takes them with the exchange in which it next receives
    /// from this one. A rank that closes its session says so by this to the ranks that may be waiting for it.
    ///
    /// The default sends nothing and returns false, which fits a layer whose exchanges all ranks make in step: there, ranks that
    /// wait for a closed one are not told.
    ///
    /// # Errors
    /// [`Error::Group`] when the message cannot be sent.
    fn post(&self, _to: u32, _bytes: &[u8]) -> Result<bool, Error> {
        Ok(false)
    }

    /// Whether [`Group::post`] sends; the same on all ranks.
    fn can_post(&self) -> bool {
        false
    }

    /// As [`Group::exchange`], where it does not matter in which buffer it comes: what is received has the length of
    /// `receive`, and is that buffer or another one. A layer that has the bytes in a buffer of its own saves a copy.
    ///
    /// # Errors
    /// As [`Group::exchange`].
    fn exchange_buffer(&self, to: u32, send: &[u8], from: u32, mut receive: Vec<u8>) -> Result<Vec<u8>, Error> {
        self.exchange(to, send, from, &mut receive)?;
        Ok(receive)
    }
}

/// A job of one rank.
#[derive(Debug, Clone, Copy, Default)]
pub struct Alone;

impl Group for Alone {
    fn rank(&self) -> u32 {
        0
    }

    fn size(&self) -> u32 {
        1
    }

    fn broadcast(&self, _: &mut [u8], _: u32) -> Result<(), Error> {
        Ok(())
    }

    fn gather_all(&self, own: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        Ok(vec![own.to_vec()])
    }

    fn exchange(&self, _: u32, send: &[u8], _: u32, receive: &mut [u8]) -> Result<(), Error> {
        if send.len() != receive.len() {
            return Err(Error::Group { why: format!("{} bytes sent, {} expected", send.len(), receive.len()) });
        }
        receive.copy_from_slice(send);
        Ok(())
    }
}
