//! Made-up modules whose fault is known, with the errors that they would report.
//!
//! # Where the numbers come from
//!
//! How often each fault is drawn is [`FIT`]: failures in 10^9 hours of one DRAM device, transient and permanent, of Sridharan and
//! Liberty, "A Study of DRAM Failures in the Field" (SC 2012, Jaguar, DDR2). *Recalled, not verified against the paper*: the sums,
//! about 20 and 47, agree with the range that is cited elsewhere (20 to 66 per device, half or more of it permanent).
//! How many errors a fault makes is heavy-tailed, as Google (2009) and Meta (2015) found: the mean is far above the median.
//! Everything else is **assumed**: the geometry is that of a module of two ranks of 8 Gbit DDR4 devices, transient faults are
//! scrubbed within a day, and the noise is what [`Noise`] says.

use surefoot_model::{DramLocation, ErrorReport, ErrorSeverity, FaultMode, Fidelity, MemorySource, Persistence};

/// Failures in 10^9 hours and device: mode, transient, permanent. A word is a cell here: both are one column of one row.
pub const FIT: [(FaultMode, f64, f64); 7] = [
    (FaultMode::Cell, 14.2 + 1.4, 18.6 + 0.3),
    // That one in seven reaches rows beside it is assumed.
    (FaultMode::Row, 0.2 * 6.0 / 7.0, 8.2 * 6.0 / 7.0),
    (FaultMode::Rows, 0.2 / 7.0, 8.2 / 7.0),
    (FaultMode::Column, 1.4, 5.6),
    (FaultMode::Bank, 0.8, 10.0),
    (FaultMode::Banks, 0.3, 1.4),
    (FaultMode::Rank, 0.9, 2.8),
];

pub const RANKS: u32 = 2;
pub const BANKS: u32 = 16;
pub const ROWS: u32 = 1 << 16;
/// Columns that a burst begins at: every eighth.
pub const COLUMNS: u32 = 128;

const HOUR_NS: u64 = 3_600_000_000_000;
/// Some time in 2024.
const BEGIN_NS: u64 = 1_710_000_000_000_000_000;
/// How long the module is watched.
const DAYS: u64 = 60;

/// What blurs the picture. Shares of modules unless said otherwise.
#[derive(Debug, Clone, Copy)]
pub struct Noise {
    /// Has a second fault, a cell.
    pub second_cell: f64,
    /// Has a second fault of any mode, drawn by the rates.
    pub second_any: f64,
    /// Loses the coordinates of a part of its reports, up to 60 %.
    pub partly_blind: f64,
    /// Never tells a row or a column, as sb_edac.
    pub blind: f64,
}

impl Noise {
    pub const NONE: Noise = Noise { second_cell: 0.0, second_any: 0.0, partly_blind: 0.0, blind: 0.0 };
    pub const USUAL: Noise = Noise { second_cell: 0.10, second_any: 0.03, partly_blind: 0.10, blind: 0.05 };
}

/// A module and the truth about it.
pub struct Module {
    /// The mode of the largest of its faults; *undetermined* where its reports have no coordinates.
    pub mode: FaultMode,
    pub persistence: Persistence,
    pub reports: Vec<ErrorReport>,
    /// Until when it was watched.
    pub until_ns: u64,
}

/// Numbers from a seed, in the shapes that these tests need.
pub struct Random(surefoot_random::Random);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(surefoot_random::Random::new(seed))
    }

    pub fn next(&mut self) -> u64 {
        self.0.word()
    }

    /// From 0 to 1.
    pub fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn below(&mut self, limit: u32) -> u32 {
        (self.next() % u64::from(limit)) as u32
    }

    fn is(&mut self, probability: f64) -> bool {
        self.share() < probability
    }

    /// From `low` to `high`, each power of two as likely as another.
    fn log_uniform(&mut self, low: f64, high: f64) -> u32 {
        (low * (high / low).powf(self.share())) as u32
    }
}

/// Draws a mode and whether it stays, by the rates.
pub fn by_rates(random: &mut Random) -> (FaultMode, Persistence) {
    let all: f64 = FIT.iter().map(|(_, transient, permanent)| transient + permanent).sum();
    let mut left = random.share() * all;
    for (mode, transient, permanent) in FIT {
        for (rate, persistence) in [(transient, Persistence::Transient), (permanent, Persistence::Permanent)] {
            left -= rate;
            if left < 0.0 {
                return (mode, persistence);
            }
        }
    }
    (FaultMode::Rank, Persistence::Permanent)
}

/// The cells that a fault covers, as a rule from which single ones are drawn.
struct Part {
    ranks: Vec<u32>,
    banks: Vec<u32>,
    rows: Vec<u32>,
    columns: Vec<u32>,
}

