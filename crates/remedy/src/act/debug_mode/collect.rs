//! Which rows of which modules had errors: what the debug mode is for.

use crate::act::shown::{cut, last_words};
use crate::act::{Order, Outcome};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use surefoot_model::Observed;
use surefoot_sys::program;

/// How long reading the history may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// The longest answer: 10,000 errors, which are all that the history tells at once, have some 4 MiB.
const ANSWER_BYTES_MAX: u64 = 64 << 20;
/// Rows that are remembered, those with the most errors.
const ROWS_MAX: usize = 32;

/// Things not known that are kept.
const UNKNOWN_MAX: usize = 8;
/// An address that is coarser names no page, bits.
const GRAIN_BITS_MAX: u64 = 12;
/// Addresses that are remembered.
const ADDRESSES_MAX: usize = 1_000;

/// A row of a module, as far as its place was told.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Row {
    /// The module.
    pub dimm: String,
    /// Rank.
    pub rank: Option<u32>,
    /// Bank group; `None` where there are none, or none was told.
    pub bank_group: Option<u32>,
    /// Bank, in its group.
    pub bank: Option<u32>,
    /// Row.
    pub row: u32,
}

/// What a host's history tells of its errors.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reported {
    /// Rows with their numbers of errors, those with the most first.
    pub rows: Vec<(Row, u64)>,
    /// Errors whose row nobody told.
    pub without_row: u64,
    /// Physical addresses, and whether an error there lost bits: one that was not corrected, used yet or not.
    pub addresses: BTreeMap<u64, bool>,
    /// Errors whose address was not reported, or is coarser than a page of 4 KiB.
    pub without_address: u64,
    /// What the history does not know of these errors, each in a few words; empty if it knows all of them.
    pub unknown: Vec<String>,
}

impl Reported {
    /// What lines of `surefoot history --room memory --json` say.
    pub fn of(lines: &str) -> Reported {
        let mut rows: BTreeMap<Row, u64> = BTreeMap::new();
        let mut reported = Reported::default();
        for line in lines.lines() {
            let Ok(record) = serde_json::from_str::<Value>(line) else { continue };
            if record["type"] == "history" {
                reported.unknown.extend(not_known(&record));
            }
            let report = &record["body"];
            let place = &report["location"];
            if record["type"] != "record" || record["room"] != "memory" || !place.is_object() {
                continue;
            }
            let number = |name: &str| place[name].as_u64().and_then(|value| u32::try_from(value).ok());
            let count = report["count"].as_u64().unwrap_or(1);
            let dimm = report["dimm"].as_str().or(report["label"].as_str()).unwrap_or_default().to_owned();
            let (rank, bank_group, bank) = (number("rank"), number("bank_group"), number("bank"));
            match number("row") {
                Some(row) if !dimm.is_empty() => {
                    *rows.entry(Row { dimm, rank, bank_group, bank, row }).or_default() += count;
                }
                _ => reported.without_row = reported.without_row.saturating_add(count),
            }
            reported.add_address(report, count);
        }
        reported.rows = rows.into_iter().collect();
        reported.rows.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        reported
    }

    /// One of each kind is enough to stop a step.
    fn not_known(&mut self, what: String) {
        if self.unknown.len() < UNKNOWN_MAX {
            self.unknown.push(what);
        }
    }

    fn add_address(&mut self, report: &Value, count: u64) {
        let place = &report["location"];
        let is_fine = place["grain_bits"].as_u64().is_none_or(|bits| bits <= GRAIN_BITS_MAX);
        let Some(address) = place["address"].as_u64().filter(|_| is_fine) else {
            self.without_address = self.without_address.saturating_add(count);
            return;
        };
        let is_lost = match report["severity"].as_str() {
            Some("corrected") => false,
            Some("deferred" | "uncorrected") => true,
            other => {
                let said = other.map_or("no severity".to_owned(), |word| format!("severity '{}'", cut(word)));
                self.not_known(format!("an error at {address:#x} has {said}"));
                return;
            }
        };
        if self.addresses.len() < ADDRESSES_MAX || self.addresses.contains_key(&address) {
            *self.addresses.entry(address).or_default() |= is_lost;
        } else {
            self.not_known(format!("an error at {address:#x} is beyond the {ADDRESSES_MAX} addresses that are kept"));
        }
    }

