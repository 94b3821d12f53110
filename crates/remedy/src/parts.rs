//! The books on parts: what was repaired how often, what was replaced, and what of that tested good.
//!
//! They are made of the cases of a host, which the store keeps; nothing else is written. A part is what the alerts of its host call it: a
//! module by its serial number where it has one, otherwise by its slot. After it was replaced the count begins anew.
//!
//! ```
//! use surefoot_remedy::parts::PartHistory;
//! let history = PartHistory::of(&[], "n1", "dimm A1");
//! assert!(history.repairs.is_empty() && history.replacements.is_empty());
//! ```

use crate::Step;
use crate::act::debug_mode::repairs_of;
use crate::policy::{ReplaceAfter, utc_text};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use surefoot_model::{Case, StepState};

/// Repairs and replacements that are kept, the newest; a part with more is long known.
const KEPT_MAX: usize = 200;

/// One case that repaired a part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartRepair {
    /// The case.
    pub case: u64,
    /// When its first repair ended, `CLOCK_REALTIME`.
    pub at_realtime_ns: u64,
    /// The steps that repaired, in the words of the policy.
    pub steps: Vec<String>,
    /// Rows that were repaired, by their place: `rank 0 bank group 1`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rows_by_bank_group: BTreeMap<String, u64>,
}

/// One case after which a person replaced the part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartReplacement {
    /// The case.
    pub case: u64,
    /// When it was told, `CLOCK_REALTIME`.
    pub at_realtime_ns: u64,
    /// What took its place, in the words of whoever told it; empty where nobody said.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub by: String,
    /// When the old part tested good, `CLOCK_REALTIME`; 0 where nobody said so.
    #[serde(default)]
    pub tested_good_realtime_ns: u64,
}

/// What the cases of a host tell of one part; the oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartHistory {
    /// What it is called; empty for the host itself.
    pub subject: String,
    /// Its repairs.
    pub repairs: Vec<PartRepair>,
    /// Its replacements.
    pub replacements: Vec<PartReplacement>,
}

impl PartHistory {
    /// The history of the part that alerts of this host call so.
    pub fn of(cases: &[Case], host: &str, subject: &str) -> PartHistory {
        let mut history = PartHistory { subject: subject.to_owned(), ..PartHistory::default() };
        let is_its = |case: &&Case| case.host == host && case.subject == subject && !case.is_dry_run;
        for case in cases.iter().filter(is_its) {
            history.repairs.extend(repair_of(case));
            history.replacements.extend(case.replaced.as_ref().map(|replaced| PartReplacement {
                case: case.id,
                at_realtime_ns: replaced.at_realtime_ns,
                by: replaced.by.clone(),
                tested_good_realtime_ns: replaced.tested_good_realtime_ns,
            }));
        }
        history.repairs.sort_by_key(|repair| (repair.at_realtime_ns, repair.case));
        history.replacements.sort_by_key(|replaced| (replaced.at_realtime_ns, replaced.case));
        history.repairs.drain(..history.repairs.len().saturating_sub(KEPT_MAX));
        history.replacements.drain(..history.replacements.len().saturating_sub(KEPT_MAX));
        history
    }

    /// Why the part is to be replaced instead of repaired once more; `None` where it is not.
    pub fn reason_to_replace(&self, rule: ReplaceAfter, now_realtime_ns: u64) -> Option<String> {
        let replaced_ns = self.replacements.last().map_or(0, |replaced| replaced.at_realtime_ns);
        let from_ns = now_realtime_ns.saturating_sub(rule.within_ns).max(replaced_ns);
        let counted: Vec<&PartRepair> =
            self.repairs.iter().filter(|repair| repair.at_realtime_ns >= from_ns.max(1)).collect();
        if (counted.len() as u64) < rule.repairs {
            return None;
        }
        let cases: Vec<String> = counted.iter().map(|repair| repair.case.to_string()).collect();
        let mut why = format!(
            "{} was repaired {} within {} (case {}), and is to be replaced",
            self.name(),
            times(counted.len()),
            days(rule.within_ns),
            cases.join(", ")
        );
        if self.tested_good_count() > 0 {
            why += "; one that was taken out before tested good, so look at its slot and its controller too";
        }
        Some(why)
    }

