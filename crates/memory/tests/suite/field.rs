//! Made-up modules from the published field studies alone: geometry of real devices, faults of one chip, and the accesses that find them.
//!
//! This generator shares no geometry and no code with the classifier (`surefoot_memory::fault`) and was written before its source was read;
//! of its numbers only the rates of Jaguar, which both take from the study. It exists to find where the classifier's own picture of memory is wrong; `synthetic.rs` has that picture.
//!
//! # From studies
//!
//! - How often each mode occurs: [`JAGUAR`] (Sridharan and Liberty, SC 2012, DDR2; the numbers agree with those in the source of FaultSim,
//!   Nair et al., TACO 2016) and [`CIELO`] (Sridharan et al., ASPLOS 2015, DDR3, *recalled*).
//! - A study sees footprints and no faults: a row fault of which one cell was read is a *single-bit fault* there. So a fault is drawn until
//!   the addresses that it reported have the footprint of its mode.
//! - A permanent fault reports rarely or very often: counts are log-uniform over each range (heavy tails: Schroeder et al., SIGMETRICS 2009).
//! - Faults are often intermittent (Hwang et al., ASPLOS 2012): silent for days between bursts.
//! - Some row faults take in the rows beside (Beigi et al., HPCA 2023, name two-row and clustered modes; the share is assumed), or a part of a row.
//!
//! # Assumed
//!
//! How a part fails (word line or its segment, local or global bit line, a block of a bank), that a fault has few or many weak cells, each
//! failing in 5 to 100 % of its reads; that reads come from few hot pages, whose lines lie in runs of neighbouring columns (interleaving), and
//! from patrol scrubs that visit each cell once per interval in the order of addresses; that hardware records one error per 0 to 300 s
//! and counts or drops the others.

use surefoot_model::{DramLocation, ErrorReport, ErrorSeverity, FaultMode, Fidelity, MemorySource};
use surefoot_random::Random;

const SECOND_NS: u64 = 1_000_000_000;
const HOUR_S: f64 = 3600.0;
const DAY_S: f64 = 86_400.0;
/// How long a module is watched.
const WATCHED_S: f64 = 90.0 * DAY_S;
const BEGIN_NS: u64 = 1_717_200_000 * SECOND_NS;
/// Until when, for [`surefoot_memory::fault::Evidence::judge_at`].
pub const UNTIL_NS: u64 = BEGIN_NS + WATCHED_S as u64 * SECOND_NS;

/// Failures in 10^9 hours of a device: mode, transient, permanent.
pub type Mix = [(FaultMode, f64, f64); 7];

/// DDR2, Jaguar. The seventh of the rows that takes in others beside it is assumed.
pub const JAGUAR: Mix = [
    (FaultMode::Cell, 15.6, 18.9),
    (FaultMode::Row, 0.17, 7.0),
    (FaultMode::Rows, 0.03, 1.2),
    (FaultMode::Column, 1.4, 5.6),
    (FaultMode::Bank, 0.8, 10.0),
    (FaultMode::Banks, 0.3, 1.4),
    (FaultMode::Rank, 0.9, 2.8),
];

/// DDR3, Cielo: shares of all faults, of which about half are permanent.
pub const CIELO: Mix = [
    (FaultMode::Cell, 40.0, 27.9),
    (FaultMode::Row, 2.0, 8.4),
    (FaultMode::Rows, 0.3, 1.1),
    (FaultMode::Column, 2.7, 6.0),
    (FaultMode::Bank, 2.6, 7.0),
    (FaultMode::Banks, 0.3, 0.7),
    (FaultMode::Rank, 0.3, 0.8),
];

/// Draws a mode and whether it is permanent.
pub fn drawn(mix: &Mix, random: &mut Random) -> (FaultMode, bool) {
    let mut left = random.unit() * mix.iter().map(|(_, transient, permanent)| transient + permanent).sum::<f64>();
    for &(mode, transient, permanent) in mix {
        for (rate, is_permanent) in [(transient, false), (permanent, true)] {
            left -= rate;
            if left < 0.0 {
                return (mode, is_permanent);
            }
        }
    }
    (FaultMode::Cell, true)
}

