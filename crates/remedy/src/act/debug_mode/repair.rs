//! Post-package repair, and the books on it: a module has few spare rows, and what is repaired for good cannot be taken back.

use super::adapter::{Adapter, Part, Spares};
use super::collect::Row;
use super::switch;
use crate::Step;
use crate::act::reboot::Times;
use crate::act::redfish::Bmc;
use crate::act::shown::last_words;
use crate::act::{Order, Outcome, PriorAttempt, hook};
use serde::{Deserialize, Serialize};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use surefoot_model::{Case, CaseStep, Observed, RepairLasts, StepState};
use surefoot_sys::program;

/// How long the adapter's report may take.
const REPORT_PATIENCE: Duration = Duration::from_secs(60);

/// How long a repair lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RepairKind {
    /// Until the next reset or loss of power.
    Soft,
    /// For good.
    Hard,
}

/// One repair of the past.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repair {
    /// The row.
    pub row: Row,
    /// For how long.
    pub kind: RepairKind,
    /// The case that did it.
    pub case: u64,
    /// When, `CLOCK_REALTIME`.
    pub at_realtime_ns: u64,
}

/// What a repair remembers.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Memo {
    rows: Vec<Row>,
    /// How far the switch of settings has come.
    #[serde(default)]
    switch: String,
}

/// The repairs that these cases have done, or may have done.
pub fn repairs_of(cases: &[Case]) -> Vec<Repair> {
    let mut repairs = Vec::new();
    for case in cases {
        // One that failed after its settings were set may have used up rows all the same.
        let may_have_repaired = |step: &&CaseStep| matches!(step.state, StepState::Done | StepState::Failed);
        for step in case.steps.iter().filter(may_have_repaired) {
            let kind = match step.step.parse() {
                Ok(Step::SoftRepair(_)) => RepairKind::Soft,
                Ok(Step::HardRepair(_)) => RepairKind::Hard,
                _ => continue,
            };
            let Ok(memo) = serde_json::from_str::<Memo>(&step.memo) else { continue };
            if step.state == StepState::Failed && memo.switch.is_empty() {
                continue;
            }
            let at_realtime_ns = step.ended_realtime_ns;
            repairs.extend(memo.rows.into_iter().map(|row| Repair { row, kind, case: case.id, at_realtime_ns }));
        }
    }
    repairs
}

/// Repairs the rows that an earlier step of the case has collected, as far as the module has spare rows.
pub fn run(bmc: &Bmc, times: &Times, adapter: &Adapter, order: &Order, stop: &AtomicBool) -> Outcome {
    let (kind, settings) = match order.step {
        Step::HardRepair(_) => (RepairKind::Hard, &adapter.hard_repair),
        _ => (RepairKind::Soft, &adapter.soft_repair),
    };
    let failed = |detail: String| Outcome::Failed { detail, memo: order.memo.clone(), is_passing: false };
    if settings.is_empty() {
        return failed("unsupported: the adapter knows no settings for this repair".into());
    }
    let memo = match serde_json::from_str::<Memo>(&order.memo) {
        Ok(memo) => memo,
        Err(_) => {
            let Some(rows) = collected(order) else {
                return failed("no earlier step of the case has collected rows; put collect before it".into());
            };
            if rows.is_empty() {
                return Outcome::NotNeeded { detail: "there is no row to repair".into() };
            }
            if let Err(why) = within_budget(&rows, &order.repairs, adapter.spares) {
                return failed(why);
            }
            Memo { rows, switch: String::new() }
        }
    };
    let inner = Order { memo: memo.switch.clone(), ..order.clone() };
    let of = |switch: String| serde_json::to_string(&Memo { rows: memo.rows.clone(), switch }).unwrap_or_default();
    match switch::debug(bmc, times, settings, &inner, stop) {
        Outcome::Done { observed: settings, remark, memo: switch } => {
            let remark = if remark.is_empty() { settings.to_string() } else { format!("{settings}; {remark}") };
            let memo_text = of(switch);
            match reported(adapter, kind, &memo.rows, order, stop) {
                Ok(observed) => Outcome::Done { observed, remark, memo: memo_text },
                Err((why, is_passing)) => {
                    Outcome::Failed { detail: format!("{why}; {remark}"), memo: memo_text, is_passing }
                }
            }
        }
        Outcome::GoesOn { detail, memo: switch, again_in_ns } => {
            Outcome::GoesOn { detail, memo: of(switch), again_in_ns }
        }
        Outcome::Waits { waits_for, memo: switch, again_in_ns } => {
            Outcome::Waits { waits_for, memo: of(switch), again_in_ns }
        }
        Outcome::Failed { detail, memo: switch, is_passing } => {
            Outcome::Failed { detail, memo: of(switch), is_passing }
        }
        other @ (Outcome::Gone { .. } | Outcome::NotNeeded { .. }) => other,
    }
}

/// What the adapter's report says of these rows.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Report {
    rows_asked: u64,
    rows_accepted: u64,
    spare_rows_left: u64,
}