    /// How many of those that were replaced tested good: their replacement was in vain.
    pub fn tested_good_count(&self) -> usize {
        self.replacements.iter().filter(|replaced| replaced.tested_good_realtime_ns != 0).count()
    }

    /// Rows that were repaired, by their bank group; since the newest replacement.
    pub fn rows_by_bank_group(&self) -> BTreeMap<String, u64> {
        let replaced_ns = self.replacements.last().map_or(0, |replaced| replaced.at_realtime_ns);
        let mut rows: BTreeMap<String, u64> = BTreeMap::new();
        for repair in self.repairs.iter().filter(|repair| repair.at_realtime_ns >= replaced_ns) {
            for (place, count) in &repair.rows_by_bank_group {
                *rows.entry(place.clone()).or_default() += count;
            }
        }
        rows
    }

    /// The history in sentences; none where nothing ever happened.
    pub fn says(&self) -> Vec<String> {
        let mut lines: Vec<(u64, String)> = Vec::new();
        for repair in &self.repairs {
            let steps = repair.steps.join(", ");
            lines.push((
                repair.at_realtime_ns,
                format!("repaired {} by {steps}, case {}", utc_text(repair.at_realtime_ns), repair.case),
            ));
        }
        for replaced in &self.replacements {
            let by = if replaced.by.is_empty() { String::new() } else { format!(" by {}", replaced.by) };
            let good = match replaced.tested_good_realtime_ns {
                0 => String::new(),
                at_ns => format!("; the old one tested good {}", utc_text(at_ns)),
            };
            lines.push((
                replaced.at_realtime_ns,
                format!("replaced {}{by}, case {}{good}", utc_text(replaced.at_realtime_ns), replaced.case),
            ));
        }
        lines.sort();
        let mut lines: Vec<String> = lines.into_iter().map(|(_, line)| line).collect();
        let rows: Vec<String> =
            self.rows_by_bank_group().iter().map(|(place, count)| format!("{place}: {count}")).collect();
        if !rows.is_empty() {
            lines.push(format!("repaired rows since: {}", rows.join(", ")));
        }
        lines
    }

    fn name(&self) -> &str {
        if self.subject.is_empty() { "the host" } else { &self.subject }
    }
}

/// Whether a step repairs the part itself: what a policy's limit of repairs counts.
pub fn repairs(step: &Step) -> bool {
    matches!(
        step,
        Step::SoftRepair(_) | Step::HardRepair(_) | Step::OfflinePage | Step::ResetInterface(_) | Step::Run(_)
    )
}

/// Whether a step is a repair, or serves one: what is not begun of a part that is to be replaced.
pub fn serves_repair(step: &Step) -> bool {
    step.touches_host() && !matches!(step, Step::Drain | Step::Return | Step::Restore(_))
}

fn repair_of(case: &Case) -> Option<PartRepair> {
    let done: Vec<_> = case
        .steps
        .iter()
        .filter(|step| step.state == StepState::Done && step.step.parse::<Step>().is_ok_and(|step| repairs(&step)))
        .collect();
    let first = done.first()?;
    let mut rows_by_bank_group: BTreeMap<String, u64> = BTreeMap::new();
    for repair in repairs_of(std::slice::from_ref(case)) {
        let place = [("rank", repair.row.rank), ("bank group", repair.row.bank_group)]
            .into_iter()
            .map(|(name, number)| number.map_or(format!("{name} unknown"), |number| format!("{name} {number}")));
        *rows_by_bank_group.entry(place.collect::<Vec<_>>().join(" ")).or_default() += 1;
    }
    Some(PartRepair {
        case: case.id,
        at_realtime_ns: first.ended_realtime_ns,
        steps: done.iter().map(|step| step.step.clone()).collect(),
        rows_by_bank_group,
    })
}

fn times(count: usize) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}

