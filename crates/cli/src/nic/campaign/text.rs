//! The tables of `surefoot nic campaign` for people.

use super::lines::{MissingRow, ShareRow, TableLine};
use surefoot_console::table::Table;
use surefoot_console::units::duration;

/// One experiment, beside the paper's numbers where it made it.
pub fn of(line: &TableLine) -> String {
    let of = line.campaign_fault_count.filter(|_| line.missing_count != Some(0));
    let mut text = format!(
        "{}, {} control program, seed {}: {} faults{}, {} of them masked by construction\n",
        line.experiment,
        line.build,
        line.seed,
        line.fault_count,
        of.map_or_else(String::new, |of| format!(" of {of}")),
        line.pruned_count
    );
    text += &missing(line);
    text += "\n";
    let mut outcomes = Table::new(&["outcome", "faults", "share", "95 %", "detected", "paper"], &[0]);
    let paper = |share: Option<f64>| share.map_or_else(|| "-".to_owned(), percent);
    for row in &line.outcomes {
        let ShareRow { count, share, .. } = row.share;
        let words = row.outcome.replace('_', " ");
        let cells = [words, count.to_string(), percent(share), interval(&row.share), row.detected_count.to_string()];
        outcomes.row(cells.into_iter().chain([paper(row.paper_share)]).collect());
    }
    let paper_failures = line.outcomes.iter().find(|row| row.outcome == "no_effect").and_then(|row| row.paper_share);
    let ShareRow { count, share, .. } = line.failures;
    let detected: u64 =
        line.outcomes.iter().filter(|row| row.outcome != "no_effect").map(|row| row.detected_count).sum();
    let all =
        ["all failures".to_owned(), count.to_string(), percent(share), interval(&line.failures), detected.to_string()];
    outcomes.row(all.into_iter().chain([paper(paper_failures.map(|none| 1.0 - none))]).collect());
    text += &outcomes.text();
    text += "\n";
    let mut classes = Table::new(&["class", "faults", "share", "95 %"], &[0]);
    for row in &line.standard {
        let ShareRow { count, share, .. } = row.share;
        classes.row(vec![row.class.replace('_', " "), count.to_string(), percent(share), interval(&row.share)]);
    }
    text += &classes.text();
    text += "\n";
    let ShareRow { count, of, share, .. } = line.coverage;
    text += &format!("Coverage: {count} of {of} failures detected, {} ({})", percent(share), interval(&line.coverage));
    // The paper's is that of what detects.
    let paper_coverage = line.paper_coverage.filter(|_| !line.build.starts_with("plain"));
    text += &paper_coverage.map_or_else(|| "\n".to_owned(), |paper| format!("; paper {}\n", percent(paper)));
    if !line.detected_by.is_empty() {
        let by: Vec<String> = line.detected_by.iter().map(|row| format!("{} {}", row.detected_by, row.count)).collect();
        text += &format!("Detected by: {}\n", by.join(", ").replace('_', "-"));
    }
    for (what, times) in [("Detected", &line.detection_ns), ("Recovered", &line.recovery_ns)] {
        if let Some(times) = times {
            let (median, max) = (duration(times.median), duration(times.max));
            text += &format!("{what} within {median} (median), {max} at most, virtual time\n");
        }
    }
    if line.build.starts_with("tolerant") {
        text += &format!(
            "Recovered {} times; {} faults lost, duplicated, reordered or corrupted a message\n",
            line.recovered_count, line.broken_count
        );
    }
    text + "\n"
}

/// What the table lacks; nothing when it is whole.
fn missing(line: &TableLine) -> String {
    let Some(count) = line.missing_count else {
        return "The lines do not say how many faults the campaign has: whether some are missing is not known\n"
            .to_owned();
    };
    if count == 0 {
        return String::new();
    }
    let numbers = |row: &MissingRow| match row.from == row.to {
        true => row.from.to_string(),
        false => format!("{} to {}", row.from, row.to),
    };
    let named: u64 = line.missing.iter().map(|row| row.to - row.from + 1).sum();
    let names: Vec<String> = line.missing.iter().map(numbers).collect();
    let more = if named < count { " and more" } else { "" };
    format!("Incomplete: {count} faults are not here: numbers {}{more}\n", names.join(", "))
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn interval(share: &ShareRow) -> String {
    format!("{:.1} to {:.1} %", share.low * 100.0, share.high * 100.0)
}