    /// Asks the history of the host that this runs on for the errors of a case.
    ///
    /// # Errors
    /// The outcome of a step that got no answer.
    pub fn ask(surefoot: &Path, history: Option<&Path>, order: &Order, stop: &AtomicBool) -> Result<Reported, Outcome> {
        let failed = |detail: String| Outcome::Failed { detail, memo: order.memo.clone(), is_passing: true };
        let mut command = Command::new(surefoot);
        // Nanoseconds since 1970 are no time that a person would write; seconds before now are.
        let now_ns = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        let ago_s = (now_ns.saturating_sub(u128::from(order.errors_since_realtime_ns)) / 1_000_000_000).max(1);
        command.args(["history", "--room", "memory", "--json", "--last", &format!("{ago_s}s")]);
        if let Some(file) = history {
            command.arg("--file").arg(file);
        }
        command.env_clear().env("LC_ALL", "C").current_dir("/");
        match program::run_up_to(ANSWER_BYTES_MAX, command, b"", PATIENCE, stop) {
            Ok(ended) if ended.dropped_bytes > 0 => {
                Err(failed(format!("surefoot history: more than {ANSWER_BYTES_MAX} bytes of errors")))
            }
            Ok(ended) if ended.code == 0 => {
                let text = String::from_utf8_lossy(&ended.output);
                match text.lines().any(is_history) {
                    true => Ok(Reported::of(&text)),
                    false => {
                        Err(failed("surefoot history: it tells no history, so that the errors are unknown".into()))
                    }
                }
            }
            Ok(ended) => Err(failed(format!("surefoot history: {}", last_words(&ended.complaint)))),
            Err(broken) => Err(failed(format!("surefoot history: {broken}"))),
        }
    }
}

/// The line that every history has: without it there may be errors that nobody told.
fn is_history(line: &str) -> bool {
    serde_json::from_str::<Value>(line).is_ok_and(|line| line["type"] == "history")
}

/// What the line of a history says that it does not know. A number that is missing is unknown too.
fn not_known(history: &Value) -> Vec<String> {
    let number = |name: &str| history[name].as_u64();
    let mut unknown = Vec::new();
    match number("watched_ns") {
        Some(0) => unknown.push("the host was not watched in this time".to_owned()),
        None => unknown.push("the history does not say for how long the host was watched".to_owned()),
        Some(_) => {}
    }
    for (name, what) in
        [("unknown_count", "entries that cannot be read"), ("records_left_out", "later errors left out")]
    {
        match number(name) {
            Some(0) => {}
            Some(count) => unknown.push(format!("{count} {what}")),
            None => unknown.push(format!("the history does not state {name}")),
        }
    }
    unknown
}

