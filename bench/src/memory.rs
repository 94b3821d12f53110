//! `memory`: what `surefoot watch` keeps in RAM.

use crate::child::{Running, output, pause};
use crate::numbers::Spread;
use crate::run::Bench;
use crate::storm::ALLOCATOR;
use crate::table::Row;
use crate::watchers::surefoot_watch;
use anyhow::Context;
use std::time::Duration;

/// The limit, bytes.
const LIMIT_BYTES: f64 = 50.0 * 1024.0 * 1024.0;

pub fn run(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let seconds = if bench.quick { 5 } else { 20 };
    bench.say(&format!("memory: {seconds} s of watching, then a storm"));
    let mut watch = Running::start(&mut surefoot_watch(bench), &bench.scratch.file("watch.out"))?;
    watch.wait_for("page: ", Duration::from_secs(60))?;
    pause(Duration::from_secs(seconds))?;
    let quiet = resident_bytes(bench, watch.pid())?;
    let arguments = [
        ("victim", bench.cpu.0.into()),
        ("raiser", bench.other.0.into()),
        ("count", if bench.quick { 20_000 } else { 200_000 }),
        ("pause-ns", 0),
    ];
    output(bench.part("storm", &arguments).env(ALLOCATOR.0, ALLOCATOR.1))?;
    pause(Duration::from_secs(2))?;
    let after = resident_bytes(bench, watch.pid())?;
    watch.interrupt()?;
    let row = |when: String, bytes: f64| {
        Row::new("memory", format!("resident memory of watch, {when}"))
            .ours(format!("{:.1} MiB", bytes / (1024.0 * 1024.0)))
            .against("50 MiB")
            .ratio(Spread::of(&[bytes / LIMIT_BYTES]))
            .at_most(1.0, "<= 50 MiB")
    };
    Ok(vec![row(format!("after {seconds} s"), quiet), row("after a storm".to_owned(), after)])
}

/// VmRSS of a process.
fn resident_bytes(bench: &Bench, pid: u32) -> anyhow::Result<f64> {
    let path = bench.root.proc(format!("{pid}/status"));
    let text = bench.root.read(&path)?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib: f64 = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse().ok()).context("no VmRSS")?;
    Ok(kib * 1024.0)
}
