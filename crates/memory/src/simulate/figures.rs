//! The figures of ICPE'20 (Dixit et al.) drawn anew with our model: their shapes, not their numbers, because the paper gives
//! neither its costs nor its errors.

use super::service::Service;
use super::{Arrivals, Mechanism, Path, Pattern, Stream, run, run_with_spans};
use crate::Error;
use crate::tune::{Bins, Point, curve};

/// The figures that can be drawn.
pub const FIGURES: [u32; 7] = [4, 6, 8, 9, 10, 11, 12];
const SECOND_NS: u64 = 1_000_000_000;
const MINUTE_NS: u64 = 60 * SECOND_NS;

/// A line of a figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// What it is of.
    pub name: &'static str,
    /// Across and up.
    pub points: Vec<(f64, f64)>,
}

/// One diagram of a figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Diagram {
    /// What goes up, with its unit.
    pub title: &'static str,
    /// Its lines.
    pub series: Vec<Series>,
}

/// A figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// Its number in the paper.
    pub number: u32,
    /// What it shows.
    pub title: &'static str,
    /// What goes across, with its unit.
    pub across: &'static str,
    /// Whether that is time, which goes in equal steps; otherwise in equal factors.
    pub is_over_time: bool,
    /// Its diagrams, below each other.
    pub diagrams: Vec<Diagram>,
}

/// What a figure is drawn for.
#[derive(Debug, Clone, PartialEq)]
pub struct Scene {
    /// The path; its mechanism is that of each line.
    pub path: Path,
    /// The errors.
    pub pattern: Pattern,
    /// What all random numbers follow from.
    pub seed: u64,
    /// The service of figure 4.
    pub service: Service,
}

/// Draws a figure.
///
/// # Errors
/// [`Error::Option`] for a number that is none of [`FIGURES`], or errors that are too many.
pub fn figure(number: u32, scene: &Scene) -> Result<Figure, Error> {
    match number {
        4 => Ok(efficiency(scene)),
        6 => arrivals(scene),
        8 => Ok(growth(scene)),
        9 => over_interval(scene, 9, "Longest stall over the polling interval", &[LONGEST]),
        10 => over_interval(scene, 10, "Stall of a core per day over the polling interval", &[TOTAL]),
        11 => over_interval(scene, 11, "Missed errors over the polling interval", &[MISSED]),
        12 => over_interval(scene, 12, "The best interval: least stall without a missed error", &[TOTAL, MISSED]),
        _ => {
            let known = FIGURES.map(|number| number.to_string()).join(", ");
            let why = format!("no figure {number}: the figures are {known}");
            Err(Error::Option { option: "--figure", why })
        }
    }
}

fn with(scene: &Scene, mechanism: Mechanism) -> Path {
    Path { mechanism, ..scene.path.clone() }
}

/// Errors per second from one in 100 s to 100.
fn rates() -> impl Iterator<Item = f64> {
    (0..=16).map(|step| 0.01 * 10f64.powf(f64::from(step) / 4.0))
}

/// Figure 4: requests in time over the rate of steady errors.
fn efficiency(scene: &Scene) -> Figure {
    let line = |mechanism: Mechanism, name| {
        let path = Path { duration_ns: scene.path.duration_ns.min(60 * MINUTE_NS), ..with(scene, mechanism) };
        let point = |per_s| {
            let errors = Arrivals::new(&Pattern::Steady { per_s }, &path, scene.seed, 0);
            let (_, spans) = run_with_spans(&path, errors);
            let answered = scene.service.run(&spans, path.duration_ns, Stream::numbered(scene.seed, u64::MAX));
            (per_s, 100.0 * answered.efficiency())
        };
        Series { name, points: rates().map(point).collect() }
    };
    let series = vec![line(Mechanism::Smi, "SMI"), line(Mechanism::Cmci, "CMCI"), line(Mechanism::Polling, "polling")];
    Figure {
        number: 4,
        title: "Request efficiency of a service with a deadline",
        across: "errors per second",
        is_over_time: false,
        diagrams: vec![Diagram { title: "Requests in time, percent", series }],
    }
}

