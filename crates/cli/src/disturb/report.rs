//! `surefoot disturb report`: what an experiment came to, from what was kept of it.

use crate::rooms;
use crate::stall::record;
use anyhow::{Context, ensure};
use clap::Args;
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;
use surefoot_console::destination::Destination;
use surefoot_console::exit::Outcome;
use surefoot_console::units::counted;
use surefoot_console::{output, people};
use surefoot_experiment::html;
use surefoot_experiment::reading::Reading;
use surefoot_model::one_line;
use surefoot_rooms::disturb::PredictionView;

#[derive(Args)]
pub struct ReportOptions {
    /// The output of `surefoot disturb run --json` or `disturb predict --json`, a recording, or the journal of an experiment
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Write the report as one page of HTML with tables and charts
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write the predictions as a picture: slowdown over nodes, with intervals
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// JSON lines instead of text
    #[arg(long)]
    pub json: bool,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "DisturbReportLine"))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Line<'a> {
    /// A prediction, as the page has it.
    Prediction(&'a PredictionView),
}

pub fn run(options: &ReportOptions) -> anyhow::Result<Outcome> {
    let open = |option, path: &Option<PathBuf>| -> anyhow::Result<Option<Destination>> {
        let destination = path.as_ref().map(|path| Destination::open(option, path)).transpose()?;
        let is_same = destination.as_ref().is_some_and(|destination| destination.is_same(&options.file));
        ensure!(!is_same, "{option}: that is the file that is read; name another one");
        Ok(destination)
    };
    let is_one = options.html.is_some() && options.html == options.svg;
    ensure!(!is_one, "--html and --svg name the same file; name two");
    let (html, svg) = (open("--html", &options.html)?, open("--svg", &options.svg)?);
    let mut read = Reading::default();
    let outcome = read.file(&options.file, |path, each| record::read(path, each));
    read.notices.iter().for_each(|notice| people::tell!("surefoot: {notice}"));
    let outcome = outcome.with_context(|| options.file.display().to_string())?;
    let predictions = &read.predictions;
    let is_nothing = read.state.is_empty() && predictions.is_empty();
    ensure!(!is_nothing, "{}: it holds no experiment and no prediction", options.file.display());
    ensure!(svg.is_none() || !predictions.is_empty(), "--svg: {} holds no prediction", options.file.display());
    let mut out = output::patient();
    if options.json {
        output::stream(&mut out, "disturb report")?;
    }
    rooms::disturb::print(&mut out, &read.state, read.clock.end_realtime_ns(), options.json)?;
    for one in predictions {
        if options.json {
            output::line(&mut out, &Line::Prediction(one))?;
            continue;
        }
        let (low, high) = (one.interval_low, one.interval_high);
        let (pattern, nodes) = (one_line(&one.pattern), counted(one.nodes, "node", "nodes"));
        writeln!(out, "{pattern} on {nodes}: {:.4} times as long ({low:.4} to {high:.4})", one.slowdown)?;
    }
    out.flush()?;
    if let Some(destination) = html {
        let path = destination.path().to_owned();
        html::write(destination, &read.state, predictions)?;
        people::tell!("report in {}", path.display());
    }
    if let Some(destination) = svg {
        let path = destination.path().to_owned();
        destination.write(|out| out.write_all(html::picture(predictions).as_bytes()))?;
        people::tell!("picture in {}", path.display());
    }
    Ok(outcome)
}
