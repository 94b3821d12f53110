//! Trace buffers that somebody reads too slowly.

use super::found;
use crate::doctor::{Facts, Rule, Trace, Verdict};
use surefoot_model::Severity;

pub(super) const RULE: Rule = Rule { name: "trace-overruns", check };

fn check(facts: &Facts) -> Verdict {
    let Some(traces) = &facts.traces else {
        return Verdict::CannotTell(
            "tracefs is not to be seen here: not mounted, not for this user, or not in this tree".into(),
        );
    };
    if traces.is_empty() {
        return Verdict::Fine("no trace instance visible here follows ras:mc_event or mce:mce_record".into());
    }
    let lost: Vec<&Trace> = traces.iter().filter(|trace| trace.overrun > 0).collect();
    let Some(first) = lost.first() else {
        let names: Vec<&str> = traces.iter().map(|trace| trace.name.as_str()).collect();
        return Verdict::Fine(format!("no overrun in {}", names.join(", ")));
    };
    Verdict::Found(found(
        Severity::Warning,
        format!("trace instance {} lost {} events (per_cpu/cpuN/stats, overrun)", first.name, first.overrun),
        "the reader of this instance (rasdaemon, surefoot) missed these reports: its counts are lower bounds",
        "write a larger buffer_size_kb and 0 into buffer_percent of the instance",
    ))
}
