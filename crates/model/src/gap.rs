use crate::{Cause, CpuId};
use serde::{Deserialize, Serialize};

/// How a gap was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum GapSource {
    /// A pinned loop on the time-stamp counter.
    Probe,
    /// The loop that spins on a housekeeping core part of the time.
    Sentinel,
    /// A kernel timer that fired later than it was due.
    TimerLateness,
    /// A sleep of this process that ended later than it was due.
    SleepLateness,
}

/// What stole the time that no traced interval covers; the rows of the decision table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Traced intervals cover the gap.
    Traced,
    /// The firmware ran: a system-management interrupt.
    Smi,
    /// Looks like an SMI, but no counter confirms it.
    SmiLike,
    /// As [`Verdict::SmiLike`], and an error report followed: logging of a corrected error.
    CorrectedErrorLogging,
    /// The hypervisor ran something else on this core's processor.
    #[serde(alias = "host_scheduled")]
    HypervisorScheduled,
    /// The hypervisor stopped this core without counting it as steal: an exit, or a memory fault below the guest.
    #[serde(alias = "host_unaccounted")]
    HypervisorUnaccounted,
    /// All cores of a virtual machine stopped at once: a pause of the machine, or an SMI of the hypervisor's machine.
    #[serde(alias = "host_pause_or_smi")]
    PauseOrSmi,
    /// Frequency or power transition, microcode, bus lock or the sibling thread: this core only.
    HardwareThisCore,
    /// Too little is visible here to say anything.
    Undetermined,
}

impl Verdict {
    /// The word in JSON of releases before schema 2, where it was another: histories still hold it.
    pub fn former_word(self) -> Option<&'static str> {
        match self {
            Verdict::HypervisorScheduled => Some("host_scheduled"),
            Verdict::HypervisorUnaccounted => Some("host_unaccounted"),
            Verdict::PauseOrSmi => Some("host_pause_or_smi"),
            _ => None,
        }
    }

    /// The words for people.
    pub fn label(self) -> &'static str {
        match self {
            Verdict::Traced => "traced",
            Verdict::Smi => "SMI",
            Verdict::SmiLike => "SMI-like",
            Verdict::CorrectedErrorLogging => "corrected-error logging",
            Verdict::HypervisorScheduled => "hypervisor scheduled another task",
            Verdict::HypervisorUnaccounted => "hypervisor, unaccounted",
            Verdict::PauseOrSmi => "VM pause, or SMI of the hypervisor's machine",
            Verdict::HardwareThisCore => "hardware, this core",
            Verdict::Undetermined => "undetermined",
        }
    }
}

/// How sure a statement is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Certainty {
    /// Measured, with no other explanation left.
    Certain,
    /// The likeliest explanation of the evidence.
    Probable,
    /// This machine does not show what would separate the explanations.
    CannotTellApartHere,
}

impl Certainty {
    /// The name in JSON and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Certainty::Certain => "certain",
            Certainty::Probable => "probable",
            Certainty::CannotTellApartHere => "cannot_tell_apart_here",
        }
    }

    /// The words for people.
    pub fn label(self) -> &'static str {
        match self {
            Certainty::Certain => "certain",
            Certainty::Probable => "probable",
            Certainty::CannotTellApartHere => "cannot be told apart here",
        }
    }
}

/// One traced cause inside a gap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct GapCause {
    /// The cause.
    #[serde(flatten)]
    pub cause: Cause,
    /// Its share of the gap, nested time counted once, nanoseconds.
    pub duration_ns: u64,
}

/// A stretch in which a core made no progress.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Gap {
    /// The core.
    pub cpu: CpuId,
    /// How it was found.
    pub source: GapSource,
    /// When it began, `CLOCK_MONOTONIC`.
    pub start_ns: u64,
    /// How long it lasted.
    pub duration_ns: u64,
    /// What the probes saw inside, largest first.
    pub causes: Vec<GapCause>,
    /// The part that no traced interval covers.
    pub unexplained_ns: u64,
    /// What stole the uncovered part.
    pub verdict: Verdict,
    /// How sure the verdict is.
    pub certainty: Certainty,
    /// What the verdict rests on, one statement each.
    pub evidence: Vec<String>,
}

impl Gap {
    /// The verdict in words for people. Where nothing is traced, what [`Verdict::Traced`] rests on is another: the kernel's count of how long
    /// the thread that found the gap waited for its core.
    pub fn verdict_label(&self) -> &'static str {
        match (self.verdict, self.source) {
            // Such threads sleep only where nothing is traced.
            (Verdict::Traced, GapSource::SleepLateness) => "run delay",
            (verdict, _) => verdict.label(),
        }
    }

    /// Whether both are the same stretch of the same core, found in the same way, whatever is said of it.
    pub fn is_same(&self, other: &Gap) -> bool {
        let place = |gap: &Gap| (gap.cpu, gap.source, gap.start_ns, gap.duration_ns);
        place(self) == place(other)
    }
}

/// What became known of a gap after it was told of: an error report that came later. It replaces the gap and is no
/// further one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct GapCorrection {
    /// The gap, with what is said of it now.
    pub gap: Gap,
    /// What was said before.
    pub former_verdict: Verdict,
    /// How sure that was.
    pub former_certainty: Certainty,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A report without eBPF called a wait *traced*.
    #[test]
    fn a_wait_that_the_kernel_counted_is_not_called_traced() {
        let gap = |source| Gap {
            cpu: CpuId(1),
            source,
            start_ns: 0,
            duration_ns: 5,
            causes: Vec::new(),
            unexplained_ns: 0,
            verdict: Verdict::Traced,
            certainty: Certainty::Certain,
            evidence: Vec::new(),
        };
        assert_eq!(gap(GapSource::SleepLateness).verdict_label(), "run delay");
        assert_eq!(gap(GapSource::TimerLateness).verdict_label(), "traced");
        let unknown = Gap { verdict: Verdict::Undetermined, ..gap(GapSource::SleepLateness) };
        assert_eq!(unknown.verdict_label(), Verdict::Undetermined.label());
    }

    #[test]
    fn a_verdict_is_read_by_the_word_of_earlier_releases() {
        for verdict in [Verdict::HypervisorScheduled, Verdict::HypervisorUnaccounted, Verdict::PauseOrSmi] {
            let former = serde_json::to_string(verdict.former_word().unwrap()).unwrap();
            assert_eq!(serde_json::from_str::<Verdict>(&former).unwrap(), verdict);
            assert_ne!(serde_json::to_string(&verdict).unwrap(), former);
        }
        assert_eq!(Verdict::Smi.former_word(), None);
    }
}
