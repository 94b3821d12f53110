//! `surefoot stall who`.

use crate::args::WhoOptions;
use crate::exit::Outcome;
use crate::table::{self, Table};
use crate::units::{duration, percent};
use crate::{output, report, settle};
use anyhow::Context;
use std::fs;
use std::io::{self, Write};
use surefoot_hostfs::{Root, signals};
use surefoot_model::{Interrupt, Raiser, WhoReport};
use surefoot_stall::who::{self, WhoConfig};

/// Raisers that the text shows of each interrupt.
const RAISERS_SHOWN: usize = 3;

/// Frames that the text shows of each stack.
const FRAMES_SHOWN: usize = 8;

pub fn run(options: &WhoOptions) -> anyhow::Result<Outcome> {
    let root = Root::host();
    if let Some(pid) = options.pid {
        anyhow::ensure!(root.proc(pid.to_string()).exists(), "--pid {pid}: there is no such process");
    }
    report::check_duration(options.duration)?;
    settle::settle(&surefoot_stall::checked_cores(&options.cpu.0, &root)?, &root);
    let stop = signals::stop_flag()?;
    let config = WhoConfig {
        cpus: options.cpu.0.clone(),
        pid: options.pid,
        kernel_stacks: !options.no_stacks,
        user_stacks: !options.no_stacks,
        stacks_per_s: options.stacks_per_s,
        timeline: false,
    };
    let found = who::run(&root, &config, options.duration, stop, || {
        eprintln!("watching for {:?}; Ctrl-C ends it early", options.duration);
    })?;
    if let Some(path) = &options.folded {
        fs::write(path, folded(&found)).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let mut out = io::BufWriter::new(io::stdout());
    if options.json {
        output::who(&mut out, &found)?
    } else {
        out.write_all(text(&found).as_bytes())?
    }
    out.flush()?;
    Ok(Outcome::Done)
}

/// One line per stack and its count, root first, for flame-graph tools.
fn folded(found: &WhoReport) -> String {
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

fn text(found: &WhoReport) -> String {
    let mut text = String::new();
    let mut table = Table::new(
        &["core", "interrupt", "count", "per s", "total", "of lost", "p50", "p99", "max", "handler"],
        &[1, 9],
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
            duration(interrupt.p50_ns),
            duration(interrupt.p99_ns),
            duration(interrupt.max_ns),
            interrupt.handler.clone(),
        ]);
    }
    text += &format!("{} of watching\n\n", duration(found.duration_ns()));
    text += &table.text();
    for interrupt in found.interrupts.iter().filter(|interrupt| has_more(interrupt)) {
        text += &format!("\ncore {}, {}\n", interrupt.cpu, interrupt.cause);
        for detail in &interrupt.detail {
            text += &format!("  {detail}\n");
        }
        for raiser in interrupt.raisers.iter().take(RAISERS_SHOWN) {
            text += &raiser_text(raiser);
        }
        if interrupt.raisers.len() > RAISERS_SHOWN {
            let rest: u64 = interrupt.raisers[RAISERS_SHOWN..].iter().map(|raiser| raiser.count).sum();
            text += &format!("  and {} more raisers, {rest} times together\n", interrupt.raisers.len() - RAISERS_SHOWN);
        }
        if interrupt.unknown_raisers > 0 {
            text += &format!("  {} arrivals have no known raiser\n", interrupt.unknown_raisers);
        }
        for advice in &interrupt.advice {
            text +=
                &format!("  Advice: {}\n    because {}\n    see {}\n", advice.remedy, advice.evidence, advice.source);
        }
    }
    text += "\n";
    text += &closing(found);
    text
}

fn has_more(interrupt: &Interrupt) -> bool {
    !interrupt.raisers.is_empty() || !interrupt.detail.is_empty() || !interrupt.advice.is_empty()
}

fn raiser_text(raiser: &Raiser) -> String {
    let mut text = format!("  {} x {}", raiser.count, raiser.comm);
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
    text += &format!(" [{}]\n", raiser.certainty.label());
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
    if found.records_dropped + found.marks_lost > 0 {
        text += &format!("Lost: {} records, {} marks.\n", found.records_dropped, found.marks_lost);
    }
    if found.records_without_stack > 0 {
        text += &format!(
            "Without a stack, because their core raised too many: {} of {} records (--stacks-per-s).\n",
            found.records_without_stack, found.records
        );
    }
    for missing in &found.missing {
        text += &format!("Missing: {missing}\n");
    }
    text + &table::cost(&found.cost, found.duration_ns())
}
