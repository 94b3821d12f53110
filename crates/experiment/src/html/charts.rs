//! The pictures of a page of experiments.

use super::text;
use std::collections::BTreeMap;
use std::fmt::Write;
use surefoot_console::chart::{Line, Panel, Scale, svg};
use surefoot_model::{CpuId, ExperimentRow};
use surefoot_rooms::disturb::Experiment;

/// Stalls that are drawn of one core, evenly taken.
const STALLS_DRAWN: usize = 400;
/// Cores that have a line.
const CORES_DRAWN: usize = 8;
/// Ratios that are drawn; each has a line.
const RATIOS_DRAWN: usize = 200;
/// Room for names beside the intervals, and for these.
const NAMES_WIDTH: f64 = 310.0;
const PLOT_WIDTH: f64 = 420.0;
/// Letters of a name that have room.
const LETTERS_DRAWN: usize = 46;
const ROW: f64 = 22.0;

/// Of a line.
type Points = Vec<(f64, f64)>;

/// The runs in their order, undisturbed and disturbed; none of several workloads, whose numbers have no common axis.
pub fn runs(one: &Experiment) -> String {
    if one.is_of_several() {
        return String::new();
    }
    let is_time = one.began.metric == "wall";
    let of = |condition: &str| -> Vec<(f64, f64)> {
        let runs = one.runs.iter().filter(|run| run.condition == condition);
        runs.map(|run| (run.run as f64, if is_time { run.value / 1e6 } else { run.value })).collect()
    };
    let lines = [("undisturbed", 1), ("disturbed", 2)].map(|(word, number)| Line {
        number,
        name: word.into(),
        points: of(word),
    });
    let title = if is_time { "Time of each run, ms".to_owned() } else { format!("{} of each run", one.began.metric) };
    drawn(title, "run, in the order of time", lines.into())
}

/// How long each stall was, core by core.
pub fn stalls(one: &Experiment) -> String {
    let Some(first) = one.stalls.first() else { return String::new() };
    let mut cores: BTreeMap<Option<CpuId>, Points> = BTreeMap::new();
    for stall in &one.stalls {
        let at_s = stall.start_ns.saturating_sub(first.start_ns) as f64 / 1e9;
        cores.entry(stall.core).or_default().push((at_s, stall.length_ns as f64 / 1e6));
    }
    let line = |(number, (core, points)): (usize, (Option<CpuId>, Points))| {
        let every = points.len().div_ceil(STALLS_DRAWN).max(1);
        let name = core.map_or("the workload".to_owned(), |core| format!("core {core}"));
        Line { number: number + 1, name, points: points.into_iter().step_by(every).collect() }
    };
    let lines: Vec<Line> = cores.into_iter().take(CORES_DRAWN).enumerate().map(line).collect();
    drawn("Length of each stall, ms".into(), "seconds since the first stall", lines)
}

fn drawn(title: String, across: &'static str, lines: Vec<Line>) -> String {
    let lines: Vec<Line> = lines.into_iter().filter(|line| line.points.len() > 1).collect();
    let values = || lines.iter().flat_map(|line| &line.points).map(|point| point.1).filter(|value| value.is_finite());
    let (low, high) = values().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), y| (low.min(y), high.max(y)));
    if low > high {
        return String::new();
    }
    let range = rounded(low, high);
    let label = title.clone();
    let panel = Panel {
        title,
        across,
        scale: Scale::Linear,
        tick: |at| format!("{}", (at * 1e6).round() / 1e6),
        range,
        lines,
        marks: Vec::new(),
    };
    svg(&label, &[panel])
}

/// A range around these, whose quarters are round numbers: the chart has a line at each.
fn rounded(low: f64, high: f64) -> (f64, f64) {
    let room = ((high - low) * 0.05).max(high.abs() * 0.002).max(1e-9);
    let rough = (high - low + 2.0 * room) / 3.0;
    let power = 10f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0].map(|factor| factor * power);
    let step = steps.into_iter().find(|step| *step >= rough).unwrap_or(10.0 * power);
    let from = ((low - room) / step).floor() * step;
    // What is never negative has no axis below nothing.
    let from = if low >= 0.0 { from.max(0.0) } else { from };
    (from, from + 4.0 * step)
}

