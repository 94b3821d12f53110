//! Ranks read each other's parts: each says what it wants, and who proved a part gives of it, in bounded pieces.

use crate::image::{Healer, PAGE_BYTES};
use crate::session::ranks::Ranks;
use crate::session::tiers::Reached;
use crate::{Error, StoredFile};
use std::collections::BTreeMap;

/// Bytes that go between two ranks at once.
pub const PIECE_BYTES: u64 = 16 << 20;

/// Wishes of one rank that are told at once.
const WISHES_AT_ONCE: usize = 4096;

/// A stretch of an old rank's payload that this rank wants.
#[derive(Debug, Clone, Copy)]
pub struct Wish {
    pub part: u32,
    pub offset: u64,
    pub bytes: u64,
    /// Where it goes: room for that many bytes.
    pub into: *mut u8,
}

/// A wish as others hear of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Heard {
    part: u32,
    offset: u64,
    bytes: u64,
}

impl Heard {
    const BYTES: usize = 20;

    fn to_bytes(self) -> [u8; Heard::BYTES] {
        let mut bytes = [0; Heard::BYTES];
        bytes[..4].copy_from_slice(&self.part.to_le_bytes());
        bytes[4..12].copy_from_slice(&self.offset.to_le_bytes());
        bytes[12..].copy_from_slice(&self.bytes.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (part, rest) = bytes.split_first_chunk()?;
        let (offset, rest) = rest.split_first_chunk()?;
        let length = <[u8; 8]>::try_from(rest).ok()?;
        Some(Heard {
            part: u32::from_le_bytes(*part),
            offset: u64::from_le_bytes(*offset),
            bytes: u64::from_le_bytes(length),
        })
    }
}

/// Gets what every rank wishes. `servers` says for each part which rank gives of it, and `mine` has the parts that this
/// rank gives. Wishes lie within their parts.
///
/// # Errors
/// On all ranks when a part can no longer be read; the rooms then hold nothing useful. [`Error::Group`].
pub fn fetch(group: &Ranks, servers: &[u32], mine: &BTreeMap<u32, Reached>, wishes: &[Wish]) -> Result<(), Error> {
    let batches = group.most(wishes.len().div_ceil(WISHES_AT_ONCE) as u64)? as usize;
    for batch in 0..batches {
        let range = |length: usize| (batch * WISHES_AT_ONCE).min(length)..((batch + 1) * WISHES_AT_ONCE).min(length);
        let got = fetch_some(group, servers, mine, &wishes[range(wishes.len())])?;
        group.all_or_none(got)?;
    }
    Ok(())
}

/// The outer error means that ranks cannot talk; the inner one that a part cannot be read here.
fn fetch_some(
    group: &Ranks,
    servers: &[u32],
    mine: &BTreeMap<u32, Reached>,
    wishes: &[Wish],
) -> Result<Result<(), Error>, Error> {
    let heard = hear(group, wishes)?;
    let served = |asker: u32, server: u32| -> Vec<Heard> {
        let of = |wish: &&Heard| servers.get(wish.part as usize) == Some(&server);
        let mut served: Vec<Heard> = heard[asker as usize].iter().filter(of).copied().collect();
        // Part by part, so that each is opened once; a stable order, which both sides know.
        served.sort_by_key(|wish| wish.part);
        served
    };
    let mut giver = Giver { mine, files: BTreeMap::new(), failed: None };
    let (own, size) = (group.rank(), group.size());
    for distance in 0..size {
        let (to, from) = ((own + distance) % size, (own + size - distance) % size);
        let (to_give, to_get) = (served(to, own), served(own, from));
        let mut rooms: Vec<&Wish> =
            wishes.iter().filter(|wish| servers.get(wish.part as usize) == Some(&from)).collect();
        rooms.sort_by_key(|wish| wish.part);
        let (giving, getting) = (length(&to_give), length(&to_get));
        let longest = group.most(giving.max(getting))?;
        let (mut sent, mut received) = (Vec::new(), Vec::new());
        let mut at = 0;
        while at < longest {
            let piece = |bytes: u64| (bytes.saturating_sub(at)).min(PIECE_BYTES) as usize;
            sent.resize(piece(giving), 0);
            received.resize(piece(getting), 0);
            giver.give(&to_give, at, &mut sent);
            if distance == 0 {
                received.copy_from_slice(&sent);
            } else {
                group.exchange(to, &sent, from, &mut received)?;
            }
            put(&rooms, at, &received);
            at += PIECE_BYTES;
        }
    }
    Ok(giver.failed.map_or(Ok(()), |why| Err(Error::NothingIntact { why })))
}

/// What every rank wishes.
fn hear(group: &Ranks, wishes: &[Wish]) -> Result<Vec<Vec<Heard>>, Error> {
    let told: Vec<u8> = wishes
        .iter()
        .flat_map(|wish| Heard { part: wish.part, offset: wish.offset, bytes: wish.bytes }.to_bytes())
        .collect();
    let all = group.gather_all(&told)?;
    let unreadable = || Error::Group { why: "a rank said what it wants in a way that cannot be read".into() };
    let read = |told: &Vec<u8>| told.chunks(Heard::BYTES).map(Heard::from_bytes).collect::<Option<Vec<Heard>>>();
    all.iter().map(|told| read(told).ok_or_else(unreadable)).collect()
}

fn length(wishes: &[Heard]) -> u64 {
    wishes.iter().fold(0, |sum, wish| sum.saturating_add(wish.bytes))
}

/// Reads the parts that this rank gives of; one is open at a time.
struct Giver<'a> {
    mine: &'a BTreeMap<u32, Reached>,
    files: BTreeMap<u32, Box<dyn StoredFile>>,
    failed: Option<String>,
}

