//! `surefoot memory page-offline`.

use super::import::{FormatName, clock, read};
use crate::memory::fault;
use anyhow::ensure;
use clap::Args;
use serde::Serialize;
use std::io::{self, Write};
use std::path::PathBuf;
use surefoot_console::exit::Outcome;
use surefoot_console::output;
use surefoot_console::table::Table;
use surefoot_console::units::counted;
use surefoot_memory::import::{Modules, OneHost};
use surefoot_memory::pages::{Offline, SeenPages, command};
use surefoot_model::{Dimm, FaultMode, MemoryAction, did_you_mean, one_line};

#[derive(Args)]
pub struct PageOfflineOptions {
    /// Where the errors are recorded, as for `memory import`; may be repeated
    #[arg(value_name = "FILE", required = true)]
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
    /// Only this module, as `memory import` names it
    #[arg(long, value_name = "MODULE")]
    module: Option<String>,
    /// Show the pages and the commands, and change nothing; there is no other way yet
    #[arg(long)]
    dry_run: bool,
    /// JSON lines instead of a table
    #[arg(long)]
    json: bool,
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
    /// What asks the kernel to take it out; null where the advice is to do nothing yet.
    command: Option<String>,
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
    /// Whether a page was taken out: never yet.
    done: bool,
}

pub fn run(options: &PageOfflineOptions) -> anyhow::Result<Outcome> {
    ensure!(
        options.dry_run,
        "memory page-offline takes no pages out yet, because only a remedy may change the machine; \
         --dry-run shows the pages and the commands for a root shell"
    );
    let clock = clock(options.booted.as_deref())?;
    let (mut seen, mut modules) = (SeenPages::default(), Modules::default());
    let mut hosts = OneHost::new(options.host.clone());
    let (mut not_from_kernel_count, mut not_understood_count) = (0, 0);
    for file in &options.files {
        let reading = hosts.read(|host, take| read(file, options.format, clock, host, take), &mut |report, _| {
            seen.add(report);
            modules.add(report);
            Ok(())
        })?;
        not_from_kernel_count += reading.totals.not_from_kernel_count;
        not_understood_count += reading.totals.not_understood_count;
    }
    hosts.is_there()?;
    let mut dimms = modules.dimms();
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
    let mut out = io::BufWriter::new(surefoot_console::people::stdout());
    if options.json {
        output::stream(&mut out, "memory page-offline")?;
    }
    for dimm in &dimms {
        let offline = seen.offline(dimm);
        if options.json {
            lines(&mut out, dimm, &offline)?;
        } else {
            out.write_all(text(dimm, &offline).as_bytes())?;
        }
    }
    if !options.json {
        out.write_all(closing(dimms.len(), &seen, not_from_kernel_count, not_understood_count).as_bytes())?;
    }
    out.flush()?;
    Ok(Outcome::Done)
}

fn lines(out: &mut impl Write, dimm: &Dimm, offline: &Offline) -> io::Result<()> {
    for page in &offline.pages {
        let (error_count, lost_count) = (page.error_count, page.lost_count);
        output::line(
            out,
            &PageLine {
                module: &dimm.id,
                address: page.address,
                error_count,
                lost_count,
                command: command(offline, page),
            },
        )?;
    }
    let (rank, bank) = match offline.rows.first() {
        Some((rank, bank, _)) => (*rank, Some(*bank)),
        None => (None, None),
    };
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
            done: false,
        },
    )
}

fn text(dimm: &Dimm, offline: &Offline) -> String {
    let what = match dimm.fault_mode {
        FaultMode::Undetermined => "fault undetermined".to_owned(),
        FaultMode::None => "no error".to_owned(),
        mode => format!("{} fault", mode.label()),
    };
    let rows: Vec<String> = offline.rows.iter().map(|(.., row)| format!("{row:#x}")).collect();
    let rows = format!("{} {}", if rows.len() == 1 { "row" } else { "rows" }, rows.join(", "));
    let row = match offline.rows.first() {
        Some((Some(rank), bank, _)) => format!(" in {rows} of rank {rank} bank {bank}"),
        Some((None, bank, _)) => format!(" in {rows} of bank {bank} (rank unknown)"),
        None => String::new(),
    };
    let mut text = format!("{}: {what}{row}\n", one_line(&dimm.id));
    if !offline.pages.is_empty() {
        let mut table = Table::new(&["  page", "errors", "lost", "command"], &[0, 3]);
        for page in &offline.pages {
            let counts = [page.error_count, page.lost_count].map(|count| count.to_string());
            let [errors, lost] = counts;
            table.row(vec![
                format!("  {:#x}", page.address),
                errors,
                lost,
                command(offline, page).unwrap_or_else(|| "-".into()),
            ]);
        }
        text += &table.text();
    }
    if let Some(fault) = &dimm.fault {
        text += &fault::lines("do", &fault.advice);
    }
    for unknown in &offline.unknown {
        text += &fault::lines("note", unknown);
    }
    text + "\n"
}

fn closing(module_count: usize, seen: &SeenPages, not_from_kernel_count: u64, not_understood_count: u64) -> String {
    let mut text = String::new();
    let lines = |count| counted(count, "line", "lines");
    if not_from_kernel_count > 0 {
        text += &format!(
            "{} not from the kernel: not counted, though they look like its reports.\n",
            lines(not_from_kernel_count)
        );
    }
    if not_understood_count > 0 {
        let them = if not_understood_count == 1 { "it" } else { "them" };
        text += &format!("{} not understood: `surefoot memory import` shows {them}.\n", lines(not_understood_count));
    }
    if module_count == 0 {
        text += "No report names a module, so no page is known to be bad.\n";
    }
    if seen.left_out_count > 0 {
        text += &format!("{} errors are in rows and pages beyond those that are remembered.\n", seen.left_out_count);
    }
    text + "Nothing was changed.\n"
}
