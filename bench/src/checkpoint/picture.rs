//! The figures as a picture: a panel each, a line per policy over the sizes.

use super::paper::Results;
use super::tables::{FIGURES, Figure};
use surefoot_console::chart::{self, Line, Panel, Scale};
use surefoot_console::words::size;

pub fn svg(results: &Results) -> String {
    let panels: Vec<Panel> = FIGURES.iter().map(|figure| panel(results, figure)).collect();
    chart::svg("The paper's microbenchmark: policies over the size of a checkpoint", &panels)
}

fn panel(results: &Results, figure: &Figure) -> Panel {
    let lines: Vec<Line> = results
        .savers
        .iter()
        .enumerate()
        .map(|(number, &saver)| {
            let of_saver = results.cells.iter().filter(|cell| cell.saver == saver);
            let point = |cell: &super::figures::Cell| {
                cell.spread(figure.measured).map(|spread| (cell.node_bytes, spread.median))
            };
            Line { number, name: saver.name().into(), points: of_saver.filter_map(point).collect() }
        })
        .filter(|line| !line.points.is_empty())
        .collect();
    let values = lines.iter().flat_map(|line| line.points.iter().map(|point| point.1));
    let most = values.filter(|value| value.is_finite()).fold(0.0, f64::max);
    let top = if figure.top > 0.0 { figure.top } else { most.max(1.0) };
    let cut = if figure.top > 0.0 && most > figure.top { format!(" (up to {top})") } else { String::new() };
    Panel {
        title: format!("{}{cut}", figure.title),
        across: "bytes of a checkpoint per node, at full size",
        scale: Scale::Logarithmic,
        tick: size,
        range: (0.0, top),
        lines,
        marks: Vec::new(),
    }
}
