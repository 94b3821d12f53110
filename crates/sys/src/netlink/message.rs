//! The layout of netlink messages and their attributes: headers in the machine's own order, everything padded to 4 bytes.
//!
//! What the kernel sends is read with limits all the same: a length that points outside ends the reading.

/// `NLM_F_REQUEST`: a question to the kernel.
const REQUEST: u16 = 1;
/// `NLM_F_ACK`: the kernel answers also where it has nothing to say.
const ACKNOWLEDGE: u16 = 4;
/// `NLM_F_DUMP`: all things of this kind.
const ALL: u16 = 0x300;
/// `NLM_F_ACK_TLVS`: the acknowledgement says more in attributes.
const HAS_WORDS: u16 = 0x200;
/// `NLM_F_DUMP_INTR`: things came or went while the list was made.
const IS_INTERRUPTED: u16 = 0x10;
/// `NLM_F_CAPPED`: the acknowledgement does not hold the request.
const IS_CAPPED: u16 = 0x100;
/// `NLMSG_ERROR` and `NLMSG_DONE`.
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// `NLMSGERR_ATTR_MSG`: the kernel's own words for a refusal.
const ERROR_WORDS: u16 = 1;
/// The bits of an attribute's kind that say how it is written.
const KIND_MASK: u16 = 0x3fff;

/// The header of a message, and that of generic netlink behind it.
const HEADER_BYTES: usize = 16;
pub(super) const GENERIC_BYTES: usize = 4;

/// Attributes that are being written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attributes(Vec<u8>);

impl Attributes {
    /// With a text, which ends in a zero.
    #[must_use]
    pub fn text(self, kind: u16, text: &str) -> Self {
        let mut bytes = text.as_bytes().to_vec();
        bytes.push(0);
        self.bytes(kind, &bytes)
    }

    /// With a number of 32 bits.
    #[must_use]
    pub fn number(self, kind: u16, number: u32) -> Self {
        self.bytes(kind, &number.to_ne_bytes())
    }

    /// With these bytes.
    #[must_use]
    pub(super) fn bytes(mut self, kind: u16, bytes: &[u8]) -> Self {
        // Names of devices and reporters are far shorter; what is not is cut, and the kernel then knows no such name.
        let bytes = &bytes[..bytes.len().min(4096)];
        self.0.extend((4 + bytes.len() as u16).to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(bytes);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }
}

/// A question of generic netlink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// The command of the family.
    pub command: u8,
    /// Whether it asks for all things of its kind, and not for one.
    pub is_for_all: bool,
    /// What it is about.
    pub attributes: Attributes,
}

impl Question {
    /// The bytes of the question to a family.
    pub(super) fn bytes(&self, family: u16, version: u8, sequence: u32) -> Vec<u8> {
        request(family, self.is_for_all, sequence, &[self.command, version, 0, 0], &self.attributes)
    }
}

/// The bytes of a request: its header, that of its kind (a multiple of 4 bytes), and its attributes.
pub(super) fn request(kind: u16, is_for_all: bool, sequence: u32, header: &[u8], attributes: &Attributes) -> Vec<u8> {
    let length = (HEADER_BYTES + header.len() + attributes.0.len()) as u32;
    let mut bytes = length.to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    let flags = REQUEST | if is_for_all { ALL } else { ACKNOWLEDGE };
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    // The kernel fills in who asks.
    bytes.extend(0u32.to_ne_bytes());
    bytes.extend(header);
    bytes.extend(&attributes.0);
    bytes
}

/// One message of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    /// A thing: the kind of its message and what stands behind the header.
    Thing(u16, Vec<u8>),
    /// The list that this is part of changed while it was made: something may be missing.
    Interrupted,
    /// The end of the answer.
    End,
    /// A refusal: the kernel's number and, where it has some, its words.
    Refused(i32, String),
}

