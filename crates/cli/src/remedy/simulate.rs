//! `surefoot remedy simulate`.

use anyhow::Context;
use clap::Args;
use serde::Serialize;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use surefoot_console::exit::Outcome;
use surefoot_console::output;
use surefoot_console::table::Table;
use surefoot_console::units::counted;
use surefoot_model::Alert;
use surefoot_remedy::policy::Policies;
use surefoot_remedy::simulate::{Assumed, Plan, Simulated, simulate};

/// The most alerts of a recorded fleet, and the longest line.
const ALERTS_MAX: usize = 1_000_000;
const LINE_BYTES_MAX: u64 = 256 * 1024;

#[derive(Args)]
pub struct SimulateOptions {
    /// The policy file
    #[arg(long, value_name = "FILE")]
    policy: PathBuf,
    /// How many hosts; of a recorded fleet at least those that it names
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    hosts: u64,
    /// For how many days
    #[arg(long, value_name = "D", default_value_t = 365, value_parser = clap::value_parser!(u64).range(1..=3_650))]
    days: u64,
    /// Of the same seed everything comes out the same
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Alerts of a real fleet, a JSON object a line, in the place of made-up faults
    #[arg(long, value_name = "FILE")]
    fleet: Option<PathBuf>,
    /// Factor on the assumed fault rates
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    faults: f64,
    /// Print JSON lines
    #[arg(long)]
    json: bool,
}

/// The outcome for a service.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "service")]
pub struct ServiceLine<'a> {
    service: &'a str,
    host_count: u64,
    case_count: u64,
    hosts_out_at_once_max: u64,
    availability: f64,
}

/// The outcome for the whole fleet.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "result")]
pub struct ResultLine {
    host_count: u64,
    day_count: u64,
    seed: u64,
    /// Cases that were opened.
    case_count: u64,
    /// The most hosts that were out at once.
    hosts_out_at_once_max: u64,
    /// How often a limit was exceeded, counted apart from the decisions.
    limit_violation_count: u64,
    /// The share of all hosts' time in which they were in service.
    availability: f64,
    /// Cases in which a step repaired something.
    repair_count: u64,
    /// Those of them without a fault.
    false_repair_count: u64,
    /// Parts that people replaced.
    replaced_count: u64,
    /// Those of them that tested good.
    tested_good_count: u64,
    /// Parts that steps repaired in two cases or more before they were replaced.
    repeat_offender_count: u64,
    /// How often another part was put into a place.
    swap_count: u64,
    /// Work of people.
    person_hours: f64,
    /// Cases that went to a person.
    with_person_count: u64,
    /// Cases whose trouble was gone before anything was done.
    cleared_count: u64,
    /// Cases that are open at the end.
    open_count: u64,
    /// Alerts that no policy is for.
    unmatched_count: u64,
    /// How long a case waited before it touched its host, on average.
    wait_hours_mean: f64,
}

pub fn run(options: &SimulateOptions) -> anyhow::Result<Outcome> {
    anyhow::ensure!(
        options.faults.is_finite() && (0.0..=1_000.0).contains(&options.faults),
        "--faults: from 0 to 1000 times as many"
    );
    let policies = Policies::read(&options.policy)?;
    for doubt in policies.doubts() {
        surefoot_console::tell!("surefoot remedy: note: {doubt}");
    }
    let recorded = options.fleet.as_deref().map(recorded).transpose()?.unwrap_or_default();
    let mut assumed = Assumed::default();
    assumed.kinds.iter_mut().for_each(|kind| kind.per_host_year *= options.faults);
    let plan = Plan { hosts: options.hosts, days: options.days, seed: options.seed, assumed, recorded };
    let result = simulate(&policies, &plan);
    let mut out = io::BufWriter::new(surefoot_console::people::stdout());
    if options.json {
        lines(&mut out, &result, options)?;
    } else {
        out.write_all(text(&result, options).as_bytes())?;
    }
    out.flush()?;
    Ok(if result.limit_violation_count == 0 { Outcome::Done } else { Outcome::Found })
}

