//! Cores with interrupts off, by pinned timers.

use super::{Injector, Losses, Schedule, Stall};
use crate::Fault;
use surefoot_hostfs::clock::monotonic_ns;
use surefoot_model::CpuId;
use surefoot_probes::{FREEZE_LEAD_NS, FreezePlan, FreezeRecord, Freezer};
use surefoot_sys::thread;

/// Who drives the stalls tells so often enough that he still does, also on a busy machine. Who is stopped does not: then they end.
pub(crate) const ALIVE_NS: u64 = 10_000_000_000;

/// Until when stalls may go on, from now.
pub(crate) fn alive_until_ns() -> u64 {
    monotonic_ns() + ALIVE_NS
}

/// Why they ended, where they ended before they were told to.
pub(crate) fn ended_early(cpu: CpuId, plan: &FreezePlan) -> Option<Fault> {
    let why = match plan {
        FreezePlan { refused: 0, moved: 0, lapsed: 0, .. } => return None,
        FreezePlan { lapsed: 1.., .. } => {
            let seconds = ALIVE_NS / 1_000_000_000;
            format!(
                "this program was stalled for more than {seconds} s (SIGSTOP, Ctrl-Z, or a machine that is too busy)"
            )
        }
        FreezePlan { refused: 0, .. } => "its timer fired on another core, because it went offline".to_owned(),
        FreezePlan { refused, .. } => std::io::Error::from_raw_os_error(*refused as i32).to_string(),
    };
    Some(Fault::Refused(format!("core {} was not stalled any further: {why}", cpu.0)))
}

pub(super) struct Frozen {
    freezer: Freezer,
    /// Each armed core, and up to where its records were read.
    read: Vec<(CpuId, u64)>,
    /// What the timers of each core were set earlier when they were armed last: it is learned once.
    leads_ns: std::collections::HashMap<CpuId, u64>,
    dropped: u64,
    /// Interrupts stay on.
    interrupts_on: bool,
}

impl Frozen {
    pub(super) fn load() -> Result<Self, Fault> {
        let (freezer, leads_ns) = (Freezer::load()?, std::collections::HashMap::new());
        Ok(Frozen { freezer, read: Vec::new(), leads_ns, dropped: 0, interrupts_on: false })
    }

    pub(super) fn with_interrupts() -> Result<Self, Fault> {
        Ok(Frozen { interrupts_on: true, ..Frozen::load()? })
    }
}

/// Each core is armed by a thread that runs on it.
fn arm_on(freezer: &Freezer, cpu: CpuId, plan: &FreezePlan) -> Result<(), Fault> {
    let arm = || {
        thread::pin_to(cpu)?;
        freezer.arm(cpu, plan).map_err(Fault::from)
    };
    // A panic of a thread is one of this program.
    std::thread::scope(|scope| scope.spawn(arm).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
}

impl Injector for Frozen {
    fn arm(&mut self, schedule: &Schedule) -> Result<(), Fault> {
        self.read = schedule.firsts.iter().map(|(cpu, _)| (*cpu, 0)).collect();
        self.dropped = 0;
        for &(cpu, start_ns) in &schedule.firsts {
            let plan = FreezePlan {
                start_ns,
                length_ns: schedule.length_ns,
                period_ns: schedule.period_ns,
                count: schedule.count,
                lead_ns: self.leads_ns.get(&cpu).copied().unwrap_or(FREEZE_LEAD_NS),
                interrupts_on: u64::from(self.interrupts_on),
                until_ns: alive_until_ns(),
                ..FreezePlan::default()
            };
            if let Err(fault) = arm_on(&self.freezer, cpu, &plan) {
                for (armed, _) in &schedule.firsts {
                    let _ = self.freezer.disarm(*armed);
                }
                return Err(fault);
            }
        }
        Ok(())
    }

    fn collect(&mut self, into: &mut Vec<Stall>) {
        let mut records: Vec<FreezeRecord> = Vec::new();
        let until_ns = alive_until_ns();
        for (cpu, from) in &mut self.read {
            self.freezer.go_on_until(*cpu, until_ns);
            records.clear();
            let (next, dropped) = self.freezer.read(*cpu, *from, &mut records);
            *from = next;
            self.dropped += dropped;
            for record in &records {
                // One that ended before it began says nothing about its length.
                match record.left_ns.checked_sub(record.entered_ns) {
                    Some(length_ns) => into.push(Stall {
                        cpu: Some(*cpu),
                        target_ns: record.target_ns,
                        start_ns: record.entered_ns,
                        length_ns,
                    }),
                    None => self.dropped += 1,
                }
            }
        }
    }

    fn end(&mut self, into: &mut Vec<Stall>) -> Result<Losses, Fault> {
        let mut ended = Ok(());
        for (cpu, _) in &self.read {
            ended = ended.and(self.freezer.disarm(*cpu));
        }
        ended?;
        self.collect(into);
        let mut losses = Losses { dropped: self.dropped, ..Losses::default() };
        for (cpu, _) in &self.read {
            let Some(plan) = self.freezer.plan(*cpu) else { continue };
            self.leads_ns.insert(*cpu, plan.lead_ns);
            losses.add(Losses { missed: plan.missed, dropped: 0, cut: plan.cut });
            if let Some(fault) = ended_early(*cpu, &plan) {
                return Err(fault);
            }
        }
        Ok(losses)
    }
}
