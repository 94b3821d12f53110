//! What unwinding needs of an ELF file: where its segments lie, and the table of its frames.
//!
//! The file is the watched process's, so nothing in it is believed: every offset is checked, every size has a limit,
//! and what does not fit makes an error of this file alone.

use crate::who::names::Readable;

/// The largest table of frames that is read, and the largest index to it, bytes. Browsers have some 20 MiB and 4. Both are in
/// the memory of the watch, and any user may bring a file with tables of this size.
const FRAMES_BYTES_MAX: u64 = 32 << 20;
const INDEX_BYTES_MAX: u64 = 8 << 20;

/// Program headers and section headers that are looked at.
const HEADERS_MAX: u16 = 4096;

const HEADER_BYTES: usize = 64;
const PROGRAM_HEADER_BYTES: usize = 56;
const SECTION_HEADER_BYTES: usize = 64;
const LOAD: u32 = 1;
const EXECUTABLE: u32 = 1;
const FRAME_INDEX: u32 = 0x6474_E550;
const X86_64: u16 = 62;

/// The encodings that linkers use for the index: pointer relative to its place, count of 32 bits, entries relative to
/// the index.
const INDEX_ENCODING: [u8; 4] = [1, 0x1B, 0x03, 0x3B];
const INDEX_HEADER_BYTES: usize = 12;
const INDEX_ENTRY_BYTES: usize = 8;

/// Why a file cannot be unwound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    /// It cannot be opened or read, or is no plain file any more.
    #[error("the file cannot be read")]
    Unreadable,
    /// It is none, or of another machine.
    #[error("the file is no ELF file of this machine")]
    NotElf,
    /// It has no table of frames that could be searched.
    #[error("the file has no table of frames")]
    NoTable,
    /// A size or an offset points outside of it, or beyond a limit.
    #[error("the file contradicts itself")]
    Malformed,
}

/// A segment that is mapped.
#[derive(Debug, Clone, Copy)]
struct Segment {
    address: u64,
    offset: u64,
    file_bytes: u64,
    is_executable: bool,
}

/// What unwinding needs of a file. Addresses are those of the file, before it is moved to where it is mapped.
#[derive(Debug, Clone)]
pub(crate) struct Image {
    segments: Vec<Segment>,
    /// Pairs of function start and frame description, relative to the index, ascending.
    index: Vec<u8>,
    index_address: u64,
    /// `.eh_frame`.
    pub(crate) frames: Vec<u8>,
    pub(crate) frames_address: u64,
}

impl Image {
    /// Reads a file's segments and its table of frames.
    pub(crate) fn read(file: &mut impl Readable) -> Result<Image, Fault> {
        let header = bytes_at(file, 0, HEADER_BYTES as u64).map_err(|_| Fault::NotElf)?;
        if !header.starts_with(b"\x7fELF\x02\x01") || u16_at(&header, 18) != Some(X86_64) {
            return Err(Fault::NotElf);
        }
        let programs =
            headers(file, (u64_at(&header, 32), u16_at(&header, 54), u16_at(&header, 56)), PROGRAM_HEADER_BYTES)?;
        let mut segments = Vec::new();
        let mut index_segment = None;
        for program in programs.chunks_exact(PROGRAM_HEADER_BYTES) {
            let (Some(kind), Some(flags), Some(offset), Some(address), Some(file_bytes)) =
                (u32_at(program, 0), u32_at(program, 4), u64_at(program, 8), u64_at(program, 16), u64_at(program, 32))
            else {
                continue;
            };
            let segment = Segment { address, offset, file_bytes, is_executable: flags & EXECUTABLE != 0 };
            match kind {
                LOAD => segments.push(segment),
                FRAME_INDEX => index_segment = Some(segment),
                _ => {}
            }
        }
        let place = index_segment.ok_or(Fault::NoTable)?;
        if place.file_bytes > INDEX_BYTES_MAX {
            return Err(Fault::Malformed);
        }
        let index = bytes_at(file, place.offset, place.file_bytes)?;
        let frames_address = frames_address(&index, place.address)?;
        // A segment that claims to reach over the end of all addresses does not hold what lies before it.
        let holds = |segment: &Segment| {
            let within = frames_address.checked_sub(segment.address).filter(|within| *within < segment.file_bytes)?;
            Some((*segment, within))
        };
        let (frames_segment, within) = segments.iter().find_map(holds).ok_or(Fault::Malformed)?;
        let rest_bytes = frames_segment.file_bytes - within;
        let frames_bytes = section_bytes(file, &header, frames_address).unwrap_or(rest_bytes).min(rest_bytes);
        let offset = frames_segment.offset.checked_add(within).ok_or(Fault::Malformed)?;
        let frames = bytes_at(file, offset, frames_bytes.min(FRAMES_BYTES_MAX))?;
        Ok(Image { segments, index, index_address: place.address, frames, frames_address })
    }

