//! What to fix first, as text; and what entry and exit cost.

use crate::table::paragraph;
use crate::units::{duration, percent};
use surefoot_model::{Advice, CauseKind, CpuId, EntryExit, EntryExitBasis, Fix, Intruder, WhoReport};

/// A line of a paragraph is no longer, where its words allow it.
const COLUMNS: usize = 110;

/// Where paragraphs begin.
const LABEL_COLUMNS: usize = 14;

/// The list; nothing where there is nothing to fix.
pub fn text(found: &WhoReport) -> String {
    if found.fix_first.is_empty() {
        return String::new();
    }
    let mut text = "Fix first, by what work lost to it:\n".to_owned();
    for (place, fix) in found.fix_first.iter().enumerate() {
        let per_s = fix.total_ns as f64 * 1e9 / found.duration_ns().max(1) as f64;
        text += &format!(
            "  {}. {} on {}: {} of all that was lost{}, {} per second\n",
            place + 1,
            fix.cause,
            cores(&fix.cpus),
            percent(fix.share_of_lost_ppm, 1_000_000),
            if found.entry_exit.is_empty() { "" } else { ", entry and exit included" },
            duration(per_s as u64)
        );
        text += &remedy(fix);
    }
    if found.workload_pid.is_none() {
        text += "  Time in which other tasks had the core is not in this list; --pid PROCESS counts it against that process.\n";
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
    let to_do = if fix.rule == Fix::NEEDS_ANOTHER_KERNEL { "Needs:" } else { "Do:" };
    [(to_do, &fix.remedy), ("Because:", &fix.evidence), ("Then:", &fix.expect), ("See:", &fix.source)]
        .map(|(label, text)| wrapped(label, text))
        .concat()
}

/// A paragraph beside its label, in lines that a terminal holds.
fn wrapped(label: &str, text: &str) -> String {
    format!("     {label:<9}") + &paragraph(text, LABEL_COLUMNS, LABEL_COLUMNS, COLUMNS)
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
    let text = format!("\"with entry\" adds entry and exit, estimated: {}.", told.join("; "));
    paragraph(&text, 0, 0, COLUMNS)
}

fn entry_exit_of(cost: &EntryExit) -> String {
    let what = match cost.kind {
        CauseKind::Timer => "a timer interrupt".to_owned(),
        CauseKind::CallFunction => "an interrupt from another core".to_owned(),
        CauseKind::DeviceInterrupt => "a device interrupt".to_owned(),
        CauseKind::OtherInterrupt => "any other interrupt".to_owned(),
        CauseKind::Nmi => "an NMI".to_owned(),
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
        (true, cores) if cores.contains([',', '-']) => format!(": placed by the kernel, on cores {cores}"),
        (true, _) => ": bound to this core by the kernel".to_owned(),
        (false, "") => ": it ended before it could be asked where it may run".to_owned(),
        (false, cores) => format!(": allowed on cores {cores}"),
    };
    if !intruder.because.is_empty() {
        text += &format!(" ({})", intruder.because);
    }
    if !intruder.cgroup.is_empty() {
        text += &format!(", control group {}", intruder.cgroup);
    }
    if !intruder.policy.is_empty() {
        text += &format!(", {}", intruder.policy);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use surefoot_model::Cause;

    fn found() -> WhoReport {
        let fix = |rule: &str, cpus: &[u32], share_of_lost_ppm| Fix {
            cpus: cpus.iter().copied().map(CpuId).collect(),
            cause: Cause::new(CauseKind::TlbShootdown, "flush_tlb_func"),
            total_ns: 5_000_000,
            share_of_lost_ppm,
            count: 7_732,
            rule: rule.into(),
            evidence: "7732 of 7752 arrivals from stats in munmap".into(),
            remedy: if rule.is_empty() { String::new() } else { "keep the memory ".repeat(12).trim_end().to_owned() },
            source: "mmap(2)".into(),
            verify: "surefoot stall who --cpu 1 --duration 10s --compare BEFORE.surefoot".into(),
            expect: "TLB shootdown flush_tlb_func on core 1: 775.2 per second now, 2.0 without this".into(),
        };
        let fix_first = vec![fix("unmap", &[3, 1, 2], 610_000), fix("", &[1], 50_000)];
        WhoReport { end_ns: 10_000_000_000, fix_first, ..WhoReport::default() }
    }

    #[test]
    fn the_list_says_what_to_do_why_and_how_to_see_that_it_worked_in_lines_that_fit() {
        let said = text(&found());
        for part in [
            "  1. TLB shootdown flush_tlb_func on cores 1-3: 61.0 % of all that was lost, 500 us per second\n",
            "     Because: 7732 of 7752 arrivals from stats in munmap\n",
            "     Then:    TLB shootdown flush_tlb_func on core 1: 775.2 per second now, 2.0 without this\n",
            "     See:     mmap(2)\n",
            "     No rule fits; what is known of it stands below.\n",
            "  To see what a change brought: surefoot stall who --cpu 1 --duration 10s --compare BEFORE.surefoot\n",
        ] {
            assert!(said.contains(part), "{part} is not in {said}");
        }
        assert!(said.lines().all(|line| line.chars().count() <= COLUMNS), "{said}");
        assert_eq!(text(&WhoReport::default()), "");
    }

    /// The list says what to fix: what no setting of this kernel ends is not to be done.
    #[test]
    fn what_needs_another_kernel_is_not_called_something_to_do() {
        let mut found = found();
        found.fix_first[0].rule = Fix::NEEDS_ANOTHER_KERNEL.into();
        let said = text(&found);
        assert!(said.contains("     Needs:   keep the memory") && !said.contains("     Do:"), "{said}");
    }

    #[test]
    fn an_estimate_says_how_it_is_known() {
        let cost = |basis| EntryExit {
            kind: CauseKind::Timer,
            median_ns: 6_000,
            p10_ns: 5_000,
            p90_ns: 9_000,
            samples: 40,
            basis,
        };
        let said = |basis| entry_exit(&WhoReport { entry_exit: vec![cost(basis)], ..WhoReport::default() });
        assert!(said(EntryExitBasis::OwnLoop).lines().all(|line| line.chars().count() <= COLUMNS));
        let said = |basis| said(basis).replace('\n', " ");
        assert_eq!(
            said(EntryExitBasis::OwnLoop),
            "\"with entry\" adds entry and exit, estimated: a timer interrupt 6.00 us (8 of 10 within 5.00 us to 9.00 us), \
             from 40 that hit a loop of Surefoot's on a core that is not watched. "
        );
        assert!(said(EntryExitBasis::PollingLoop).contains("from 40 gaps that a polling thread noted"));
        assert!(said(EntryExitBasis::OtherKind).contains("taken to be 6.00 us, as the others here"));
        assert_eq!(entry_exit(&WhoReport::default()), "");
    }

    #[test]
    fn a_task_says_why_it_was_allowed_on_the_core() {
        let task = Intruder { comm: "rustc".into(), tid: 7, allowed: "0-1".into(), ..Intruder::default() };
        let full = Intruder { cgroup: "/build".into(), policy: "SCHED_OTHER".into(), ..task.clone() };
        let said = [
            (&full, "rustc (thread 7): allowed on cores 0-1, control group /build, SCHED_OTHER"),
            (
                &Intruder { is_bound: true, allowed: "1".into(), ..task.clone() },
                "rustc (thread 7): bound to this core by the kernel",
            ),
            (&Intruder { is_bound: true, ..task.clone() }, "rustc (thread 7): placed by the kernel, on cores 0-1"),
            (
                &Intruder { allowed: String::new(), ..task.clone() },
                "rustc (thread 7): it ended before it could be asked where it may run",
            ),
        ];
        for (task, words) in said {
            assert_eq!(intruder(task), words);
        }
    }
}
