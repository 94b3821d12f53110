//! What Table 4 of MEMSYS'16 prints, where Surefoot's sources record it, beside what comes out.
//!
//! S. Abeyratne et al., "Checkpointing Exascale Memory Systems with
//! Existing Memory Technologies", MEMSYS 2016, Table 4. These are the figures that a recount cannot confirm; they are
//! data here, and nothing is fitted to them.

use super::{Fault, Kind, Scheme};

/// Which share a figure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Share {
    /// Detected and corrected (DCE).
    Corrected,
    /// Detected and uncorrectable (DUE).
    Detected,
    /// Silent data corruption (SDC).
    Silent,
}

/// A printed figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Printed {
    /// The code.
    pub scheme: Scheme,
    /// The fault.
    pub fault: Fault,
    /// Which share.
    pub share: Share,
    /// Its value as printed, as a probability.
    pub value: f64,
    /// What the recount says to it.
    pub finding: &'static str,
}

const TWO_SYMBOLS: &str = "no assumption makes it so: a pin or chip holds bits of two symbols of each codeword, and the code \
    corrects one; the paper's own text calls it detected";
const ONE_CODEWORD: &str = "only if both faults hit the same of the four codewords, as the paper's convention assumes";
const NO_CHECK: &str = "reached by a decoder without location check, when a block counts as silent although its other \
    codeword is reported";

/// The figures.
pub const PRINTED: [Printed; 8] = [
    row(Scheme::Rs36_32, Fault::Single(Kind::Pin), Share::Corrected, 1.0, TWO_SYMBOLS),
    row(Scheme::Rs36_32, Fault::Single(Kind::Chip), Share::Corrected, 1.0, TWO_SYMBOLS),
    row(
        Scheme::Rs36_32,
        Fault::Pair(Kind::Pin, Kind::Pin),
        Share::Silent,
        1e-6,
        "not found under any convention: with symbols 2i and 2i + 1 in chip i no pattern of two pins is miscorrected",
    ),
    row(
        Scheme::Rs36_32,
        Fault::Pair(Kind::Pin, Kind::Chip),
        Share::Silent,
        3.1e-5,
        "reached as chip+chip is, if the pin always hits all its symbols although the chip fails at random",
    ),
    row(Scheme::Rs36_32, Fault::Pair(Kind::Chip, Kind::Chip), Share::Silent, 3.1e-5, NO_CHECK),
    row(Scheme::Rs19_16, Fault::Pair(Kind::Bit, Kind::Bit), Share::Detected, 1.0, ONE_CODEWORD),
    row(Scheme::Rs19_16, Fault::Pair(Kind::Bit, Kind::Word), Share::Detected, 1.0, ONE_CODEWORD),
    row(
        Scheme::Rs19_16,
        Fault::Pair(Kind::Bit, Kind::Pin),
        Share::Detected,
        1.0,
        "only if the pin hits the codeword of the bit, as the paper's convention assumes",
    ),
];

const fn row(scheme: Scheme, fault: Fault, share: Share, value: f64, finding: &'static str) -> Printed {
    Printed { scheme, fault, share, value, finding }
}

impl Share {
    /// Its place among corrected, detected, silent.
    pub const fn index(self) -> usize {
        match self {
            Share::Corrected => 0,
            Share::Detected => 1,
            Share::Silent => 2,
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Share::Corrected => "corrected",
            Share::Detected => "detected",
            Share::Silent => "silent",
        }
    }
}
