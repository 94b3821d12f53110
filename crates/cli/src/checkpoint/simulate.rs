//! `surefoot checkpoint simulate`.

use super::options::SimulateOptions;
use serde::Serialize;
use std::io::{self, Write};
use surefoot_checkpoint::controller::{Drive, YEAR_S};
use surefoot_checkpoint::simulate::{Kind, POWER, Run, Settings, run as simulate};
use surefoot_console::chart::{self, Line, Panel, Scale};
use surefoot_console::destination::Destination;
use surefoot_console::exit::Outcome;
use surefoot_console::output;
use surefoot_console::table::Table;
use surefoot_console::words::{size, time};

/// More runs than this are no table any more.
const RUNS_MAX: usize = 1_000;

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "run")]
pub struct RunLine {
    policy: &'static str,
    size_bytes: f64,
    slowdown: f64,
    taken_count: u64,
    ssd_share: f64,
    skipped_share: f64,
    refused_count: u64,
    failed_writes_count: u64,
    interval_s: Option<f64>,
    ssd_interval_s: Option<f64>,
    staleness_s: Option<f64>,
    ssd_bytes_per_s: f64,
    drive_years: Option<f64>,
    checkpoint_energy_gross_joule: f64,
    checkpoint_energy_net_joule: f64,
}

pub fn run(options: &SimulateOptions) -> anyhow::Result<Outcome> {
    let chart = options.chart.as_deref().map(|path| Destination::open("--chart", path)).transpose()?;
    let settings = settings(options);
    let kinds: Vec<Kind> =
        Kind::ALL.into_iter().filter(|kind| options.policy.is_empty() || options.policy.contains(kind)).collect();
    let mut sizes = options.sizes.clone();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    anyhow::ensure!(kinds.len() * sizes.len() <= RUNS_MAX, "--sizes: at most {} of them", RUNS_MAX / kinds.len());
    let runs: Vec<Run> = kinds
        .iter()
        .flat_map(|&kind| sizes.iter().map(move |&size| (kind, size)))
        .map(|(kind, size)| simulate(kind, size, &settings))
        .collect();
    if let Some(chart) = chart {
        chart.write(|out| out.write_all(picture(&runs).as_bytes()))?;
    }
    let mut out = io::BufWriter::new(surefoot_console::people::stdout());
    if options.json {
        output::stream(&mut out, "checkpoint simulate")?;
        runs.iter().try_for_each(|run| output::line(&mut out, &line(run)))?;
    } else {
        out.write_all(text(&kinds, &sizes, &runs, &settings).as_bytes())?;
    }
    out.flush()?;
    Ok(Outcome::Done)
}

fn settings(options: &SimulateOptions) -> Settings {
    let five_years_s = 5.0 * YEAR_S;
    Settings {
        iterations: options.iterations,
        compute_s: options.compute_s,
        memory_bytes_per_s: options.memory_bytes_per_s,
        durable_bytes_per_s: options.durable_bytes_per_s,
        protection_factor: options.protection_factor,
        waiting_share: options.waiting_share,
        memory_limit_bytes: options.memory_limit_bytes,
        drive: Drive {
            rated_bytes: options.rated_bytes,
            written_bytes: 0.0,
            remaining_s: five_years_s,
            rated_life_s: five_years_s,
        },
        staleness_max_s: options.staleness_max_s,
        memory_room_bytes: options.memory_room_bytes.unwrap_or(f64::INFINITY),
        durable_room_bytes: options.durable_room_bytes.unwrap_or(f64::INFINITY),
        memory_outage: options.memory_fails_s,
        durable_outage: options.durable_fails_s,
    }
}

fn line(run: &Run) -> RunLine {
    RunLine {
        policy: run.kind.name(),
        size_bytes: run.size_bytes,
        slowdown: run.slowdown,
        taken_count: run.taken_count,
        ssd_share: run.durable_share,
        skipped_share: run.skipped_share,
        refused_count: run.refused_count,
        failed_writes_count: run.failed_count,
        interval_s: run.interval_s,
        ssd_interval_s: run.durable_interval_s,
        staleness_s: run.staleness_s,
        ssd_bytes_per_s: run.durable_bytes_per_s,
        drive_years: run.drive_years,
        checkpoint_energy_gross_joule: run.energy_gross_joule,
        checkpoint_energy_net_joule: run.energy_net_joule,
    }
}

/// What stands in a cell of a table of runs.
type Cell = fn(&Run) -> String;

