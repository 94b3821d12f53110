//! The functions of a program or library, from its table of symbols and its debugging data.
//!
//! The file may hold anything: each offset and size is checked against the file and a limit before memory is asked for,
//! and everything that is used is a copy, so that a file that shrinks meanwhile takes nothing away. No other file is opened
//! for it: links to debugging data elsewhere name any path they like.

use super::demangle::demangled;
use super::wire::{Fault, Name};
use flate2::read::ZlibDecoder;
use gimli::{EndianRcSlice, LittleEndian, SectionId};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::rc::Rc;

/// Symbols that are kept of a file, and the bytes of their names.
const SYMBOLS_MAX: usize = 1 << 20;
const STRINGS_BYTES_MAX: u64 = 48 << 20;

/// Debugging data that are read of a file, unpacked; of files with more only the table of symbols.
const DEBUGGING_BYTES_MAX: u64 = 48 << 20;

/// Headers of either kind that are looked at.
const HEADERS_MAX: u16 = 4096;

/// Symbols before an address that may still reach over it.
const LOOK_BACK: usize = 16;

const PROGRAM_HEADER_BYTES: usize = 56;
const SECTION_HEADER_BYTES: usize = 64;
const SYMBOL_BYTES: usize = 24;
const LOAD: u32 = 1;
const SYMBOL_TABLE: u32 = 2;
const DYNAMIC_SYMBOLS: u32 = 11;
const NO_BITS: u32 = 8;
const COMPRESSED: u64 = 1 << 11;
const ZLIB: u32 = 1;
const FUNCTION: u8 = 2;
const INDIRECT_FUNCTION: u8 = 10;

type Bytes = EndianRcSlice<LittleEndian>;

/// A segment: where in the file it lies, and at which address.
struct Segment {
    offset: u64,
    address: u64,
    bytes: u64,
}

struct Section {
    name: u32,
    kind: u32,
    flags: u64,
    offset: u64,
    bytes: u64,
    link: u32,
}

/// Where a function begins, its size, and its name in `strings`.
struct Symbol {
    address: u64,
    bytes: u32,
    name: u32,
}

/// What is kept of a file.
pub(super) struct Program {
    segments: Vec<Segment>,
    /// Ascending.
    symbols: Vec<Symbol>,
    strings: Vec<u8>,
    debugging: Option<addr2line::Context<Bytes>>,
    bytes: usize,
}

/// A file whose length is known: to ask for it is a system call that the reader may not make.
struct Source<'a> {
    file: &'a File,
    bytes: u64,
}

impl Source<'_> {
    fn check(&self, offset: u64, count: u64) -> Result<usize, Fault> {
        let is_inside = offset.checked_add(count).is_some_and(|end| end <= self.bytes);
        if is_inside { usize::try_from(count).map_err(|_| Fault::Malformed) } else { Err(Fault::Malformed) }
    }

    fn read(&self, offset: u64, count: u64) -> Result<Vec<u8>, Fault> {
        let mut bytes = vec![0; self.check(offset, count)?];
        self.file.read_exact_at(&mut bytes, offset).map_err(|_| Fault::Unreadable)?;
        Ok(bytes)
    }

    fn read_shared(&self, offset: u64, count: u64) -> Result<Rc<[u8]>, Fault> {
        let mut bytes = zeros(self.check(offset, count)?);
        if let Some(bytes) = Rc::get_mut(&mut bytes) {
            self.file.read_exact_at(bytes, offset).map_err(|_| Fault::Unreadable)?;
        }
        Ok(bytes)
    }

    /// A table of headers: offset, size of one, count.
    fn headers(&self, place: (Option<u64>, Option<u16>, Option<u16>), wanted: usize) -> Result<Vec<u8>, Fault> {
        let (Some(offset), Some(each), Some(count)) = place else { return Err(Fault::Malformed) };
        if count == 0 {
            return Ok(Vec::new());
        }
        if usize::from(each) != wanted || count > HEADERS_MAX {
            return Err(Fault::Malformed);
        }
        self.read(offset, u64::from(count) * wanted as u64)
    }
}

