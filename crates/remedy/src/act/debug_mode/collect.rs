//! Which rows of which modules had errors: what the debug mode is for.

use crate::act::shown::last_words;
use crate::act::{Order, Outcome};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use surefoot_hostfs::program;

/// How long reading the history may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// Rows that are remembered, those with the most errors.
const ROWS_MAX: usize = 32;

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

/// Rows with their numbers of errors, those with the most first, from lines of `surefoot history --room memory --json`. Reports
/// that tell no row are counted alone: second in the answer.
pub fn rows_of(lines: &str) -> (Vec<(Row, u64)>, u64) {
    let mut rows: BTreeMap<Row, u64> = BTreeMap::new();
    let mut without = 0;
    for line in lines.lines() {
        let Ok(record) = serde_json::from_str::<Value>(line) else { continue };
        let report = &record["body"];
        let place = &report["location"];
        if record["type"] != "record" || record["room"] != "memory" || !place.is_object() {
            continue;
        }
        let number = |name: &str| place[name].as_u64().and_then(|value| u32::try_from(value).ok());
        let count = report["count"].as_u64().unwrap_or(1);
        let dimm = report["dimm"].as_str().or(report["label"].as_str()).unwrap_or_default();
        match number("row") {
            Some(row) if !dimm.is_empty() => {
                let key = Row {
                    dimm: dimm.to_owned(),
                    rank: number("rank"),
                    bank_group: number("bank_group"),
                    bank: number("bank"),
                    row,
                };
                *rows.entry(key).or_default() += count;
            }
            _ => without += count,
        }
    }
    let mut rows: Vec<(Row, u64)> = rows.into_iter().collect();
    rows.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    (rows, without)
}

/// Asks the host's history for what was told since `since_realtime_ns`.
pub fn run(
    surefoot: &Path,
    history: Option<&Path>,
    since_realtime_ns: u64,
    order: &Order,
    stop: &AtomicBool,
) -> Outcome {
    let failed = |detail: String, is_passing| Outcome::Failed { detail, memo: order.memo.clone(), is_passing };
    let mut command = Command::new(surefoot);
    // Nanoseconds since 1970 are no time that a person would write; seconds before now are.
    let now_ns = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    let ago_s = (now_ns.saturating_sub(u128::from(since_realtime_ns)) / 1_000_000_000).max(1);
    command.args(["history", "--room", "memory", "--json", "--last", &format!("{ago_s}s")]);
    if let Some(file) = history {
        command.arg("--file").arg(file);
    }
    command.env_clear().env("LC_ALL", "C").current_dir("/");
    let ended = match program::run(command, b"", PATIENCE, stop) {
        Ok(ended) if ended.code == 0 => ended,
        Ok(ended) => return failed(format!("surefoot history: {}", last_words(&ended.complaint)), true),
        Err(broken) => return failed(format!("surefoot history: {broken}"), true),
    };
    let (mut rows, without) = rows_of(&String::from_utf8_lossy(&ended.output));
    let more = rows.len().saturating_sub(ROWS_MAX);
    rows.truncate(ROWS_MAX);
    let detail = match rows.first() {
        None if without == 0 => "no error was told".to_owned(),
        None => format!("{without} errors were told, none with its row"),
        Some((row, count)) => {
            let rest = if more > 0 { format!(", {more} more rows left out") } else { String::new() };
            format!(
                "{} rows with errors{rest}; the worst is row {:#x} of {} with {count}",
                rows.len(),
                row.row,
                row.dimm
            )
        }
    };
    let rows: Vec<Row> = rows.into_iter().map(|(row, _)| row).collect();
    Outcome::Done { detail, memo: serde_json::to_string(&rows).unwrap_or_default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_summed_and_what_tells_none_is_counted() {
        let line = |dimm: &str, place: &str, count: u32| {
            format!(
                r#"{{"type":"record","room":"memory","kind":"error","body":{{"dimm":"{dimm}","label":"L","count":{count},"location":{{{place}}}}}}}"#
            )
        };
        let lines = [
            line("A1", r#""row":26,"bank":1,"bank_group":2"#, 3),
            line("A1", r#""row":26,"bank":1,"bank_group":2"#, 4),
            line("A1", r#""row":27,"bank":1,"bank_group":2"#, 5),
            line("A1", r#""bank":1"#, 2),
            r#"{"type":"record","room":"nic","body":{"location":{"row":1}}}"#.to_owned(),
            "no JSON".to_owned(),
        ];
        let (rows, without) = rows_of(&lines.join("\n"));
        let seen: Vec<(u32, u64)> = rows.iter().map(|(row, count)| (row.row, *count)).collect();
        assert_eq!((seen, without), (vec![(26, 7), (27, 5)], 2));
        assert_eq!(rows[0].0.bank_group, Some(2));
    }
}
