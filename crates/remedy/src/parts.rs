//! The books on parts: what was repaired how often, what was replaced, and what of that tested good.
//!
//! They are made of cases and of what hosts tell of their parts, which the store keeps; nothing else is written. A part whose serial number
//! is known is counted by it, in whatever slot and host it is: it stays a repeat offender where it turns up again. Any other is what
//! the alerts of its host call it, such as its slot, and after it was replaced its count begins anew.

use crate::Step;
use crate::act::debug_mode::repairs_of;
use crate::policy::{HOUR_NS, ReplaceAfter, utc_text};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use surefoot_model::{Case, PartBook, PartStay, StepState};

/// Repairs and replacements that are kept, the newest; a part with more is long known.
const KEPT_MAX: usize = 200;

/// One case in which repair steps of a part were done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartRepair {
    /// The case.
    pub case: u64,
    /// The host that the part was in.
    pub host: String,
    /// When its first repair ended, `CLOCK_REALTIME`.
    pub at_realtime_ns: u64,
    /// The repair steps that were done, in the words of the policy. Whether they helped is another question: see `alert_holds`.
    pub steps: Vec<String>,
    /// Whether the alert that the case is about still held when the case was read; `None` of a book of an older release.
    #[serde(default)]
    pub alert_holds: Option<bool>,
    /// Rows that were repaired, by their place: `rank 0 bank group 1`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rows_by_bank_group: BTreeMap<String, u64>,
}

/// One case after which the part was replaced, or one that had its place before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartReplacement {
    /// The case.
    pub case: u64,
    /// The serial number of what was replaced, where that was another part: one that had this one's place before.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub predecessor: String,
    /// When it was told, `CLOCK_REALTIME`.
    pub at_realtime_ns: u64,
    /// What took its place, in the words of whoever told it; empty where nobody said.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub by: String,
    /// When the old part tested good, `CLOCK_REALTIME`; 0 where nobody said so.
    #[serde(default)]
    pub tested_good_realtime_ns: u64,
}

/// What is known of one part; the oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartHistory {
    /// What it is called; empty for the host itself.
    pub subject: String,
    /// Its serial number; empty where that is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub serial: String,
    /// Where it was; empty where its serial number is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stays: Vec<PartStay>,
    /// Its repairs.
    pub repairs: Vec<PartRepair>,
    /// Its replacements.
    pub replacements: Vec<PartReplacement>,
    /// Cases whose repairs were of an earlier part in the same place, as far as dates and numbers of cases tell.
    #[serde(skip)]
    of_earlier_part: BTreeSet<u64>,
}

/// A date later than this much after now is of a clock that was ahead.
const AHEAD_MAX_NS: u64 = HOUR_NS;

/// Whether something was dated by a clock that was ahead.
fn is_ahead(at_realtime_ns: u64, now_realtime_ns: u64) -> bool {
    at_realtime_ns > now_realtime_ns.saturating_add(AHEAD_MAX_NS)
}

/// Whether a repair came after the replacement that a case tells of. The date of a replacement in the future tells nothing, and the
/// numbers of the cases decide: otherwise no repair would count until that date. A repair in the future counts as one after it.
fn is_after(repair: &PartRepair, replaced_case: u64, replaced_ns: u64, now_realtime_ns: u64) -> bool {
    match is_ahead(replaced_ns, now_realtime_ns) {
        true => repair.case > replaced_case,
        false => repair.at_realtime_ns >= replaced_ns,
    }
}

