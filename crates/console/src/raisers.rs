//! Who interrupted the watched cores, as text.

pub mod compare;
mod fix_first;
mod loops;

use crate::lost_time::{cost, on_one_line};
use crate::table::Table;
use crate::units::{counted, duration, percent};
use std::collections::HashMap;
use surefoot_model::{Interrupt, Raiser, WhoReport};

/// Raisers that the text shows of each interrupt.
const RAISERS_SHOWN: usize = 3;

/// Frames that the text shows of each stack.
const FRAMES_SHOWN: usize = 8;

/// One line per stack and its count, root first, for flame-graph tools.
pub fn folded(found: &WhoReport) -> String {
    let mut text = String::new();
    for interrupt in &found.interrupts {
        for raiser in &interrupt.raisers {
            let mut frames = vec![format!("core {}", interrupt.cpu), interrupt.cause.to_string()];
            frames.push(format!("{}-{}", raiser.comm, raiser.tid));
            frames.extend(raiser.user_stack.iter().rev().cloned());
            frames.extend(raiser.kernel_stack.iter().rev().map(|frame| format!("{frame}_[k]")));
            if raiser.kernel_stack.is_empty() && !raiser.function.is_empty() {
                frames.push(raiser.function.clone());
            }
            let line: Vec<String> = frames.iter().map(|frame| frame.replace([';', '\n'], "_")).collect();
            text += &format!("{} {}\n", line.join(";"), raiser.count);
        }
    }
    text
}

/// The report for people.
pub fn text(found: &WhoReport) -> String {
    let found = &on_one_line(found);
    let mut text = String::new();
    let mut table = Table::new(
        &[
            "core",
            "interrupt",
            "count",
            "per s",
            "inside",
            "of the core's lost time",
            "with entry",
            "p50",
            "p99",
            "max",
            "handler",
        ],
        &[1, 10],
    );
    for interrupt in &found.interrupts {
        let rate = interrupt.count as f64 * 1e9 / found.duration_ns().max(1) as f64;
        table.row(vec![
            interrupt.cpu.to_string(),
            interrupt.cause.to_string(),
            interrupt.count.to_string(),
            format!("{rate:.1}"),
            duration(interrupt.total_ns),
            percent(interrupt.share_of_lost_ppm, 1_000_000),
            interrupt.entry_exit_ns.map_or("-".to_owned(), |ns| duration(interrupt.total_ns.saturating_add(ns))),
            duration(interrupt.p50_ns),
            duration(interrupt.p99_ns),
            duration(interrupt.max_ns),
            interrupt.handler.clone(),
        ]);
    }
    text += &format!("{} of watching\n\n", duration(found.duration_ns()));
    text += &fix_first::text(found);
    text += &table.text();
    text += &fix_first::entry_exit(found);
    for interrupt in found.interrupts.iter().filter(|interrupt| has_more(interrupt)) {
        text += &format!("\ncore {}, {}\n", interrupt.cpu, interrupt.cause);
        for detail in &interrupt.detail {
            text += &format!("  {detail}\n");
        }
        for intruder in &interrupt.intruders {
            text += &format!("  {}\n", fix_first::intruder(intruder));
        }
        let raisers = told_apart(&interrupt.raisers);
        for (count, raiser) in raisers.iter().take(RAISERS_SHOWN) {
            text += &format!("  {count} x {raiser}");
        }
        if let Some(rest) = raisers.get(RAISERS_SHOWN..).filter(|rest| !rest.is_empty()) {
            let count: u64 = rest.iter().map(|(count, _)| count).sum();
            text += &match rest.len() {
                1 => format!("  and 1 more raiser, {}\n", counted(count, "time", "times")),
                more => format!("  and {more} more raisers, {count} times together\n"),
            };
        }
        if interrupt.unknown_raisers > 0 {
            text += &format!("  {} arrivals have no known raiser\n", interrupt.unknown_raisers);
        }
        for advice in &interrupt.advice {
            text += &match fix_first::place(found, advice) {
                Some(place) => format!("  Advice: {place} of \"Fix first\" ({})\n", advice.rule),
                None => {
                    format!("  Advice: {}\n    because {}\n    see {}\n", advice.remedy, advice.evidence, advice.source)
                }
            };
        }
    }
    text += &loops::text(found);
    text += "\n";
    text += &closing(found);
    text
}

fn has_more(interrupt: &Interrupt) -> bool {
    !interrupt.raisers.is_empty()
        || !interrupt.detail.is_empty()
        || !interrupt.intruders.is_empty()
        || !interrupt.advice.is_empty()
}

/// The raisers as the text tells them apart, most frequent first: stacks that differ only in frames that are not shown
/// are one.
fn told_apart(raisers: &[Raiser]) -> Vec<(u64, String)> {
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut rows: Vec<(u64, String)> = Vec::new();
    for raiser in raisers {
        let text = raiser_text(raiser);
        match places.get(&text) {
            Some(&place) => rows[place].0 = rows[place].0.saturating_add(raiser.count),
            None => {
                places.insert(text.clone(), rows.len());
                rows.push((raiser.count, text));
            }
        }
    }
    rows.sort_by_key(|row| std::cmp::Reverse(row.0));
    rows
}

/// A raiser without its count and stacks.
fn raiser_line(raiser: &Raiser) -> String {
    let mut text = raiser.comm.clone();
    if raiser.tid > 0 {
        text += &format!(" (thread {}", raiser.tid);
        text += &if raiser.pid > 0 { format!(" of process {})", raiser.pid) } else { ")".to_owned() };
    }
    if !raiser.syscall.is_empty() {
        text += &format!(" in {}", raiser.syscall);
    }
    if !raiser.function.is_empty() {
        text += &format!(": {}", raiser.function);
    }
    if !raiser.wakee.is_empty() {
        text += &format!(", waking {}", raiser.wakee);
    }
    text + &format!(" [{}]", raiser.certainty.label())
}

fn raiser_text(raiser: &Raiser) -> String {
    let mut text = format!("{}\n", raiser_line(raiser));
    for (label, stack) in [("kernel", &raiser.kernel_stack), ("user", &raiser.user_stack)] {
        if stack.is_empty() {
            continue;
        }
        let mut frames: Vec<&str> = stack.iter().take(FRAMES_SHOWN).map(String::as_str).collect();
        if stack.len() > FRAMES_SHOWN {
            frames.push("...");
        }
        text += &format!("    {label}: {}\n", frames.join(" < "));
    }
    text
}

fn closing(found: &WhoReport) -> String {
    let mut text = String::new();
    if found.called_count > 0 {
        text += &format!(
            "Called functions joined exactly to their raiser: {} of {} ({}).\n",
            found.joined_count,
            found.called_count,
            percent(found.joined_count, found.called_count)
        );
    }
    if found.records_dropped > 0 || found.marks_lost > 0 {
        text += &format!("Lost: {} records, {} marks.\n", found.records_dropped, found.marks_lost);
    }
    if found.records_without_stack > 0 {
        text += &format!(
            "Without a stack, because their core raised too many: {} of {} records (--stacks).\n",
            found.records_without_stack, found.records
        );
    }
    for missing in &found.missing {
        text += &format!("Missing: {missing}\n");
    }
    for notice in &found.notices {
        text += &format!("Notice: {}\n", notice.text);
    }
    text + &cost(&found.cost, found.duration_ns())
}