/// A ratio with its interval.
pub struct Ratio {
    name: String,
    ratio: f64,
    low: f64,
    high: f64,
}

impl Ratio {
    pub fn of(name: &str, ratio: f64, low: f64, high: f64) -> Ratio {
        Ratio { name: name.to_owned(), ratio, low, high }
    }

    /// Of a row of an experiment with several workloads or disturbances.
    pub fn of_row(row: &ExperimentRow) -> Option<Ratio> {
        let (ratio, low, high) = (row.effect?, row.interval_low?, row.interval_high?);
        let name = format!("{}, {}: {}", row.case, row.treatment, row.measure);
        (row.compared == "ratio").then_some(Ratio { name, ratio, low, high })
    }
}

/// Ratios with their intervals; none of one alone, or where they are no ratios.
pub fn ratios(all: impl Iterator<Item = Ratio>) -> String {
    let is_drawn = |one: &Ratio| one.low > 0.0 && one.ratio.is_finite() && one.high.is_finite();
    let finished: Vec<Ratio> = all.filter(is_drawn).take(RATIOS_DRAWN).collect();
    if finished.len() < 2 {
        return String::new();
    }
    let ends = finished.iter().flat_map(|one| [one.low, one.high, 1.0]);
    let (low, high) = ends.fold((f64::INFINITY, 0.0f64), |(low, high), end| (low.min(end), high.max(end)));
    let span = (high / low).ln().max(f64::MIN_POSITIVE);
    let x_of = |ratio: f64| NAMES_WIDTH + (ratio / low).ln() / span * PLOT_WIDTH;
    let (width, height) = (NAMES_WIDTH + PLOT_WIDTH + 90.0, ROW * (finished.len() as f64 + 2.0));
    let mut picture = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\" \
         aria-label=\"ratios with their intervals\">\n<style>.i{{stroke:#3d8bd4;stroke-width:2}}.d{{fill:#3d8bd4}}.o{{stroke:#8b949e;\
         stroke-dasharray:3 3}}.t{{font:12px system-ui,sans-serif;fill:currentColor}}</style>\n"
    );
    let one = x_of(1.0);
    let _ =
        writeln!(picture, "<line class=\"o\" x1=\"{one:.1}\" x2=\"{one:.1}\" y1=\"0\" y2=\"{:.1}\"/>", height - ROW);
    for (number, one) in finished.iter().enumerate() {
        let y = ROW * (number as f64 + 0.5);
        let short: String = one.name.chars().take(LETTERS_DRAWN).collect();
        let (from, to, at) = (x_of(one.low), x_of(one.high), x_of(one.ratio));
        let _ = writeln!(
            picture,
            "<text class=\"t\" x=\"0\" y=\"{:.1}\">{}</text><line class=\"i\" x1=\"{from:.1}\" x2=\"{to:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <circle class=\"d\" cx=\"{at:.1}\" cy=\"{y:.1}\" r=\"4\"/><text class=\"t\" x=\"{:.1}\" y=\"{:.1}\">{:.3}</text>",
            y + 4.0,
            text(&short),
            to + 8.0,
            y + 4.0,
            one.ratio
        );
    }
    let _ = writeln!(
        picture,
        "<text class=\"t\" x=\"{one:.1}\" y=\"{:.1}\" text-anchor=\"middle\">1 = no effect (logarithmic)</text>\n</svg>",
        height - ROW / 2.0
    );
    picture
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_holds_all_and_its_quarters_are_round() {
        for (low, high) in [(168.0, 201.0), (1.0, 1.0), (0.0, 7.3), (-3.0, 11.0), (2.0001, 2.0003)] {
            let (from, to) = rounded(low, high);
            assert!(from <= low && high < to, "{low} to {high}: {from} to {to}");
            let step = (to - from) / 4.0;
            let digits = step / 10f64.powf(step.log10().floor());
            assert!([1.0, 2.0, 2.5, 5.0, 10.0].iter().any(|round| (digits - round).abs() < 1e-6), "{step}");
        }
        assert_eq!(rounded(168.0, 201.0), (160.0, 240.0));
    }
}
