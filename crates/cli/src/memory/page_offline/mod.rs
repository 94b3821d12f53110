//! `surefoot memory page-offline`.

mod act;
mod text;

use super::import::{FormatName, clock, read, this_host};
use super::{reported, status};
use crate::history::options::FILE_DEFAULT;
use anyhow::{bail, ensure};
use clap::Args;
use serde::Serialize;
use std::io::{self, Write};
use std::path::PathBuf;
use surefoot_console::exit::Outcome;
use surefoot_console::output;
use surefoot_console::units::{counted, parse_time_ns};
use surefoot_hostfs::Root;
use surefoot_memory::import::{Host, Modules, OneHost};
use surefoot_memory::pages::{Budget, Offline, PageRate, SeenPages, command};
use surefoot_model::{Dimm, ErrorReport, FaultMode, MemoryAction, MemorySource, did_you_mean, one_line};

#[derive(Args)]
pub struct PageOfflineOptions {
    /// Where the errors are recorded, as for `memory import`; may be repeated [default: the history of this host's watch]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// What the files are
    #[arg(long, value_enum, default_value_t = FormatName::Auto)]
    format: FormatName,
    /// When the kernel booted that wrote the log, as for `memory import`: without times nothing is known to stay
    #[arg(long, value_name = "TIME")]
    booted: Option<String>,
    /// Only the errors of this host, by its name or machine ID, as for `memory import`
    #[arg(long, value_name = "NAME", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    host: Option<String>,
    /// History that a watch keeps, where no FILE is named [default: /var/lib/surefoot/history.db]
    #[arg(long, value_name = "FILE", conflicts_with = "files")]
    history: Option<PathBuf>,
    /// Only this module, as `memory import` names it
    #[arg(long, value_name = "MODULE")]
    module: Option<String>,
    /// Errors in one page within a time from which it is taken out, regardless of its module
    #[arg(long, value_name = "NUMBER/TIME", default_value = "50/24h", value_parser = page_rate)]
    page_rate: PageRate,
    /// How many pages of one module may be out of use
    #[arg(long, value_name = "PAGES", default_value_t = Budget::default().module_pages)]
    module_budget: u64,
    /// How many pages of the host may be out of use, also those that others took out
    #[arg(long, value_name = "PAGES", default_value_t = Budget::default().host_pages)]
    host_budget: u64,
    /// Also pages whose last error was before this boot: physical addresses are still those of then
    #[arg(long)]
    earlier_boots: bool,
    /// Also by text that does not show who wrote it (syslog, dmesg, mcelog): use it if only the kernel and root could write to it
    #[arg(long)]
    trust_text: bool,
    /// Put the pages back into use that this command took out
    #[arg(long, conflicts_with_all = ["files", "history", "booted", "host", "earlier_boots", "trust_text"])]
    undo: bool,
    /// Show the pages and the commands, and change nothing; the default
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Do it
    #[arg(long)]
    yes: bool,
    /// A recorded tree with proc and sys instead of this host; its journal of deeds is used
    #[arg(long, value_name = "DIR")]
    host_root: Option<PathBuf>,
    /// JSON lines instead of a table
    #[arg(long)]
    json: bool,
}

/// `50/24h`
fn page_rate(text: &str) -> Result<PageRate, String> {
    let wrong = || format!("'{text}' is not a number of errors within a time, such as 50/24h");
    let (count, within) = text.split_once('/').ok_or_else(wrong)?;
    let count: u64 = count.parse().ok().filter(|&count| count > 0).ok_or_else(wrong)?;
    let within_ns = parse_time_ns(within).map_err(|_| wrong())?;
    if within_ns < 1_000_000_000 {
        return Err(format!("'{text}': the time is a second at least"));
    }
    Ok(PageRate { count, within_ns })
}

/// The outcome for a page, or the one to expect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PageOutcome {
    /// The advice is to do nothing yet.
    NotAdvised,
    /// Without `--yes`: it would be taken out, or put back.
    Planned,
    /// The kernel shows that it took the page out of use now.
    Offline,
    /// The kernel had it out of use already.
    AlreadyOffline,
    /// It stays in use: as many pages of its module are out of use as the budget allows.
    OverModuleBudget,
    /// It stays in use: as many pages of the host are.
    OverHostBudget,
    /// It stays in use: its last error was before this boot, so that the address may be of other memory now.
    EarlierBoot,
    /// The kernel shows that it uses the page again.
    InUse,
    /// The kernel took the request, and what it did cannot be seen.
    Unobserved,
    /// It is not as was asked.
    Failed,
}

