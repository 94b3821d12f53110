//! What was imported, for people.

use crate::memory::fault;
use surefoot_console::table::{Table, paragraph};
use surefoot_console::units::counted;
use surefoot_memory::fault::FIND_MODULE;
use surefoot_memory::import::Reading;
use surefoot_model::{Dimm, Fidelity, one_line};
use surefoot_store::history::Kept;

pub fn of(dimms: &[Dimm], readings: &[Reading], show: usize, kept: Option<Kept>) -> String {
    let mut text = String::new();
    if dimms.is_empty() {
        text += "No module is named by any report.\n";
    } else {
        text += &table(dimms);
        for dimm in dimms {
            text += &format!("\n{}", fault::text(dimm));
        }
    }
    for reading in readings {
        text += &format!("\n{}", totals(reading, show));
    }
    if let Some(kept) = kept {
        text += &format!("\nAdded to the history: {}", counted(kept.kept_count, "report", "reports"));
        if kept.already_kept_count > 0 {
            text += &format!("; {} already in it", kept.already_kept_count);
        }
        let left = [
            (kept.too_old_count, "older than it keeps"),
            (kept.undated_count, "without a time"),
            (kept.left_out_count, "beyond the number that it keeps"),
        ];
        for (count, why) in left.into_iter().filter(|(count, _)| *count > 0) {
            text += &format!("; left out {count} {why}");
        }
        text += "\n";
    }
    text
}

fn table(dimms: &[Dimm]) -> String {
    let mut table = Table::new(
        &["module", "corrected", "uncorrected", "worst hour", "fault", "cells", "rows", "columns", "banks", "ranks"],
        &[0, 4],
    );
    for dimm in dimms {
        let mark = if dimm.fidelity == Fidelity::Exact { "" } else { "≥" };
        let spread = &dimm.spread;
        let mut row = vec![
            dimm.id.clone(),
            format!("{mark}{}", dimm.corrected()),
            dimm.uncorrected().to_string(),
            worst_hour(dimm),
            dimm.fault_mode.label().to_owned(),
        ];
        row.extend(
            [spread.cells, spread.rows, spread.columns, spread.banks, spread.ranks].map(|count| count.to_string()),
        );
        table.row(row);
    }
    table.text()
}

/// Corrected errors in the hour that had the most; nothing where no report has a time.
fn worst_hour(dimm: &Dimm) -> String {
    if dimm.worst_window_s == 0.0 { "-".into() } else { format!("{:.0}", dimm.worst_rate_per_s * dimm.worst_window_s) }
}

/// What reports without a time lack. `--booted` dates the kernel's seconds since boot and nothing else.
fn undated(reading: &Reading) -> &'static str {
    if reading.totals.has_seconds_since_boot {
        " without a time, so permanent faults cannot be told from transient ones; --booted TIME dates lines that have \
         seconds since boot"
    } else {
        " without a time, so permanent faults cannot be told from transient ones"
    }
}

fn totals(reading: &Reading, show: usize) -> String {
    let totals = &reading.totals;
    let of = if reading.format == "rasdaemon" { ("row", "rows") } else { ("line", "lines") };
    let mut text = format!(
        "{} ({}): {}, {} of {}\n",
        one_line(&reading.file),
        reading.format,
        counted(totals.line_count, of.0, of.1),
        counted(totals.report_count, "report", "reports"),
        counted(reading.error_count, "error", "errors"),
    );
    let lines = |count: u64| if count == 1 { of.0 } else { of.1 };
    let many = |count: u64, one: &'static str, many: &'static str| if count == 1 { one } else { many };
    let of_reports = match (reading.format == "rasdaemon", totals.of_report_count) {
        (true, 1) => "row that is a report",
        (true, _) => "rows that are reports",
        (false, count) => many(count, "line of records of errors", "lines of records of errors"),
    };
    let (records, errors) = (|count| many(count, "record", "records"), |count| many(count, "error", "errors"));
    let reports = many(reading.undated_count, "report", "reports");
    let not_from_kernel = match totals.not_from_kernel_count {
        1 => "line not from the kernel that looks like its reports; not counted",
        _ => "lines not from the kernel that look like its reports; not counted",
    };
    let repeated = many(
        totals.repeated_count,
        "record of an error that another record tells",
        "records of an error that another record tells",
    );
    let unknown = many(reading.unknown_module_count, "error that names no module", "errors that name no module");
    let parts = [
        (totals.of_report_count, of_reports.to_owned()),
        (totals.other_count, format!("{} about other things", many(totals.other_count, "line", "lines"))),
        (totals.other_unit_count, format!("{} of other units than memory", records(totals.other_unit_count))),
        (totals.repeated_count, repeated.to_owned()),
        (totals.lost_count, format!("{} lost, as the log itself says", errors(totals.lost_count))),
        (reading.unknown_module_count, unknown.to_owned()),
        (reading.undated_count, format!("{reports}{}", undated(reading))),
        (totals.not_from_kernel_count, not_from_kernel.to_owned()),
        (totals.not_understood_count, format!("{} not understood", lines(totals.not_understood_count))),
    ];
    for (count, words) in parts.into_iter().filter(|(count, _)| *count > 0) {
        text += &format!("  {count:>8}  {words}\n");
    }
    for one in totals.not_understood.iter().take(show) {
        text += &format!("    {} {}: {}: {}\n", of.0, one.line, one.why, one.text);
    }
    let left = totals.not_understood_count - totals.not_understood.len().min(show) as u64;
    if left > 0 {
        text += &format!("    and {left} more\n");
    }
    if reading.unknown_module_count > 0 {
        let which = match reading.unknown_module_count {
            1 => "1 error names no module.".to_owned(),
            count => format!("{count} errors name no module."),
        };
        text += &format!("  {}\n", paragraph(&format!("{which} {FIND_MODULE}"), 2, 2, 100).trim_end());
    }
    for note in &totals.notes {
        text += &format!("  {}\n", one_line(note));
    }
    text
}