/// The part of the devices' organisation that reports show.
#[derive(Debug, Clone, Copy)]
pub struct Geometry {
    pub ranks: u32,
    pub groups: u32,
    pub banks_per_group: u32,
    pub rows: u32,
    /// Bursts of a row.
    pub bursts: u32,
    /// Columns of a burst.
    pub burst: u32,
    /// Rows between two stripes of sense amplifiers.
    pub subarray: u32,
}

/// DDR4 of 8 Gbit (x4, x8) and 16 Gbit, DDR3 of 4 Gbit, DDR5 of 16 Gbit.
const GEOMETRIES: [Geometry; 5] = [
    Geometry { ranks: 2, groups: 4, banks_per_group: 4, rows: 1 << 17, bursts: 128, burst: 8, subarray: 512 },
    Geometry { ranks: 1, groups: 4, banks_per_group: 4, rows: 1 << 16, bursts: 128, burst: 8, subarray: 1024 },
    Geometry { ranks: 2, groups: 4, banks_per_group: 4, rows: 1 << 18, bursts: 128, burst: 8, subarray: 640 },
    Geometry { ranks: 4, groups: 1, banks_per_group: 8, rows: 1 << 16, bursts: 256, burst: 8, subarray: 512 },
    Geometry { ranks: 2, groups: 8, banks_per_group: 4, rows: 1 << 16, bursts: 128, burst: 16, subarray: 768 },
];

/// How a host finds and reports errors.
#[derive(Debug, Clone, Copy)]
pub struct Host {
    /// Of the patrol scrubber; `None` where there is none.
    pub scrub_s: Option<f64>,
    /// At most one record in so long.
    pub record_gap_s: f64,
    /// A record carries the number of errors since the one before.
    pub is_counting: bool,
    /// Demand reads come in bursts: many in seconds, then silence.
    pub is_bursty: bool,
}

impl Host {
    pub fn drawn(random: &mut Random) -> Host {
        Host {
            scrub_s: [None, Some(6.0), Some(24.0), Some(24.0), Some(72.0)][random.below(5) as usize]
                .map(|h| h * HOUR_S),
            record_gap_s: [0.0, 0.0, 1.0, 10.0, 300.0][random.below(5) as usize],
            is_counting: random.below(2) == 0,
            is_bursty: random.below(3) == 0,
        }
    }
}

/// One cell that a record can name, and when.
#[derive(Debug, Clone, Copy)]
struct Error {
    at_s: f64,
    rank: u32,
    bank: u32,
    row: u32,
    burst: u32,
}

pub struct Module {
    pub reports: Vec<ErrorReport>,
    pub until_ns: u64,
}

fn log_uniform(low: f64, high: f64, random: &mut Random) -> f64 {
    low * (high / low).powf(random.unit())
}

/// Poisson, by the times between.
pub fn poisson(mean: f64, random: &mut Random) -> u32 {
    let (mut count, mut left) = (0, mean);
    loop {
        left -= random.exponential(1.0);
        if left < 0.0 {
            return count;
        }
        count += 1;
    }
}

/// The part of a module that fails, as the cells of it that are weak.
struct Part {
    ranks: Vec<u32>,
    banks: Vec<u32>,
    /// From, and how many.
    rows: (u32, u32),
    bursts: (u32, u32),
    /// Of the cells there so many are weak; which ones is a hash of the place and this salt.
    weak: f64,
    salt: u64,
}

