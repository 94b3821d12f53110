//! The words of the table: which code, which fault, by which convention, by which method.

use std::fmt;
use std::str::FromStr;

/// What keeps the data: a code in the memory controller, or Surefoot's shards in software.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scheme {
    /// RS(36,32), radius-1 decoder (corrects 1 symbol, detects 3): two symbols of each x4 chip in a codeword.
    Rs36_32,
    /// RS(18,16), detection only: the first layer of the two-level code.
    Rs18_16,
    /// RS(19,16), corrects 1 symbol and detects 2: both layers of the two-level code.
    Rs19_16,
    /// x4 chipkill: (36,32) over GF(16), corrects 1 symbol and detects 2 ([`super::chipkill`]).
    Chipkill,
    /// SECDED(72,64): corrects 1 bit and detects 2 ([`super::secded`]).
    Secded,
    /// 16 + 3 shards of 4 KiB under RS(19,16), without checksums.
    Shards,
    /// 16 + 3 shards of 4 KiB under RS(19,16), each with a CRC32C, read as a checkpoint is: shards that are shown to be bad
    /// are erasures, and those whose checksum matches are believed.
    ShardsCrc,
}

/// How much a fault reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// One bit.
    Bit,
    /// A DRAM column: one bit line, so the same bit of a chip in every row of a bank. In one block it is one bit.
    Column,
    /// The bits that a chip gives in one beat: four.
    Word,
    /// One data pin of a chip, over all beats of a block.
    Pin,
    /// A whole chip: all its bits of a block.
    Chip,
    /// A cache line of 64 bytes within a shard. Software layouts only.
    Line,
    /// A DRAM row of one x4 chip: four bits of every 8 bytes over 8 KiB. Software layouts only.
    Row,
    /// A page of 4 KiB, which is a shard. Software layouts only.
    Page,
}

/// One fault, or two at the same time in different chips (in different shards, for software layouts).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fault {
    /// One fault.
    Single(Kind),
    /// Two faults; the order means nothing.
    Pair(Kind, Kind),
}

/// What is assumed where a table has to assume something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Convention {
    /// Memory: what Table 4 of MEMSYS'16 (Abeyratne et al.) has to assume to come near to its figures.
    Paper,
    /// Memory: what the hardware does ([`super::Rules::PHYSICAL`]).
    Physical,
    /// Software: the shards lie one behind the other, so that a DRAM row of 8 KiB holds two of them.
    Contiguous,
    /// Software: each shard lies in a DRAM row of its own.
    Spread,
}

/// How a cell was computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Method {
    /// Every error pattern is accounted for; integers until the last division.
    Exact,
    /// A formula that uses the distance and the weights of the code, but neither its matrix nor a decoder.
    ClosedForm,
    /// Random patterns through a decoder; with 95 % confidence intervals.
    MonteCarlo,
}

impl Scheme {
    /// All, in the order of the table.
    pub const ALL: [Scheme; 7] = [
        Scheme::Rs36_32,
        Scheme::Rs18_16,
        Scheme::Rs19_16,
        Scheme::Chipkill,
        Scheme::Secded,
        Scheme::Shards,
        Scheme::ShardsCrc,
    ];

    /// The name that options and JSON use.
    pub const fn name(self) -> &'static str {
        match self {
            Scheme::Rs36_32 => "rs36_32",
            Scheme::Rs18_16 => "rs18_16",
            Scheme::Rs19_16 => "rs19_16",
            Scheme::Chipkill => "chipkill",
            Scheme::Secded => "secded",
            Scheme::Shards => "shards",
            Scheme::ShardsCrc => "shards_crc",
        }
    }

    /// The name for people.
    pub const fn title(self) -> &'static str {
        match self {
            Scheme::Rs36_32 => "RS(36,32)",
            Scheme::Rs18_16 => "RS(18,16) detecting",
            Scheme::Rs19_16 => "RS(19,16)",
            Scheme::Chipkill => "x4 chipkill",
            Scheme::Secded => "SECDED(72,64)",
            Scheme::Shards => "16+3 shards",
            Scheme::ShardsCrc => "16+3 shards, CRC32C",
        }
    }

    /// Whether it is a layout of shards in software.
    pub const fn is_software(self) -> bool {
        matches!(self, Scheme::Shards | Scheme::ShardsCrc)
    }

    /// The kinds of faults that make sense for it.
    pub const fn kinds(self) -> &'static [Kind] {
        if self.is_software() {
            &[Kind::Bit, Kind::Line, Kind::Row, Kind::Page]
        } else {
            &[Kind::Bit, Kind::Column, Kind::Word, Kind::Pin, Kind::Chip]
        }
    }

    /// Its conventions.
    pub const fn conventions(self) -> &'static [Convention] {
        if self.is_software() {
            &[Convention::Contiguous, Convention::Spread]
        } else {
            &[Convention::Paper, Convention::Physical]
        }
    }

    /// Every single fault, then every pair.
    pub fn faults(self) -> Vec<Fault> {
        let kinds = self.kinds();
        let singles = kinds.iter().map(|&kind| Fault::Single(kind));
        let pairs = kinds
            .iter()
            .enumerate()
            .flat_map(|(index, &first)| kinds[index..].iter().map(move |&second| Fault::Pair(first, second)));
        singles.chain(pairs).collect()
    }
}

