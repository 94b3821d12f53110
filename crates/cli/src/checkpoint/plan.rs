//! `surefoot checkpoint plan`.

use super::drive;
use super::options::PlanOptions;
use serde::Serialize;
use std::io::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};
use surefoot_checkpoint::controller::{Drive, Endurance, Surefoot, YEAR_S, of_drives};
use surefoot_checkpoint::plan::{self, Bound, Job, Plan};
use surefoot_console::chart::{self, Line, Panel, Scale};
use surefoot_console::destination::Destination;
use surefoot_console::exit::Outcome;
use surefoot_console::output;
use surefoot_console::table::Table;
use surefoot_console::words::{date, percent, size, time};

/// Points of a line in the chart.
const POINTS: usize = 120;

/// Beyond this a date says nothing.
const YEARS_MAX: f64 = 1_000.0;

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "plan")]
pub struct PlanLine<'a> {
    choice: &'static str,
    is_chosen: bool,
    memory_interval_s: f64,
    /// `null` where there is no durable checkpoint.
    durable_interval_s: f64,
    waste_share: f64,
    checkpoint_share: f64,
    lost_work_share: f64,
    staleness_s: f64,
    bytes_per_day: f64,
    drive_left_s: Option<f64>,
    drive_ends: Option<String>,
    bound: &'static str,
    bearable_bytes_per_s: Option<f64>,
    notes: &'a [String],
    /// What was not said and is assumed, by the names of options.
    assumed: &'a [&'static str],
}

pub fn run(options: &PlanOptions) -> anyhow::Result<Outcome> {
    let chart = options.chart.as_deref().map(|path| Destination::open("--chart", path)).transpose()?;
    let (drive, drive_note) = drive(options)?;
    let job = job(options, drive);
    let assumed = assumed(options);
    let mut plan = plan::plan(&job);
    plan.notes.extend(drive_note);
    plan.notes.extend(assumed_note(&job, &assumed));
    if let Some(chart) = chart {
        chart.write(|out| out.write_all(picture(&job, &plan).as_bytes()))?;
    }
    let mut out = io::BufWriter::new(surefoot_console::people::stdout());
    if options.json {
        output::stream(&mut out, "checkpoint plan")?;
        for (choice, outcome, is_chosen) in choices(&plan) {
            output::line(
                &mut out,
                &PlanLine {
                    choice,
                    is_chosen,
                    memory_interval_s: outcome.memory_interval_s,
                    durable_interval_s: outcome.durable_interval_s,
                    waste_share: outcome.waste(),
                    checkpoint_share: outcome.checkpoint_share,
                    lost_work_share: outcome.lost_work_share,
                    staleness_s: outcome.staleness_s,
                    bytes_per_day: outcome.bytes_per_day,
                    drive_left_s: outcome.drive_left_s,
                    drive_ends: outcome.drive_left_s.and_then(end),
                    bound: plan.bound.label(),
                    bearable_bytes_per_s: plan.bearable_bytes_per_s,
                    notes: &plan.notes,
                    assumed: &assumed,
                },
            )?;
        }
    } else {
        out.write_all(text(&job, &plan).as_bytes())?;
    }
    out.flush()?;
    Ok(Outcome::Done)
}

/// The drive, as far as it is said by hand or read now, and what there is to say about that.
fn drive(options: &PlanOptions) -> anyhow::Result<(Option<Drive>, Option<String>)> {
    let endurance = Endurance {
        rated_bytes: options.rated_bytes,
        written_bytes: options.written_bytes,
        remaining_s: options.remaining_years.map(|years| years * YEAR_S),
        amplification_factor: None,
    };
    let Some(path) = &options.drive else { return Ok((endurance.by_hand(), None)) };
    let unknown = |why| (endurance.by_hand(), Some(format!("the wear of the drive is not known: {why}")));
    Ok(match drive::beneath(path)? {
        Ok(report) => {
            let drives: Vec<_> = report.drives.iter().collect();
            match of_drives(&drives, &endurance, 0.0, 1.0) {
                Ok((drive, said)) => (Some(drive), Some(said)),
                Err(why) => unknown(why.unwrap_or_default()),
            }
        }
        Err(why) => unknown(why.to_string()),
    })
}

/// What was not said, and is what a job assumes that says nothing either.
fn assumed(options: &PlanOptions) -> Vec<&'static str> {
    let said = [
        ("memory_mtbf_s", options.memory_mtbf_s),
        ("durable_mtbf_s", options.durable_mtbf_s),
        ("staleness_max_s", options.staleness_max_s),
    ];
    said.into_iter().filter(|(_, said)| said.is_none()).map(|(name, _)| name).collect()
}