impl Part {
    fn of(mode: FaultMode, geometry: &Geometry, random: &mut Random) -> Part {
        let banks = geometry.groups * geometry.banks_per_group;
        let row = random.below(geometry.rows.into()) as u32;
        let burst = random.below(geometry.bursts.into()) as u32;
        let subarray = row / geometry.subarray * geometry.subarray;
        let block = (subarray, geometry.subarray.min(geometry.rows - subarray));
        let all_rows = (0, geometry.rows);
        let all_bursts = (0, geometry.bursts);
        let mut part = Part {
            ranks: vec![random.below(geometry.ranks.into()) as u32],
            banks: vec![random.below(banks.into()) as u32],
            rows: (row, 1),
            bursts: (burst, 1),
            weak: 1.0,
            salt: random.word(),
        };
        // A segment of a word line, half of it, or all of it.
        let segment = |random: &mut Random| {
            let parts = [1, 1, 2, 8][random.below(4) as usize];
            let width = geometry.bursts / parts;
            (burst / width * width, width)
        };
        match mode {
            FaultMode::Row => part.bursts = segment(random),
            FaultMode::Rows => {
                part.bursts = segment(random);
                let count = [2, 2, 2, 4][random.below(4) as usize];
                part.rows = (row / count * count, count);
            }
            // A local bit line or the sense amplifier that two blocks share; or a column select line of the bank.
            FaultMode::Column => part.rows = if random.below(2) == 0 { block } else { all_rows },
            FaultMode::Bank => {
                (part.rows, part.bursts) = match random.below(3) {
                    0 => (block, all_bursts),
                    1 => (block, segment(random)),
                    _ => (all_rows, all_bursts),
                };
            }
            FaultMode::Banks | FaultMode::Rank => {
                (part.rows, part.bursts) = (all_rows, all_bursts);
                part.banks = (0..banks).collect();
                if mode == FaultMode::Banks {
                    part.banks = if geometry.groups > 1 && random.below(2) == 0 {
                        let group = random.below(geometry.groups.into()) as u32;
                        (group * geometry.banks_per_group..(group + 1) * geometry.banks_per_group).collect()
                    } else {
                        let first = random.below(u64::from(banks) - 1) as u32;
                        vec![first, first + 1 + random.below(u64::from(banks - first - 1)) as u32]
                    };
                } else if random.below(2) == 0 {
                    // A data line that all ranks share.
                    part.ranks = (0..geometry.ranks).collect();
                }
            }
            _ => {}
        }
        if mode != FaultMode::Cell {
            let cells =
                part.ranks.len() as f64 * part.banks.len() as f64 * f64::from(part.rows.1) * f64::from(part.bursts.1);
            part.weak = log_uniform(0.02, 1.0, random).max(12.0 / cells);
        }
        part
    }

    fn is_weak(&self, error: &Error) -> bool {
        let place = u64::from(error.rank) << 56
            | u64::from(error.bank) << 48
            | u64::from(error.row) << 16
            | u64::from(error.burst);
        Random::numbered(self.salt, place).unit() < self.weak
    }

    fn is_of(&self, error: &Error) -> bool {
        let within = |at: u32, (from, count): (u32, u32)| (from..from + count).contains(&at);
        self.ranks.contains(&error.rank)
            && self.banks.contains(&error.bank)
            && within(error.row, self.rows)
            && within(error.burst, self.bursts)
            && self.is_weak(error)
    }

    /// A weak cell of it, each as likely as another.
    fn cell(&self, random: &mut Random) -> Error {
        let one = |all: &[u32], random: &mut Random| all[random.below(all.len() as u64) as usize];
        loop {
            let error = Error {
                at_s: 0.0,
                rank: one(&self.ranks, random),
                bank: one(&self.banks, random),
                row: self.rows.0 + random.below(self.rows.1.into()) as u32,
                burst: self.bursts.0 + random.below(self.bursts.1.into()) as u32,
            };
            if self.is_weak(&error) {
                return error;
            }
        }
    }
}

/// The times in which a fault fails at all.
fn active(is_permanent: bool, host: &Host, random: &mut Random) -> Vec<(f64, f64)> {
    let begin = random.unit() * WATCHED_S * 0.5;
    if !is_permanent {
        // Until it is written or scrubbed.
        let end = begin + host.scrub_s.unwrap_or(DAY_S) * random.unit();
        return vec![(begin, end.min(WATCHED_S))];
    }
    if random.below(2) == 0 {
        return vec![(begin, WATCHED_S)];
    }
    let (on, off) = (log_uniform(600.0, 2.0 * DAY_S, random), log_uniform(2.0 * HOUR_S, 14.0 * DAY_S, random));
    let (mut spans, mut at) = (Vec::new(), begin);
    while at < WATCHED_S && spans.len() < 64 {
        let end = (at + random.exponential(on)).min(WATCHED_S);
        spans.push((at, end));
        at = end + random.exponential(off);
    }
    spans
}

