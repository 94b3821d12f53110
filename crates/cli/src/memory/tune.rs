//! `surefoot memory tune`.

pub mod lines;

use super::simulate::errors::{Errors, Kind};
use super::simulate::options::{ErrorOptions, PathOptions};
use super::simulate::text::{assumed, days};
use super::simulate::{lines as simulate_lines, load};
use clap::{Args, ValueEnum};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;
use surefoot_console::destination::Destination;
use surefoot_console::exit::Outcome;
use surefoot_console::output;
use surefoot_console::table::{Table, paragraph};
use surefoot_console::units::{counted, duration, parse_ns, parse_rate, parse_time_ns, percent};
use surefoot_hostfs::Root;
use surefoot_journal::deeds::Record;
use surefoot_memory::look::Looker;
use surefoot_memory::simulate::{Load, Mechanism, Path, Pattern, StormRule};
use surefoot_memory::tune::act::{self, Applied, Step};
use surefoot_memory::tune::{
    Bins, Choice, Cores, Counters, Platform, Point, Unfinished, Wish, choose, curve, deeds, errors_to_count,
    intervals_shown, unfinished,
};
use surefoot_sys::signals;

const SECOND_NS: u64 = 1_000_000_000;
/// Sentences are wrapped here.
const COLUMNS: usize = 120;

#[derive(Args)]
pub struct TuneOptions {
    #[command(flatten)]
    pub errors: ErrorOptions,
    #[command(flatten)]
    pub path: PathOptions,
    /// The rate at which a module counts as faulty; it has to be seen as such
    #[arg(long, value_name = "RATE", default_value = "10/s", value_parser = parse_rate)]
    threshold_rate: f64,
    /// When a module that crosses it has to be known at the latest
    #[arg(long, value_name = "T", default_value = "5m", value_parser = parse_time_ns)]
    detect_within: u64,
    /// The longest stall that is allowed [default: any]
    #[arg(long, value_name = "TIME", value_parser = parse_ns)]
    stall_max: Option<u64>,
    /// The shortest interval, and the step between intervals: a whole number of seconds
    #[arg(long, value_name = "T", default_value = "1s", value_parser = whole_seconds)]
    shortest: u64,
    /// The longest interval to look at; --apply sets none longer
    #[arg(long, value_name = "T", default_value = "1h", value_parser = parse_time_ns)]
    longest: u64,
    /// Keep the bounds for any phase of the polls, as on a running host; implied by --apply
    #[arg(long)]
    any_phase: bool,
    /// Also write stall, longest stall and missed errors over the interval as an SVG picture
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Set the interval on this host: shows what would be done, and with --yes does it
    #[arg(long)]
    apply: bool,
    /// Switch the printing of corrected errors on the console off, or on; with --apply. Where nothing sets the interval, that is all
    #[arg(long, value_enum, requires = "apply")]
    log: Option<Switch>,
    /// Only console logging; the interval stays also where it could be set
    #[arg(long, requires = "log")]
    log_only: bool,
    /// Do it
    #[arg(long, requires = "apply")]
    yes: bool,
    /// How long to look for the effect before the old value is set back [default: twice the interval, and 2 s]
    #[arg(long, value_name = "TIME", value_parser = parse_time_ns, requires = "apply")]
    verify: Option<u64>,
    /// Journal of the changes [default: /var/lib/surefoot/deeds.jsonl]
    #[arg(long, value_name = "FILE", requires = "apply")]
    journal: Option<PathBuf>,
    /// A recorded tree with proc and sys instead of this host
    #[arg(long, value_name = "DIR")]
    host_root: Option<PathBuf>,
    /// JSON lines instead of a table
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
}

fn whole_seconds(text: &str) -> Result<u64, String> {
    match parse_time_ns(text)? {
        ns if ns.is_multiple_of(SECOND_NS) => Ok(ns),
        _ => Err(format!("'{text}' is not a whole number of seconds")),
    }
}

/// What was found out before anything is said or done.
struct Found {
    errors: String,
    /// Whether polls leave the counts of this host's counters, and those were not set aside by an option.
    is_kept: bool,
    path: Path,
    platform: Platform,
    choice: Choice,
    points: Vec<Point>,
}

pub fn run(options: &TuneOptions) -> anyhow::Result<Outcome> {
    let root = super::status::root(options.host_root.as_ref())?;
    let chart = options.svg.as_deref().map(|path| Destination::open("--svg", path)).transpose()?;
    let found = find(options, &root)?;
    if let Some(chart) = chart {
        let picture = super::simulate::chart::curve(&found.points, found.choice.interval_ns);
        chart.write(|out| out.write_all(picture.as_bytes()))?;
    }
    let mut out = io::BufWriter::new(surefoot_console::people::stdout());
    if options.json {
        output::stream(&mut out, "memory tune")?;
        simulate_lines::costs_of(&found.path).iter().try_for_each(|cost| output::line(&mut out, cost))?;
        output::line(&mut out, &lines::platform(&found.platform))?;
        found.points.iter().try_for_each(|point| output::line(&mut out, &lines::point(point)))?;
    } else {
        out.write_all(text(options, &found).as_bytes())?;
    }
    let is_possible = found.choice.interval_ns.is_some();
    let done = if options.apply && (is_possible || options.log.is_some()) {
        out.flush()?;
        applied(options, &root, &found, &mut out)?
    } else {
        Outcome::Done
    };
    if options.json {
        output::line(&mut out, &lines::choice(&found.choice, &found.platform))?;
    }
    out.flush()?;
    Ok(if is_possible { done } else { Outcome::Found })
}

