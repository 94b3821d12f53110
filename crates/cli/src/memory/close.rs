//! `surefoot memory repaired`, `replaced` and `cleared`: close the fault of a module.

use super::reported;
use crate::args::RUN_DIRECTORY;
use crate::history::options::FILE_DEFAULT;
use anyhow::Context;
use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use serde::Serialize;
use std::io::{self, Write};
use std::path::PathBuf;
use surefoot_console::exit::Outcome;
use surefoot_console::output;
use surefoot_console::table::paragraph;
use surefoot_hostfs::privilege::effective_user;
use surefoot_hostfs::{Root, clock};
use surefoot_journal::deeds::Record;
use surefoot_memory::closing::{Plan, Planned, REASON_BYTES_MAX, Wanted, close, plan, reason, recorded_by, wanted};
use surefoot_memory::look::Looker;
use surefoot_memory::rate::Limit;
use surefoot_model::{ClosedModule, Deed, DeedOutcome, DeedTarget, Dimm, FaultClosing, MemoryLook, one_line};

/// Sentences are wrapped here.
const COLUMNS: usize = 110;

#[derive(Args)]
pub struct CloseOptions {
    /// The module: its ID, serial number or slot label, as `memory status` shows them
    #[arg(value_name = "MODULE", value_parser = NonEmptyStringValueParser::new())]
    module: String,
    /// Why, in your words; kept in the journal of deeds
    #[arg(long, value_name = "TEXT", value_parser = reason_of)]
    reason: String,
    /// Do it
    #[arg(long)]
    yes: bool,
    /// A recorded tree with proc and sys instead of this host; its journal of deeds is used
    #[arg(long, value_name = "DIR")]
    host_root: Option<PathBuf>,
    /// Run directory of a watch, which knows the faults and the slot history [default: /run/surefoot, for this host]
    #[arg(long, value_name = "DIR")]
    run_directory: Option<PathBuf>,
    /// History that a watch keeps [default: /var/lib/surefoot/history.db, for this host]
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
    /// JSON lines instead of text
    #[arg(long)]
    json: bool,
}

fn reason_of(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        return Err("say why the fault is closed".to_owned());
    }
    if text.trim().len() > REASON_BYTES_MAX {
        return Err(format!("longer than {REASON_BYTES_MAX} bytes; shorten it"));
    }
    Ok(reason(text))
}

/// The outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "ClosingOutcome"))]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// Without `--yes`: it would be closed.
    Planned,
    /// The fault is closed.
    Closed,
    /// There was nothing to close.
    NotNeeded,
}

/// The result.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "closing")]
pub struct ClosingLine<'a> {
    /// `repaired`, `replaced` or `cleared`.
    closing: FaultClosing,
    outcome: What,
    /// The module's ID; as it was typed if there was nothing to close.
    module: &'a str,
    /// Its slot label, serial and part number and counters; null if there was nothing to close.
    found: Option<&'a ClosedModule>,
    reason: &'a str,
    /// What was verified, or why there was nothing to close.
    evidence: &'a str,
    /// Whether the evidence proves that the module was replaced; true for the other two, of which a person is the judge.
    is_verified: bool,
    /// When, nanoseconds since 1970: errors from then on are new; null if nothing was recorded.
    closed_realtime_ns: Option<u64>,
}

pub fn run(options: &CloseOptions, closing: FaultClosing) -> anyhow::Result<Outcome> {
    let root = super::status::root(options.host_root.as_ref())?;
    let record = Record::OfHost(root.path("/"));
    // Two at once would both find the fault open.
    let _alone = match options.yes {
        true => Some(record.alone().with_context(|| {
            let hint = if effective_user() == 0 { "" } else { "; run it as root" };
            format!("the closing cannot be recorded{hint}")
        })?),
        false => None,
    };
    let at_realtime_ns = clock::realtime_ns();
    let seen = look(options, &root);
    let found = wanted(&seen.look, &seen.others, &options.module, closing)?;
    let module = match found {
        Wanted::Here(dimm) => seen.module(dimm),
        Wanted::Gone(stay, _) => ClosedModule {
            label: stay.label.clone(),
            place: stay.place.clone(),
            serial: stay.serial.clone(),
            part: stay.part.clone(),
            corrected_count: stay.corrected_count,
            uncorrected_count: stay.uncorrected_count,
            ..ClosedModule::default()
        },
    };
    let unfinished = unfinished(&record);
    for deed in unfinished.iter().flatten().filter(|deed| deed.subject.name == name_of(&found)) {
        surefoot_console::tell!(
            "surefoot: an earlier `memory {}` of {} was cut short before it took effect; it closed nothing",
            recorded_by(deed.action).map_or("repaired", FaultClosing::as_str),
            one_line(&deed.subject.name)
        );
    }
    for problem in &seen.look.problems {
        surefoot_console::tell!("surefoot: {}: {}", problem.path, problem.why);
    }
    let asked =
        Plan { closing, wanted: found, found: module, reason: &options.reason, uid: effective_user(), at_realtime_ns };
    match plan(&asked) {
        Planned::Refused(why) => anyhow::bail!("{why}"),
        Planned::NotNeeded(why) => {
            tell(options, closing, What::NotNeeded, None, &why, true)?;
            Ok(Outcome::Done)
        }
        Planned::Close { begun, evidence, is_verified } => {
            let (what, deed) = match options.yes {
                true => (What::Closed, close(&record, &begun, &evidence, clock::realtime_ns)?),
                false => (What::Planned, *begun),
            };
            tell(options, closing, what, Some(&deed), &evidence, is_verified)?;
            Ok(Outcome::Done)
        }
    }
}

