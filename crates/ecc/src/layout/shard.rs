//! Pages and larger pieces: a symbol of every codeword per shard.
//!
//! Software cannot place bits on chips, but it knows which page, line or device it lost. So a stripe of data is cut into
//! as many shards as the code has data symbols, of a page or more each, and byte x of all shards is codeword x: whatever
//! happens to one shard is one wrong symbol per codeword, and a shard that is known to be lost is one erasure.
//!
//! ```text
//! data      [stripe][shard 0..k][byte 0..shard_bytes]
//! parity    [stripe][shard k..n][byte 0..shard_bytes]      numbered on from the data shards
//!
//! codeword  (stripe, byte x): symbol i is byte x of shard i
//! ```
//!
//! With RS(19,16) and shards of 4 KiB a stripe is 64 KiB of data and 12 KiB of parity, survives three lost pages that are
//! known, and corrects one that is not. Stripes are handled one after the other, so that data which was just copied is
//! still in the cache when its parity is computed.

use crate::{Batch, Check, Code, Error, Mode, Report};

/// A code over stripes of shards.
///
/// ```
/// use surefoot_ecc::layout::shard::Stripes;
/// use surefoot_ecc::{Code, Mode};
/// let stripes = Stripes::new(Code::Rs19_16, 4096)?;
/// let mut data = vec![7u8; 2 * stripes.data_bytes()];
/// let mut parity = vec![0u8; 2 * stripes.parity_bytes()];
/// stripes.encode(&data, &mut parity)?;
/// data[65536..65536 + 8192].fill(0); // The first two pages of stripe 1 are lost.
/// let report = stripes.repair(&mut data, &mut parity, 1, &[0, 1], Mode::Detect)?;
/// assert_eq!((report.clean, report.detected), (4096, 0));
/// assert!(data.iter().all(|byte| *byte == 7));
/// # Ok::<(), surefoot_ecc::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stripes {
    batch: Batch,
    shard_bytes: usize,
}

impl Stripes {
    /// On the fastest path that this processor has.
    ///
    /// # Errors
    /// A shard has no bytes, or a stripe more than can be addressed.
    pub fn new(code: Code, shard_bytes: usize) -> Result<Stripes, Error> {
        Stripes::with_batch(Batch::new(code), shard_bytes)
    }

    /// With a batch of the caller's choice.
    ///
    /// # Errors
    /// As for [`Stripes::new`].
    pub fn with_batch(batch: Batch, shard_bytes: usize) -> Result<Stripes, Error> {
        let limit = isize::MAX as usize / batch.code().n();
        if shard_bytes == 0 {
            return Err(Error::EmptyShards);
        }
        if shard_bytes > limit {
            return Err(Error::ShardTooLong { code: batch.code(), limit, given: shard_bytes });
        }
        Ok(Stripes { batch, shard_bytes })
    }

    /// Bytes of a shard.
    pub const fn shard_bytes(self) -> usize {
        self.shard_bytes
    }

    /// Data bytes of a stripe: k shards.
    pub const fn data_bytes(self) -> usize {
        self.batch.code().k() * self.shard_bytes
    }

    /// Parity bytes of a stripe: n - k shards.
    pub const fn parity_bytes(self) -> usize {
        self.batch.code().parity() * self.shard_bytes
    }

    /// Computes the parity of whole stripes.
    ///
    /// # Errors
    /// The data is no stripe or a part of one (pad it with zeros), or the parity is not as long as its stripes need.
    pub fn encode(self, data: &[u8], parity: &mut [u8]) -> Result<(), Error> {
        self.expect_lengths(data.len(), parity.len())?;
        for (data, parity) in data.chunks_exact(self.data_bytes()).zip(parity.chunks_exact_mut(self.parity_bytes())) {
            let (data, count) = self.shards(data.chunks_exact(self.shard_bytes));
            let (mut parity, parity_count) = self.shards(parity.chunks_exact_mut(self.shard_bytes));
            self.batch.encode(&data[..count], &mut parity[..parity_count])?;
        }
        Ok(())
    }