fn assumed_note(job: &Job, assumed: &[&'static str]) -> Option<String> {
    let words: Vec<String> = assumed
        .iter()
        .map(|name| match *name {
            "memory_mtbf_s" => format!("a failure that memory survives every {}", time(job.memory_mtbf_s)),
            "durable_mtbf_s" => format!("one that only the SSD survives every {}", time(job.durable_mtbf_s)),
            _ => format!("a durable copy no older than {}", time(job.staleness_max_s.unwrap_or(f64::INFINITY))),
        })
        .collect();
    let options: Vec<String> =
        assumed.iter().map(|name| format!("--{}", name.trim_end_matches("_s").replace('_', "-"))).collect();
    (!words.is_empty()).then(|| {
        format!(
            "assumed, as a job does by default and not known of this machine: {}; say {}",
            words.join(", "),
            options.join(", ")
        )
    })
}

fn job(options: &PlanOptions, drive: Option<Drive>) -> Job {
    let default = Surefoot::default();
    Job {
        size_bytes: options.size,
        compute_s: options.compute_s,
        memory_mtbf_s: options.memory_mtbf_s.unwrap_or(1.0 / default.soft_failures_per_s),
        durable_mtbf_s: options.durable_mtbf_s.unwrap_or(1.0 / default.hard_failures_per_s),
        memory_bytes_per_s: options.memory_bytes_per_s,
        durable_bytes_per_s: options.durable_bytes_per_s,
        waiting_share: options.waiting_share,
        drive,
        staleness_max_s: Some(options.staleness_max_s.unwrap_or(default.staleness_max_s))
            .filter(|bound| bound.is_finite()),
    }
}

/// The day on which a drive wears out that has so many seconds left.
fn end(left_s: f64) -> Option<String> {
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    (left_s <= YEARS_MAX * YEAR_S).then(|| date(((now_s + left_s) / 86_400.0) as u64))
}

fn choices(plan: &Plan) -> Vec<(&'static str, &plan::Outcome, bool)> {
    let is_bound = |bounds: &[Bound]| bounds.contains(&plan.bound);
    let mut choices = vec![("least_waste", &plan.unbounded, is_bound(&[Bound::None]))];
    choices.extend(plan.endurance.as_ref().map(|outcome| ("drive_lasts", outcome, is_bound(&[Bound::Endurance]))));
    let bounds = [Bound::Staleness, Bound::Conflict];
    choices.extend(plan.staleness.as_ref().map(|outcome| ("copy_young", outcome, is_bound(&bounds))));
    choices
}

fn text(job: &Job, plan: &Plan) -> String {
    let mut text = format!(
        "A checkpoint of {} takes {} in memory and {} to the SSD.\n",
        size(job.size_bytes),
        time(job.size_bytes / job.memory_bytes_per_s),
        time(job.size_bytes / job.durable_bytes_per_s)
    );
    if let Some(bearable) = plan.bearable_bytes_per_s {
        text += &format!("The drive bears {} a day until the end of its planned life.\n", size(bearable * 86_400.0));
    }
    let header =
        ["", "choice", "memory every", "SSD every", "waste", "lost work", "oldest copy", "a day", "drive ends"];
    let mut table = Table::new(&header, &[0, 1]);
    for (choice, outcome, is_chosen) in choices(plan) {
        let name = match choice {
            "least_waste" => "least waste",
            "drive_lasts" => "drive lasts",
            _ => "copy stays young",
        };
        let ends = match outcome.drive_left_s {
            None => "not known".to_owned(),
            Some(left_s) => end(left_s).unwrap_or_else(|| format!("in more than {YEARS_MAX} years")),
        };
        table.row(vec![
            if is_chosen { "->" } else { "" }.into(),
            name.into(),
            time(outcome.memory_interval_s),
            time(outcome.durable_interval_s),
            percent(outcome.waste()),
            percent(outcome.lost_work_share),
            time(outcome.staleness_s),
            size(outcome.bytes_per_day),
            ends,
        ]);
    }
    text += &format!("\n{}\n", table.text());
    for note in &plan.notes {
        text += &format!("Note: {note}.\n");
    }
    text += "Waste: checkpoints, and work that failures take back; memory survives the first kind of failure only.\n";
    text
}

fn picture(job: &Job, plan: &Plan) -> String {
    let finite = |value: f64| value.is_finite() && value > 0.0;
    let known = choices(plan).into_iter().map(|(_, outcome, _)| outcome.durable_interval_s).filter(|&at| finite(at));
    let (low, high) = known.fold((f64::INFINITY, 0.0f64), |(low, high), at| (low.min(at), high.max(at)));
    let (low, high) = (low.min(plan.unbounded.durable_interval_s) / 5.0, high * 5.0);
    let at = |number: usize| low * (high / low).powf(number as f64 / (POINTS - 1) as f64);
    let over = |value: &dyn Fn(&plan::Outcome) -> f64| -> Vec<(f64, f64)> {
        (0..POINTS).map(|number| (at(number), value(&plan::at_interval(job, at(number))))).collect()
    };
    let marks: Vec<(f64, String)> = choices(plan)
        .into_iter()
        .map(|(choice, outcome, is_chosen)| {
            let arrow = if is_chosen { " (chosen)" } else { "" };
            (outcome.durable_interval_s, format!("{}{arrow}", choice.replace('_', " ")))
        })
        .collect();
    let panel = |title: &str, top: f64, lines: Vec<Line>| Panel {
        title: title.into(),
        across: "interval between durable checkpoints",
        scale: Scale::Logarithmic,
        tick: time,
        range: (0.0, top),
        lines,
        marks: marks.clone(),
    };
    let line = |number, name: &str, points| Line { number, name: name.into(), points };
    let worst = choices(plan).into_iter().map(|(_, outcome, _)| outcome.waste()).filter(|&waste| finite(waste));
    let most = 100.0 * (2.0 * worst.fold(0.0, f64::max)).min(1.0);
    let mut panels = vec![panel(
        "Waste, percent of the time",
        most,
        vec![
            line(1, "all", over(&|outcome| 100.0 * outcome.waste())),
            line(4, "checkpoints", over(&|outcome| 100.0 * outcome.checkpoint_share)),
            line(5, "lost work", over(&|outcome| 100.0 * outcome.lost_work_share)),
        ],
    )];
    if let Some(drive) = job.drive {
        let years = over(&|outcome| outcome.drive_left_s.unwrap_or(f64::INFINITY) / YEAR_S);
        let title = format!("Years until the drive is worn out (planned: {:.1})", drive.remaining_s / YEAR_S);
        panels.push(panel(&title, 4.0 * drive.remaining_s / YEAR_S, vec![line(2, "drive", years)]));
    }
    chart::svg("Waste and drive life over the interval between durable checkpoints", &panels)
}
