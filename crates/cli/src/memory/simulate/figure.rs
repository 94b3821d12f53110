//! `surefoot memory simulate --figure N`.

use super::SimulateOptions;
use super::text::{assumed, days};
use super::work::Load;
use super::{chart, lines};
use serde::Serialize;
use std::io::{self, Write};
use surefoot_console::destination::Destination;
use surefoot_console::exit::Outcome;
use surefoot_console::output;
use surefoot_console::table::Table;
use surefoot_memory::simulate::{Figure, Mechanism, Path, Scene, Service, Work, figure};
use surefoot_memory::tune::{Bins, Choice, Wish, choose};

/// The errors of figures: bursts of tens of errors a second, on and off for minutes.
const BURSTS: &str = "onoff:28/s,2m,2m";
const HOURS_20_NS: u64 = 72_000_000_000_000;
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
    let optimum = if number == 12 { Some(best(&scene)?) } else { None };
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
    let load = Load::of(&errors, &options.errors, &options.path, &mut path)?;
    let Load::Pattern(pattern) = load else {
        anyhow::bail!(
            "--figure: a trace has one rate, and figures need others; `memory tune` draws a trace over intervals"
        );
    };
    path.banks = options.path.banks.unwrap_or(36);
    path.duration_ns = options.errors.duration.unwrap_or(HOURS_20_NS);
    path.check()?;
    pattern.check(path.duration_ns)?;
    let is_rate = options.requests.is_finite() && (1e-6..=1e6).contains(&options.requests);
    anyhow::ensure!(is_rate, "--requests: {} per second, but 0.000001 to 1000000 are possible", options.requests);
    let service = Service { requests_per_s: options.requests, work_ns: options.work, deadline_ns: options.deadline };
    Ok(Scene { path, pattern, seed: options.errors.seed, service })
}

/// What a figure of these defaults says in words, and whether it has the shape that the paper tells of.
pub fn shape(number: u32) -> anyhow::Result<(bool, String)> {
    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        options: SimulateOptions,
    }
    let number_word = number.to_string();
    let line: Line = clap::Parser::try_parse_from(["simulate", "--figure", &number_word])?;
    let scene = scene(&line.options)?;
    let drawn = figure(number, &scene)?;
    let series = |name: &str| {
        let all = drawn.diagrams.iter().flat_map(|diagram| &diagram.series);
        let found = all.clone().find(|series| series.name == name).or(all.clone().next());
        found.map(|series| series.points.clone()).unwrap_or_default()
    };
    let ends = |name: &str| {
        let points = series(name);
        [points.first().map_or(0.0, |point| point.1), points.last().map_or(0.0, |point| point.1)]
    };
    Ok(match number {
        4 => {
            let mean = |name: &str| {
                let points = series(name);
                points.iter().map(|point| point.1).sum::<f64>() / points.len().max(1) as f64
            };
            let [smi, cmci, polling] = ["SMI", "CMCI", "polling"].map(mean);
            let words = format!(
                "over all rates {smi:.0} % with SMIs, {cmci:.0} % with interrupts, {polling:.0} % with polling"
            );
            (smi < cmci && cmci <= polling, words)
        }
        6 => {
            let most = |name: &str| series(name).into_iter().map(|point| point.1).fold(0.0, f64::max);
            let (bursts, steady) = (most("these errors"), most("steady ones"));
            (bursts > 1.5 * steady, format!("up to {bursts:.0} a minute, steady ones up to {steady:.0}"))
        }
        8 => {
            let [smi, cmci] = ["SMI, all cores", "CMCI, one core"].map(|name| ends(name)[1]);
            (smi > cmci, format!("{smi:.0} s of all cores, {cmci:.0} s of one core, for 10,000 errors"))
        }
        9..=11 => {
            let [first, last] = ends("");
            let unit = ["ms", "s a day", "%"][number as usize - 9];
            (
                if number == 10 { last < first } else { last > first },
                format!("from {first:.0} {unit} at the shortest interval to {last:.0} {unit} at the longest"),
            )
        }
        _ => {
            let best_s = best(&scene)?.interval_ns.map_or(f64::NAN, |ns| ns as f64 / 1e9);
            (
                (33.0..=38.0).contains(&best_s),
                format!("{best_s:.0} s, with bursts and counters that were picked for it"),
            )
        }
    })
}

fn best(scene: &Scene) -> anyhow::Result<Choice> {
    let bins = Bins::new(SECOND_NS, Load::Pattern(scene.pattern).arrivals(&scene.path, scene.seed))?;
    let wish = Wish {
        stall_longest_ns: None,
        threshold_per_s: 0.0,
        detect_ns: u64::MAX,
        shortest_ns: SECOND_NS,
        longest_ns: 600 * SECOND_NS,
        any_phase: false,
    };
    Ok(choose(&scene.path, &bins, &wish)?)
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
