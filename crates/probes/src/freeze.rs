//! Holds cores for known times, with interrupts off (`bpf/freeze.bpf.c` explains how), and reads what was really held.

use crate::load::{has_btf, kernel_btf, mapped, open_freezer};
use crate::mapped::Mapped;
use crate::patient;
use crate::shared::{self, same_layout};
use crate::{Error, ring};
use libbpf_rs::btf::types::Func;
use libbpf_rs::{Object, ProgramInput};
use std::mem::offset_of;
use surefoot_model::CpuId;

/// Stalls per core that are kept until they are read.
pub const FREEZE_RECORDS: usize = shared::FREEZE_RECORDS;
/// A core is held so long at most: two loops of as many turns as the kernel allows, with a clock that takes 27 ns to read.
pub const FREEZE_LENGTH_MAX_NS: u64 = 450_000_000;
/// How much earlier than its target the timer of a first stall is set.
pub const FREEZE_LEAD_NS: u64 = 75_000;
/// The kernel's functions that switch interrupts off and on; 6.14 and later have them.
const INTERRUPTS_OFF: [&str; 2] = ["bpf_local_irq_save", "bpf_local_irq_restore"];

/// What a core is to do, and how far it is.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FreezePlan {
    /// Of the first stall, `CLOCK_MONOTONIC`.
    pub start_ns: u64,
    /// Of each; 0 for the timer's own interrupt alone.
    pub length_ns: u64,
    /// From the start of one to the start of the next.
    pub period_ns: u64,
    /// Stalls at most.
    pub count: u64,
    /// Not 0 to hold the core in a softirq, where interrupts still come.
    pub interrupts_on: u64,
    /// 0, or: each stall but the first begins so long after the end of the one before, and no time is kept otherwise.
    pub rearm_ns: u64,
    /// 0, or: no stall begins after this time, unless [`Freezer::go_on_until`] moves it on.
    pub until_ns: u64,
    /// How much earlier the timer is set; the program goes on from here as it sees fit.
    pub lead_ns: u64,
    /// Stalls that were.
    pub done: u64,
    /// Stalls whose end had passed before they began.
    pub missed: u64,
    /// Stalls that ended before their time.
    pub cut: u64,
    /// Timers that fired on another core, because theirs went offline.
    pub moved: u64,
    /// The error for which a timer could not be set again; 0 for none.
    pub refused: u64,
    /// Not 0 where [`FreezePlan::until_ns`] was over before the last stall, and no further one followed.
    pub lapsed: u64,
}

/// A stall that was.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FreezeRecord {
    /// When it was to begin, `CLOCK_MONOTONIC`.
    pub target_ns: u64,
    /// From when on the core was held.
    pub entered_ns: u64,
    /// Until when.
    pub left_ns: u64,
    /// How much earlier its timer was set.
    pub lead_ns: u64,
}

#[repr(C)]
struct FreezeCall {
    cpu: u64,
}

same_layout!(
    FreezePlan,
    freeze_plan: start_ns, length_ns, period_ns, count, interrupts_on, rearm_ns, until_ns, lead_ns, done, missed, cut, moved, refused, lapsed
);
same_layout!(FreezeRecord, freeze_record: target_ns, entered_ns, left_ns, lead_ns);
same_layout!(FreezeCall, freeze_call: cpu);

/// The programs that hold cores, loaded. When this is dropped, or its process ends in whatever way, no further stall begins;
/// one that has begun ends at its time.
#[derive(Debug)]
pub struct Freezer {
    object: Object,
    plans: Mapped<FreezePlan>,
    records: Mapped<FreezeRecord>,
    cpu_count: usize,
}

impl Freezer {
    /// Loads the programs; nothing is held yet.
    ///
    /// # Errors
    /// [`Error::Unsupported`] without privilege or where the kernel does not let a program switch interrupts off;
    /// [`Error::Refused`] when it refuses for another reason.
    pub fn load() -> Result<Self, Error> {
        let btf = kernel_btf().map_err(|error| match has_btf() {
            // Too few descriptors or too little memory say nothing of the kernel.
            true => Error::Refused { why: format!("the kernel's types cannot be read: {error}") },
            false => Error::Unsupported {
                why: format!("this kernel does not tell its types ({error})"),
                remedy: "use a kernel built with CONFIG_DEBUG_INFO_BTF".into(),
            },
        })?;
        if let Some(absent) = INTERRUPTS_OFF.iter().find(|name| btf.type_by_name::<Func<'_>>(name).is_none()) {
            return Err(Error::Unsupported {
                why: format!("this kernel has no {absent}, by which a program switches interrupts off"),
                remedy: "use Linux 6.14 or later".into(),
            });
        }
        let cpu_count = libbpf_rs::num_possible_cpus().map_err(|error| Error::Refused { why: error.to_string() })?;
        let (object, ()) = patient::load(|| {
            let mut object = open_freezer()?;
            for mut map in object.maps_mut() {
                let entries = match map.name().to_string_lossy().as_ref() {
                    "timers" | "plans" => cpu_count,
                    "records" => cpu_count * FREEZE_RECORDS,
                    _ => continue,
                };
                map.set_max_entries(entries as u32).map_err(|error| Error::Refused { why: error.to_string() })?;
            }
            Ok((object, ()))
        })?;
        let (plans, records) = (mapped(&object, "plans")?, mapped(&object, "records")?);
        Ok(Freezer { object, plans, records, cpu_count })
    }