    /// Checks whole stripes with the first two syndromes. Columns are counted on from stripe to stripe: the first one of
    /// stripe s is s · shard_bytes.
    ///
    /// # Errors
    /// As for [`Stripes::encode`].
    pub fn check(self, data: &[u8], parity: &[u8]) -> Result<Check, Error> {
        self.expect_lengths(data.len(), parity.len())?;
        let stripes = data.chunks_exact(self.data_bytes()).zip(parity.chunks_exact(self.parity_bytes()));
        for (stripe, (data, parity)) in stripes.enumerate() {
            let both = data.chunks_exact(self.shard_bytes).chain(parity.chunks_exact(self.shard_bytes));
            let (shards, count) = self.shards(both);
            if let Check::Dirty { first_column } = self.batch.check(&shards[..count])? {
                return Ok(Check::Dirty { first_column: stripe * self.shard_bytes + first_column });
            }
        }
        Ok(Check::Clean)
    }

    /// Corrects whole stripes, each codeword for itself. Columns are counted as in [`Stripes::check`].
    ///
    /// # Errors
    /// As for [`Stripes::encode`]; or the code cannot correct that many errors.
    pub fn correct(self, data: &mut [u8], parity: &mut [u8], mode: Mode) -> Result<Report, Error> {
        self.expect_lengths(data.len(), parity.len())?;
        let mut report = Report::default();
        let stripes = data.chunks_exact_mut(self.data_bytes()).zip(parity.chunks_exact_mut(self.parity_bytes()));
        for (data, parity) in stripes {
            report.add(self.repair_stripe(data, parity, &[], mode)?, report.columns());
        }
        Ok(report)
    }

    /// Fills in the erased shards of one stripe, and corrects errors in its other shards as the mode says. Data shards
    /// are numbered from 0, parity shards on from there; columns are those of the stripe.
    ///
    /// # Errors
    /// As for [`Stripes::encode`]; there is no such stripe; an erasure is outside the code, named twice, or one too
    /// many; or the mode and the erasures together are beyond the distance.
    pub fn repair(
        self,
        data: &mut [u8],
        parity: &mut [u8],
        stripe: usize,
        erasures: &[usize],
        mode: Mode,
    ) -> Result<Report, Error> {
        self.expect_lengths(data.len(), parity.len())?;
        let stripes = data.len() / self.data_bytes();
        let mut pairs = data.chunks_exact_mut(self.data_bytes()).zip(parity.chunks_exact_mut(self.parity_bytes()));
        let (data, parity) = pairs.nth(stripe).ok_or(Error::StripeOutside { stripe, last: stripes - 1 })?;
        self.repair_stripe(data, parity, erasures, mode)
    }

    fn repair_stripe(
        self,
        data: &mut [u8],
        parity: &mut [u8],
        erasures: &[usize],
        mode: Mode,
    ) -> Result<Report, Error> {
        let both = data.chunks_exact_mut(self.shard_bytes).chain(parity.chunks_exact_mut(self.shard_bytes));
        let (mut shards, count) = self.shards(both);
        self.batch.repair(&mut shards[..count], erasures, mode)
    }

    /// The shards in an array, and how many they are.
    fn shards<S: Default>(self, shards: impl Iterator<Item = S>) -> ([S; crate::SYMBOLS_MAX], usize) {
        let mut list = std::array::from_fn(|_| S::default());
        let mut count = 0;
        for (place, shard) in list.iter_mut().zip(shards) {
            *place = shard;
            count += 1;
        }
        (list, count)
    }

    fn expect_lengths(self, data: usize, parity: usize) -> Result<(), Error> {
        if data == 0 || !data.is_multiple_of(self.data_bytes()) {
            return Err(Error::NotWhole { what: "stripes", unit_bytes: self.data_bytes(), given: data });
        }
        let wanted = data / self.data_bytes() * self.parity_bytes();
        if parity != wanted {
            return Err(Error::WrongBytes { what: "bytes of parity", wanted, given: parity });
        }
        Ok(())
    }
}
