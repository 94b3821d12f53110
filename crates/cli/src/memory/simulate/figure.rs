//! `surefoot memory simulate --figure N`.

use super::SimulateOptions;
use super::text::{assumed, days};
use super::{chart, lines};
use serde::Serialize;
use std::io::{self, Write};
use surefoot_console::destination::Destination;
use surefoot_console::exit::Outcome;
use surefoot_console::output;
use surefoot_console::table::Table;
use surefoot_memory::simulate::{Figure, Load, Mechanism, Path, Scene, Service, Work, best_interval, figure};
use surefoot_memory::tune::Choice;

/// The errors of figures: bursts of tens of errors a second, on and off for minutes.
const BURSTS: &str = "onoff:28/s,2m,2m";
const SECOND_NS: u64 = 1_000_000_000;
/// Rows of a table; a figure over time has more points.
const ROWS_MAX: usize = 40;

/// A point of a figure.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "figure_point")]
pub struct PointLine<'a> {
    /// Its number in ICPE'20.
    figure: u32,
    /// What goes up, with its unit.
    diagram: &'a str,
    series: &'a str,
    /// What goes across, with its unit.
    across: &'a str,
    x: f64,
    y: f64,
}

/// The interval that a figure over intervals points to.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "optimum")]
pub struct OptimumLine {
    interval_s: Option<f64>,
    binding_constraint: &'static str,
    stall_total_ns: u64,
    missed_count: u64,
}

pub fn run(options: &SimulateOptions, number: u32) -> anyhow::Result<Outcome> {
    let chart_file = options.svg.as_deref().map(|path| Destination::open("--svg", path)).transpose()?;
    let scene = scene(options)?;
    let drawn = figure(number, &scene)?;
    let optimum = if number == 12 { Some(best_interval(&scene)?) } else { None };
    let best_s = optimum.and_then(|choice| choice.interval_ns).map(|ns| ns as f64 / 1e9);
    if let Some(file) = chart_file {
        let marks: Vec<(f64, String)> = best_s.map(|s| (s, format!("{s} s"))).into_iter().collect();
        file.write(|out| out.write_all(chart::figure(&drawn, &marks).as_bytes()))?;
    }
    let mut out = io::BufWriter::new(surefoot_console::people::stdout());
    if options.json {
        output::stream(&mut out, "memory simulate")?;
        lines::costs(&scene.path.costs, &Work::ALL).iter().try_for_each(|cost| output::line(&mut out, cost))?;
        for diagram in &drawn.diagrams {
            for series in &diagram.series {
                for &(x, y) in &series.points {
                    let (diagram, series) = (diagram.title, series.name);
                    let line = PointLine { figure: number, diagram, series, across: drawn.across, x, y };
                    output::line(&mut out, &line)?;
                }
            }
        }
        if let Some(choice) = optimum {
            let (binding_constraint, outcome) = (choice.binding.name(), choice.outcome);
            let (stall_total_ns, missed_count) = (outcome.stall_total_ns, outcome.missed_count);
            let line = OptimumLine { interval_s: best_s, binding_constraint, stall_total_ns, missed_count };
            output::line(&mut out, &line)?;
        }
    } else {
        out.write_all(text(options, &scene, &drawn, optimum.as_ref()).as_bytes())?;
    }
    out.flush()?;
    Ok(Outcome::Done)
}

fn scene(options: &SimulateOptions) -> anyhow::Result<Scene> {
    let mut path = Path { mechanism: Mechanism::Polling, ..options.path() };
    let errors = options.errors.errors_or(BURSTS);
    let Load::Pattern(pattern) = super::load(&errors, &options.errors, &options.path, &mut path)? else {
        anyhow::bail!(
            "--figure: a trace has one rate, and figures need others; `memory tune` draws a trace over intervals"
        );
    };
    let paper = Scene::paper().path;
    path.banks = options.path.banks.unwrap_or(paper.banks);
    path.duration_ns = options.errors.duration.unwrap_or(paper.duration_ns);
    path.check()?;
    pattern.check(path.duration_ns)?;
    let is_rate = options.requests.is_finite() && (1e-6..=1e6).contains(&options.requests);
    anyhow::ensure!(is_rate, "--requests: {} per second, but 0.000001 to 1000000 are possible", options.requests);
    let service = Service { requests_per_s: options.requests, work_ns: options.work, deadline_ns: options.deadline };
    Ok(Scene { path, pattern, seed: options.errors.seed, service })
}

fn text(options: &SimulateOptions, scene: &Scene, drawn: &Figure, optimum: Option<&Choice>) -> String {
    let mut text = format!(
        "{}: the shape of figure {} of ICPE'20 (Dixit et al.), with our model\n{} for {}\n",
        drawn.title,
        drawn.number,
        options.errors.errors_or(BURSTS),
        days(scene.path.duration_ns),
    );
    for diagram in &drawn.diagrams {
        let names: Vec<&str> = diagram.series.iter().map(|one| one.name).collect();
        let header: Vec<&str> = std::iter::once(drawn.across).chain(names).collect();
        let mut table = Table::new(&header, &[]);
        let Some(first) = diagram.series.first() else { continue };
        let every = first.points.len().div_ceil(ROWS_MAX);
        for (row, (x, _)) in first.points.iter().enumerate().step_by(every) {
            let values = diagram.series.iter().filter_map(|one| one.points.get(row)).map(|point| number(point.1));
            table.row(std::iter::once(number(*x)).chain(values).collect());
        }
        text += &format!("\n{}\n{}", diagram.title, table.text());
        if every > 1 {
            text += &format!("One point of {every} is shown; --json has all.\n");
        }
    }
    if let Some(choice) = optimum {
        text += &match choice.interval_ns {
            Some(ns) => format!("\nBest: {} s; {}.\n", ns / SECOND_NS, choice.binding.words()),
            None => "\nBest: none; every interval misses errors.\n".to_owned(),
        };
    }
    text + &assumed(&lines::costs(&scene.path.costs, &Work::ALL))
}

/// Four significant digits.
fn number(value: f64) -> String {
    let digits = if value == 0.0 { 0 } else { (3 - value.abs().log10().floor() as i32).clamp(0, 6) as usize };
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `disturb run papers` judges the figures that this command draws.
    #[test]
    fn without_options_the_scene_is_that_of_the_paper() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            options: SimulateOptions,
        }
        let line: Line = clap::Parser::try_parse_from(["simulate", "--figure", "12"]).unwrap();
        assert_eq!(scene(&line.options).unwrap(), Scene::paper());
    }
}
