//! What the fuzzer calls; see `who::strangers`.

use super::elf::Program;
use super::wire::{Answer, NAME_BYTES_MAX, Question};
use super::{demangle, perf_map};
use std::fs::File;

pub(crate) fn symbols(file: &File, bytes: u64, offsets: &[u64]) {
    if let Ok(program) = Program::read(file, bytes) {
        let names = offsets.iter().map(|&offset| program.names(offset)).collect();
        let answer = Answer::Names(names).encode(1, 0);
        assert!(Answer::decode(&answer, 1, offsets.len()).is_some(), "the answer is one that can be read");
    }
}

pub(crate) fn perf_map(file: &File, bytes: u64, addresses: &[u64]) {
    if let Ok(names) = perf_map::names(file, bytes, addresses) {
        assert_eq!(names.len(), addresses.len());
    }
}

pub(crate) fn demangled(name: &[u8]) -> String {
    let shown = demangle::demangled(name);
    assert!(shown.len() <= NAME_BYTES_MAX, "{} bytes", shown.len());
    shown
}

pub(crate) fn message(bytes: &[u8]) {
    if let Some(question) = Question::decode(bytes) {
        assert_eq!(question.encode(), bytes, "there is one way to write a question");
    }
    // The first byte says how many places were asked for; the number of the answer is believed here.
    let Some((&places, message)) = bytes.split_first() else { return };
    let Some((number, _)) = message.split_first_chunk() else { return };
    let number = u64::from_le_bytes(*number);
    if let Some((answer, took_ns)) = Answer::decode(message, number, usize::from(places)) {
        let again = Answer::decode(&answer.encode(number, took_ns), number, usize::from(places));
        let again = again.unwrap_or_else(|| panic!("{answer:?} cannot be sent on"));
        let Answer::Names(names) = &again.0 else { return assert_eq!(again.0, answer) };
        assert_eq!(names.len(), usize::from(places));
    }
}
