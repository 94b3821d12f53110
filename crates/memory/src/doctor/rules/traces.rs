//! Trace buffers that somebody reads too slowly.

use super::found;
use crate::doctor::{Facts, Rule, Trace, Verdict};
use surefoot_model::Severity;

pub(super) const RULE: Rule = Rule { name: "trace-overruns", check };

fn check(facts: &Facts) -> Verdict {
    if facts.traces.is_empty() {
        return Verdict::Fine("no trace instance visible here follows ras:mc_event or mce:mce_record".into());
    }
    let lost: Vec<&Trace> = facts.traces.iter().filter(|trace| trace.overrun > 0).collect();
    let Some(first) = lost.first() else {
        let names: Vec<&str> = facts.traces.iter().map(|trace| trace.name.as_str()).collect();
        return Verdict::Fine(format!("no overrun in {}", names.join(", ")));
    };
    Verdict::Found(found(
        Severity::Warning,
        format!("trace instance {} lost {} events (per_cpu/cpuN/stats, overrun)", first.name, first.overrun),
        "the reader of this instance (rasdaemon, surefoot) missed these reports: its counts are lower bounds",
        "write a larger buffer_size_kb and 0 into buffer_percent of the instance",
    ))
}