/// The messages of a datagram that answer the question of this number. `None` where the datagram is malformed, or empty.
pub(super) fn parts(mut datagram: &[u8], sequence: u32) -> Option<Vec<Part>> {
    let mut parts = Vec::new();
    if datagram.is_empty() {
        return None;
    }
    while !datagram.is_empty() {
        let length = number32(datagram, 0)? as usize;
        let message = datagram.get(..length).filter(|_| length >= HEADER_BYTES)?;
        let (kind, flags) = (number16(message, 4)?, number16(message, 6)?);
        if number32(message, 8)? == sequence {
            let body = &message[HEADER_BYTES..];
            if flags & IS_INTERRUPTED != 0 && kind != ERROR {
                parts.push(Part::Interrupted);
            }
            parts.push(match kind {
                ERROR => refusal(body, flags)?,
                // A list that failed in its middle says so at its end.
                DONE => match body.get(..4).map(error_number) {
                    Some(number) if number != 0 => Part::Refused(number, String::new()),
                    _ => Part::End,
                },
                _ => Part::Thing(kind, body.to_vec()),
            });
        }
        datagram = datagram.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Some(parts)
}

fn refusal(body: &[u8], flags: u16) -> Option<Part> {
    let number = error_number(body.get(..4)?);
    if number == 0 {
        return Some(Part::End);
    }
    let mut words = String::new();
    if flags & HAS_WORDS != 0 {
        // Behind the number stands the request, or its header alone.
        let asked = if flags & IS_CAPPED != 0 { HEADER_BYTES } else { number32(body, 4)? as usize };
        let more = body.get(4usize.checked_add(asked.next_multiple_of(4))?..).unwrap_or_default();
        words =
            attributes(more).find(|(kind, _)| *kind == ERROR_WORDS).map(|(_, text)| string(text)).unwrap_or_default();
    }
    Some(Part::Refused(number, words))
}

/// The kernel writes its numbers with a minus.
fn error_number(bytes: &[u8]) -> i32 {
    bytes.first_chunk().map_or(0, |bytes| i32::from_ne_bytes(*bytes).saturating_neg())
}

/// Attributes one after the other, each with its kind; what is malformed ends them.
pub fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let length = usize::from(number16(rest, 0)?);
        let kind = number16(rest, 2)? & KIND_MASK;
        let value = rest.get(4..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// The text of an attribute, without the zero at its end.
pub fn string(value: &[u8]) -> String {
    let end = value.iter().position(|&byte| byte == 0).unwrap_or(value.len());
    String::from_utf8_lossy(&value[..end]).into_owned()
}

/// The number of an attribute, of whatever width the kernel gave it; `None` for another width.
pub fn unsigned(value: &[u8]) -> Option<u64> {
    match value.len() {
        1 => Some(value[0].into()),
        2 => number16(value, 0).map(u64::from),
        4 => number32(value, 0).map(u64::from),
        8 => value.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes)),
        _ => None,
    }
}

fn number16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes))
}

fn number32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn message(kind: u16, flags: u16, sequence: u32, body: &[u8]) -> Vec<u8> {
        let mut bytes = ((HEADER_BYTES + body.len()) as u32).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(flags.to_ne_bytes());
        bytes.extend(sequence.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend(body);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn what_is_written_reads_back() {
        let attributes_written = Attributes::default().text(1, "pci").number(3, 7);
        let question = Question { command: 52, is_for_all: false, attributes: attributes_written };
        let bytes = question.bytes(0x14, 1, 9);
        let parts = parts(&bytes, 9).unwrap();
        let [Part::Thing(0x14, body)] = parts.as_slice() else { panic!("{parts:?}") };
        let read: Vec<(u16, &[u8])> = attributes(&body[GENERIC_BYTES..]).collect();
        assert_eq!((read[0].0, string(read[0].1)), (1, "pci".to_owned()));
        assert_eq!((read[1].0, unsigned(read[1].1)), (3, Some(7)));
    }

    #[test]
    fn a_refusal_has_the_kernels_number_and_words() {
        let mut body = (-95i32).to_ne_bytes().to_vec();
        // The header of a request of 20 bytes, and the request.
        body.extend(message(0x14, 0, 5, &[0; 4]));
        body.extend(Attributes::default().text(ERROR_WORDS, "not here").0);
        let said = parts(&message(ERROR, HAS_WORDS, 5, &body), 5).unwrap();
        assert_eq!(said, [Part::Refused(95, "not here".into())]);
        let done = parts(&message(ERROR, 0, 5, &0i32.to_ne_bytes()), 5).unwrap();
        assert_eq!(done, [Part::End]);
        let failed_list = parts(&message(DONE, 0, 5, &(-12i32).to_ne_bytes()), 5).unwrap();
        assert_eq!(failed_list, [Part::Refused(12, String::new())]);
    }

    #[test]
    fn answers_to_other_questions_are_left_out() {
        let mut datagram = message(DONE, 0, 4, &[0; 4]);
        datagram.extend(message(DONE, 0, 5, &[0; 4]));
        assert_eq!(parts(&datagram, 5).unwrap(), [Part::End]);
        assert_eq!(parts(&[1, 2, 3], 5), None);
        assert_eq!(parts(&message(DONE, IS_INTERRUPTED, 5, &[0; 4]), 5).unwrap(), [Part::Interrupted, Part::End]);
    }

    proptest! {
        #[test]
        fn nothing_that_comes_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200), length in 0u32..220) {
            let _ = parts(&bytes, 0).map(|parts| parts.len());
            prop_assert!(attributes(&bytes).count() <= 51);
            // Lengths that fit are met more often than chance has it.
            let mut fitting = message(ERROR, HAS_WORDS, 0, &bytes);
            fitting[..4].copy_from_slice(&length.to_ne_bytes());
            let _ = parts(&fitting, 0).map(|parts| parts.len());
        }
    }
}
