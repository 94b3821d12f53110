//! Predictions as a picture: slowdown over the number of nodes, both logarithmic, with the interval in which one more run would lie.

use super::text;
use std::collections::BTreeMap;
use std::fmt::Write;
use surefoot_console::units::duration;
use surefoot_rooms::disturb::PredictionView;

const WIDTH: f64 = 900.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 740.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 284.0;
/// Between two names below the plot.
const ROW: f64 = 18.0;
/// Lines that are drawn; more could not be told apart.
const LINES_MAX: usize = 8;
const COLOURS: [&str; LINES_MAX] =
    ["#3d8bd4", "#c4302b", "#2e9e6b", "#b8860b", "#8a5bc7", "#d4679b", "#1f6f8b", "#e07b39"];

const STYLE: &str = "text{font:12px system-ui,sans-serif;fill:#24292f}.g{stroke:#d0d7de}.l{fill:none;stroke-width:1.8}\
    @media(prefers-color-scheme:dark){text{fill:#d7dde4}.g{stroke:#3a424c}}";

/// Those that differ in nodes alone, by what they share; of those with as many nodes the newest.
fn lines(all: &[PredictionView]) -> Vec<(String, Vec<&PredictionView>)> {
    let mut lines: BTreeMap<String, BTreeMap<u64, &PredictionView>> = BTreeMap::new();
    for one in all {
        lines.entry(name(one)).or_default().insert(one.nodes, one);
    }
    lines.into_iter().map(|(name, points)| (name, points.into_values().collect())).collect()
}

fn name(one: &PredictionView) -> String {
    let work = one.compute_ns.map_or(String::new(), |ns| format!(", {} of work", duration(ns)));
    let iterations = one.iterations.map_or(String::new(), |count| format!(", {count} times"));
    let ranks = if one.ranks_per_node > 1 { format!(", {} ranks a node", one.ranks_per_node) } else { String::new() };
    let host = if one.progress == "host" { "; the cores move the bytes" } else { "" };
    format!("{}{work}{iterations}{ranks}; {}{host}", one.pattern, one.noises.join("; "))
}

/// Ones, twos and fives of powers of ten within a range; only ones where these are many.
fn ticks(from: f64, to: f64) -> Vec<f64> {
    let powers = from.log10().floor() as i32..=to.log10().ceil() as i32;
    let within = |factors: &[f64]| -> Vec<f64> {
        let all = powers.clone().flat_map(|power| factors.iter().map(move |factor| factor * 10f64.powi(power)));
        all.filter(|value| (from * 0.999..=to * 1.001).contains(value)).collect()
    };
    let fine = within(&[1.0, 2.0, 5.0]);
    if fine.len() <= 9 { fine } else { within(&[1.0]) }
}

