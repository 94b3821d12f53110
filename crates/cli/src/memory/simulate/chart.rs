//! Figures as SVG pictures.

use surefoot_console::chart::{self, Line, Panel, Scale};
use surefoot_memory::simulate::{Diagram, Figure, Series};
use surefoot_memory::tune::Point;

/// A figure, with words at places of its axis.
pub fn figure(figure: &Figure, marks: &[(f64, String)]) -> String {
    let scale = if figure.is_over_time { Scale::Linear } else { Scale::Logarithmic };
    let panels: Vec<Panel> =
        figure.diagrams.iter().map(|diagram| panel(diagram, figure.across, scale, marks)).collect();
    chart::svg(figure.title, &panels)
}

fn panel(diagram: &Diagram, across: &'static str, scale: Scale, marks: &[(f64, String)]) -> Panel {
    let highest = diagram.series.iter().flat_map(|one| &one.points).map(|point| point.1).fold(0.0, f64::max);
    let lines = diagram.series.iter().enumerate().map(|(number, series)| Line {
        number: number + 1,
        name: series.name.into(),
        points: series.points.clone(),
    });
    Panel {
        title: diagram.title.into(),
        across,
        scale,
        tick: |value| format!("{value}"),
        range: (0.0, round_up(highest)),
        lines: lines.collect(),
        marks: marks.to_vec(),
    }
}

/// The next of 1, 2, 4 and 5 times a power of ten, whose quarters are short numbers.
fn round_up(value: f64) -> f64 {
    if value <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(value.log10().floor());
    [1.0, 2.0, 4.0, 5.0, 8.0].map(|factor| factor * power).into_iter().find(|top| *top >= value).unwrap_or(10.0 * power)
}

/// Stall, longest stall and missed errors over the interval, with the one that was chosen.
pub fn curve(points: &[Point], chosen_ns: Option<u64>) -> String {
    type Value = fn(&Point) -> f64;
    const DIAGRAMS: [(&str, &str, Value); 3] = [
        ("Stall of a core per day, seconds", "stall per day", |point| point.stall_ns_per_day / 1e9),
        ("Longest stall, milliseconds", "longest stall", |point| point.stall_longest_ns as f64 / 1e6),
        ("Missed errors, percent", "missed errors", |point| 100.0 * point.missed_share),
    ];
    let diagrams = DIAGRAMS.map(|(title, name, value)| Diagram {
        title,
        series: vec![Series {
            name,
            points: points.iter().map(|point| (point.interval_ns as f64 / 1e9, value(point))).collect(),
        }],
    });
    let whole = Figure {
        number: 0,
        title: "Effect of each polling interval",
        across: "polling interval, seconds",
        is_over_time: false,
        diagrams: diagrams.into(),
    };
    let marks: Vec<(f64, String)> =
        chosen_ns.map(|ns| (ns as f64 / 1e9, format!("{} s", ns as f64 / 1e9))).into_iter().collect();
    figure(&whole, &marks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_numbers_above_all_values() {
        for (value, top) in [(0.0, 1.0), (1.0, 1.0), (1.1, 2.0), (36.9, 40.0), (81.0, 100.0), (0.03, 0.04)] {
            assert!((round_up(value) - top).abs() < 1e-12, "{value}");
        }
    }
}
