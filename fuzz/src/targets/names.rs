use crate::scratch;
use surefoot_stall::who::strangers;

/// Addresses or offsets at the end of an input.
const PLACES: usize = 8;

/// The numbers at the end, and what stands before them.
fn places(bytes: &[u8]) -> (&[u8], Vec<u64>) {
    let (before, numbers) = bytes.split_at(bytes.len().saturating_sub(PLACES * 8));
    let number = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
    (before, numbers.chunks_exact(8).map(number).collect())
}

/// A program: its symbols and debugging data.
pub fn symbols(bytes: &[u8]) {
    let (file, mut offsets) = places(bytes);
    offsets.extend([0, 0x1000, file.len() as u64 / 2]);
    scratch::with_file(file, |open| strangers::symbols(open, file.len() as u64, &offsets));
}

/// A program: its tables of frames. The stack is its end.
pub fn frames(bytes: &[u8]) {
    let (file, mut addresses) = places(bytes);
    addresses.extend([0x1000, 0x1010]);
    let stack = &file[file.len().saturating_sub(512)..];
    scratch::with_file(file, |open| strangers::frames(open, &addresses, stack));
}

/// A name as compilers write it.
pub fn demangle(bytes: &[u8]) {
    strangers::demangled(bytes);
    // Most bytes begin no name.
    strangers::demangled(&[b"_Z", bytes].concat());
    strangers::demangled(&[b"_R", bytes].concat());
}

/// A list of symbols of code made at run time.
pub fn perf_map(bytes: &[u8]) {
    let (file, mut addresses) = places(bytes);
    addresses.extend([0x1008, 0]);
    scratch::with_file(file, |open| strangers::perf_map(open, file.len() as u64, &addresses));
}

/// What the child that reads names is asked, and what it answers.
pub fn channel(bytes: &[u8]) {
    strangers::message(bytes);
}