/// The picture; empty of none.
pub fn picture(all: &[PredictionView]) -> String {
    let mut lines = lines(all);
    lines.truncate(LINES_MAX);
    let points = || lines.iter().flat_map(|(_, points)| points);
    let nodes =
        points().map(|one| one.nodes as f64).fold((f64::INFINITY, 1.0f64), |(low, high), x| (low.min(x), high.max(x)));
    let ends = points().flat_map(|one| [one.interval_low, one.interval_high, one.slowdown]);
    let (low, high) = ends.fold((1.0f64, 1.1f64), |(low, high), y| (low.min(y), high.max(y)));
    if nodes.0 > nodes.1 {
        return String::new();
    }
    let place = |value: f64, from: f64, to: f64| ((value / from).ln() / (to / from).ln().max(1e-9)).clamp(0.0, 1.0);
    let x_of = |x: f64| LEFT + place(x, nodes.0, nodes.1) * (RIGHT - LEFT);
    let (low, high) = (low / 1.03, high * 1.05);
    let y_of = |y: f64| BOTTOM - place(y, low, high) * (BOTTOM - TOP);
    let height = BOTTOM + 48.0 + ROW * lines.len() as f64;
    let title = "How many times as long a job takes, over its nodes";
    let mut picture = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" role=\"img\" \
         aria-label=\"{title}\">\n<style>{STYLE}</style>\n<text x=\"0\" y=\"16\" font-weight=\"600\">{title} (both axes logarithmic)</text>\n"
    );
    for y in ticks(low, high) {
        let at = y_of(y);
        let _ = writeln!(
            picture,
            "<line class=\"g\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/><text x=\"{}\" y=\"{:.1}\" \
             text-anchor=\"end\">{y}</text>",
            LEFT - 8.0,
            at + 4.0
        );
    }
    for x in ticks(nodes.0, nodes.1) {
        let _ =
            writeln!(picture, "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{x}</text>", x_of(x), BOTTOM + 18.0);
    }
    let _ = writeln!(picture, "<text x=\"{LEFT}\" y=\"{}\">nodes</text>", BOTTOM + 36.0);
    for (number, (name, points)) in lines.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let mut way = String::new();
        for (place, one) in points.iter().enumerate() {
            let (x, y) = (x_of(one.nodes as f64), y_of(one.slowdown));
            let _ = write!(way, "{}{x:.1} {y:.1}", if place == 0 { "M" } else { "L" });
            let (from, to) = (y_of(one.interval_low), y_of(one.interval_high));
            let _ = write!(
                picture,
                "<path class=\"l\" stroke=\"{colour}\" d=\"M{x:.1} {from:.1}V{to:.1}\"/><circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" \
                 fill=\"{colour}\"/>"
            );
        }
        let row = BOTTOM + 54.0 + ROW * number as f64;
        let _ = writeln!(
            picture,
            "<path class=\"l\" stroke=\"{colour}\" d=\"{way}\"/>\n<path class=\"l\" stroke=\"{colour}\" d=\"M{LEFT} {:.1}h20\"/>\
             <text x=\"{}\" y=\"{row:.1}\">{}</text>",
            row - 4.0,
            LEFT + 28.0,
            text(name)
        );
    }
    picture + "</svg>\n"
}

/// The picture and a table for each line.
pub fn section(all: &[PredictionView]) -> String {
    let mut page = format!("<h2>Predictions for many nodes</h2>\n{}", picture(all));
    for (name, points) in lines(all) {
        let _ = writeln!(
            page,
            "<details><summary>{}</summary><div class=\"wide\"><table><tr><th>nodes</th><th>slowdown</th><th>one more run, 19 of 20</th>\
             <th>draws</th></tr>",
            text(&name)
        );
        for one in points {
            let _ = writeln!(
                page,
                "<tr><td>{}</td><td>{:.4}</td><td>{:.4} to {:.4}</td><td>{}</td></tr>",
                one.nodes, one.slowdown, one.interval_low, one.interval_high, one.draws
            );
        }
        page += "</table></div></details>\n";
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(nodes: u64, slowdown: f64, noise: &str) -> PredictionView {
        PredictionView {
            pattern: "barrier".into(),
            nodes,
            ranks_per_node: 1,
            compute_ns: Some(1_000_000),
            iterations: Some(10),
            bytes: None,
            noises: vec![noise.into()],
            progress: "nic".into(),
            slowdown,
            interval_low: slowdown * 0.9,
            interval_high: slowdown * 1.1,
            interval_method: "order".into(),
            seed: 1,
            draws: 40,
        }
    }

    #[test]
    fn each_line_has_its_points_with_intervals_and_words_of_strangers_stay_words() {
        let all = [one(2, 1.1, "</svg><script>"), one(64, 9.0, "</svg><script>"), one(64, 300.0, "other")];
        let picture = picture(&all);
        assert_eq!((picture.matches("<circle").count(), picture.matches("</svg>").count()), (3, 1), "{picture}");
        assert!(
            picture.contains("&lt;script&gt;") && !picture.contains("<script") && !picture.contains("NaN"),
            "{picture}"
        );
        assert_eq!(section(&all).matches("<details>").count(), 2);
        assert_eq!(super::picture(&[]), "");
        // One point alone has an axis, too.
        assert!(!super::picture(&all[..1]).contains("NaN"));
    }
}