/// The alerts of a recorded fleet, in the order of their times.
fn recorded(path: &Path) -> anyhow::Result<Vec<Alert>> {
    let file = surefoot_foreign::hold(path).and_then(|held| held.regular()?.open());
    let file = file.with_context(|| format!("--fleet {}", path.display()))?;
    let mut reader = BufReader::new(file);
    let mut alerts: Vec<Alert> = Vec::new();
    for number in 1.. {
        let mut line = Vec::new();
        let read = reader.by_ref().take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut line);
        let bytes = read.with_context(|| format!("--fleet {}", path.display()))?;
        if bytes == 0 {
            break;
        }
        let place = || format!("{}, line {number}", path.display());
        anyhow::ensure!(bytes as u64 <= LINE_BYTES_MAX, "{}: longer than {LINE_BYTES_MAX} bytes", place());
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        anyhow::ensure!(alerts.len() < ALERTS_MAX, "{}: more than {ALERTS_MAX} alerts", place());
        alerts.push(serde_json::from_slice(&line).with_context(|| format!("{}: no alert", place()))?);
    }
    anyhow::ensure!(!alerts.is_empty(), "{}: it holds no alert", path.display());
    alerts.sort_by_key(|alert| alert.since_realtime_ns);
    Ok(alerts)
}

fn lines(out: &mut impl Write, result: &Simulated, options: &SimulateOptions) -> anyhow::Result<()> {
    output::stream(out, "remedy simulate")?;
    for (name, service) in &result.services {
        let line = ServiceLine {
            service: name,
            host_count: service.host_count,
            case_count: service.case_count,
            hosts_out_at_once_max: service.hosts_out_at_once_max,
            availability: service.availability,
        };
        output::line(out, &line)?;
    }
    let line = ResultLine {
        host_count: hosts(result),
        day_count: options.days,
        seed: options.seed,
        case_count: result.case_count,
        hosts_out_at_once_max: result.hosts_out_at_once_max,
        limit_violation_count: result.limit_violation_count,
        availability: result.availability,
        repair_count: result.repair_count,
        false_repair_count: result.false_repair_count,
        replaced_count: result.replaced_count,
        tested_good_count: result.tested_good_count,
        repeat_offender_count: result.repeat_offender_count,
        swap_count: result.swap_count,
        person_hours: result.person_hours,
        with_person_count: result.with_person_count,
        cleared_count: result.cleared_count,
        open_count: result.open_count,
        unmatched_count: result.unmatched_count,
        wait_hours_mean: result.wait_hours_mean,
    };
    Ok(output::line(out, &line)?)
}

fn hosts(result: &Simulated) -> u64 {
    result.services.values().map(|service| service.host_count).sum()
}

fn text(result: &Simulated, options: &SimulateOptions) -> String {
    let (hosts, days) = (counted(hosts(result), "host", "hosts"), counted(options.days, "day", "days"));
    let mut text = format!("{hosts} for {days}, seed {}\n\n", options.seed);
    let mut table = Table::new(&["service", "hosts", "cases", "out at once", "availability"], &[0]);
    for (name, service) in &result.services {
        table.row(vec![
            if name.is_empty() { "-".to_owned() } else { name.clone() },
            service.host_count.to_string(),
            service.case_count.to_string(),
            service.hosts_out_at_once_max.to_string(),
            percent(service.availability),
        ]);
    }
    text.push_str(&table.text());
    let rows = [
        ("cases", result.case_count.to_string()),
        ("  cleared before anything was done", result.cleared_count.to_string()),
        ("  repaired by a step", result.repair_count.to_string()),
        ("    without a fault", result.false_repair_count.to_string()),
        ("  given to a person", result.with_person_count.to_string()),
        ("  open at the end", result.open_count.to_string()),
        ("parts replaced", result.replaced_count.to_string()),
        ("  that tested good", result.tested_good_count.to_string()),
        ("parts repaired more than once", result.repeat_offender_count.to_string()),
        ("parts put into a place of another", result.swap_count.to_string()),
        ("alerts without a policy", result.unmatched_count.to_string()),
        ("hosts out at once, at most", result.hosts_out_at_once_max.to_string()),
        ("limits exceeded", result.limit_violation_count.to_string()),
        ("availability", percent(result.availability)),
        ("wait before a host is taken up, mean", format!("{:.1} h", result.wait_hours_mean)),
        ("work of people", format!("{:.0} h", result.person_hours)),
    ];
    text.push('\n');
    for (name, value) in rows {
        text.push_str(&format!("{name:<40}{value:>12}\n"));
    }
    text.push_str("\nHow often parts fail and how well steps repair is assumed (guide, Remedies); compare policies, do not predict.\n");
    text
}

fn percent(share: f64) -> String {
    format!("{:.4} %", 100.0 * share)
}