fn find(options: &TuneOptions, root: &Root) -> anyhow::Result<Found> {
    let mut platform = Platform::read(root);
    let cores = options.path.cores.map_or_else(|| Cores::of(root), |count| Cores { count, is_told: true });
    platform.evidence.extend(cores.assumption().map(|said| format!("assumed: {said}; --cores N says it")));
    let mut path = Path {
        mechanism: Mechanism::Polling,
        counter_bits: options.path.counter_bits.unwrap_or(platform.counters.bits()),
        threshold: 1,
        interval_ns: options.shortest,
        duration_ns: 0,
        banks: 0,
        hot: options.path.hot.unwrap_or(1),
        cores: cores.count,
        costs: options.path.costs(),
        storms: StormRule::Never,
    };
    // Where this host prints no corrected error, no line is paid for.
    if options.path.line_cost.is_none() && platform.log_lever.as_ref().is_some_and(|lever| !lever.is_on) {
        path.costs.line_ns = 0;
    }
    let errors = match &options.errors.errors {
        Some(errors) => errors.clone(),
        None => worst(root, &mut platform.evidence),
    };
    let load = load(&errors, &options.errors, &options.path, &mut path)?;
    path.check()?;
    if let Load::Pattern(pattern) = &load {
        pattern.check(path.duration_ns)?;
    }
    let bins = Bins::new(SECOND_NS, load.arrivals(&path, options.errors.seed))?;
    let wish = Wish {
        stall_longest_ns: options.stall_max,
        threshold_per_s: options.threshold_rate,
        detect_ns: options.detect_within,
        shortest_ns: options.shortest,
        longest_ns: platform.knob.as_ref().map_or(options.longest, |knob| options.longest.min(knob.longest_ns)),
        any_phase: options.any_phase || options.apply,
    };
    let choice = choose(&path, &bins, &wish)?;
    let points = curve(&path, &bins, &intervals_shown(&wish, choice.interval_ns));
    let is_kept = platform.counters == Counters::KeptByPolls && options.path.counter_bits.is_none();
    Ok(Found { errors: errors.text, is_kept, path, platform, choice, points })
}

/// The errors to count where none are named: as many as the worst module has, as the page takes them.
fn worst(root: &Root, said: &mut Vec<String>) -> Errors {
    let (per_s, why) = errors_to_count(&Looker::new(root.clone()).look());
    said.push(why);
    Errors { text: format!("poisson:{per_s}/s"), kind: Kind::Pattern(Pattern::Steady { per_s }) }
}

fn text(options: &TuneOptions, found: &Found) -> String {
    let path = &found.path;
    let counters = counted(path.banks.into(), "counter", "counters");
    let kind = match found.is_kept {
        true => "that polls do not empty".to_owned(),
        false => format!("of {} bits", path.counter_bits),
    };
    let cores = counted(path.cores.into(), "core", "cores");
    let mut text = format!("{} for {}: {counters} {kind}, {cores}\n\n", found.errors, days(path.duration_ns));
    let mut table =
        Table::new(&["", "interval", "stall per day", "of it log lines", "longest stall", "missed", ""], &[0]);
    for point in &found.points {
        let mark = if Some(point.interval_ns) == found.choice.interval_ns { "->" } else { "" };
        table.row(vec![
            mark.into(),
            format!("{} s", point.interval_ns / SECOND_NS),
            duration(point.stall_ns_per_day as u64),
            duration(point.lines_ns_per_day as u64),
            duration(point.stall_longest_ns),
            point.missed_count.to_string(),
            percent((point.missed_share * 1e9) as u64, 1_000_000_000),
        ]);
    }
    text += &table.text();
    text += &verdict(options, found);
    text += &platform(&found.platform);
    text + &assumed(&simulate_lines::costs_of(path))
}