/// Figure 6: errors per minute over time, of these errors and of steady ones with the same mean.
fn arrivals(scene: &Scene) -> Result<Figure, Error> {
    let path = Path { banks: 1, duration_ns: scene.path.duration_ns.min(120 * MINUTE_NS), ..scene.path.clone() };
    let line = |pattern: &Pattern, name| {
        let mut minutes = vec![0u64; path.duration_ns.div_ceil(MINUTE_NS) as usize];
        for arrival in Arrivals::new(pattern, &path, scene.seed, 0) {
            minutes[(arrival.at_ns / MINUTE_NS) as usize] += arrival.count;
        }
        let points = minutes.iter().enumerate().map(|(minute, count)| (minute as f64, *count as f64)).collect();
        Series { name, points }
    };
    let steady = Pattern::Steady { per_s: scene.pattern.mean_per_s() };
    let series = vec![line(&scene.pattern, "these errors"), line(&steady, "steady ones")];
    Ok(Figure {
        number: 6,
        title: "Error arrivals",
        across: "minutes",
        is_over_time: true,
        diagrams: vec![Diagram { title: "Errors per minute", series }],
    })
}

/// Figure 8: stall in sum over the errors that came, at the mean rate.
fn growth(scene: &Scene) -> Figure {
    let per_s = scene.pattern.mean_per_s().max(1e-6);
    let line = |mechanism: Mechanism, name| {
        let point = |power: i32| {
            let errors = 10f64.powf(f64::from(power) / 2.0).round();
            let duration_ns = (errors / per_s * 1e9) as u64;
            let path = Path { duration_ns: duration_ns.max(1), ..with(scene, mechanism) };
            let outcome = run(&path, Arrivals::new(&Pattern::Steady { per_s }, &path, scene.seed, 0));
            (errors, outcome.stall_total_ns as f64 / 1e9)
        };
        Series { name, points: (0..=8).map(point).collect() }
    };
    let (smi, cmci) = (line(Mechanism::Smi, "SMI, all cores"), line(Mechanism::Cmci, "CMCI, one core"));
    Figure {
        number: 8,
        title: "Growth of the stall with the errors",
        across: "errors",
        is_over_time: false,
        diagrams: vec![
            Diagram { title: "Stall in sum, seconds", series: vec![smi, cmci.clone()] },
            Diagram { title: "CMCI alone, seconds", series: vec![cmci] },
        ],
    }
}

type OfInterval = (&'static str, &'static str, fn(&Point) -> f64);
const LONGEST: OfInterval =
    ("Longest stall, milliseconds", "longest stall", |point| point.stall_longest_ns as f64 / 1e6);
const TOTAL: OfInterval = ("Stall per day, seconds", "stall per day", |point| point.stall_ns_per_day / 1e9);
const MISSED: OfInterval = ("Missed errors, percent", "missed errors", |point| 100.0 * point.missed_share);

/// Figures 9 to 12: polling alone, over the interval.
fn over_interval(scene: &Scene, number: u32, title: &'static str, of: &[OfInterval]) -> Result<Figure, Error> {
    let points = points(scene)?;
    let diagram = |&(title, name, value): &OfInterval| {
        let points = points.iter().map(|point| (point.interval_ns as f64 / 1e9, value(point))).collect();
        Diagram { title, series: vec![Series { name, points }] }
    };
    let diagrams = of.iter().map(diagram).collect();
    Ok(Figure { number, title, across: "polling interval, seconds", is_over_time: false, diagrams })
}

fn points(scene: &Scene) -> Result<Vec<Point>, Error> {
    let path = with(scene, Mechanism::Polling);
    let bins = Bins::new(SECOND_NS, Arrivals::new(&scene.pattern, &path, scene.seed, 0))?;
    let seconds = (1..=60).chain((65..=120).step_by(5)).chain((150..=600).step_by(30));
    let intervals: Vec<u64> = seconds.map(|seconds| seconds * SECOND_NS).collect();
    Ok(curve(&path, &bins, &intervals))
}
