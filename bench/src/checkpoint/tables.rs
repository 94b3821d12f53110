//! The figures as tables for people.

use super::figures::{self, Check, Value, average, checks, share_of_plain};
use super::paper::Results;
use super::setup::{PAPER_RANKS, Saver};
use surefoot_checkpoint::measure::Spread;
use surefoot_checkpoint::simulate::{Kind, POWER, Run, Settings};
use surefoot_console::table::Table;
use surefoot_console::words::{size, time};

/// One of the paper's figures: what is measured, and the same from the stepped controller.
pub struct Figure {
    /// The name in JSON.
    pub name: &'static str,
    /// What it shows, with its unit.
    pub title: &'static str,
    /// From a run.
    pub measured: Value,
    /// From the model.
    pub modelled: fn(&Run, rated_bytes: f64) -> Option<f64>,
    /// As text.
    pub form: fn(f64) -> String,
    /// The top of its panel; 0 for as high as the values go.
    pub top: f64,
}

/// All of them, in the order of the paper: Figure 1 and 8 to 13, and what the paper does not show.
pub const FIGURES: [Figure; 8] = [
    Figure {
        name: "slowdown",
        title: "Slowdown: run time over work time",
        measured: |run| Some(run.slowdown),
        modelled: |run, _| Some(run.slowdown),
        form: |value| format!("{value:.3}"),
        top: 0.0,
    },
    Figure {
        name: "slowdown_by_work",
        title: "Slowdown by the work that was done: also what goes on behind it",
        measured: |run| run.slowdown_by_work,
        modelled: |_, _| None,
        form: |value| format!("{value:.3}"),
        top: 0.0,
    },
    Figure {
        name: "ssd_share",
        title: "Share of the iterations whose checkpoint went to the SSD, percent",
        measured: |run| Some(100.0 * run.ssd_share),
        modelled: |run, _| Some(100.0 * run.durable_share),
        form: |value| format!("{value:.1}"),
        top: 100.0,
    },
    Figure {
        name: "drive_years",
        title: "Drive life at the rate of the run, years",
        measured: |run| run.drive_years,
        modelled: |run, rated_bytes| {
            let rate = run.durable_bytes_per_s;
            (rate > 0.0).then(|| rated_bytes / rate / surefoot_checkpoint::controller::YEAR_S)
        },
        form: |value| format!("{value:.1}"),
        top: 20.0,
    },
    Figure {
        name: "interval_s",
        title: "Seconds between checkpoints",
        measured: |run| run.interval_s,
        modelled: |run, _| run.interval_s,
        form: |value| format!("{value:.1}"),
        top: 60.0,
    },
    Figure {
        name: "ssd_interval_s",
        title: "Seconds between checkpoints on the SSD",
        measured: |run| run.ssd_interval_s,
        modelled: |run, _| run.durable_interval_s,
        form: |value| format!("{value:.0}"),
        top: 0.0,
    },
    Figure {
        name: "durable_age_s",
        title: "Greatest age of the durable copy, seconds",
        measured: |run| run.durable_age_s,
        modelled: |run, _| run.staleness_s,
        form: |value| format!("{value:.0}"),
        top: 0.0,
    },
    Figure {
        name: "energy_gross_joule",
        title: "Energy of the checkpoints per iteration, joules, by the paper's powers (a model)",
        measured: |run| Some(run.energy_gross_joule),
        modelled: |run, _| Some(run.energy_gross_joule),
        form: |value| format!("{value:.0}"),
        top: 0.0,
    },
];