fn zeros(count: usize) -> Rc<[u8]> {
    std::iter::repeat_n(0, count).collect()
}

impl Program {
    /// Reads a file of this length.
    pub(super) fn read(file: &File, bytes: u64) -> Result<Program, Fault> {
        let source = Source { file, bytes };
        let header = source.read(0, 64).map_err(|_| Fault::NotElf)?;
        if !header.starts_with(b"\x7fELF\x02\x01") {
            return Err(Fault::NotElf);
        }
        let place = (u64_at(&header, 32), u16_at(&header, 54), u16_at(&header, 56));
        let segments = source.headers(place, PROGRAM_HEADER_BYTES)?;
        let segments: Vec<Segment> = segments.chunks_exact(PROGRAM_HEADER_BYTES).filter_map(segment).collect();
        // Without sections there are no names, which is no contradiction.
        let place = (u64_at(&header, 40), u16_at(&header, 58), u16_at(&header, 60));
        let sections = source.headers(place, SECTION_HEADER_BYTES).unwrap_or_default();
        let sections: Vec<Section> = sections.chunks_exact(SECTION_HEADER_BYTES).filter_map(section).collect();
        let mut program = Program { segments, symbols: Vec::new(), strings: Vec::new(), debugging: None, bytes: 0 };
        let table = |kind| sections.iter().find(|section| section.kind == kind && section.bytes > 0);
        if let Some(table) = table(SYMBOL_TABLE).or_else(|| table(DYNAMIC_SYMBOLS)) {
            // A table that is broken costs its names; there may be debugging data.
            let _ = program.read_symbols(&source, table, &sections);
        }
        let debugging_bytes = program.read_debugging(&source, &sections, u16_at(&header, 62)).unwrap_or(0);
        program.bytes =
            program.symbols.len() * size_of::<Symbol>() + program.strings.len() + 2 * debugging_bytes as usize;
        Ok(program)
    }

