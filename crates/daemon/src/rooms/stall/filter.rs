use axum::http::Uri;
use std::collections::BTreeSet;
use surefoot_http::{ApiError, parameters};
use surefoot_model::{CauseKind, CpuId, Gap, LoopGap, Verdict, Window};

/// The longest minimum length of a gap that makes sense: a minute.
const MIN_US_MAX: f64 = 60_000_000.0;
/// The longest range that makes sense: a day.
const RANGE_S_MAX: u64 = 86_400;
/// Core numbers stay below this.
const CPUS_MAX: u32 = 8192;

/// The parts of the data that a client asks for; the default is all of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Filter {
    /// Cores; empty for all.
    cpus: BTreeSet<CpuId>,
    /// Kinds of cause; empty for all.
    kinds: BTreeSet<CauseKind>,
    /// Gaps shorter than this are left out.
    min_ns: u64,
    /// How far back from the end of the data; 0 for all of it.
    range_ns: u64,
}

impl Filter {
    /// Reads `cpu`, `kind`, `min_us` and `range_s`. Cores are checked against `watched` unless that is empty.
    pub(crate) fn of(uri: &Uri, watched: &[CpuId]) -> Result<Self, ApiError> {
        Filter::read(uri, watched, &["cpu", "kind", "min_us", "range_s"])
    }

    /// Reads `cpu`, `kind` and `range_s`, for who raised interrupts.
    pub(crate) fn of_interrupts(uri: &Uri, watched: &[CpuId]) -> Result<Self, ApiError> {
        Filter::read(uri, watched, &["cpu", "kind", "range_s"])
    }

    /// The range alone; 0, for all of it, also where the request cannot be read, which [`Self::of_interrupts`] refuses.
    pub(crate) fn range_of_interrupts(uri: &Uri) -> u64 {
        Filter::of_interrupts(uri, &[]).map_or(0, |filter| filter.range_ns)
    }

    /// Whether all cores and kinds are asked for.
    pub(crate) fn has_all_interrupts(&self) -> bool {
        self.cpus.is_empty() && self.kinds.is_empty()
    }

    fn read(uri: &Uri, watched: &[CpuId], allowed: &[&str]) -> Result<Self, ApiError> {
        let mut filter = Filter::default();
        for (name, value) in parameters(uri, allowed)? {
            match name.as_str() {
                "cpu" => filter.cpus = cpus(&value, watched)?,
                "kind" => filter.kinds = kinds(&value)?,
                "min_us" => filter.min_ns = min_ns(&value)?,
                _ => filter.range_ns = range_ns(&value)?,
            }
        }
        Ok(filter)
    }

    /// Whether a core is asked for.
    pub(crate) fn has_cpu(&self, cpu: CpuId) -> bool {
        self.cpus.is_empty() || self.cpus.contains(&cpu)
    }

    /// Whether a kind of cause is asked for.
    pub(crate) fn has_kind(&self, kind: CauseKind) -> bool {
        self.kinds.is_empty() || self.kinds.contains(&kind)
    }

    /// Whether a gap that a polling loop noted is asked for. One whose core is not known belongs to none.
    pub(crate) fn has_loop_gap(&self, gap: &LoopGap) -> bool {
        let on_core = self.cpus.is_empty() || gap.cpu.is_some_and(|cpu| self.cpus.contains(&cpu));
        on_core && (self.kinds.is_empty() || gap.parts.iter().any(|part| self.kinds.contains(&part.cause.kind)))
    }

    /// Whether a window lies in the range that ends with the data.
    pub(crate) fn has_window(&self, window: &Window, end_ns: u64) -> bool {
        self.range_ns == 0 || window.end_ns > end_ns.saturating_sub(self.range_ns)
    }

    /// Whether a gap is asked for: its core, length and time, and one of its causes or its verdict.
    pub(crate) fn has_gap(&self, gap: &Gap, end_ns: u64) -> bool {
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

fn cpus(text: &str, watched: &[CpuId]) -> Result<BTreeSet<CpuId>, ApiError> {
    let allowed = || match watched {
        [] => "a list such as 0,2-3".to_owned(),
        _ => format!("a list of {}", watched.iter().map(CpuId::to_string).collect::<Vec<_>>().join(",")),
    };
    let bad = || ApiError::bad_parameter("cpu", text, &allowed());
    let mut cpus = BTreeSet::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) else { return Err(bad()) };
        if first > last || last >= CPUS_MAX {
            return Err(bad());
        }
        cpus.extend((first..=last).map(CpuId));
    }
    if !watched.is_empty() && !cpus.iter().all(|cpu| watched.contains(cpu)) {
        return Err(bad());
    }
    Ok(cpus)
}

fn kinds(text: &str) -> Result<BTreeSet<CauseKind>, ApiError> {
    text.split(',')
        .map(|word| {
            word.parse().map_err(|_: String| {
                let known: Vec<_> = CauseKind::ALL.iter().map(|kind| kind.as_str()).collect();
                ApiError::bad_parameter("kind", text, &format!("a list of {}", known.join(",")))
            })
        })
        .collect()
}

fn min_ns(text: &str) -> Result<u64, ApiError> {
    match text.parse::<f64>() {
        Ok(us) if (0.0..=MIN_US_MAX).contains(&us) => Ok((us * 1_000.0).round() as u64),
        _ => Err(ApiError::bad_parameter("min_us", text, &format!("microseconds from 0 to {MIN_US_MAX:.0}"))),
    }
}

fn range_ns(text: &str) -> Result<u64, ApiError> {
    match text.parse::<u64>() {
        Ok(seconds) if seconds <= RANGE_S_MAX => Ok(seconds * 1_000_000_000),
        _ => {
            let allowed = format!("whole seconds from 1 to {RANGE_S_MAX}, or 0 for everything kept");
            Err(ApiError::bad_parameter("range_s", text, &allowed))
        }
    }
}
