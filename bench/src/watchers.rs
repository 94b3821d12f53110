//! What watches the machine while a workload is measured: nothing, Surefoot, or a peer on the same tracepoints.

use crate::child::{Running, pause};
use crate::peers;
use crate::run::Bench;
use std::process::Command;
use std::time::Duration;

/// A way of watching.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watcher {
    /// Nobody.
    Nothing,
    /// `surefoot watch` with its page.
    Surefoot,
    /// `perf record -a`.
    PerfRecord,
    /// `bench/equivalent.bt`.
    Bpftrace,
}

/// The tracepoints that the ledger's accounting needs. Not among them: irq_work_exit, on which the kernel forbids perf
/// events, so `irq_work` is left out for both peers; and those that the ledger has for lateness and for its own cost,
/// which the peers are spared.
const TRACEPOINTS: &str = "irq_vectors:local_timer_*,irq_vectors:reschedule_*,irq_vectors:call_function_entry,\
    irq_vectors:call_function_exit,irq_vectors:call_function_single_*,irq_vectors:x86_platform_ipi_*,\
    irq_vectors:error_apic_*,irq_vectors:spurious_apic_*,irq_vectors:thermal_apic_*,irq:irq_handler_*,\
    irq:softirq_entry,irq:softirq_exit,csd:csd_function_*,nmi:nmi_handler,sched:sched_switch";

const SCRIPT: &str = include_str!("../equivalent.bt");

/// How long after a start nothing is measured: attaching, the first window, the first page faults.
const SETTLING: Duration = Duration::from_millis(2500);

impl Watcher {
    /// All of them.
    pub const ALL: [Watcher; 4] = [Watcher::Nothing, Watcher::Surefoot, Watcher::PerfRecord, Watcher::Bpftrace];

    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Watcher::Nothing => "nothing",
            Watcher::Surefoot => "surefoot watch",
            Watcher::PerfRecord => "perf record",
            Watcher::Bpftrace => "bpftrace",
        }
    }

    /// Why it cannot be used here, if it cannot.
    pub fn missing(self) -> Option<String> {
        match self {
            Watcher::PerfRecord => peers::require("perf").err(),
            Watcher::Bpftrace => peers::require("bpftrace").err(),
            Watcher::Nothing | Watcher::Surefoot => None,
        }
    }

    /// Starts it and waits until it watches.
    pub fn start(self, bench: &Bench) -> anyhow::Result<Watching> {
        let output = bench.scratch.file(&format!("{}.out", self.name().replace(' ', "-")));
        let running = match self {
            Watcher::Nothing => None,
            Watcher::Surefoot => {
                let mut running = Running::start(&mut surefoot_watch(bench), &output)?;
                running.wait_for("page: ", Duration::from_secs(60))?;
                Some(running)
            }
            Watcher::PerfRecord => {
                let mut command = Command::new("perf");
                command.args(["record", "--all-cpus", "--event", TRACEPOINTS, "--output", "/dev/null"]);
                Some(Running::start(&mut command, &output)?)
            }
            Watcher::Bpftrace => {
                let script = bench.scratch.file("equivalent.bt");
                std::fs::write(&script, SCRIPT)?;
                let mut running = Running::start(Command::new("bpftrace").args(["-B", "line"]).arg(script), &output)?;
                running.wait_for("attaching", Duration::from_secs(60))?;
                Some(running)
            }
        };
        if running.is_some() {
            pause(SETTLING)?;
        }
        Ok(Watching { watcher: self, running })
    }
}

/// `surefoot watch` as it is by default, but for where it writes and listens.
pub fn surefoot_watch(bench: &Bench) -> Command {
    let mut command = Command::new(&bench.surefoot);
    command.args(["watch", "--port", "0", "--no-history", "--run-directory"]).arg(bench.scratch.file("run"));
    command
}

/// A watcher at work.
pub struct Watching {
    watcher: Watcher,
    running: Option<Running>,
}

impl Watching {
    /// The number of the process that watches, if one does.
    pub fn pid(&self) -> Option<u32> {
        self.running.as_ref().map(Running::pid)
    }

    /// Ends it, checks that it saw something, and waits until its probes are gone.
    pub fn stop(self) -> anyhow::Result<()> {
        let Some(running) = self.running else { return Ok(()) };
        // perf has an exit code of its own for being interrupted, which finish lets pass.
        let said = running.interrupt()?;
        let saw = match self.watcher {
            Watcher::Bpftrace => said.contains("@function_count[") && said.contains("@local_timer_count["),
            Watcher::Surefoot => said.lines().count() >= 3,
            Watcher::Nothing | Watcher::PerfRecord => true,
        };
        anyhow::ensure!(saw, "{} did not watch", self.watcher.name());
        pause(Duration::from_millis(500))
    }
}