const TABLES: [(&str, Cell); 7] = [
    ("Slowdown: run time over work time", |run| format!("{:.2}", run.slowdown)),
    ("Share of the checkpoints that go to the SSD, percent", |run| format!("{:.1}", 100.0 * run.durable_share)),
    ("Drive life, years", |run| {
        run.drive_years.map_or("-".into(), |years| match years {
            years if years < 1_000.0 => format!("{years:.1}"),
            _ => ">1000".into(),
        })
    }),
    ("Interval between checkpoints", |run| run.interval_s.map_or("-".into(), time)),
    ("Interval between checkpoints on the SSD", |run| run.durable_interval_s.map_or("-".into(), time)),
    ("Greatest age of the copy on the SSD", |run| run.staleness_s.map_or("-".into(), time)),
    ("Energy of the checkpoints per iteration, joules: gross / beyond idle", |run| {
        format!("{:.0}/{:.0}", run.energy_gross_joule, run.energy_net_joule)
    }),
];

/// Shown where there is any.
const TROUBLE: (&str, Cell) = ("Checkpoints that no tier could take / writes to the SSD that failed", |run| {
    format!("{}/{}", run.refused_count, run.failed_count)
});

fn text(kinds: &[Kind], sizes: &[f64], runs: &[Run], settings: &Settings) -> String {
    let mut text = format!(
        "{} iterations of {} s of work and a checkpoint; memory {}/s, SSD {}/s, rated for {} in 5 years\n\n",
        settings.iterations,
        settings.compute_s,
        size(settings.memory_bytes_per_s),
        size(settings.durable_bytes_per_s),
        size(settings.drive.rated_bytes)
    );
    let words: Vec<String> = sizes.iter().map(|&bytes| size(bytes)).collect();
    let is_troubled = runs.iter().any(|run| run.refused_count + run.failed_count > 0);
    for (title, cell) in TABLES.into_iter().chain(is_troubled.then_some(TROUBLE)) {
        let header: Vec<&str> = std::iter::once("policy").chain(words.iter().map(String::as_str)).collect();
        let mut table = Table::new(&header, &[0]);
        for (kind, of_kind) in kinds.iter().zip(runs.chunks(sizes.len())) {
            table.row(std::iter::once(kind.name().to_owned()).chain(of_kind.iter().map(cell)).collect());
        }
        text += &format!("{title}\n{}\n", table.text());
    }
    let [ssd, memory, idle] = POWER;
    text += &format!(
        "paper-lifetime, paper-performance, paper: the controller of MEMSYS'16 (Abeyratne et al.); paper with memory \
         for {}.\nsurefoot: copies protected by the code ({} times a plain copy), the SSD in the background. Drive life: at \
         the rate of the last quarter.\nEnergy: the power that the paper prints for one server ({ssd} W writing to the SSD, \
         {memory} W copying in memory, {idle} W idle) times\nthe time that each takes here; no measurement of this machine, and \
         good for ratios only.\n",
        size(settings.memory_limit_bytes),
        settings.protection_factor
    );
    text
}

fn picture(runs: &[Run]) -> String {
    type Value = fn(&Run) -> f64;
    const PANELS: [(&str, Value, f64); 5] = [
        ("Slowdown: run time over work time", |run| run.slowdown, 8.0),
        ("Share of the checkpoints on the SSD, percent", |run| 100.0 * run.durable_share, 100.0),
        ("Drive life, years (up to 20)", |run| run.drive_years.unwrap_or(f64::INFINITY), 20.0),
        ("Seconds between checkpoints (up to 60)", |run| run.interval_s.unwrap_or(f64::INFINITY), 60.0),
        ("Energy of the checkpoints per iteration beyond idle, joules", |run| run.energy_net_joule, 0.0),
    ];
    let panel = |(title, value, top): (&str, Value, f64)| {
        let most = runs.iter().map(value).filter(|value| value.is_finite()).fold(0.0, f64::max);
        let lines = Kind::ALL.into_iter().enumerate().filter_map(|(number, kind)| {
            let points: Vec<(f64, f64)> =
                runs.iter().filter(|run| run.kind == kind).map(|run| (run.size_bytes, value(run))).collect();
            (!points.is_empty()).then(|| Line { number, name: kind.name().into(), points })
        });
        Panel {
            title: title.into(),
            across: "bytes of a checkpoint per node",
            scale: Scale::Logarithmic,
            tick: size,
            range: (0.0, if top > 0.0 { top } else { most.max(1.0) }),
            lines: lines.collect(),
            marks: Vec::new(),
        }
    };
    chart::svg("Policies over the size of a checkpoint", &PANELS.map(panel))
}