/// Errors of a fault, about as many as asked for; in the order of time.
fn errors(
    part: &Part,
    is_permanent: bool,
    count: usize,
    geometry: &Geometry,
    host: &Host,
    random: &mut Random,
) -> Vec<Error> {
    let spans = active(is_permanent, host, random);
    let length: f64 = spans.iter().map(|(begin, end)| end - begin).sum();
    let at = |random: &mut Random| {
        let mut left = random.unit() * length;
        for &(begin, end) in &spans {
            if left <= end - begin {
                return begin + left;
            }
            left -= end - begin;
        }
        spans[spans.len() - 1].1
    };
    // Pages that are read often: each one is a run of bursts of one row, because interleaving spreads the others over banks and channels.
    let run = [2, 4, 8, 16][random.below(4) as usize].min(geometry.bursts);
    let hot: Vec<Error> = (0..log_uniform(1.0, 200.0, random) as usize + 1).map(|_| part.cell(random)).collect();
    let scrubbed = if host.scrub_s.is_some() { random.unit() * 0.7 } else { 0.0 };
    let mut errors = Vec::new();
    let mut tries = 0;
    while errors.len() < count && tries < count * 20 + 100 {
        tries += 1;
        if random.unit() < scrubbed {
            let mut error = part.cell(random);
            let scrub_s = host.scrub_s.unwrap_or(DAY_S);
            let place =
                (f64::from(error.row) + f64::from(error.burst) / f64::from(geometry.bursts)) / f64::from(geometry.rows);
            error.at_s = ((at(random) / scrub_s).floor() + place) * scrub_s;
            if spans.iter().any(|&(begin, end)| (begin..end).contains(&error.at_s)) {
                errors.push(error);
            }
            continue;
        }
        // The hottest page is read most: the n-th one in proportion to 1/n.
        let hottest = |random: &mut Random| hot[((hot.len() as f64).powf(random.unit()) - 1.0) as usize];
        let mut page = hottest(random);
        let begin_s = at(random);
        let reads = if host.is_bursty { 1 + random.below((count as u64 / 3).clamp(2, 300)) } else { 1 };
        for _ in 0..reads {
            if random.below(4) == 0 {
                page = hottest(random);
            }
            let mut error = page;
            error.burst = page.burst / run * run + random.below(run.into()) as u32;
            error.at_s = begin_s + if host.is_bursty { random.unit() * 10.0 } else { 0.0 };
            if part.is_of(&error) && errors.len() < count {
                errors.push(error);
            }
        }
    }
    errors.sort_by(|one, other| one.at_s.total_cmp(&other.at_s));
    errors
}

/// Hardware has room for one record; what comes until it is read is counted with it, or lost.
fn recorded(errors: &[Error], geometry: &Geometry, host: &Host) -> Vec<ErrorReport> {
    let mut reports: Vec<ErrorReport> = Vec::new();
    let mut last_s = f64::NEG_INFINITY;
    for error in errors {
        if error.at_s - last_s < host.record_gap_s {
            if let Some(report) = reports.last_mut().filter(|_| host.is_counting) {
                report.count += 1;
            }
            continue;
        }
        last_s = error.at_s;
        reports.push(report(error, geometry));
    }
    reports
}

fn report(error: &Error, geometry: &Geometry) -> ErrorReport {
    let is_grouped = geometry.groups > 1;
    ErrorReport {
        at_realtime_ns: BEGIN_NS + (error.at_s * 1e9) as u64,
        at_ns: None,
        source: MemorySource::McEvent,
        severity: ErrorSeverity::Corrected,
        dimm: Some("field".to_owned()),
        label: "field".to_owned(),
        count: 1,
        fidelity: Fidelity::Exact,
        location: DramLocation {
            rank: Some(error.rank),
            bank_group: is_grouped.then_some(error.bank / geometry.banks_per_group),
            bank: Some(if is_grouped { error.bank % geometry.banks_per_group } else { error.bank }),
            row: Some(error.row),
            column: Some(error.burst * geometry.burst),
            ..DramLocation::default()
        },
        detail: String::new(),
    }
}

/// Coordinates of a report that are told apart together.
type Place = (Option<u32>, Option<u32>, Option<u32>);