    /// Arms a core; the calling thread must run on it and stay there. What it did under an earlier plan is forgotten.
    ///
    /// # Errors
    /// [`Error::Workload`] for a plan that cannot be kept, [`Error::Refused`] when the kernel refuses.
    pub fn arm(&self, cpu: CpuId, plan: &FreezePlan) -> Result<(), Error> {
        let index = self.index(cpu)?;
        let fills_its_period = plan.rearm_ns == 0 && plan.length_ns > 0 && plan.length_ns >= plan.period_ns;
        if plan.length_ns > FREEZE_LENGTH_MAX_NS || fills_its_period {
            return Err(Error::Workload(format!(
                "stalls of {} ns every {} ns: at most {FREEZE_LENGTH_MAX_NS} ns, and shorter than their period",
                plan.length_ns, plan.period_ns
            )));
        }
        self.disarm(cpu)?;
        let fresh = FreezePlan { done: 0, missed: 0, cut: 0, moved: 0, refused: 0, lapsed: 0, ..*plan };
        self.plans.store(index, &fresh);
        self.call("freeze_arm", cpu)
    }

    /// Stalls of a plan with such a time go on until this one; for whoever does so now and then, a dead man's switch.
    pub fn go_on_until(&self, cpu: CpuId, until_ns: u64) {
        if let Ok(index) = self.index(cpu) {
            self.plans.set_word(index, offset_of!(FreezePlan, until_ns), until_ns);
        }
    }

    /// No further stall of this core begins; one that has begun is over when this returns. From any core.
    ///
    /// # Errors
    /// [`Error::Refused`] when the kernel refuses.
    pub fn disarm(&self, cpu: CpuId) -> Result<(), Error> {
        let index = self.index(cpu)?;
        self.plans.set_word(index, offset_of!(FreezePlan, count), 0);
        self.call("freeze_disarm", cpu)
    }

    /// The plan of a core, and how far it is; each number is whole, but they may be of different moments.
    pub fn plan(&self, cpu: CpuId) -> Option<FreezePlan> {
        let index = self.index(cpu).ok()?;
        let mut plan = FreezePlan::default();
        self.plans.load(index, &mut plan);
        Some(plan)
    }

    /// Appends the stalls of a core from number `from` on, counted since it was armed; returns the number to continue with and
    /// how many were overwritten before they could be read.
    pub fn read(&self, cpu: CpuId, from: u64, into: &mut Vec<FreezeRecord>) -> (u64, u64) {
        let Ok(index) = self.index(cpu) else { return (from, 0) };
        let end = || self.plans.word(index, offset_of!(FreezePlan, done));
        let load = |number: u64| {
            let mut record = FreezeRecord::default();
            self.records.load(index * FREEZE_RECORDS + (number as usize % FREEZE_RECORDS), &mut record);
            record
        };
        ring::read(FREEZE_RECORDS, from, end, load, into)
    }

    fn index(&self, cpu: CpuId) -> Result<usize, Error> {
        let index = cpu.0 as usize;
        if index < self.cpu_count { Ok(index) } else { Err(Error::Workload(format!("there is no core {}", cpu.0))) }
    }

    fn call(&self, program: &str, cpu: CpuId) -> Result<(), Error> {
        let refused = |why: String| Error::Refused { why: format!("{program} for core {}: {why}", cpu.0) };
        let found = self.object.progs_mut().find(|candidate| candidate.name() == program);
        let found = found.ok_or_else(|| refused("the object has no such program".into()))?;
        let mut call = u64::from(cpu.0).to_ne_bytes();
        let input = ProgramInput { context_in: Some(&mut call), ..ProgramInput::default() };
        let output = found.test_run(input).map_err(|error| refused(error.to_string()))?;
        match output.return_value as i32 {
            0 => Ok(()),
            error => Err(refused(std::io::Error::from_raw_os_error(-error).to_string())),
        }
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        // Closing the maps would do it; whoever drops it can rely on its end.
        let is_armed = |cpu: &CpuId| self.plan(*cpu).is_some_and(|plan| plan.count > 0);
        for cpu in (0..self.cpu_count as u32).map(CpuId).filter(is_armed) {
            let _ = self.disarm(cpu);
        }
    }
}
