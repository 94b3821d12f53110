//! What a change brought, as text.

use crate::table::Table;
use crate::units::duration;
use surefoot_model::{Comparison, LossRate};

/// Rows that are shown.
const ROWS: usize = 12;

/// The comparison for people.
pub fn text(comparison: &Comparison, before: &str) -> String {
    let mut text = format!(
        "\nCompared with {before}: {} then, {} now\n\n",
        duration(comparison.before_ns),
        duration(comparison.after_ns)
    );
    let mut table = Table::new(&["core", "cause", "per s then", "now", "lost per s then", "now", "difference"], &[1]);
    for change in comparison.changes.iter().take(ROWS) {
        table.row(row(change.cpu.to_string(), change.cause.to_string(), change.before, change.after));
    }
    table.row(row("all".to_owned(), "all causes".to_owned(), comparison.before, comparison.after));
    text += &table.text();
    if comparison.changes.len() > ROWS {
        text += &format!("and {} causes that changed less\n", comparison.changes.len() - ROWS);
    }
    if comparison.is_comparable {
        text += "The two are comparable: the same cores, alike busy, nothing lost on the way.\n";
    }
    for caution in &comparison.cautions {
        text += &format!("Careful: {caution}.\n");
    }
    text
}

fn row(core: String, cause: String, before: LossRate, after: LossRate) -> Vec<String> {
    let difference = after.lost_ns_per_s - before.lost_ns_per_s;
    let sign = if difference < 0.0 { "-" } else { "+" };
    let percent = match before.lost_ns_per_s {
        before if before > 0.0 => format!(" ({:+.0} %)", difference * 100.0 / before),
        _ => " (new)".to_owned(),
    };
    vec![
        core,
        cause,
        format!("{:.1}", before.count_per_s),
        format!("{:.1}", after.count_per_s),
        duration(before.lost_ns_per_s as u64),
        duration(after.lost_ns_per_s as u64),
        format!("{sign}{}{percent}", duration(difference.abs() as u64)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use surefoot_model::{Cause, CauseKind, Change, CpuId};

    #[test]
    fn a_comparison_says_what_became_less_what_is_new_and_what_to_be_careful_about() {
        let rate = |count_per_s, lost_ns_per_s| LossRate { count_per_s, lost_ns_per_s };
        let change = |kind, before, after| Change { cpu: CpuId(1), cause: Cause::new(kind, "x"), before, after };
        let mut comparison = Comparison {
            before_ns: 10_000_000_000,
            after_ns: 5_000_000_000,
            is_comparable: true,
            cautions: Vec::new(),
            before: rate(775.0, 1_500_000.0),
            after: rate(2.0, 10_000.0),
            changes: vec![
                change(CauseKind::TlbShootdown, rate(775.0, 1_500_000.0), LossRate::default()),
                change(CauseKind::Reschedule, LossRate::default(), rate(2.0, 10_000.0)),
            ],
        };
        let said = text(&comparison, "before.surefoot");
        assert!(said.starts_with("\nCompared with before.surefoot: 10.0 s then, 5.00 s now\n"), "{said}");
        for part in [
            "1  TLB shootdown x       775.0  0.0          1.50 ms     0 ns  -1.50 ms (-100 %)",
            "1  reschedule x            0.0  2.0             0 ns  10.0 us     +10.0 us (new)",
            "all  all causes            775.0  2.0          1.50 ms  10.0 us   -1.49 ms (-99 %)",
            "The two are comparable",
        ] {
            assert!(said.contains(part), "{part} is not in {said}");
        }
        comparison.is_comparable = false;
        comparison.cautions.push("the load is another one".into());
        let said = text(&comparison, "x");
        assert!(said.ends_with("Careful: the load is another one.\n") && !said.contains("are comparable"), "{said}");
    }
}
