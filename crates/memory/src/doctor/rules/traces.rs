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
    let lost = traces.iter().find_map(|trace| Some((trace, trace.overrun.filter(|lost| *lost > 0)?)));
    let unread = |trace: &&Trace| trace.overrun.is_none();
    if let (None, Some(trace)) = (lost, traces.iter().find(unread)) {
        return Verdict::CannotTell(format!(
            "what trace instance {} lost cannot be read (per_cpu/cpuN/stats)",
            trace.name
        ));
    }
    let Some((first, count)) = lost else {
        let names: Vec<&str> = traces.iter().map(|trace| trace.name.as_str()).collect();
        return Verdict::Fine(format!("no overrun in {}", names.join(", ")));
    };
    Verdict::Found(found(
        Severity::Warning,
        format!("trace instance {} lost {count} events (per_cpu/cpuN/stats, overrun)", first.name),
        "the reader of this instance (rasdaemon, surefoot) missed these reports: its counts are lower bounds",
        "write a larger buffer_size_kb and 0 into buffer_percent of the instance",
    ))
}