impl Kind {
    /// All.
    pub const ALL: [Kind; 8] =
        [Kind::Bit, Kind::Column, Kind::Word, Kind::Pin, Kind::Chip, Kind::Line, Kind::Row, Kind::Page];

    /// The name that options and JSON use.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Bit => "bit",
            Kind::Column => "column",
            Kind::Word => "word",
            Kind::Pin => "pin",
            Kind::Chip => "chip",
            Kind::Line => "line",
            Kind::Row => "row",
            Kind::Page => "page",
        }
    }
}

impl Fault {
    /// The kinds: one or two.
    pub fn kinds(self) -> Vec<Kind> {
        match self {
            Fault::Single(kind) => vec![kind],
            Fault::Pair(first, second) => vec![first, second],
        }
    }
}

impl Convention {
    /// All, in the order of the table.
    pub const ALL: [Convention; 4] =
        [Convention::Paper, Convention::Physical, Convention::Contiguous, Convention::Spread];

    /// The name that options and JSON use.
    pub const fn name(self) -> &'static str {
        match self {
            Convention::Paper => "paper",
            Convention::Physical => "physical",
            Convention::Contiguous => "contiguous",
            Convention::Spread => "spread",
        }
    }
}

impl Method {
    /// All, in the order of the table.
    pub const ALL: [Method; 3] = [Method::Exact, Method::ClosedForm, Method::MonteCarlo];

    /// The name that options and JSON use.
    pub const fn name(self) -> &'static str {
        match self {
            Method::Exact => "exact",
            Method::ClosedForm => "closed-form",
            Method::MonteCarlo => "monte-carlo",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Single(kind) => formatter.write_str(kind.name()),
            Fault::Pair(first, second) => write!(formatter, "{}+{}", first.name(), second.name()),
        }
    }
}

/// A word that names nothing here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{word}' is not a {what}; there are {choices}")]
pub struct UnknownName {
    /// The word.
    pub word: String,
    /// What it should have named.
    pub what: &'static str,
    /// The names that exist.
    pub choices: String,
}

fn named<T: Copy>(
    word: &str,
    what: &'static str,
    all: &[T],
    name: impl Fn(T) -> &'static str,
) -> Result<T, UnknownName> {
    all.iter().copied().find(|&one| name(one) == word).ok_or_else(|| UnknownName {
        word: word.into(),
        what,
        choices: all.iter().map(|&one| name(one)).collect::<Vec<_>>().join(", "),
    })
}

impl FromStr for Scheme {
    type Err = UnknownName;
    fn from_str(word: &str) -> Result<Self, UnknownName> {
        named(word, "code", &Scheme::ALL, Scheme::name)
    }
}

impl FromStr for Kind {
    type Err = UnknownName;
    fn from_str(word: &str) -> Result<Self, UnknownName> {
        named(word, "fault", &Kind::ALL, Kind::name)
    }
}

impl FromStr for Fault {
    type Err = UnknownName;
    /// `bit`, or `bit+chip` in either order.
    fn from_str(word: &str) -> Result<Self, UnknownName> {
        match word.split_once('+') {
            None => word.parse().map(Fault::Single),
            Some((first, second)) => {
                let (first, second): (Kind, Kind) = (first.parse()?, second.parse()?);
                Ok(Fault::Pair(first.min(second), first.max(second)))
            }
        }
    }
}

impl FromStr for Convention {
    type Err = UnknownName;
    fn from_str(word: &str) -> Result<Self, UnknownName> {
        named(word, "convention", &Convention::ALL, Convention::name)
    }
}

impl FromStr for Method {
    type Err = UnknownName;
    fn from_str(word: &str) -> Result<Self, UnknownName> {
        named(word, "method", &Method::ALL, Method::name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for scheme in Scheme::ALL {
            assert_eq!(scheme.name().parse(), Ok(scheme));
            for fault in scheme.faults() {
                assert_eq!(fault.to_string().parse(), Ok(fault));
            }
        }
        assert_eq!("chip+bit".parse(), Ok(Fault::Pair(Kind::Bit, Kind::Chip)));
        assert_eq!("page+line".parse(), Ok(Fault::Pair(Kind::Line, Kind::Page)));
        for convention in Convention::ALL {
            assert_eq!(convention.name().parse(), Ok(convention));
        }
        for method in Method::ALL {
            assert_eq!(method.name().parse(), Ok(method));
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_choices() {
        let error = "bit+moon".parse::<Fault>().unwrap_err().to_string();
        assert!(error.contains("'moon' is not a fault") && error.contains("chip"), "{error}");
        assert!("rs36".parse::<Scheme>().unwrap_err().to_string().contains("rs36_32, rs18_16"));
    }

    #[test]
    fn memory_has_twenty_faults_and_software_fourteen() {
        assert_eq!(Scheme::Rs36_32.faults().len(), 20);
        assert_eq!(Scheme::Shards.faults().len(), 14);
    }
}
