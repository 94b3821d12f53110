//! The readers of what strangers write, as functions of bytes alone, for the fuzzer and the tests that replay its corpus
//! (`fuzz/`). The product reaches the same code through the child that reads names and the thread that unwinds.

use super::names::strangers as names;
use super::unwind;
use std::fs::File;
use surefoot_probes::UserCopy;

/// Reads a program or library of this length, as the child does, and names what is at these offsets.
pub fn symbols(file: &File, bytes: u64, offsets: &[u64]) {
    names::symbols(file, bytes, offsets);
}

/// Looks for these addresses in a list of symbols of code made at run time.
pub fn perf_map(file: &File, bytes: u64, addresses: &[u64]) {
    names::perf_map(file, bytes, addresses);
}

/// A name as it was written.
pub fn demangled(name: &[u8]) -> String {
    names::demangled(name)
}

/// Takes a message for a question to the child, and for its answer. What is understood is the same when it is sent on.
///
/// # Panics
/// When it is not.
pub fn message(bytes: &[u8]) {
    names::message(bytes);
}

/// Reads a program's tables of frames and walks one stack from each of these addresses of the file.
pub fn frames(file: &File, addresses: &[u64], stack: &[u8]) {
    let copy = UserCopy { sp: 0x7000, bp: 0x7010, bx: 1, stack: stack.to_vec(), ..UserCopy::default() };
    unwind::walk_file(file, addresses, &copy);
}