/// `collect`: the errors since the case began, with their rows in the memo. It fails if the history does not know all of them.
pub fn run(reported: Reported, order: &Order) -> Outcome {
    let Reported { mut rows, without_row, unknown, .. } = reported;
    let observed = Observed::RowsFound { row_count: rows.len() as u64, unplaced_count: without_row };
    let more = rows.len().saturating_sub(ROWS_MAX);
    rows.truncate(ROWS_MAX);
    let remark = match rows.first() {
        None => String::new(),
        Some((row, count)) => {
            let rest = if more > 0 { format!("; {more} more rows left out") } else { String::new() };
            format!("the worst is row {:#x} of {} with {count}{rest}", row.row, row.dimm)
        }
    };
    if !unknown.is_empty() {
        let detail = format!("{observed}, but not all are known: {}", unknown.join("; "));
        return Outcome::Failed { detail, memo: order.memo.clone(), is_passing: true };
    }
    let rows: Vec<Row> = rows.into_iter().map(|(row, _)| row).collect();
    Outcome::Done { observed, remark, memo: serde_json::to_string(&rows).unwrap_or_default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_summed_and_what_tells_none_is_counted() {
        let line = |dimm: &str, place: &str, count: u32| {
            format!(
                r#"{{"type":"record","room":"memory","kind":"error","body":{{"dimm":"{dimm}","label":"L","severity":"corrected","count":{count},"location":{{{place}}}}}}}"#
            )
        };
        let lines = [
            line("A1", r#""row":26,"bank":1,"bank_group":2"#, 3),
            line("A1", r#""row":26,"bank":1,"bank_group":2"#, 4),
            line("A1", r#""row":27,"bank":1,"bank_group":2"#, 5),
            line("A1", r#""bank":1,"address":4096"#, 2),
            line("A1", r#""bank":1,"address":8192,"grain_bits":13"#, 1),
            line("A1", r#""bank":1,"address":4096"#, 1).replace("\"corrected\"", "\"deferred\""),
            line("A1", r#""bank":1,"address":12288"#, 1).replace("\"corrected\"", "\"doomed\""),
            r#"{"type":"record","room":"nic","body":{"location":{"row":1}}}"#.to_owned(),
            "no JSON".to_owned(),
        ];
        let reported = Reported::of(&lines.join("\n"));
        let seen: Vec<(u32, u64)> = reported.rows.iter().map(|(row, count)| (row.row, *count)).collect();
        assert_eq!((seen, reported.without_row), (vec![(26, 7), (27, 5)], 5));
        assert_eq!(reported.rows[0].0.bank_group, Some(2));
        assert_eq!((reported.addresses, reported.without_address), (BTreeMap::from([(4096, true)]), 13));
        assert_eq!(reported.unknown, ["an error at 0x3000 has severity 'doomed'"], "soft or hard is not known");
    }

    #[test]
    fn errors_that_the_history_does_not_know_make_the_step_fail_until_it_does() {
        let error = r#"{"type":"record","room":"memory","body":{"dimm":"A1","count":3,"location":{"row":26}}}"#;
        let order = Order { memo: "before".into(), ..Order::default() };
        let outcome = |history: &str| run(Reported::of(&format!("{history}\n{error}")), &order);
        let whole = r#"{"type":"history","watched_ns":5,"unknown_count":0,"records_left_out":0}"#;
        match outcome(whole) {
            done @ Outcome::Done { .. } => {
                assert_eq!(
                    done.words(),
                    "1 row with errors, 0 errors without a row; the worst is row 0x1a of A1 with 3"
                );
            }
            other => panic!("{other:?}"),
        }
        for (known, unknown, why) in [
            ("\"watched_ns\":5", "\"watched_ns\":0", "the host was not watched"),
            ("\"watched_ns\":5,", "", "does not say for how long"),
            ("\"unknown_count\":0", "\"unknown_count\":7", "7 entries that cannot be read"),
            ("\"unknown_count\":0,", "", "does not state unknown_count"),
            ("\"records_left_out\":0", "\"records_left_out\":17", "17 later errors left out"),
        ] {
            match outcome(&whole.replace(known, unknown)) {
                Outcome::Failed { detail, memo, is_passing: true } => {
                    assert!(detail.contains(why) && memo == "before", "{detail}");
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// A program that ends well and says nothing has told no history.
    #[test]
    fn a_history_that_is_not_told_has_not_no_errors() {
        let order = Order::default();
        match Reported::ask(Path::new("/bin/true"), None, &order, &AtomicBool::new(false)) {
            Err(Outcome::Failed { detail, is_passing: true, .. }) => assert!(detail.contains("no history"), "{detail}"),
            other => panic!("{other:?}"),
        }
        assert!(is_history(r#"{"type":"history"}"#) && !is_history(r#"{"type":"stream"}"#));
    }
}