fn name_of<'a>(found: &Wanted<'a>) -> &'a str {
    match found {
        Wanted::Here(dimm) => &dimm.id,
        Wanted::Gone(stay, _) => &stay.module,
    }
}

/// What is known of the modules.
struct Seen {
    look: MemoryLook,
    looker: Looker,
    watched: Vec<Dimm>,
    others: Vec<String>,
}

impl Seen {
    /// A module for the deed: with all errors that are known of it, those that a management controller told the watch among them.
    fn module(&self, dimm: &Dimm) -> ClosedModule {
        let mut found = self.looker.module_now(dimm);
        if let Some(watched) = self.watched.iter().find(|watched| watched.id == dimm.id) {
            found.corrected_count = found.corrected_count.max(watched.corrected());
            found.uncorrected_count = found.uncorrected_count.max(watched.uncorrected());
        }
        found
    }
}

fn look(options: &CloseOptions, root: &Root) -> Seen {
    let limit = Limit::default();
    let mut looker = Looker::new(root.clone()).with_limit(limit);
    let mut look = looker.look();
    let is_tree = options.host_root.is_some();
    let source = |named: &Option<PathBuf>, default: &str| match named {
        Some(path) => Some((path.clone(), true)),
        None => (!is_tree).then(|| (PathBuf::from(default), false)),
    };
    let sources = reported::Sources {
        run_directory: source(&options.run_directory, RUN_DIRECTORY),
        history: source(&options.history, FILE_DEFAULT),
        has_trace: is_tree,
    };
    let reported::Completed { watched, others, .. } = reported::complete(&mut look, &mut looker, root, limit, &sources);
    for dimm in &watched {
        match look.dimms.iter_mut().find(|own| own.id == dimm.id) {
            // The watch knows the errors of earlier boots and the rate.
            Some(own) => {
                own.is_over_rate |= dimm.is_over_rate;
                if own.closed.is_none() {
                    own.corrected_count = own.corrected_count.max(dimm.corrected_count);
                    own.uncorrected_count = own.uncorrected_count.max(dimm.uncorrected_count);
                }
            }
            None => look.dimms.push(dimm.clone()),
        }
    }
    Seen { look, looker, watched, others }
}

/// Closings that a killed process began and did not end. Where the journal cannot be read, that is told by what writes it.
fn unfinished(record: &Record) -> Option<Vec<Deed>> {
    let deeds = record.find(|deed| recorded_by(deed.action).is_some()).ok()?.deeds;
    let has_ended = |begun: &Deed| {
        deeds.iter().any(|deed| {
            deed.outcome != DeedOutcome::Begun
                && deed.begun_realtime_ns == begun.begun_realtime_ns
                && deed.subject == begun.subject
        })
    };
    Some(deeds.iter().filter(|deed| deed.outcome == DeedOutcome::Begun && !has_ended(deed)).cloned().collect())
}

fn tell(
    options: &CloseOptions,
    closing: FaultClosing,
    outcome: What,
    deed: Option<&Deed>,
    evidence: &str,
    is_verified: bool,
) -> io::Result<()> {
    let mut out = io::BufWriter::new(surefoot_console::people::stdout());
    let module = deed.map_or(options.module.as_str(), |deed| deed.subject.name.as_str());
    let found = deed.and_then(|deed| match &deed.target {
        DeedTarget::Module(found) => Some(&**found),
        _ => None,
    });
    if options.json {
        output::stream(&mut out, &format!("memory {}", closing.as_str()))?;
        let closed_realtime_ns = deed.filter(|_| outcome == What::Closed).map(|deed| deed.begun_realtime_ns);
        let reason = &options.reason;
        let line = ClosingLine { closing, outcome, module, found, reason, evidence, is_verified, closed_realtime_ns };
        output::line(&mut out, &line)?;
        return out.flush();
    }
    let slot = found.map_or(String::new(), |found| format!(" ({found})"));
    let words = match outcome {
        What::NotNeeded => format!("Nothing to do: {evidence}."),
        What::Planned => format!(
            "Would close the fault of {}{} as {}: {evidence}.",
            one_line(module),
            one_line(&slot),
            closing.as_str()
        ),
        What::Closed => {
            format!("Closed the fault of {}{} as {}: {evidence}.", one_line(module), one_line(&slot), closing.as_str())
        }
    };
    out.write_all(paragraph(&words, 0, 0, COLUMNS).as_bytes())?;
    if !is_verified {
        let words = "Unverified: nothing on this host proves the replacement. The deed rests on your word.";
        writeln!(out, "{words}")?;
    }
    match outcome {
        What::Planned => writeln!(out, "Nothing was recorded; --yes does it.")?,
        What::Closed => {
            writeln!(out, "Errors from now on are new ones. A running watch takes the closing over within seconds.")?
        }
        What::NotNeeded => {}
    }
    out.flush()
}
