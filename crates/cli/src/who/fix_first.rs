//! What to fix first, as text; and what entry and exit cost.

use crate::units::{duration, percent};
use surefoot_model::{Advice, CauseKind, CpuId, EntryExit, EntryExitBasis, Fix, Intruder, WhoReport};

/// The list; nothing where there is nothing to fix.
pub fn text(found: &WhoReport) -> String {
    if found.fix_first.is_empty() {
        return String::new();
    }
    let mut text = "Fix first, by what work lost to it:\n".to_owned();
    for (place, fix) in found.fix_first.iter().enumerate() {
        let per_s = fix.total_ns as f64 * 1e9 / found.duration_ns().max(1) as f64;
        text += &format!(
            "  {}. {} on {}: {} of what was lost, {} per second\n",
            place + 1,
            fix.cause,
            cores(&fix.cpus),
            percent(fix.share_of_lost_ppm, 1_000_000),
            duration(per_s as u64)
        );
        text += &remedy(fix);
    }
    let verify = found.fix_first.iter().map(|fix| fix.verify.as_str()).max_by_key(|verify| verify.len());
    text += &format!(
        "  To see what a change brought: {}\n  (BEFORE.surefoot is this report, kept by --record BEFORE.surefoot)\n\n",
        verify.unwrap_or_default()
    );
    text
}

fn remedy(fix: &Fix) -> String {
    if fix.remedy.is_empty() {
        return "     No rule fits; what is known of it stands below.\n".to_owned();
    }
    format!(
        "     Do: {}\n     Because: {}\n     Then: {}\n     See: {}\n",
        fix.remedy, fix.evidence, fix.expect, fix.source
    )
}

fn cores(cpus: &[CpuId]) -> String {
    let mut sorted = cpus.to_vec();
    sorted.sort_unstable();
    let word = if cpus.len() == 1 { "core" } else { "cores" };
    format!("{word} {}", surefoot_hostfs::cpus::format_list(&sorted))
}

/// Where in the list a piece of advice stands; the words there need not be said again.
pub fn place(found: &WhoReport, advice: &Advice) -> Option<String> {
    let is_it = |fix: &Fix| fix.remedy == advice.remedy && fix.evidence == advice.evidence && !fix.rule.is_empty();
    found.fix_first.iter().position(is_it).map(|place| format!("number {}", place + 1))
}

/// What entry and exit cost here, and how that is known.
pub fn entry_exit(found: &WhoReport) -> String {
    if found.entry_exit.is_empty() {
        return String::new();
    }
    let told: Vec<String> = found.entry_exit.iter().map(entry_exit_of).collect();
    format!("\"with entry\" adds entry and exit, estimated: {}.\n", told.join("; "))
}

fn entry_exit_of(cost: &EntryExit) -> String {
    let what = match cost.kind {
        CauseKind::Timer => "a timer interrupt".to_owned(),
        CauseKind::CallFunction => "an interrupt from another core".to_owned(),
        kind => format!("a {} interrupt", kind.label()),
    };
    let range =
        format!("{} (8 of 10 within {} to {})", duration(cost.median_ns), duration(cost.p10_ns), duration(cost.p90_ns));
    match cost.basis {
        EntryExitBasis::PollingLoop => {
            format!("{what} {range}, from {} gaps that a polling thread noted", cost.samples)
        }
        EntryExitBasis::OwnLoop => {
            format!("{what} {range}, from {} that hit a loop of Surefoot's on a core that is not watched", cost.samples)
        }
        EntryExitBasis::OtherKind => format!("{what} taken to be {}, as the others here", duration(cost.median_ns)),
    }
}

/// A task that took the core, and why it was allowed there.
pub fn intruder(intruder: &Intruder) -> String {
    let mut text = format!("{} (thread {})", intruder.comm, intruder.tid);
    text += &match (intruder.is_bound, intruder.allowed.as_str()) {
        (true, _) => ": bound to this core by the kernel".to_owned(),
        (false, "") => ": it ended before it could be asked where it may run".to_owned(),
        (false, cores) => format!(": allowed on cores {cores}"),
    };
    if !intruder.cgroup.is_empty() {
        text += &format!(", control group {}", intruder.cgroup);
    }
    if !intruder.policy.is_empty() {
        text += &format!(", {}", intruder.policy);
    }
    text
}
