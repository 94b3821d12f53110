//! The figures as JSON lines, and every run as comma-separated values.

use super::figures::{average, checks};
use super::paper::Results;
use super::setup::PAPER_RANKS;
use super::tables::{FIGURES, modelled};
use serde::Serialize;
use std::io::{self, Write};
use surefoot_checkpoint::measure::Spread;
use surefoot_console::output::line;

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Line<'a> {
    Setup {
        iterations: u64,
        compute_s: f64,
        scale: f64,
        ranks: u32,
        paper_ranks: u32,
        ssd_bytes_per_s: f64,
        rated_bytes: f64,
        staleness_max_s: f64,
        memory_limit_bytes: f64,
    },
    /// A figure of one policy and size, or with `size_bytes` null the mean over the sizes; seconds at full size.
    Figure {
        figure: &'a str,
        policy: &'a str,
        size_bytes: Option<f64>,
        node_bytes: Option<f64>,
        median: Option<f64>,
        lower_quartile: Option<f64>,
        upper_quartile: Option<f64>,
        round_count: usize,
        model: Option<f64>,
        model_paper_machine: Option<f64>,
    },
    Check {
        what: &'a str,
        found: f64,
        at_most: Option<f64>,
        at_least: Option<f64>,
        is_met: bool,
    },
    NotRun {
        policy: &'a str,
        reason: &'a str,
    },
    Note {
        text: &'a str,
    },
}

pub fn json(out: &mut impl Write, results: &Results) -> io::Result<()> {
    let setup = &results.setup;
    line(
        out,
        &Line::Setup {
            iterations: setup.iterations,
            compute_s: setup.compute_s,
            scale: setup.scale,
            ranks: setup.ranks,
            paper_ranks: PAPER_RANKS,
            ssd_bytes_per_s: setup.ssd_bytes_per_s,
            rated_bytes: setup.rated_bytes,
            staleness_max_s: setup.staleness_max_s,
            memory_limit_bytes: setup.memory_limit_bytes,
        },
    )?;
    for figure in &FIGURES {
        for &saver in &results.savers {
            let of_saver = results.cells.iter().filter(|cell| cell.saver == saver);
            for (cell, size_mb) in of_saver.zip(&results.sizes_mb) {
                let spread = cell.spread(figure.measured);
                let size = Some((size_mb * 1e6, cell.node_bytes));
                line(out, &figure_line(figure.name, saver.name(), size, spread, [None, None]))?;
            }
            let mean = average(&results.cells, saver, figure.measured);
            line(out, &figure_line(figure.name, saver.name(), None, mean, modelled(results, figure, saver)))?;
        }
    }
    for check in checks(setup, &results.cells) {
        let (at_most, at_least) = if check.is_at_most { (Some(check.limit), None) } else { (None, Some(check.limit)) };
        let is_met = check.is_met();
        line(out, &Line::Check { what: &check.what, found: check.found, at_most, at_least, is_met })?;
    }
    for (saver, reason) in &results.not_run {
        line(out, &Line::NotRun { policy: saver.name(), reason })?;
    }
    results.notes.iter().try_for_each(|text| line(out, &Line::Note { text }))
}

fn figure_line<'a>(
    figure: &'a str,
    policy: &'a str,
    size: Option<(f64, f64)>,
    spread: Option<Spread>,
    model: [Option<f64>; 2],
) -> Line<'a> {
    Line::Figure {
        figure,
        policy,
        size_bytes: size.map(|(bytes, _)| bytes),
        node_bytes: size.map(|(_, bytes)| bytes),
        median: spread.map(|spread| spread.median),
        lower_quartile: spread.map(|spread| spread.lower),
        upper_quartile: spread.map(|spread| spread.upper),
        round_count: spread.map_or(0, |spread| spread.count),
        model: model[0],
        model_paper_machine: model[1],
    }
}

/// One row per run; seconds at full size.
pub fn csv(out: &mut impl Write, results: &Results) -> io::Result<()> {
    writeln!(
        out,
        "round,policy,size_bytes,node_bytes,slowdown,slowdown_by_work,ssd_share,skipped_share,interval_s,ssd_interval_s,\
         durable_age_max_s,ssd_bytes_per_s,drive_years,energy_gross_joule,energy_net_joule,memory_checkpoint_s,\
         ssd_write_bytes_per_s_max,failed_count"
    )?;
    for (round, saver, size_mb, run) in &results.runs {
        let numbers = [
            Some(size_mb * 1e6),
            Some(results.setup.node_bytes(size_mb * 1e6)),
            Some(run.slowdown),
            run.slowdown_by_work,
            Some(run.ssd_share),
            Some(run.skipped_share),
            run.interval_s,
            run.ssd_interval_s,
            run.durable_age_s,
            Some(run.ssd_bytes_per_s),
            run.drive_years,
            Some(run.energy_gross_joule),
            Some(run.energy_net_joule),
            run.memory_checkpoint_s,
            run.ssd_write_bytes_per_s_max,
        ];
        let numbers = numbers.map(|number| number.map_or(String::new(), |number| number.to_string())).join(",");
        writeln!(out, "{},{},{numbers},{}", round + 1, saver.name(), run.failed_count)?;
    }
    Ok(())
}
