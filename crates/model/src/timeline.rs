use crate::{Cause, CpuId, Raiser};
use serde::{Deserialize, Serialize};

/// What happened on the watched cores one by one: what ran when, and who raised it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Timeline {
    /// The causes that slices and arrivals name by their place here.
    pub causes: Vec<Cause>,
    /// The raisers that arrivals name by their place here.
    pub raisers: Vec<Raiser>,
    /// What ran, in the order in which it ended. Those of one core nest: a later one lies beside an earlier one or
    /// contains it.
    pub slices: Vec<TimelineSlice>,
    /// What was raised, in the order in which it was seen.
    pub arrivals: Vec<TimelineArrival>,
    /// Slices that found no room.
    pub slices_dropped: u64,
    /// Arrivals that found no room.
    pub arrivals_dropped: u64,
    /// Changes of context that were overwritten before they could be read; what ran there is not among the slices.
    pub turns_lost: u64,
}

/// A stretch in which something took a core from its work, what was nested in it included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct TimelineSlice {
    /// The core.
    pub cpu: CpuId,
    /// What ran: its place among [`Timeline::causes`].
    pub cause: u32,
    /// Start, `CLOCK_MONOTONIC` nanoseconds.
    pub start_ns: u64,
    /// Length in nanoseconds.
    pub duration_ns: u64,
}

/// Something that was raised for a core and arrived there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct TimelineArrival {
    /// The core.
    pub cpu: CpuId,
    /// What arrived: its place among [`Timeline::causes`].
    pub cause: u32,
    /// When it arrived, `CLOCK_MONOTONIC` nanoseconds; for work and wake-ups, when it was raised.
    pub at_ns: u64,
    /// Who raised it: a place among [`Timeline::raisers`]; `None` where that is not known or one of too many.
    pub raiser: Option<u32>,
    /// When it was raised elsewhere; `None` where it was raised in the context that it arrived in.
    pub raised_ns: Option<u64>,
    /// What it caused: a place among [`Timeline::slices`]; `None` where that was not seen.
    pub slice: Option<u32>,
}
