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

/// The share of the time that an SMI may take in figure 8, so that hardly one comes while another lasts.
const SMI_SHARE: f64 = 0.01;

/// Figure 8: stall over the errors that came. An SMI that comes while one lasts makes it longer by less than its own length: where they take
/// most of the time, the curve flattens, and what is measured is the time that there is. So the stall per error is that at a rate at
/// which SMIs take a hundredth of the time; the mean rate of the scene's errors is shown beside it.
fn growth(scene: &Scene) -> Figure {
    let smi_s = scene.path.costs.smi_ns.max(1) as f64 / 1e9;
    let mean_per_s = scene.pattern.mean_per_s().max(1e-6);
    let line = |mechanism: Mechanism, per_s: f64, name| {
        let point = |power: i32| {
            let errors = 10f64.powf(f64::from(power) / 2.0).round();
            let duration_ns = (errors / per_s * 1e9) as u64;
            let path = Path { duration_ns: duration_ns.max(1), ..with(scene, mechanism) };
            let outcome = run(&path, Arrivals::new(&Pattern::Steady { per_s }, &path, scene.seed, 0));
            // Those that came, which are not just as many as were to be expected.
            (outcome.arrived_count as f64, outcome.stall_total_ns as f64 / 1e9)
        };
        let points: Vec<(f64, f64)> = (0..=8).map(point).filter(|(errors, _)| *errors > 0.0).collect();
        Series { name, points }
    };
    let before_per_s = (SMI_SHARE / smi_s).min(mean_per_s);
    let smi = line(Mechanism::Smi, before_per_s, "SMI, all cores");
    let cmci = line(Mechanism::Cmci, before_per_s, "CMCI, one core");
    let saturated = line(Mechanism::Smi, mean_per_s, "SMI at the mean rate");
    let at_mean = line(Mechanism::Cmci, mean_per_s, "CMCI at the mean rate");
    let each = |series: &Series| Series {
        name: series.name,
        points: series.points.iter().map(|(errors, stall_s)| (*errors, 1e3 * stall_s / errors)).collect(),
    };
    let ratio = |name, smi: &Series, cmci: &Series| {
        let pairs = smi.points.iter().zip(&cmci.points).filter(|(_, (_, stall_s))| *stall_s > 0.0);
        Series { name, points: pairs.map(|((errors, smi_s), (_, cmci_s))| (*errors, smi_s / cmci_s)).collect() }
    };
    let ratios = vec![ratio("before saturation", &smi, &cmci), ratio("at the mean rate", &saturated, &at_mean)];
    Figure {
        number: 8,
        title: "Growth of the stall with the errors",
        across: "errors",
        is_over_time: false,
        diagrams: vec![
            Diagram { title: "Stall per error, milliseconds", series: vec![each(&smi), each(&cmci), each(&saturated)] },
            Diagram { title: "SMI against CMCI, times (the paper: several times, no number)", series: ratios },
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::simulate::{Costs, StormRule};

    /// The paper says that an SMI costs several times what a CMCI does. At the mean rate of the figures' errors SMIs take all of the time,
    /// and the factor that is left is how much time there is.
    #[test]
    fn the_growth_of_the_stall_is_told_per_error_and_before_saturation() {
        let path = Path {
            mechanism: Mechanism::Polling,
            counter_bits: 10,
            threshold: 1,
            interval_ns: SECOND_NS,
            duration_ns: 3_600 * SECOND_NS,
            banks: 1,
            hot: 1,
            cores: 36,
            costs: Costs::LITERATURE,
            storms: StormRule::Never,
        };
        let pattern = Pattern::Bursty { per_s: 28.0, on_s: 120.0, off_s: 120.0 };
        let scene = Scene {
            path,
            pattern,
            seed: 1,
            service: Service { requests_per_s: 50.0, work_ns: 1_000_000, deadline_ns: 200_000_000 },
        };
        let figure = figure(8, &scene).unwrap();
        let last = |diagram: usize, name: &str| {
            let series = figure.diagrams[diagram].series.iter().find(|series| series.name == name).unwrap();
            series.points.last().unwrap().1
        };
        let costs = Costs::LITERATURE;
        let [smi_ms, cmci_ms] = [costs.smi_ns, costs.interrupt_ns + costs.line_ns].map(|ns| ns as f64 / 1e6);
        // Nearly what one costs alone, which overlaps with others in one of a hundred cases.
        let each = last(0, "SMI, all cores");
        assert!(each > 0.98 * smi_ms && each <= smi_ms, "{each} of {smi_ms}");
        let each = last(0, "CMCI, one core");
        assert!(each > 0.98 * cmci_ms && each <= cmci_ms, "{each} of {cmci_ms}");
        let (before, at_mean) = (last(1, "before saturation"), last(1, "at the mean rate"));
        assert!((before - smi_ms / cmci_ms).abs() < 0.1, "{before}");
        assert!(at_mean < 0.7 * before, "{at_mean} of {before}: at the mean rate there is no time for more");
    }
}