/// A page to take out.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "page")]
pub struct PageLine<'a> {
    module: &'a str,
    /// Physical address.
    address: u64,
    error_count: u64,
    /// Errors whose bits are lost.
    lost_count: u64,
    /// The most errors within the time of `--page-rate`.
    worst_count: u64,
    /// What asks the kernel to take it out; null where the advice is to do nothing yet.
    command: Option<String>,
    outcome: PageOutcome,
    /// What the kernel refused, or why its effect cannot be seen; null otherwise.
    why: Option<&'a str>,
}

/// A page that was taken out by a deed of ours.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "page_restored")]
pub struct RestoredLine<'a> {
    module: &'a str,
    /// Physical address.
    address: u64,
    outcome: PageOutcome,
    /// What the kernel refused, or why its effect cannot be seen; null otherwise.
    why: Option<&'a str>,
}

/// What is known of a module's pages; its pages stand before it.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "page_offline")]
pub struct ModuleLine<'a> {
    module: &'a str,
    fault_mode: FaultMode,
    rank: Option<u32>,
    bank: Option<u32>,
    /// The rows of the fault whose pages are listed; empty where none is known.
    rows: Vec<u32>,
    page_count: usize,
    /// Errors whose page is not known.
    unaddressed_count: u64,
    /// What is advised of the module.
    action: MemoryAction,
    /// What is not known, or why nothing is listed.
    unknown: &'a [String],
    /// Pages that the kernel took out of use now.
    offline_count: usize,
    /// Pages that stay in use because a budget is used up.
    over_budget_count: usize,
    /// Pages that were to go and did not, or of which that cannot be seen.
    failed_count: usize,
    /// Whether a page was taken out.
    done: bool,
}

/// What was reported.
#[derive(Default)]
struct Reported {
    seen: SeenPages,
    modules: Modules,
    not_from_kernel_count: u64,
    not_understood_count: u64,
    /// Reports of modules that are not on this host.
    elsewhere_count: u64,
    /// Lines, or reports of a history, whose writer is not shown.
    writer_not_shown_count: u64,
    /// Whether they are of this host, as far as is known.
    is_of_this_host: bool,
}

impl Reported {
    fn add(&mut self, report: &ErrorReport) {
        if let Some(module) = self.modules.add(report) {
            self.seen.add(report, &module);
        }
    }
}

/// A module and its pages.
struct Module {
    dimm: Dimm,
    offline: Offline,
}

pub fn run(options: &PageOfflineOptions) -> anyhow::Result<Outcome> {
    let root = status::root(options.host_root.as_ref())?;
    if options.undo {
        return act::undo(options, &root);
    }
    let mut reported = gather(options, &root)?;
    if options.yes && !reported.is_of_this_host {
        bail!(
            "--yes: nothing says that these errors are of this host, and addresses of another one are other memory here; if they are, \
             say so with --host and this host's name"
        );
    }
    if options.yes && reported.writer_not_shown_count > 0 && !options.trust_text {
        bail!(
            "--yes: {} of memory errors came as text that does not show who wrote it, and any user can write such lines with `logger`; read \
             `journalctl -k -o json` or rasdaemon's database, or say with --trust-text that only the kernel and root could write to it",
            counted(reported.writer_not_shown_count, "line", "lines")
        );
    }
    let modules = modules(options, &mut reported)?;
    let mut out = io::BufWriter::new(surefoot_console::people::stdout());
    if options.json {
        output::stream(&mut out, "memory page-offline")?;
    }
    let done = act::act(options, &root, &modules, reported.is_of_this_host)?;
    for module in &modules {
        if options.json {
            lines(&mut out, module, &done)?;
        } else {
            out.write_all(text::module(module, &done).as_bytes())?;
        }
    }
    if !options.json {
        out.write_all(text::closing(options, &modules, &reported, &done).as_bytes())?;
    }
    out.flush()?;
    let is_any_failed = done.is_any_failed();
    match (done.missing, done.broken) {
        (Some(missing), _) => Err(missing.into()),
        (None, Some(broken)) => Err(broken.into()),
        (None, None) if is_any_failed => Ok(Outcome::Found),
        (None, None) => Ok(Outcome::Done),
    }
}