impl Part {
    fn of(mode: FaultMode, random: &mut Random) -> Part {
        let several_columns = |random: &mut Random| {
            let count = random.log_uniform(3.0, f64::from(COLUMNS));
            (0..count).map(|_| random.below(COLUMNS)).collect::<Vec<_>>()
        };
        // Rows of one subarray, a quarter of a bank, or all of it.
        let several_rows = |random: &mut Random| {
            let span = [512, ROWS / 4, ROWS][random.below(3) as usize];
            let begin = random.below(ROWS / span) * span;
            let count = random.log_uniform(8.0, f64::from(span));
            (0..count.min(4096)).map(|_| begin + random.below(span)).collect::<Vec<_>>()
        };
        let row = random.below(ROWS - 4);
        let mut part = Part {
            ranks: vec![random.below(RANKS)],
            banks: vec![random.below(BANKS)],
            rows: vec![row],
            columns: vec![random.below(COLUMNS)],
        };
        match mode {
            FaultMode::Row => part.columns = several_columns(random),
            // Two that share a driver, or up to four side by side.
            FaultMode::Rows => {
                part.columns = several_columns(random);
                let count = if random.is(0.7) { 2 } else { 3 + random.below(2) };
                part.rows = (row..row + count).collect();
            }
            FaultMode::Column => part.rows = several_rows(random),
            FaultMode::Bank => (part.rows, part.columns) = (several_rows(random), several_columns(random)),
            FaultMode::Banks | FaultMode::Rank => {
                (part.rows, part.columns) = (several_rows(random), several_columns(random));
                part.banks = (0..BANKS).collect();
                if mode == FaultMode::Banks {
                    let count = 2 + random.below(5) as usize;
                    part.banks = shuffled(part.banks, random);
                    part.banks.truncate(count);
                } else if random.is(0.5) {
                    part.ranks = (0..RANKS).collect();
                }
            }
            _ => {}
        }
        part
    }

    fn cell(&self, random: &mut Random) -> DramLocation {
        let mut one = |of: &[u32]| of[random.below(of.len() as u32) as usize];
        let bank = one(&self.banks);
        DramLocation {
            rank: Some(one(&self.ranks)),
            bank_group: Some(bank / 4),
            bank: Some(bank % 4),
            row: Some(one(&self.rows)),
            column: Some(one(&self.columns) * 8),
            ..DramLocation::default()
        }
    }
}

fn shuffled(mut all: Vec<u32>, random: &mut Random) -> Vec<u32> {
    for last in (1..all.len()).rev() {
        all.swap(last, random.below(last as u32 + 1) as usize);
    }
    all
}

/// The reports of one fault.
fn fault(mode: FaultMode, persistence: Persistence, reports_min: u32, random: &mut Random) -> Vec<ErrorReport> {
    let part = Part::of(mode, random);
    let begin_h = u64::from(random.below(20 * 24));
    // Transient ones report until they are scrubbed; permanent ones for as long as the module is watched, or nearly.
    let (span_h, most) = match persistence {
        Persistence::Transient => (1 + u64::from(random.below(23)), if mode == FaultMode::Cell { 4.0 } else { 60.0 }),
        _ => (DAYS * 24 - begin_h - u64::from(random.below(20 * 24)), 2000.0),
    };
    let count = random.log_uniform(1.0, most).max(reports_min);
    let reports = (0..count).map(|_| {
        let at_ns = BEGIN_NS + begin_h * HOUR_NS + (random.share() * (span_h * HOUR_NS) as f64) as u64;
        // A record of the hardware stands for what it counted since the last one, and has one of the addresses.
        let errors = if random.is(0.2) { random.log_uniform(1.0, 1000.0).max(1) } else { 1 };
        report(at_ns, errors, part.cell(random))
    });
    reports.collect()
}

pub fn report(at_realtime_ns: u64, count: u32, location: DramLocation) -> ErrorReport {
    ErrorReport {
        at_realtime_ns,
        at_ns: None,
        source: MemorySource::McEvent,
        severity: ErrorSeverity::Corrected,
        dimm: Some("synthetic".to_owned()),
        label: "synthetic".to_owned(),
        count,
        fidelity: Fidelity::Exact,
        location,
        detail: String::new(),
    }
}

/// How much of a module fails.
pub fn extent(mode: FaultMode) -> u8 {
    match mode {
        FaultMode::None | FaultMode::Undetermined => 0,
        FaultMode::Cell => 1,
        FaultMode::Row => 2,
        FaultMode::Rows => 3,
        FaultMode::Column => 4,
        FaultMode::Bank => 5,
        FaultMode::Banks => 6,
        FaultMode::Rank => 7,
    }
}

/// A module with a fault of this mode, that reports it so often at least, and with noise.
pub fn module(
    mode: FaultMode,
    persistence: Persistence,
    reports_min: u32,
    noise: Noise,
    random: &mut Random,
) -> Module {
    let mut truth = (mode, persistence);
    let mut reports = fault(mode, persistence, reports_min, random);
    let second = if random.is(noise.second_any) {
        Some(by_rates(random))
    } else {
        random.is(noise.second_cell).then(|| (FaultMode::Cell, by_rates(random).1))
    };
    if let Some((mode, persistence)) = second {
        reports.extend(fault(mode, persistence, 1, random));
        if extent(mode) > extent(truth.0) {
            truth = (mode, persistence);
        }
    }
    let is_blind = random.is(noise.blind);
    let lost = if random.is(noise.partly_blind) { random.share() * 0.6 } else { 0.0 };
    for report in &mut reports {
        if is_blind || random.is(lost) {
            let location = &mut report.location;
            *location = DramLocation { rank: location.rank, ..DramLocation::default() };
        }
    }
    reports.sort_by_key(|report| report.at_realtime_ns);
    Module {
        mode: if is_blind { FaultMode::Undetermined } else { truth.0 },
        persistence: truth.1,
        reports,
        until_ns: BEGIN_NS + DAYS * 24 * HOUR_NS,
    }
}

/// One flip somewhere, in the time that the module is watched.
pub fn stray(random: &mut Random) -> ErrorReport {
    let at_ns = BEGIN_NS + (random.share() * (DAYS * 24 * HOUR_NS) as f64) as u64;
    let bank = random.below(BANKS);
    let location = DramLocation {
        rank: Some(random.below(RANKS)),
        bank_group: Some(bank / 4),
        bank: Some(bank % 4),
        row: Some(random.below(ROWS)),
        column: Some(random.below(COLUMNS) * 8),
        ..DramLocation::default()
    };
    report(at_ns, 1, location)
}