    /// What is kept of the file, bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.index.len() + self.frames.len()
    }

    /// What must be subtracted from an address of an executable mapping to get the file's, for the mapping of this start
    /// and file offset. A page may hold the end of one segment and the start of the next; only code counts.
    pub(crate) fn bias(&self, start: u64, offset: u64) -> Option<u64> {
        const PAGE_MASK: u64 = 0xFFF;
        let segment = self.segments.iter().filter(|segment| segment.is_executable).find(|segment| {
            let first = segment.offset & !PAGE_MASK;
            offset >= first && offset < segment.offset.saturating_add(segment.file_bytes.max(1))
        })?;
        Some(start.wrapping_sub(segment.address.wrapping_add(offset).wrapping_sub(segment.offset)))
    }

    /// The offset in `frames` of the description that may cover this address; whoever asks checks that it does.
    pub(crate) fn description(&self, address: u64) -> Option<usize> {
        let entries = self.index.get(INDEX_HEADER_BYTES..)?.chunks_exact(INDEX_ENTRY_BYTES);
        let count = (u32_at(&self.index, 8)? as usize).min(entries.len());
        let entry = |number: usize| {
            let at = INDEX_HEADER_BYTES + number * INDEX_ENTRY_BYTES;
            let relative = |at: usize| {
                let value = i64::from(u32_at(&self.index, at)? as i32);
                Some(self.index_address.wrapping_add_signed(value))
            };
            Some((relative(at)?, relative(at + 4)?))
        };
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = low + (high - low) / 2;
            if entry(middle)?.0 <= address { low = middle + 1 } else { high = middle }
        }
        let (_, description) = entry(low.checked_sub(1)?)?;
        let offset = usize::try_from(description.checked_sub(self.frames_address)?).ok()?;
        (offset < self.frames.len()).then_some(offset)
    }
}

#[cfg(test)]
impl Image {
    /// One function of 256 bytes at 0x1000 with these instructions in its common part, and the return address at the
    /// frame less 8.
    pub(crate) fn made_up(instructions: &[u8]) -> Image {
        const ADDRESS: u64 = 0x2000;
        // Version 1, augmentation "zR" with pointers of 8 bytes, factors 1 and -8, return address in register 16.
        let mut common = vec![0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0];
        common.extend(instructions);
        common.extend([0x90, 1]);
        common.resize(common.len().next_multiple_of(8) + 4, 0);
        let mut frames = (common.len() as u32).to_le_bytes().to_vec();
        frames.extend(&common);
        let description = frames.len();
        let mut one = ((description + 4) as u32).to_le_bytes().to_vec();
        one.extend(0x1000u64.to_le_bytes());
        one.extend(256u64.to_le_bytes());
        one.extend([0; 8]);
        frames.extend((one.len() as u32).to_le_bytes());
        frames.extend(one);
        frames.extend([0; 4]);
        let index_address = ADDRESS - 0x100;
        let mut index = INDEX_ENCODING.to_vec();
        index.extend(0u32.to_le_bytes());
        index.extend(1u32.to_le_bytes());
        for target in [0x1000, ADDRESS + description as u64] {
            index.extend((target.wrapping_sub(index_address) as u32).to_le_bytes());
        }
        Image { segments: Vec::new(), index, index_address, frames, frames_address: ADDRESS }
    }
}

/// Where the table begins that an index belongs to.
fn frames_address(index: &[u8], index_address: u64) -> Result<u64, Fault> {
    if index.len() < INDEX_HEADER_BYTES {
        return Err(Fault::NoTable);
    }
    if index[..4] != INDEX_ENCODING {
        return Err(Fault::NoTable);
    }
    let relative = i64::from(u32_at(index, 4).ok_or(Fault::NoTable)? as i32);
    Ok(index_address.wrapping_add(4).wrapping_add_signed(relative))
}

/// The length of the section at this address, where the file has a list of sections; else its segment's end must do.
fn section_bytes(file: &mut impl Readable, header: &[u8], address: u64) -> Option<u64> {
    let place = (u64_at(header, 40), u16_at(header, 58), u16_at(header, 60));
    let sections = headers(file, place, SECTION_HEADER_BYTES).ok()?;
    let mut sections = sections.chunks_exact(SECTION_HEADER_BYTES);
    let section = sections.find(|section| u64_at(section, 16) == Some(address) && u64_at(section, 32) != Some(0))?;
    u64_at(section, 32)
}

/// A table of headers: offset, size of one, count.
fn headers(
    file: &mut impl Readable,
    place: (Option<u64>, Option<u16>, Option<u16>),
    wanted: usize,
) -> Result<Vec<u8>, Fault> {
    let (Some(offset), Some(each), Some(count)) = place else { return Err(Fault::Malformed) };
    if usize::from(each) != wanted || count == 0 || count > HEADERS_MAX {
        return Err(Fault::Malformed);
    }
    bytes_at(file, offset, u64::from(count) * wanted as u64)
}

/// Bytes of a file. The file's length is asked first, so that a made-up size costs no memory.
fn bytes_at(file: &mut impl Readable, offset: u64, count: u64) -> Result<Vec<u8>, Fault> {
    let length = file.length().map_err(|_| Fault::Unreadable)?;
    if offset.checked_add(count).is_none_or(|end| end > length) {
        return Err(Fault::Malformed);
    }
    let mut bytes = vec![0; usize::try_from(count).map_err(|_| Fault::Malformed)?];
    file.fill(&mut bytes, offset).map_err(|_| Fault::Unreadable)?;
    Ok(bytes)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}
