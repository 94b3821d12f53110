//! The text of `surefoot memory page-offline`.

use super::act::Done;
use super::{Module, PageOfflineOptions, Reported};
use crate::memory::fault;
use surefoot_console::table::Table;
use surefoot_console::units::counted;
use surefoot_memory::pages::command;
use surefoot_model::{FaultMode, one_line};

/// A module and its pages.
pub(super) fn module(module: &Module, done: &Done) -> String {
    let Module { dimm, offline } = module;
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
        let last = if done.has_acted { "outcome" } else { "command" };
        let mut table = Table::new(&["  page", "errors", "lost", last], &[0, 3]);
        for page in &offline.pages {
            let counts = [page.error_count, page.lost_count].map(|count| count.to_string());
            let [errors, lost] = counts;
            table.row(vec![
                format!("  {:#x}", page.address),
                errors,
                lost,
                match done.words(page.address) {
                    Some(words) => words,
                    None => command(offline, page).unwrap_or_else(|| "-".into()),
                },
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

/// The last lines.
pub(super) fn closing(options: &PageOfflineOptions, modules: &[Module], reported: &Reported, done: &Done) -> String {
    let Reported { seen, not_from_kernel_count, not_understood_count, elsewhere_count, writer_not_shown_count, .. } =
        reported;
    let (not_from_kernel_count, not_understood_count) = (*not_from_kernel_count, *not_understood_count);
    let mut text = String::new();
    let lines = |count| counted(count, "line", "lines");
    if not_from_kernel_count > 0 {
        text += &format!(
            "{} not from the kernel: not counted, though they look like its reports.\n",
            lines(not_from_kernel_count)
        );
    }
    if *writer_not_shown_count > 0 && !options.trust_text {
        text += &format!(
            "{} of memory errors came as text that does not show who wrote it, and any user can write such lines with `logger`: --yes needs \
             --trust-text.\n",
            lines(*writer_not_shown_count)
        );
    }
    if not_understood_count > 0 {
        let them = if not_understood_count == 1 { "it" } else { "them" };
        text += &format!("{} not understood: `surefoot memory import` shows {them}.\n", lines(not_understood_count));
    }
    if modules.is_empty() {
        text += "No report names a module, so no page is known to be bad.\n";
    }
    if seen.left_out_count > 0 {
        text += &format!("{} errors are in rows and pages beyond those that are remembered.\n", seen.left_out_count);
    }
    if *elsewhere_count > 0 {
        text += &format!(
            "{} of modules that are not on this host any more, or of other hosts: left out.\n",
            counted(*elsewhere_count, "report", "reports")
        );
    }
    text + &done.closing(options)
}