/// What the firmware reports on the repair, through the adapter. That the settings hold says nothing of the rows.
fn reported(
    adapter: &Adapter,
    kind: RepairKind,
    rows: &[Row],
    order: &Order,
    stop: &AtomicBool,
) -> Result<Observed, (String, bool)> {
    let Some(report) = &adapter.report else {
        let why = format!(
            "the firmware was asked to repair {} rows at this restart; the adapter has no [report], so how many it repaired is unknown",
            rows.len()
        );
        return Ok(Observed::Unobserved { why });
    };
    let path = report.run.display();
    let found = hook::trusted(&report.run).map_err(|why| (why, false))?;
    let mut command = Command::new(found);
    command
        .arg("report")
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("LC_ALL", "C")
        .env("SUREFOOT_HOST", order.host.replace('\0', ""))
        .env("SUREFOOT_PPR", if kind == RepairKind::Hard { "hard" } else { "soft" })
        .env("SUREFOOT_ROWS", serde_json::to_string(rows).unwrap_or_default())
        .current_dir("/");
    let ended =
        program::run(command, b"", REPORT_PATIENCE, stop).map_err(|broken| (format!("{path}: {broken}"), true))?;
    if ended.code != 0 {
        return Err((format!("{path} ended with {}: {}", ended.code, last_words(&ended.complaint)), true));
    }
    let Report { rows_asked, rows_accepted, spare_rows_left } = serde_json::from_slice(&ended.output)
        .map_err(|error| (format!("{path}: the report on the repair cannot be read: {error}"), false))?;
    let asked_count = rows.len() as u64;
    if rows_asked != asked_count || rows_accepted < asked_count {
        let why = format!(
            "{path}: {asked_count} rows were to be repaired, the firmware was asked for {rows_asked} and accepted {rows_accepted}, {spare_rows_left} \
             spare rows are left"
        );
        return Err((why, false));
    }
    let lasts = if kind == RepairKind::Hard { RepairLasts::Permanently } else { RepairLasts::UntilReset };
    Ok(Observed::RowsRepaired { lasts, asked_count, accepted_count: rows_accepted, spare_count: spare_rows_left })
}

/// What became of a repair whose controller died.
pub fn find(bmc: &Bmc, order: &Order) -> PriorAttempt {
    let switch = serde_json::from_str::<Memo>(&order.memo).map(|memo| memo.switch).unwrap_or_default();
    switch::find(bmc, &Order { memo: switch, ..order.clone() })
}

/// What the newest `collect` of the case found.
fn collected(order: &Order) -> Option<Vec<Row>> {
    let is_collect = |step: &str| matches!(step.parse(), Ok(Step::Collect(_)));
    let (_, memo) = order.earlier.iter().rev().find(|(step, _)| is_collect(step))?;
    serde_json::from_str(memo).ok()
}

/// Whether every part of the module has spare rows left for these, after what was repaired for good. One whose place is not wholly
/// told counts against each part that it may lie in.
fn within_budget(rows: &[Row], repairs: &[Repair], spares: Spares) -> Result<(), String> {
    let done: Vec<&Row> =
        repairs.iter().filter(|repair| repair.kind == RepairKind::Hard).map(|repair| &repair.row).collect();
    for row in rows {
        let new = rows.iter().filter(|other| may_share(row, other, spares.per) && !done.contains(other)).count();
        let old = done.iter().filter(|other| may_share(row, other, spares.per)).count();
        if done.contains(&row) {
            return Err(format!(
                "row {:#x} of {} was repaired permanently, or was to be, and has errors again: replace the DIMM",
                row.row, row.dimm
            ));
        }
        if old + new > spares.rows as usize {
            let part = if spares.per == Part::Bank { "bank" } else { "bank group" };
            return Err(format!(
                "a {part} of {} has {} spare rows, {old} are used and {new} would be: replace the DIMM",
                row.dimm, spares.rows
            ));
        }
    }
    Ok(())
}

fn may_share(a: &Row, b: &Row, part: Part) -> bool {
    let may = |a: Option<u32>, b: Option<u32>| a.is_none() || b.is_none() || a == b;
    a.dimm == b.dimm
        && may(a.rank, b.rank)
        && may(a.bank_group, b.bank_group)
        && (part == Part::BankGroup || may(a.bank, b.bank))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn row(bank_group: Option<u32>, bank: Option<u32>, row: u32) -> Row {
        Row { dimm: "A1".into(), rank: Some(0), bank_group, bank, row }
    }

    fn hard(row: Row) -> Repair {
        Repair { row, kind: RepairKind::Hard, case: 1, at_realtime_ns: 1 }
    }

    #[test]
    fn spare_rows_are_counted_by_their_part_of_the_module() {
        let [a, b] = [row(Some(1), Some(0), 26), row(Some(1), Some(1), 27)];
        let by = |per| Spares { per, rows: 1 };
        assert!(within_budget(std::slice::from_ref(&a), &[], by(Part::BankGroup)).is_ok());
        let both = [a.clone(), b.clone()];
        assert!(
            within_budget(&both, &[], by(Part::BankGroup))
                .unwrap_err()
                .contains("1 spare rows, 0 are used and 2 would be")
        );
        assert!(within_budget(&both, &[], by(Part::Bank)).is_ok());
        assert!(
            within_budget(&[b], &[hard(a.clone())], by(Part::BankGroup))
                .unwrap_err()
                .contains("1 are used and 1 would be")
        );
        assert!(
            within_budget(std::slice::from_ref(&a), &[hard(a.clone())], by(Part::Bank))
                .unwrap_err()
                .contains("errors again")
        );
        // Soft repairs are gone with the power.
        let soft = Repair { kind: RepairKind::Soft, ..hard(a.clone()) };
        assert!(within_budget(std::slice::from_ref(&a), &[soft], by(Part::BankGroup)).is_ok());
        // Where the bank group was not told, it may be any.
        let unknown = row(None, None, 99);
        assert!(within_budget(&[unknown], &[hard(a)], by(Part::BankGroup)).is_err());
    }
}