/// The interval, where one can be set here or could be elsewhere.
fn verdict(options: &TuneOptions, found: &Found) -> String {
    let choice = &found.choice;
    let why = choice.binding.words();
    let wrapped = |text: String| format!("\n{}", paragraph(&text, 0, 0, COLUMNS));
    let mut text = match (choice.interval_ns, &found.platform.refusal) {
        (Some(ns), None) => format!("\nInterval: {} s. It is not longer because {why}.\n", ns / SECOND_NS),
        (Some(ns), Some(refusal)) => {
            let were = format!("Where errors like these are polled for, {} s would be best: {why}.", ns / SECOND_NS);
            wrapped(format!("No interval applies here: {refusal}.")) + &wrapped(were)
        }
        (None, _) => format!(
            "\nNo interval keeps all bounds, not even {} s: {why}. Allow more, or count with wider counters.\n",
            options.shortest / SECOND_NS
        ),
    };
    match choice.any_phase_ns {
        Some(ns) if Some(ns) != choice.interval_ns => {
            text += &format!("{} s keep the bounds for any phase of the polls (--any-phase).\n", ns / SECOND_NS);
        }
        _ => {}
    }
    if found.is_kept {
        text += &wrapped(
            "None is missed at any interval: the threshold blocks of this processor count on between polls and are not emptied by them, \
             up to 4095 errors since they began. A poll makes one record of a block, however many errors came. So the interval decides \
             how soon a module is known, and what looking stalls."
                .to_owned(),
        );
    }
    text
}

fn platform(platform: &Platform) -> String {
    let mut text = "\nOn this host:\n".to_owned();
    for said in &platform.evidence {
        text += &format!("  {}", paragraph(said, 2, 2, COLUMNS));
    }
    if let Some(knob) = &platform.knob {
        let now = knob.now_ns.map_or("not readable".into(), duration);
        text += &format!("  the interval is {}, now {now}\n", surefoot_console::people::path(&knob.path));
    }
    if let Some(lever) = &platform.log_lever {
        let state = if lever.is_on { "on; --apply --log off saves what each line takes" } else { "off" };
        text += &format!("  printing of corrected errors on the console is {state}\n");
    }
    text
}

/// Shows the steps, and with `--yes` does them.
fn applied(options: &TuneOptions, root: &Root, found: &Found, out: &mut impl Write) -> anyhow::Result<Outcome> {
    // Where nothing sets the interval, what was asked of the console is done all the same.
    let is_log_alone = options.log_only || options.log.is_some() && found.platform.knob.is_none();
    let interval_ns = if is_log_alone { None } else { found.choice.interval_ns };
    let steps = act::plan(&found.platform, interval_ns, options.log.map(|switch| switch == Switch::On));
    let steps = steps.map_err(|error| match error {
        surefoot_memory::Error::Unsupported(why) => anyhow::Error::new(why),
        other => other.into(),
    })?;
    let record = crate::args::record(root, options.journal.as_deref())?;
    tell_unfinished(&record, &found.platform);
    if steps.is_empty() && !options.json {
        writeln!(out, "\nNothing to do: the host is set so already.")?;
    }
    if !options.yes {
        for step in &steps {
            say(options, step, None, out)?;
        }
        if !steps.is_empty() && !options.json {
            writeln!(out, "Nothing was changed; --yes does it.")?;
        }
        return Ok(Outcome::Done);
    }
    let stop = signals::stop_flag()?;
    let mut all_stand = true;
    for step in &steps {
        let wait = step.wait_ns(options.verify);
        if !options.json && wait > 0 {
            writeln!(
                out,
                "\nWriting {}; its effect is looked for up to {}.",
                surefoot_console::people::path(&step.path),
                duration(wait)
            )?;
            out.flush()?;
        }
        let mut said = Ok(());
        let seen = |outcome: &Applied| {
            all_stand &= outcome.holds();
            said = say(options, step, Some(outcome), out);
        };
        let is_over = || stop.load(Ordering::Relaxed);
        deeds::apply(root, step, Duration::from_nanos(wait), &record, &is_over, seen)?;
        said?;
        if stop.load(Ordering::Relaxed) {
            all_stand = false;
            break;
        }
    }
    Ok(if all_stand { Outcome::Done } else { Outcome::Found })
}

/// Tells of a change whose process ended before its effect was seen, so that the value may stand unverified.
fn tell_unfinished(record: &Record, platform: &Platform) {
    let read = match record.look() {
        Ok(read) => read,
        Err(why) => {
            surefoot_console::tell!("surefoot: whether an earlier change was cut short is not known: {why}");
            return;
        }
    };
    for Unfinished { name, from, to } in unfinished(platform, &read.deeds) {
        surefoot_console::tell!(
            "surefoot: an earlier change of {name} from {from} to {to} ended before its effect was seen, or another process is still verifying it. Otherwise run `echo {from} > {name}` to take it back"
        );
    }
}

fn say(options: &TuneOptions, step: &Step, outcome: Option<&Applied>, out: &mut impl Write) -> io::Result<()> {
    let line = lines::step(step, outcome);
    if options.json {
        return output::line(out, &line);
    }
    let file = step.path.display();
    match outcome {
        None => writeln!(out, "\nWould write {} to {file}, which holds {}: {}.", step.to, step.from, step.why),
        Some(_) => writeln!(out, "{file}: {}: {}", line.outcome.replace('_', " "), line.evidence),
    }
}
