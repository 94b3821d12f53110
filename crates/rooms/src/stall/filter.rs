//! The parts of the data of lost time that a client asks for.

use std::collections::BTreeSet;
use surefoot_model::{CauseKind, CpuId, Gap, LoopGap, Verdict, Window};

/// The parts of the data that a client asks for; the default is all of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Filter {
    /// Cores; empty for all.
    pub cpus: BTreeSet<CpuId>,
    /// Kinds of cause; empty for all.
    pub kinds: BTreeSet<CauseKind>,
    /// Gaps shorter than this are left out.
    pub min_ns: u64,
    /// How far back from the end of the data; 0 for all of it.
    pub range_ns: u64,
}

impl Filter {
    /// Whether all cores and kinds are asked for.
    pub fn has_all_interrupts(&self) -> bool {
        self.cpus.is_empty() && self.kinds.is_empty()
    }

    /// Whether a core is asked for.
    pub fn has_cpu(&self, cpu: CpuId) -> bool {
        self.cpus.is_empty() || self.cpus.contains(&cpu)
    }

    /// Whether a kind of cause is asked for.
    pub fn has_kind(&self, kind: CauseKind) -> bool {
        self.kinds.is_empty() || self.kinds.contains(&kind)
    }

    /// Whether a gap that a polling loop noted is asked for. One whose core is not known belongs to none.
    pub fn has_loop_gap(&self, gap: &LoopGap) -> bool {
        let on_core = self.cpus.is_empty() || gap.cpu.is_some_and(|cpu| self.cpus.contains(&cpu));
        on_core && (self.kinds.is_empty() || gap.parts.iter().any(|part| self.kinds.contains(&part.cause.kind)))
    }

    /// Whether a window lies in the range that ends with the data.
    pub fn has_window(&self, window: &Window, end_ns: u64) -> bool {
        self.range_ns == 0 || window.end_ns > end_ns.saturating_sub(self.range_ns)
    }

    /// Whether a gap is asked for: its core, length and time, and one of its causes or its verdict.
    pub fn has_gap(&self, gap: &Gap, end_ns: u64) -> bool {
        let in_range =
            self.range_ns == 0 || gap.start_ns.saturating_add(gap.duration_ns) > end_ns.saturating_sub(self.range_ns);
        let of_kind = self.kinds.is_empty()
            || gap.causes.iter().any(|cause| self.kinds.contains(&cause.cause.kind))
            || verdict_kinds(gap.verdict).iter().any(|kind| self.kinds.contains(kind));
        in_range && of_kind && gap.duration_ns >= self.min_ns && self.has_cpu(gap.cpu)
    }
}

/// The kinds of cause that a verdict on the uncovered part of a gap speaks of.
fn verdict_kinds(verdict: Verdict) -> &'static [CauseKind] {
    match verdict {
        Verdict::Smi | Verdict::SmiLike => &[CauseKind::Smi],
        Verdict::CorrectedErrorLogging => &[CauseKind::Smi, CauseKind::MachineCheck],
        Verdict::HypervisorScheduled | Verdict::HypervisorUnaccounted => &[CauseKind::Hypervisor],
        Verdict::PauseOrSmi => &[CauseKind::Hypervisor, CauseKind::Smi],
        Verdict::Traced | Verdict::HardwareThisCore | Verdict::Undetermined => &[],
    }
}