/// Reads the files, or the history.
fn gather(options: &PageOfflineOptions, root: &Root) -> anyhow::Result<Reported> {
    let mut reported = Reported { seen: SeenPages::with_rate(options.page_rate), ..Reported::default() };
    if options.files.is_empty() {
        let path = options.history.clone().unwrap_or_else(|| PathBuf::from(FILE_DEFAULT));
        let found = match reported::of_history(root, &path) {
            Ok(found) => found,
            Err(why) => bail!("{why}; name the --history of a watch, or files to import"),
        };
        for report in &found.reports {
            reported.add(report);
        }
        let this = this_host(root);
        let is_this = |name: &String| is_same(&this, &Host { name: name.clone(), machine: None });
        // A history does not keep which host an imported report named, nor who wrote it.
        let imported = |of: &[MemorySource]| found.reports.iter().filter(|one| of.contains(&one.source)).count() as u64;
        let is_imported = imported(&[MemorySource::KernelLog, MemorySource::Mcelog, MemorySource::Rasdaemon]) > 0;
        reported.writer_not_shown_count = imported(&[MemorySource::KernelLog, MemorySource::Mcelog]);
        let is_written_here = !found.hosts.is_empty() && !is_imported || is_named(options, &this);
        let is_of_this_host = is_written_here && !found.has_unknown_host && found.hosts.iter().all(is_this);
        return Ok(Reported { elsewhere_count: found.elsewhere_count, is_of_this_host, ..reported });
    }
    let clock = clock(options.booted.as_deref())?;
    let mut hosts = OneHost::new(options.host.clone());
    for file in &options.files {
        let reading = hosts.read(|host, take| read(file, options.format, clock, host, take), &mut |report, _| {
            reported.add(report);
            Ok(())
        })?;
        reported.not_from_kernel_count += reading.totals.not_from_kernel_count;
        reported.writer_not_shown_count += reading.totals.writer_not_shown_count;
        reported.not_understood_count += reading.totals.not_understood_count;
    }
    hosts.is_there()?;
    let this = this_host(root);
    let is_this = |host: Option<&Host>| host.map_or_else(|| is_named(options, &this), |host| is_same(host, &this));
    reported.is_of_this_host = hosts.hosts().all(is_this);
    Ok(reported)
}

/// Whether `--host` names this host.
fn is_named(options: &PageOfflineOptions, this: &Host) -> bool {
    options.host.as_ref().is_some_and(|name| {
        this.machine.as_ref().is_some_and(|machine| machine.eq_ignore_ascii_case(name))
            || is_same(this, &Host { name: name.clone(), machine: None })
    })
}

/// Whether both are one host for certain: `localhost` is what every host without a name has, and names none.
fn is_same(one: &Host, other: &Host) -> bool {
    let is_nameless = |host: &Host| {
        let first = host.name.split('.').next().unwrap_or_default();
        first.is_empty() || first.eq_ignore_ascii_case("localhost")
    };
    let is_same_machine = one.machine.is_some() && one.machine == other.machine;
    one.is(other) && (is_same_machine || !is_nameless(one) && !is_nameless(other))
}

fn modules(options: &PageOfflineOptions, reported: &mut Reported) -> anyhow::Result<Vec<Module>> {
    let mut dimms = reported.modules.dimms();
    if let Some(wanted) = &options.module {
        let known: Vec<String> = dimms.iter().map(|dimm| dimm.id.clone()).collect();
        dimms.retain(|dimm| dimm.id == *wanted);
        ensure!(
            !dimms.is_empty(),
            "--module {}: no report names it; there are {}{}",
            one_line(wanted),
            if known.is_empty() { "none".to_owned() } else { known.join(", ") },
            did_you_mean(wanted, known.iter().map(String::as_str))
        );
    }
    Ok(dimms.into_iter().map(|dimm| Module { offline: reported.seen.offline(&dimm), dimm }).collect())
}

fn lines(out: &mut impl Write, module: &Module, done: &act::Done) -> io::Result<()> {
    let Module { dimm, offline } = module;
    for page in &offline.pages {
        let (outcome, why) = done.of(page.address);
        output::line(
            out,
            &PageLine {
                module: &dimm.id,
                address: page.address,
                error_count: page.error_count,
                lost_count: page.lost_count,
                worst_count: page.worst_count,
                command: command(offline, page),
                outcome,
                why,
            },
        )?;
    }
    let (rank, bank) = match offline.rows.first() {
        Some((rank, bank, _)) => (*rank, Some(*bank)),
        None => (None, None),
    };
    let count = |outcomes: &[PageOutcome]| {
        offline.pages.iter().filter(|page| outcomes.contains(&done.of(page.address).0)).count()
    };
    let offline_count = count(&[PageOutcome::Offline]);
    output::line(
        out,
        &ModuleLine {
            module: &dimm.id,
            fault_mode: dimm.fault_mode,
            rank,
            bank,
            rows: offline.rows.iter().map(|(.., row)| *row).collect(),
            page_count: offline.pages.len(),
            unaddressed_count: offline.unaddressed_count,
            action: dimm.fault.as_ref().map_or(MemoryAction::Watch, |fault| fault.action),
            unknown: &offline.unknown,
            offline_count,
            over_budget_count: count(&[PageOutcome::OverModuleBudget, PageOutcome::OverHostBudget]),
            failed_count: count(&[PageOutcome::Failed, PageOutcome::Unobserved, PageOutcome::EarlierBoot]),
            done: offline_count > 0,
        },
    )
}