fn days(within_ns: u64) -> String {
    let hours = within_ns / crate::policy::HOUR_NS;
    if hours >= 48 && hours.is_multiple_of(24) { format!("{} days", hours / 24) } else { format!("{hours} h") }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use serde_json::json;

    const DAY_NS: u64 = 24 * crate::policy::HOUR_NS;
    const RULE: ReplaceAfter = ReplaceAfter { repairs: 2, within_ns: 30 * DAY_NS };

    /// A closed case that did a step at a time.
    fn case(id: u64, step: &str, memo: &str, day: u64) -> Case {
        serde_json::from_value(json!({
            "id": id, "host": "n1", "service": "web", "fault": "memory/rate", "subject": "dimm A1", "alert_key": "k",
            "severity": "warning", "sentence": "", "policy": "p", "state": "returned", "is_firing": false,
            "is_drained": false, "since_realtime_ns": 1, "state_since_realtime_ns": 1, "revision": 1,
            "steps": [
                { "step": "drain", "state": "done", "attempt_count": 1, "ended_realtime_ns": day * DAY_NS },
                { "step": step, "state": "done", "attempt_count": 1, "ended_realtime_ns": day * DAY_NS, "memo": memo },
            ],
        }))
        .unwrap()
    }

    fn replaced(case: Case, day: u64, tested_good_day: u64) -> Case {
        let replaced =
            json!({ "at_realtime_ns": day * DAY_NS, "by": "S2", "tested_good_realtime_ns": tested_good_day * DAY_NS });
        Case { replaced: Some(serde_json::from_value(replaced).unwrap()), ..case }
    }

    fn why(cases: &[Case], day: u64) -> Option<String> {
        PartHistory::of(cases, "n1", "dimm A1").reason_to_replace(RULE, day * DAY_NS)
    }

    #[test]
    fn a_part_that_was_repaired_often_within_the_time_is_to_be_replaced() {
        let cases = [case(4, "run:/repair", "", 100), case(9, "offline-page", "", 120)];
        assert_eq!(
            why(&cases, 125).unwrap(),
            "dimm A1 was repaired 2 times within 30 days (case 4, 9), and is to be replaced"
        );
        assert_eq!(why(&cases, 131), None, "the first is too long ago");
        assert_eq!(why(&cases[..1], 125), None);
        // A case that only restarted something repaired no part, and another host's parts are others.
        assert_eq!(why(&[cases[0].clone(), case(9, "reboot", "", 120)], 125), None);
        let elsewhere = Case { host: "n2".into(), ..cases[1].clone() };
        assert_eq!(why(&[cases[0].clone(), elsewhere], 125), None);
    }

    #[test]
    fn after_a_replacement_the_count_begins_anew_and_what_tested_good_is_said() {
        let cases = [case(4, "run:/repair", "", 100), replaced(case(9, "run:/repair", "", 110), 112, 115)];
        assert_eq!(why(&cases, 113), None);
        let mut more = cases.to_vec();
        more.extend([case(12, "run:/repair", "", 114), case(13, "run:/repair", "", 116)]);
        let why = why(&more, 117).unwrap();
        assert!(why.contains("(case 12, 13)") && why.contains("tested good, so look at its slot"), "{why}");
        let says = PartHistory::of(&more, "n1", "dimm A1").says().join("\n");
        assert!(says.contains("replaced") && says.contains("by S2, case 9; the old one tested good"), "{says}");
    }

    #[test]
    fn repaired_rows_are_counted_by_their_bank_group() {
        let row = |group: u32, row: u32| json!({ "dimm": "A1", "rank": 0, "bank_group": group, "bank": 1, "row": row });
        let memo = |rows: serde_json::Value| json!({ "rows": rows, "switch": "" }).to_string();
        let cases = [
            case(4, "soft-repair:maker", &memo(json!([row(1, 26), row(2, 27)])), 100),
            case(9, "hard-repair:maker", &memo(json!([row(1, 26)])), 101),
        ];
        let history = PartHistory::of(&cases, "n1", "dimm A1");
        let rows = history.rows_by_bank_group();
        assert_eq!(
            rows.into_iter().collect::<Vec<_>>(),
            [("rank 0 bank group 1".to_owned(), 2), ("rank 0 bank group 2".to_owned(), 1)]
        );
        assert!(history.says().last().unwrap().contains("rank 0 bank group 1: 2"), "{:?}", history.says());
    }
}