impl PartHistory {
    /// The history of the part that a case is about, as it is known now.
    pub fn of(book: &PartBook, about: &Case, now_realtime_ns: u64) -> PartHistory {
        let serial = about.part.as_ref().map(|part| part.serial.clone()).unwrap_or_default();
        let mut history =
            PartHistory { subject: about.subject.clone(), serial, stays: book.stays.clone(), ..PartHistory::default() };
        // Of what was known by its place alone, only what came after the last replacement is this part.
        let by_place = book.cases.iter().filter(|case| is_its(case, about) == Some(Its::Perhaps));
        let replaced: Vec<(u64, u64)> =
            by_place.filter_map(|case| Some((case.id, case.replaced.as_ref()?.at_realtime_ns))).collect();
        let is_after_all = |repair: &PartRepair, replaced: &[(u64, u64)]| {
            replaced.iter().all(|&(case, at_ns)| is_after(repair, case, at_ns, now_realtime_ns))
        };
        for case in book.cases.iter().filter(|case| !case.is_dry_run) {
            let Some(its) = is_its(case, about) else { continue };
            let is_counted = |repair: &PartRepair| its == Its::Surely || is_after_all(repair, &replaced);
            if its != Its::Predecessors {
                history
                    .repairs
                    .extend(repair_of(case).filter(|repair| history.serial.is_empty() || is_counted(repair)));
            }
            let of_predecessor = case.part.as_ref().filter(|_| its == Its::Predecessors);
            history.replacements.extend(case.replaced.as_ref().map(|replaced| PartReplacement {
                case: case.id,
                predecessor: of_predecessor.map(|part| part.serial.clone()).unwrap_or_default(),
                at_realtime_ns: replaced.at_realtime_ns,
                by: replaced.by.clone(),
                tested_good_realtime_ns: replaced.tested_good_realtime_ns,
            }));
        }
        history.repairs.sort_by_key(|repair| (repair.at_realtime_ns, repair.case));
        history.replacements.sort_by_key(|replaced| (replaced.at_realtime_ns, replaced.case));
        history.repairs.drain(..history.repairs.len().saturating_sub(KEPT_MAX));
        history.replacements.drain(..history.replacements.len().saturating_sub(KEPT_MAX));
        // Where the serial number is known, all repairs are of this part.
        if history.serial.is_empty() {
            let replaced: Vec<(u64, u64)> =
                history.replacements.iter().map(|replaced| (replaced.case, replaced.at_realtime_ns)).collect();
            let earlier = history.repairs.iter().filter(|repair| !is_after_all(repair, &replaced));
            history.of_earlier_part = earlier.map(|repair| repair.case).collect();
        }
        history
    }

    /// Why the part is to be replaced instead of repaired once more; `None` where it is not.
    pub fn reason_to_replace(&self, rule: ReplaceAfter, now_realtime_ns: u64) -> Option<String> {
        let from_ns = now_realtime_ns.saturating_sub(rule.within_ns);
        let counted: Vec<&PartRepair> =
            self.counted().filter(|repair| repair.at_realtime_ns >= from_ns.max(1)).collect();
        if (counted.len() as u64) < rule.repairs {
            return None;
        }
        let here = counted.last().map(|repair| repair.host.clone()).unwrap_or_default();
        let cases: Vec<String> = counted
            .iter()
            .map(|repair| match repair.host == here {
                true => repair.case.to_string(),
                false => format!("{} of {}", repair.case, repair.host),
            })
            .collect();
        let mut why = format!(
            "{} was repaired {} within {} (case {}): replace it",
            self.name(),
            times(counted.len()),
            days(rule.within_ns),
            cases.join(", ")
        );
        // Such a repair counts until its date is past, and nobody would know why.
        for repair in counted.iter().filter(|repair| is_ahead(repair.at_realtime_ns, now_realtime_ns)) {
            let at = utc_text(repair.at_realtime_ns);
            why +=
                &format!("; case {} is dated in the future ({at}) by a clock that was ahead, and counts", repair.case);
        }
        if self.tested_good_count() > 0 {
            why += "; one that was taken out before tested good, so look at its slot and its controller too";
        }
        Some(why)
    }

    /// Repairs of this part; those of an earlier one in its place are not counted.
    fn counted(&self) -> impl Iterator<Item = &PartRepair> {
        self.repairs.iter().filter(|repair| !self.of_earlier_part.contains(&repair.case))
    }

    /// How many of those that were replaced tested good: their replacement was in vain.
    pub fn tested_good_count(&self) -> usize {
        self.replacements.iter().filter(|replaced| replaced.tested_good_realtime_ns != 0).count()
    }

