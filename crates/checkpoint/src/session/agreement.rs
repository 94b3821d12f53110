//! Small agreements between ranks.

use crate::controller::{Decision, Place};
use crate::{Error, Group};

/// The most bytes of an error's text that other ranks see.
const TEXT_BYTES_MAX: usize = 400;

/// Whether every rank succeeded: then each gets its own result; otherwise all get an error, those that succeeded the
/// first one of another rank.
pub(super) fn all_or_none<T>(group: &dyn Group, own: Result<T, Error>) -> Result<T, Error> {
    let text: String =
        own.as_ref().err().map(|error| error.to_string().chars().take(TEXT_BYTES_MAX).collect()).unwrap_or_default();
    let mut message = vec![u8::from(own.is_ok())];
    message.extend(text.as_bytes());
    let all = group.gather_all(&message)?;
    let failed = all.iter().position(|message| message.first() != Some(&1));
    match (own, failed) {
        (Err(error), _) => Err(error),
        (Ok(value), None) => Ok(value),
        (Ok(_), Some(rank)) => {
            let why = String::from_utf8_lossy(all[rank].get(1..).unwrap_or_default()).into_owned();
            Err(Error::OtherRank { rank: rank as u32, why })
        }
    }
}

/// Rank 0's place is everybody's.
pub(super) fn on_place(group: &dyn Group, own: Decision) -> Result<Decision, Error> {
    const PLACES: [Place; 4] = [Place::Skip, Place::Memory, Place::Both, Place::Durable];
    let number = PLACES.iter().position(|place| *place == own.place).unwrap_or(0);
    let number = of_root(group, number as u64)? as usize;
    let place = PLACES.get(number).copied();
    let place = place.ok_or_else(|| Error::Group { why: format!("rank 0 named the place {number}") })?;
    Ok(Decision { place, ..own })
}

/// A number that goes between ranks.
pub(super) trait Word: Copy {
    /// Its bytes.
    fn to_word(self) -> u64;
    /// From its bytes.
    fn from_word(word: u64) -> Self;
}

impl Word for u64 {
    fn to_word(self) -> u64 {
        self
    }

    fn from_word(word: u64) -> Self {
        word
    }
}

impl Word for f64 {
    fn to_word(self) -> u64 {
        self.to_bits()
    }

    fn from_word(word: u64) -> Self {
        f64::from_bits(word)
    }
}

/// Rank 0's number.
pub(super) fn of_root<T: Word>(group: &dyn Group, own: T) -> Result<T, Error> {
    let mut bytes = own.to_word().to_le_bytes();
    group.broadcast(&mut bytes, 0)?;
    Ok(T::from_word(u64::from_le_bytes(bytes)))
}

/// The largest number of all ranks.
pub(super) fn most(group: &dyn Group, own: u64) -> Result<u64, Error> {
    Ok(numbers(group, own)?.into_iter().max().unwrap_or(own))
}

/// The sum of all ranks' numbers.
pub(super) fn sum(group: &dyn Group, own: u64) -> Result<u64, Error> {
    Ok(numbers(group, own)?.into_iter().fold(0, u64::saturating_add))
}

fn numbers(group: &dyn Group, own: u64) -> Result<Vec<u64>, Error> {
    let all = group.gather_all(&own.to_le_bytes())?;
    all.iter()
        .map(|bytes| {
            let bytes: [u8; 8] =
                bytes.as_slice().try_into().map_err(|_| Error::Group { why: "a rank sent no number".into() })?;
            Ok(u64::from_le_bytes(bytes))
        })
        .collect()
}