    /// What is kept of the file, bytes, with what looking into its debugging data is likely to add.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    fn read_symbols(&mut self, source: &Source<'_>, table: &Section, sections: &[Section]) -> Result<(), Fault> {
        let strings = sections.get(table.link as usize).ok_or(Fault::Malformed)?;
        if strings.bytes > STRINGS_BYTES_MAX || strings.kind == NO_BITS || table.kind == NO_BITS {
            return Err(Fault::Malformed);
        }
        source.check(table.offset, table.bytes)?;
        self.strings = source.read(strings.offset, strings.bytes)?;
        const PIECE: u64 = SYMBOL_BYTES as u64 * 4096;
        let (mut at, mut left) = (table.offset, table.bytes / SYMBOL_BYTES as u64 * SYMBOL_BYTES as u64);
        while left > 0 && self.symbols.len() < SYMBOLS_MAX {
            let piece = source.read(at, left.min(PIECE))?;
            at += piece.len() as u64;
            left -= piece.len() as u64;
            self.symbols.extend(piece.chunks_exact(SYMBOL_BYTES).filter_map(symbol));
        }
        self.symbols.sort_by_key(|symbol| symbol.address);
        self.symbols.shrink_to_fit();
        Ok(())
    }

    /// Takes the debugging data, if they are there, whole and not too large. Returns their bytes.
    fn read_debugging(&mut self, source: &Source<'_>, sections: &[Section], names: Option<u16>) -> Option<u64> {
        let names = sections.get(usize::from(names?))?;
        if names.bytes > 1 << 20 {
            return None;
        }
        let names = source.read(names.offset, names.bytes).ok()?;
        let mut left = DEBUGGING_BYTES_MAX;
        let mut load = |id: SectionId| -> Result<Bytes, Fault> {
            let is_needed = !matches!(id, SectionId::DebugLine | SectionId::DebugLoc | SectionId::DebugLocLists);
            let found = sections.iter().find(|section| text_at(&names, section.name) == id.name().as_bytes());
            let bytes = match found.filter(|section| is_needed && section.kind != NO_BITS) {
                Some(section) => contents(source, section, left)?,
                None => zeros(0),
            };
            left = left.checked_sub(bytes.len() as u64).ok_or(Fault::Malformed)?;
            Ok(EndianRcSlice::new(bytes, LittleEndian))
        };
        let sections = gimli::Dwarf::load(&mut load).ok()?;
        let bytes = DEBUGGING_BYTES_MAX - left;
        if bytes == 0 {
            return None;
        }
        self.debugging = Some(addr2line::Context::from_dwarf(sections).ok()?);
        Some(bytes)
    }

    /// The functions at an offset of the file, innermost first: what was inlined into the last one.
    pub(super) fn names(&self, offset: u64) -> Vec<Name> {
        let within = |segment: &Segment| {
            let into = offset.checked_sub(segment.offset).filter(|into| *into < segment.bytes)?;
            Some(segment.address.wrapping_add(into))
        };
        let Some(address) = self.segments.iter().find_map(within) else { return Vec::new() };
        let described = self.described(address);
        match self.symbol(address) {
            // The table knows the name that the linker knows; what is inlined stands in the debugging data alone.
            Some(symbol) => {
                let inlined = described.len().saturating_sub(1);
                let outer = Name { text: demangled(symbol), is_inlined: false };
                described.into_iter().take(inlined).chain([outer]).collect()
            }
            None => described,
        }
    }

    fn described(&self, address: u64) -> Vec<Name> {
        let mut names = Vec::new();
        let Some(debugging) = &self.debugging else { return names };
        let Ok(mut frames) = debugging.find_frames(address).skip_all_loads() else { return names };
        while let Ok(Some(frame)) = frames.next() {
            let Some(function) = frame.function else { continue };
            let text = function.raw_name().map_or_else(|_| "?".to_owned(), |name| demangled(name.as_bytes()));
            names.push(Name { text, is_inlined: true });
        }
        if let Some(outer) = names.last_mut() {
            outer.is_inlined = false;
        }
        names
    }

    /// The name of the symbol that an address lies in. Of several that begin at one place the one that people write counts:
    /// without underscores in front, and short.
    fn symbol(&self, address: u64) -> Option<&[u8]> {
        let after = self.symbols.partition_point(|symbol| symbol.address <= address);
        let before = self.symbols[after.saturating_sub(LOOK_BACK)..after].iter().rev();
        let nearest = before.clone().find(|symbol| symbol.reaches(address))?.address;
        let name = |symbol: &Symbol| text_at(&self.strings, symbol.name);
        let rank = |name: &&[u8]| (name.iter().take_while(|&&byte| byte == b'_').count(), name.len(), name.to_vec());
        let same = before.take_while(|symbol| symbol.address >= nearest);
        same.filter(|symbol| symbol.reaches(address)).map(name).filter(|name| !name.is_empty()).min_by_key(rank)
    }
}

impl Symbol {
    /// Functions of assembly language often have no size.
    fn reaches(&self, address: u64) -> bool {
        let into = address.wrapping_sub(self.address);
        into < u64::from(self.bytes) || (self.bytes == 0 && into < 4096)
    }
}

/// The bytes of a section, unpacked; no more than `most`.
fn contents(source: &Source<'_>, section: &Section, most: u64) -> Result<Rc<[u8]>, Fault> {
    if section.flags & COMPRESSED == 0 {
        if section.bytes > most {
            return Err(Fault::Malformed);
        }
        return source.read_shared(section.offset, section.bytes);
    }
    let header = source.read(section.offset, section.bytes.min(24))?;
    let (Some(ZLIB), Some(bytes)) = (u32_at(&header, 0), u64_at(&header, 8)) else { return Err(Fault::Malformed) };
    if bytes > most || section.bytes > most {
        return Err(Fault::Malformed);
    }
    let packed = source.read(section.offset + 24, section.bytes.saturating_sub(24))?;
    // What a file says of the size is not believed: room is made as bytes come.
    let mut unpacked = Vec::new();
    let taken = ZlibDecoder::new(&packed[..]).take(bytes).read_to_end(&mut unpacked);
    match taken {
        Ok(count) if count as u64 == bytes => Ok(unpacked.into()),
        _ => Err(Fault::Malformed),
    }
}