    /// Rows that were repaired, by their bank group; since the newest replacement.
    pub fn rows_by_bank_group(&self) -> BTreeMap<String, u64> {
        let mut rows: BTreeMap<String, u64> = BTreeMap::new();
        for repair in self.counted() {
            for (place, count) in &repair.rows_by_bank_group {
                *rows.entry(place.clone()).or_default() += count;
            }
        }
        rows
    }

    /// The history in sentences; none where nothing ever happened.
    pub fn says(&self) -> Vec<String> {
        let mut lines: Vec<(u64, String)> = Vec::new();
        for stay in &self.stays {
            let at = format!("in {} of {}", stay.place, stay.host);
            let since = utc_text(stay.since_realtime_ns);
            let line = match (stay.until_realtime_ns, stay.replaced_by.as_str()) {
                (0, _) => format!("{at} since {since}"),
                (until_ns, "") => format!("{at} from {since} until {}", utc_text(until_ns)),
                (until_ns, by) => format!("{at} from {since} until {}, when {by} took its place", utc_text(until_ns)),
            };
            lines.push((stay.since_realtime_ns, line));
        }
        for repair in &self.repairs {
            let steps = repair.steps.join(", ");
            let host = if self.serial.is_empty() { String::new() } else { format!(" in {}", repair.host) };
            let helped = match repair.alert_holds {
                Some(true) => "the alert still holds",
                Some(false) => "the alert is over",
                None => "whether it helped is not known",
            };
            let at = utc_text(repair.at_realtime_ns);
            lines.push((repair.at_realtime_ns, format!("{steps} done {at}{host}, case {}; {helped}", repair.case)));
        }
        for replaced in &self.replacements {
            let by = if replaced.by.is_empty() { String::new() } else { format!(" by {}", replaced.by) };
            let good = match replaced.tested_good_realtime_ns {
                0 => String::new(),
                at_ns => format!("; the old one tested good {}", utc_text(at_ns)),
            };
            let who = match replaced.predecessor.as_str() {
                "" => String::new(),
                serial => format!("{serial}, which had its place before, was "),
            };
            lines.push((
                replaced.at_realtime_ns,
                format!("{who}replaced {}{by}, case {}{good}", utc_text(replaced.at_realtime_ns), replaced.case),
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

/// What a case has to do with the part that another is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Its {
    /// It is about the same part, by its serial number.
    Surely,
    /// It is about what has the same name on the same host, and its serial number is not known.
    Perhaps,
    /// It is about another part in the same place.
    Predecessors,
}

fn is_its(case: &Case, about: &Case) -> Option<Its> {
    match (&case.part, &about.part) {
        (Some(one), Some(other)) if one.is_same(other) => Some(Its::Surely),
        (Some(one), Some(other)) => {
            let is_same_place = case.host == about.host && (one.kind, &one.place) == (other.kind, &other.place);
            is_same_place.then_some(Its::Predecessors)
        }
        _ => {
            let is_same = case.host == about.host && case.subject == about.subject;
            // A host is no part: what repaired one fault of it says nothing about another.
            let is_part = !matches!(about.subject.as_str(), "" | "host");
            (is_same && (is_part || case.fault == about.fault)).then_some(Its::Perhaps)
        }
    }
}

/// Whether a case may be about the part that another is about, or about the same host where no part is known.
pub fn may_be_of(case: &Case, about: &Case) -> bool {
    !matches!((&case.part, &about.part), (Some(one), Some(other)) if !one.is_same(other))
}

/// Why nothing is known of how often a part was repaired: cases that may be about it cannot be read. `None` where all were read.
pub fn reason_unread(book: &PartBook) -> Option<String> {
    let first = book.unread.first()?;
    let more = match book.unread.len() - 1 {
        0 => String::new(),
        more => format!(" and {more} more cannot be read"),
    };
    Some(format!(
        "{}{more}: how often the part was repaired is not known; `surefoot remedy cancel {}` leaves that case out",
        first.says(),
        first.id
    ))
}

/// Whether a step repairs the part itself: what a policy's limit of repairs counts. Other steps that repair mend its host: see [`Step::repairs`].
pub fn repairs_part(step: &Step) -> bool {
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
        .filter(|step| step.state == StepState::Done && step.step.parse::<Step>().is_ok_and(|step| repairs_part(&step)))
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
        host: case.host.clone(),
        at_realtime_ns: first.ended_realtime_ns,
        steps: done.iter().map(|step| step.step.clone()).collect(),
        alert_holds: Some(case.is_firing),
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
    use surefoot_model::{Part, SubjectKind};

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

    fn history(cases: &[Case], day: u64) -> PartHistory {
        let book = PartBook { cases: cases.to_vec(), ..PartBook::default() };
        PartHistory::of(&book, &case(99, "run:/repair", "", 999), day * DAY_NS)
    }

    fn why(cases: &[Case], day: u64) -> Option<String> {
        history(cases, day).reason_to_replace(RULE, day * DAY_NS)
    }

    /// The case about a module of this serial number, in a slot of a host.
    fn of_part(case: Case, host: &str, place: &str, serial: &str) -> Case {
        let part = Part {
            kind: SubjectKind::Dimm,
            name: serial.into(),
            place: place.into(),
            serial: serial.into(),
            model: String::new(),
        };
        Case { host: host.into(), subject: part.subject().to_string(), part: Some(part), ..case }
    }

    /// A hook that exits 0 says nothing about the part.
    #[test]
    fn a_repair_step_that_was_done_is_called_repaired_by_nobody() {
        let done = case(4, "run:/hooks/repair", "", 100);
        let says = |case: Case| {
            let book = PartBook { cases: vec![case.clone()], ..PartBook::default() };
            PartHistory::of(&book, &case, 101 * DAY_NS).says().join("\n")
        };
        let line = "run:/hooks/repair done 1970-04-11 00:00:00 UTC, case 4; the alert ";
        assert_eq!(says(Case { is_firing: true, ..done.clone() }), format!("{line}still holds"));
        assert_eq!(says(done), format!("{line}is over"));
    }

    #[test]
    fn a_part_that_was_repaired_often_within_the_time_is_to_be_replaced() {
        let cases = [case(4, "run:/repair", "", 100), case(9, "offline-page", "", 120)];
        assert_eq!(why(&cases, 125).unwrap(), "dimm A1 was repaired 2 times within 30 days (case 4, 9): replace it");
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
        let says = history(&more, 117).says().join("\n");
        assert!(says.contains("replaced") && says.contains("by S2, case 9; the old one tested good"), "{says}");
    }

    /// A clock that was ahead for a while: no date of that while lifts the limit, and one that counts is named.
    #[test]
    fn a_date_in_the_future_never_lifts_the_limit_of_repairs() {
        // The replacement is dated two years ahead, and what was repaired since would not count until then.
        let ahead = replaced(case(9, "run:/repair", "", 110), 112 + 730, 0);
        let cases = [case(4, "run:/repair", "", 100), ahead, case(12, "run:/repair", "", 114)];
        assert_eq!(why(&cases, 117), None, "one repair since the replacement");
        let more = [&cases[..], &[case(13, "run:/repair", "", 116)]].concat();
        assert!(why(&more, 117).unwrap().contains("(case 12, 13)"), "{:?}", why(&more, 117));
        // The same of a part that got its serial number only afterwards.
        let about = of_part(case(99, "run:/repair", "", 999), "n1", "A1", "S2");
        let book = PartBook {
            cases: more.iter().map(|one| Case { subject: about.subject.clone(), ..one.clone() }).collect(),
            ..PartBook::default()
        };
        let cases: Vec<u64> = PartHistory::of(&book, &about, 117 * DAY_NS).repairs.iter().map(|one| one.case).collect();
        assert_eq!(cases, [12, 13]);

        // A repair that is dated ahead counts, before the replacement and after it, and says so.
        let why = why(&[case(4, "run:/repair", "", 100 + 730), case(12, "run:/repair", "", 114)], 117).unwrap();
        assert!(why.contains("case 4 is dated in the future (1972-04-10 00:00:00 UTC)"), "{why}");
    }

    /// Two faults of a host have the host in common and no part.
    #[test]
    fn a_host_has_books_for_each_fault_and_only_for_steps_that_did_something() {
        let of_host = |id: u64, fault: &str, state: &str| {
            let mut case = case(id, "reset-interface:eth0", "", 100);
            (case.subject, case.fault) = ("host".into(), fault.into());
            case.steps[1].state = serde_json::from_value(json!(state)).unwrap();
            case
        };
        let about = of_host(9, "check/other", "pending");
        let repaired = |cases: &[Case]| {
            let book = PartBook { cases: cases.to_vec(), ..PartBook::default() };
            PartHistory::of(&book, &about, 120 * DAY_NS).repairs.iter().map(|repair| repair.case).collect::<Vec<_>>()
        };
        let cases =
            [of_host(2, "nic/hung", "done"), of_host(3, "check/other", "done"), of_host(4, "check/other", "skipped")];
        assert_eq!(repaired(&cases), [3]);
    }

    #[test]
    fn repaired_rows_are_counted_by_their_bank_group() {
        let row = |group: u32, row: u32| json!({ "dimm": "A1", "rank": 0, "bank_group": group, "bank": 1, "row": row });
        let memo = |rows: serde_json::Value| json!({ "rows": rows, "switch": "" }).to_string();
        let cases = [
            case(4, "soft-repair:maker", &memo(json!([row(1, 26), row(2, 27)])), 100),
            case(9, "hard-repair:maker", &memo(json!([row(1, 26)])), 101),
        ];
        let history = history(&cases, 102);
        let rows = history.rows_by_bank_group();
        assert_eq!(
            rows.into_iter().collect::<Vec<_>>(),
            [("rank 0 bank group 1".to_owned(), 2), ("rank 0 bank group 2".to_owned(), 1)]
        );
        assert!(history.says().last().unwrap().contains("rank 0 bank group 1: 2"), "{:?}", history.says());
    }

    #[test]
    fn the_count_follows_the_part_and_not_its_place() {
        let about = of_part(case(9, "run:/repair", "", 130), "n2", "B1", "S100");
        let stay = |host: &str, place: &str, days: [u64; 2], by: &str| PartStay {
            since_realtime_ns: days[0] * DAY_NS,
            until_realtime_ns: days[1] * DAY_NS,
            host: host.into(),
            place: place.into(),
            replaced_by: by.into(),
        };
        let book = PartBook {
            cases: vec![
                // Of the part itself, in another host, where it was replaced.
                replaced(of_part(case(4, "run:/repair", "", 100), "n1", "A1", "S100"), 103, 0),
                of_part(case(5, "run:/repair", "", 110), "n2", "B1", "S100"),
                // Of another that had its place before, and of others that have nothing to do with it.
                replaced(of_part(case(6, "run:/repair", "", 101), "n2", "B1", "S200"), 104, 107),
                of_part(case(7, "run:/repair", "", 111), "n2", "A1", "S300"),
            ],
            stays: vec![stay("n1", "A1", [90, 103], "S101"), stay("n2", "B1", [104, 0], "")],
            ..PartBook::default()
        };
        let history = PartHistory::of(&book, &about, 120 * DAY_NS);
        let cases: Vec<u64> = history.repairs.iter().map(|repair| repair.case).collect();
        assert_eq!((cases, history.tested_good_count()), (vec![4, 5], 1));
        let why = history.reason_to_replace(RULE, 120 * DAY_NS).unwrap();
        assert!(why.starts_with("dimm S100 was repaired 2 times within 30 days (case 4 of n1, 5)"), "{why}");
        assert!(why.contains("look at its slot"), "{why}");
        let says = history.says().join("\n");
        assert!(says.contains("in A1 of n1 from") && says.contains("when S101 took its place"), "{says}");
        assert!(says.contains("S200, which had its place before, was replaced"), "{says}");
        // What took its place in the first host begins without its repairs.
        let next = of_part(case(10, "run:/repair", "", 131), "n1", "A1", "S101");
        assert_eq!(PartHistory::of(&book, &next, 132 * DAY_NS).repairs, []);
    }
}