/// What a study calls reports with these places. Rows are near where at most four in a block of eight have errors.
pub fn footprint(reports: &[ErrorReport]) -> FaultMode {
    let places = |of: fn(&DramLocation) -> Place| {
        let mut all: Vec<_> = reports.iter().map(|report| of(&report.location)).collect();
        all.sort_unstable();
        all.dedup();
        all
    };
    let banks = places(|at| (at.rank, at.bank_group, at.bank));
    let ranks = places(|at| (at.rank, None, None));
    let rows = places(|at| (at.row, None, None));
    let columns = places(|at| (at.column, None, None));
    let span = |all: &[Place]| match (all.first(), all.last()) {
        (Some(first), Some(last)) => last.0.unwrap_or(0) - first.0.unwrap_or(0),
        _ => 0,
    };
    match (banks.len(), rows.len(), columns.len()) {
        (0, ..) => FaultMode::None,
        (1, 1, 1) => FaultMode::Cell,
        (1, 1, _) => FaultMode::Row,
        (1, _, 1) => FaultMode::Column,
        (1, 2..=4, _) if span(&rows) < 8 => FaultMode::Rows,
        (1, ..) => FaultMode::Bank,
        (2..=4, ..) if ranks.len() == 1 => FaultMode::Banks,
        _ => FaultMode::Rank,
    }
}

/// The reports of one fault, from `least` to `most`, with the footprint of its mode.
pub fn fault(
    mode: FaultMode,
    is_permanent: bool,
    (least, most): (usize, usize),
    geometry: &Geometry,
    host: &Host,
    random: &mut Random,
) -> Vec<ErrorReport> {
    for _ in 0..2000 {
        let count = (log_uniform(least as f64, most as f64 + 1.0, random) as usize).clamp(least, most);
        let part = Part::of(mode, geometry, random);
        // Records swallow errors: look for more of them.
        for more in [1, 8, 64] {
            let errors = errors(&part, is_permanent, (count * more).min(40_000), geometry, host, random);
            let mut reports = recorded(&errors, geometry, host);
            reports.truncate(count);
            if footprint(&reports) == mode && reports.len() >= least {
                return reports;
            }
        }
    }
    panic!("no {mode:?} with {least} reports from {host:?}");
}

/// A particle's flip, seen a few times until it is written or scrubbed. One in twenty takes a neighbour on the word line with it.
pub fn flip(geometry: &Geometry, host: &Host, random: &mut Random) -> Vec<ErrorReport> {
    let part = Part::of(FaultMode::Cell, geometry, random);
    let mut cells = vec![part.cell(random)];
    if random.below(20) == 0 {
        cells.push(Error { burst: (cells[0].burst + 1) % geometry.bursts, ..cells[0] });
    }
    let begin_s = random.unit() * WATCHED_S;
    let gone_s = begin_s + host.scrub_s.unwrap_or(DAY_S) * random.unit();
    let mut errors = Vec::new();
    for cell in cells {
        // Some flips sit where a program reads all the time.
        let reads = if random.below(5) == 0 { log_uniform(2.0, 300.0, random) as usize } else { 1 };
        errors.extend((0..reads).map(|_| Error { at_s: begin_s + (gone_s - begin_s) * random.unit(), ..cell }));
    }
    errors.sort_by(|one, other| one.at_s.total_cmp(&other.at_s));
    recorded(&errors, geometry, host)
}

pub fn geometry(random: &mut Random) -> Geometry {
    GEOMETRIES[random.below(GEOMETRIES.len() as u64) as usize]
}

/// A module with these faults, each with so many reports, and so many flips beside them.
pub fn module(
    faults: &[(FaultMode, bool)],
    count: (usize, usize),
    flips: u32,
    host: &Host,
    random: &mut Random,
) -> Module {
    let geometry = geometry(random);
    let mut reports = Vec::new();
    for &(mode, is_permanent) in faults {
        reports.extend(fault(mode, is_permanent, count, &geometry, host, random));
    }
    for _ in 0..flips {
        reports.extend(flip(&geometry, host, random));
    }
    reports.sort_by_key(|report| report.at_realtime_ns);
    Module { reports, until_ns: UNTIL_NS }
}