impl Giver<'_> {
    /// Fills a piece of what one rank gets, from `at` on. Where a part cannot be read, zeros go, and the failure is kept.
    fn give(&mut self, wishes: &[Heard], at: u64, piece: &mut [u8]) {
        let end = at + piece.len() as u64;
        let mut start = 0;
        let mut stretches: BTreeMap<u32, Vec<(u64, u64, usize)>> = BTreeMap::new();
        for wish in wishes {
            let (from, to) = (at.max(start), end.min(start.saturating_add(wish.bytes)));
            if from < to {
                let stretch = (wish.offset + (from - start), to - from, (from - at) as usize);
                stretches.entry(wish.part).or_default().push(stretch);
            }
            start = start.saturating_add(wish.bytes);
        }
        for (part, stretches) in stretches {
            if let Err(why) = self.give_of(part, &stretches, piece) {
                piece.fill(0);
                self.failed.get_or_insert(format!("rank {part}'s part: {why}"));
            }
        }
    }

    fn give_of(&mut self, part: u32, stretches: &[(u64, u64, usize)], piece: &mut [u8]) -> Result<(), String> {
        let reached = self.mine.get(&part).ok_or("it is not here")?;
        if !self.files.contains_key(&part) {
            self.files.clear();
            self.files.insert(part, reached.open().map_err(|error| error.to_string())?);
        }
        let file = self.files.get(&part).ok_or("it is not open")?;
        if reached.is_raw {
            for &(offset, bytes, into) in stretches {
                read_raw(&**file, &mut piece[into..into + bytes as usize], offset);
            }
            return Ok(());
        }
        let geometry = reached.manifest.geometry().map_err(|error| error.to_string())?;
        let digest = reached.manifest.table_crc32c;
        let mut healer = Healer::open(geometry, &**file, digest).map_err(|lost| lost.to_string())?;
        for &(offset, bytes, into) in stretches {
            let room = &mut piece[into..into + bytes as usize];
            let put = &mut |at: u64, some: &[u8]| room[(at - offset) as usize..][..some.len()].copy_from_slice(some);
            healer.read_range(offset..offset + bytes, put).map_err(|lost| lost.to_string())?;
        }
        Ok(())
    }
}

/// Reads a file as it is, and zeros for pages that cannot be read: to the code over it they are bad pages.
fn read_raw(file: &dyn StoredFile, room: &mut [u8], offset: u64) {
    if file.read_at(room, offset).is_ok() {
        return;
    }
    for (number, page) in room.chunks_mut(PAGE_BYTES).enumerate() {
        if file.read_at(page, offset + (number * PAGE_BYTES) as u64).is_err() {
            page.fill(0);
        }
    }
}

/// Puts a piece of what this rank gets from one other, which begins at `at`, into its rooms.
fn put(wishes: &[&Wish], at: u64, piece: &[u8]) {
    let end = at + piece.len() as u64;
    let mut start = 0;
    for wish in wishes {
        let (from, to) = (at.max(start), end.min(start.saturating_add(wish.bytes)));
        if from < to {
            let bytes = &piece[(from - at) as usize..(to - at) as usize];
            // SAFETY: a wish's room is as long as the wish, and is nobody else's during the call; the piece is a buffer
            // of our own, so the two do not overlap.
            unsafe {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), wish.into.add((from - start) as usize), bytes.len());
            }
        }
        start = start.saturating_add(wish.bytes);
    }
}