fn segment(header: &[u8]) -> Option<Segment> {
    (u32_at(header, 0)? == LOAD).then_some(())?;
    Some(Segment { offset: u64_at(header, 8)?, address: u64_at(header, 16)?, bytes: u64_at(header, 32)? })
}

fn section(header: &[u8]) -> Option<Section> {
    Some(Section {
        name: u32_at(header, 0)?,
        kind: u32_at(header, 4)?,
        flags: u64_at(header, 8)?,
        offset: u64_at(header, 24)?,
        bytes: u64_at(header, 32)?,
        link: u32_at(header, 40)?,
    })
}

/// A function that is defined here.
fn symbol(entry: &[u8]) -> Option<Symbol> {
    let kind = entry.get(4)? & 0xF;
    let is_defined = u16_at(entry, 6)? != 0;
    if !is_defined || !matches!(kind, FUNCTION | INDIRECT_FUNCTION) {
        return None;
    }
    let bytes = u32::try_from(u64_at(entry, 16)?).unwrap_or(u32::MAX);
    Some(Symbol { address: u64_at(entry, 8)?, bytes, name: u32_at(entry, 0)? })
}

/// The text that begins here, up to its zero byte.
fn text_at(strings: &[u8], at: u32) -> &[u8] {
    let rest = strings.get(at as usize..).unwrap_or_default();
    &rest[..rest.iter().position(|&byte| byte == 0).unwrap_or(rest.len())]
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::io::Write;
    use surefoot_random::Random;

    fn read(bytes: &[u8]) -> Result<Program, Fault> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        Program::read(&file, bytes.len() as u64)
    }

    #[test]
    fn a_file_that_contradicts_itself_is_an_error_and_takes_no_memory() {
        let good = std::fs::read("/proc/self/exe").unwrap();
        assert_eq!(read(b"#!/bin/sh\n").err(), Some(Fault::NotElf));
        assert_eq!(read(&[]).err(), Some(Fault::NotElf));
        assert_eq!(read(&good[..64]).err(), Some(Fault::Malformed));
        let mut far = good[..4096].to_vec();
        far[32..40].fill(0xFF);
        assert_eq!(read(&far).err(), Some(Fault::Malformed));
        // Sections beyond the end are as good as none.
        assert!(read(&good[..1 << 16]).unwrap().names(0x1000).is_empty());
        // The file may be shorter than was said.
        let file = tempfile::tempfile().unwrap();
        assert_eq!(Program::read(&file, 1 << 40).err(), Some(Fault::NotElf));
    }

    /// Whatever the tables say, an answer comes, and no memory beyond the limits is asked for.
    #[test]
    fn broken_tables_give_names_or_none_but_never_panic() {
        let program = std::fs::read("/bin/true").unwrap();
        let mut random = Random::new(1);
        let mut next = || random.word() as usize;
        let mut read_count = 0;
        for _ in 0..2_000 {
            let mut broken = program.clone();
            let sections = u64_at(&broken, 40).unwrap() as usize;
            for _ in 0..1 + next() % 8 {
                let within =
                    if next() % 2 == 0 { 64 + next() % 700 } else { sections + next() % (broken.len() - sections) };
                broken[within] = [0, 0xFF, 0x7F, next() as u8][next() % 4];
            }
            if let Ok(program) = read(&broken) {
                read_count += 1;
                for _ in 0..20 {
                    let _ = program.names((next() % broken.len()) as u64);
                }
            }
        }
        assert!(read_count > 200, "{read_count}");
    }
}