/// What the stepped controller says of a figure, mean over the sizes: on memory as fast as it was here, and on the
/// paper's machine.
pub fn modelled(results: &Results, figure: &Figure, saver: Saver) -> [Option<f64>; 2] {
    let paper = Settings::default();
    let here: fn(&figures::Figures) -> Option<f64> = |run| run.memory_checkpoint_s;
    let means = |is_here: bool| {
        let of_saver = results.cells.iter().filter(|cell| cell.saver == saver);
        let values: Vec<f64> = of_saver
            .filter_map(|cell| {
                // One that never went to memory has no such speed, and needs none.
                let speed =
                    cell.spread(here).map_or(paper.memory_bytes_per_s, |spread| cell.node_bytes / spread.median);
                let (speed, factor) =
                    if is_here { (speed, 1.0) } else { (paper.memory_bytes_per_s, paper.protection_factor) };
                let run = results.setup.model(saver, cell.node_bytes, speed, factor)?;
                (figure.modelled)(&run, results.setup.rated_bytes)
            })
            .collect();
        (values.len() == results.sizes_mb.len()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    [means(true), means(false)]
}

pub fn text(results: &Results) -> String {
    let setup = &results.setup;
    let mut text = format!(
        "{} iterations of {} of work and a checkpoint; {} ranks share the bytes of the paper's {PAPER_RANKS}; SSD at most \
         {}/s, rated for {} in 5 years.\nBytes and seconds are scaled to 1/{:.0} in the run, and shown at full size. Medians of \
         {} rounds, of the mean also quartiles.\n\n",
        setup.iterations,
        time(setup.compute_s),
        setup.ranks,
        size(setup.ssd_bytes_per_s),
        size(setup.rated_bytes),
        1.0 / setup.scale,
        results.runs.iter().map(|(round, ..)| round + 1).max().unwrap_or(0)
    );
    for figure in &FIGURES {
        text += &table(results, figure);
    }
    text += &held(results);
    for (saver, why) in &results.not_run {
        text += &format!("Not run: {}: {why}.\n", saver.name());
    }
    for note in &results.notes {
        text += &format!("Note: {note}.\n");
    }
    text += &legend(results);
    text
}

fn table(results: &Results, figure: &Figure) -> String {
    let sizes: Vec<String> = results.sizes_mb.iter().map(|size_mb| format!("{size_mb} MB")).collect();
    let mut header = vec!["policy"];
    header.extend(sizes.iter().map(String::as_str));
    header.extend(["mean", "quartiles", "model here", "paper's machine"]);
    let mut table = Table::new(&header, &[0]);
    let cell = |value: Option<f64>| value.map_or("-".to_owned(), figure.form);
    for &saver in &results.savers {
        let of_saver = results.cells.iter().filter(|cell| cell.saver == saver);
        let mut row = vec![saver.name().to_owned()];
        row.extend(of_saver.map(|found| cell(found.spread(figure.measured).map(|spread| spread.median))));
        let mean = average(&results.cells, saver, figure.measured);
        row.push(cell(mean.map(|mean| mean.median)));
        row.push(mean.map_or("-".into(), |mean| quartiles(&mean, figure.form)));
        row.extend(modelled(results, figure, saver).map(cell));
        table.row(row);
    }
    format!("{}\n{}\n", figure.title, table.text())
}

fn quartiles(spread: &Spread, form: fn(f64) -> String) -> String {
    format!("{} to {}", form(spread.lower), form(spread.upper))
}

fn held(results: &Results) -> String {
    let checks = checks(&results.setup, &results.cells);
    if checks.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&["what", "found", "limit", "met"], &[0, 2, 3]);
    for check in &checks {
        let Check { what, found, is_at_most, limit } = check;
        let relation = if *is_at_most { "<=" } else { ">=" };
        let met = if check.is_met() { "yes" } else { "NO" };
        table.row(vec![what.clone(), short(*found), format!("{relation} {}", short(*limit)), met.into()]);
    }
    let spread = share_of_plain(&results.cells, Saver::Library(Kind::Surefoot));
    let spread = spread.map_or(String::new(), |spread| {
        format!("surefoot / plain: {} by round.\n", quartiles(&spread, |value| format!("{value:.2}")))
    });
    format!("{}{spread}\n", table.text())
}

fn short(value: f64) -> String {
    match value {
        value if !value.is_finite() => "none".into(),
        value if value.abs() >= 100.0 => format!("{value:.0}"),
        value => format!("{value:.2}"),
    }
}

fn legend(results: &Results) -> String {
    let [ssd, memory, idle] = POWER;
    format!(
        "paper-lifetime, paper-performance, paper: the controller of MEMSYS'16 (Abeyratne et al.); paper in memory for \
         two checkpoints of {}.\nThose, memory, durable and paper-every:10: checksums, no code. surefoot: every checkpoint with its code, \
         the SSD in the background, a durable copy at most\n{} old; surefoot-when-due: only when it says that one pays. plain: a \
         write to a fresh file in memory, and the one before the last removed.\nModel here: the same controller stepped through, \
         with the speed of memory that was measured; paper's machine: with its 2.7 GB/s (surefoot: 1.5 times a plain copy).\n\
         Energy: {ssd} W writing to the SSD and {memory} W copying in memory ({idle} W idle included), as the paper prints \
         them, times the measured time; no power is measured.\n",
        size(results.setup.memory_limit_bytes),
        time(results.setup.staleness_max_s)
    )
}
