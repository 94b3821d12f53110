//! What a report of a memory error says, in one line for people.

use surefoot_console::units::counted;
use surefoot_model::{DramLocation, ErrorReport, ErrorSeverity, one_line};
use surefoot_store::history::KeptRecord;

/// `None` for a report of another release.
pub fn words_of(record: &KeptRecord) -> Option<String> {
    serde_json::from_value(record.body.clone()).ok().map(|report: ErrorReport| words(&report))
}

/// A report in one line.
pub fn words(report: &ErrorReport) -> String {
    let [one, many] = match report.severity {
        ErrorSeverity::Corrected => ["corrected error", "corrected errors"],
        ErrorSeverity::Deferred => ["deferred error", "deferred errors"],
        ErrorSeverity::Uncorrected => ["uncorrected error", "uncorrected errors"],
    };
    let at_least = if report.fidelity == surefoot_model::Fidelity::Exact { "" } else { "at least " };
    let on = match (report.label.as_str(), &report.dimm) {
        ("", None) => " on no known module".to_owned(),
        ("", Some(dimm)) => format!(" on {}", one_line(dimm)),
        (label, _) => format!(" on {}", one_line(label)),
    };
    format!("{at_least}{}{on}{}", counted(report.count.into(), one, many), place(&report.location))
}

/// Where in the module, as far as it is known.
fn place(location: &DramLocation) -> String {
    // The number of the bank in its rank, as evidence and maps have it, and the reporter's own words behind it.
    let bank = match (location.bank_group, location.bank) {
        (Some(group), Some(bank)) => {
            Some(format!("bank {} (bank {bank} of group {group})", group.saturating_mul(4).saturating_add(bank)))
        }
        (None, Some(bank)) => Some(format!("bank {bank}")),
        (Some(group), None) => Some(format!("bank group {group}")),
        (None, None) => None,
    };
    let numbered = |name: &str, value: Option<u32>| value.map(|value| format!("{name} {value:#x}"));
    let rank = location.rank.map(|rank| format!("rank {rank}"));
    let parts = [rank, bank, numbered("row", location.row), numbered("column", location.column)];
    let known: Vec<String> = parts.into_iter().flatten().collect();
    if known.is_empty() { String::new() } else { format!(", {}", known.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use surefoot_model::{Room, Subject};

    #[test]
    fn a_report_of_the_history_says_what_and_where() {
        let body = json!({
            "at_realtime_ns": 1, "at_ns": null, "source": "mc_event", "severity": "corrected", "dimm": "S1",
            "label": "CPU0_A1", "count": 3, "fidelity": "lower_bound",
            "location": {"rank": 0, "bank_group": 1, "bank": 3, "row": 17, "column": 4}, "detail": "",
        });
        let record = |body| {
            let (room, subject) = (Room::Memory, Subject::host());
            KeptRecord { room, kind: "corrected_error".into(), subject, at_realtime_ns: 1, body }
        };
        let said = words_of(&record(body));
        assert_eq!(
            said.as_deref(),
            Some("at least 3 corrected errors on CPU0_A1, rank 0, bank 7 (bank 3 of group 1), row 0x11, column 0x4")
        );
        assert_eq!(words_of(&record(json!({"of": "another release"}))), None);
    }
}
