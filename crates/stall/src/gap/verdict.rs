//! The verdict: what stole the part of a gap that no traced interval covers. A pure decision table.
//!
//! The order of the rows matters and is that of [`ROWS`]; the first that fits decides. Each row carries a test.
//! Sources of the rules: SMIs halt all cores of a machine but QEMU's do not reach all virtual ones; Intel counts them
//! in MSR 0x34, AMD in `ls_smi_rx` without any time; a guest's steal counter covers only time runnable but not
//! running, in ticks, and misses some; osnoise's documentation on what it calls hardware noise.

use crate::gap::witness::SETTLING_NS;
use surefoot_model::{Certainty, GapSource, Verdict};

/// Whether the other watched cores made progress during the gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Others {
    /// Nobody looked, or they had nothing to do.
    NotSeen,
    /// At least one did.
    Ran,
    /// All that were seen stood still, too.
    Stopped,
}

/// What the steal counter of this core says about the gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Steal {
    /// There is none, or the gap is shorter than its step.
    CannotSay,
    /// It did not move although the gap is several of its steps long.
    Flat,
    /// It rose by this much around the gap, nanoseconds.
    Rose(u64),
}

/// What is known about a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Evidence {
    /// How the gap was found.
    pub source: GapSource,
    /// Whether interrupts and switches on this core are traced at all.
    pub traced: bool,
    /// Whether it is known how long the thread waited for its core behind others that ran, though nothing is traced.
    pub sees_waits: bool,
    /// How long the gap lasted, nanoseconds.
    pub length_ns: u64,
    /// The longest time in the gap in which one cause had the core and nothing else happened there, nanoseconds. A stop of
    /// the core in that time looks the same.
    pub still_ns: u64,
    /// Time that no traced interval covers, nanoseconds.
    pub unexplained_ns: u64,
    /// The part of it that the tape of this core does not reach, nanoseconds.
    pub unseen_ns: u64,
    /// The part of it that the entries and exits of the traced intervals may have taken, nanoseconds.
    pub allowance_ns: u64,
    /// Whether the kernel may have masked interrupts there (it cannot while a loop in user mode spins).
    pub maybe_masked: bool,
    /// Whether a hypervisor is below.
    pub virtual_machine: bool,
    /// How many SMIs were counted that no other gap accounts for, where they are counted.
    pub smi_rise: Option<u64>,
    /// How many were counted around it that account for other gaps.
    pub smi_taken: u64,
    /// What the other cores did.
    pub others: Others,
    /// Whether a gap on another core ended in the same instant.
    pub another_stopped: bool,
    /// NMIs inside the gap.
    pub nmi_count: u64,
    /// Whether an error report (machine check, memory controller) followed within a second.
    pub error_report_followed: bool,
    /// The steal counter.
    pub steal: Steal,
    /// Whether the wall clock stepped against the monotonic one.
    pub wall_clock_stepped: bool,
}

/// A row of the decision table.
pub struct Row {
    /// What the row says, as evidence to show.
    pub because: &'static str,
    fits: fn(&Evidence) -> bool,
    verdict: Verdict,
    certainty: Certainty,
}

const fn row(because: &'static str, fits: fn(&Evidence) -> bool, verdict: Verdict, certainty: Certainty) -> Row {
    Row { because, fits, verdict, certainty }
}

use Certainty::{CannotTellApartHere, Certain, Probable};

/// The decision table; the first row that fits decides.
pub const ROWS: [Row; 29] = [
    row(
        "traced intervals cover it, but for their entry and exit",
        |e| e.traced && is_covered(e) && !may_be_stolen(e) && !may_be_a_stop(e),
        Verdict::Traced,
        Certain,
    ),
    row(
        "the thread waited for its core, which another task or kernel thread had",
        |e| e.sees_waits && is_covered(e) && !may_be_stolen(e) && !may_be_a_stop(e),
        Verdict::Traced,
        Certain,
    ),
    row(
        "the steal counter rose by about the gap, so the traced context had the core but hardly ran",
        |e| e.traced && is_covered(e) && is_still(e) && steal_covers(e, e.length_ns),
        Verdict::HypervisorScheduled,
        Probable,
    ),
    row(
        "the SMI counter rose and other cores stopped too, so the traced context had the core but hardly ran",
        |e| is_covered(e) && may_be_a_stop(e) && smi(e) && !e.virtual_machine,
        Verdict::Smi,
        Probable,
    ),
    row(
        "one context had the core, and another core stopped in the same instant: it may have been stopped with that core",
        |e| is_covered(e) && may_be_a_stop(e),
        Verdict::Traced,
        CannotTellApartHere,
    ),
    row(
        "traced contexts or waiting for the core cover it, but the steal counter rose: the hypervisor took a part of it",
        is_covered,
        Verdict::Traced,
        Probable,
    ),
    row(
        "the SMI counter rose and another core stopped at the same time",
        |e| !e.virtual_machine && sees_tasks(e) && smi(e) && e.others == Others::Stopped,
        Verdict::Smi,
        Certain,
    ),
    row(
        "the SMI counter rose and another core stopped at the same time; nothing is traced here, so a CPU quota may have stopped both",
        |e| !e.virtual_machine && smi(e) && e.others == Others::Stopped,
        Verdict::Smi,
        Probable,
    ),
    row(
        "the SMI counter rose; no other core was looked at",
        |e| !e.virtual_machine && sees_tasks(e) && smi(e) && e.others == Others::NotSeen,
        Verdict::Smi,
        Probable,
    ),
    row(
        "all cores stopped together, no NMI, and an error report followed; there is no SMI counter here",
        |e| bare_all_stopped(e) && e.error_report_followed,
        Verdict::CorrectedErrorLogging,
        Probable,
    ),
    row(
        "all cores stopped together without an NMI; there is no SMI counter here",
        bare_all_stopped,
        Verdict::SmiLike,
        Probable,
    ),
    row(
        "the steal counter rose by about the gap",
        |e| sees_software(e) && steal_alone_explains(e),
        Verdict::HypervisorScheduled,
        Certain,
    ),
    row(
        "the steal counter rose by about the gap, which is too short to exclude that it rose beside it, or others stopped too",
        |e| sees_software(e) && steal_covers(e, e.unexplained_ns),
        Verdict::HypervisorScheduled,
        Probable,
    ),
    row(
        "the steal counter rose by about what the thread did not wait behind others; interrupts are not traced here",
        |e| e.sees_waits && steal_covers(e, e.unexplained_ns),
        Verdict::HypervisorScheduled,
        Probable,
    ),
    row(
        "the steal counter rose, by less than the gap",
        |e| e.virtual_machine && sees_software(e) && !e.maybe_masked && matches!(e.steal, Steal::Rose(_)),
        Verdict::HypervisorScheduled,
        Probable,
    ),
    row(
        "nothing is traced here, so software cannot be excluded",
        |e| !e.traced,
        Verdict::Undetermined,
        CannotTellApartHere,
    ),
    row(
        "the tape of this core does not reach most of it, so software cannot be excluded",
        mostly_unseen,
        Verdict::Undetermined,
        CannotTellApartHere,
    ),
    row(
        "the kernel may have had interrupts off, which no tracepoint shows",
        |e| e.maybe_masked && e.others != Others::Stopped,
        Verdict::Undetermined,
        CannotTellApartHere,
    ),
    row(
        "all watched cores stopped together and the wall clock stepped: the machine was paused",
        |e| e.virtual_machine && e.others == Others::Stopped && e.wall_clock_stepped,
        Verdict::PauseOrSmi,
        Probable,
    ),
    row(
        "all watched cores stopped together; a pause of the machine and an SMI of the hypervisor's machine look the same from inside",
        |e| e.virtual_machine && e.others == Others::Stopped,
        Verdict::PauseOrSmi,
        CannotTellApartHere,
    ),
    row(
        "only this core stopped and its steal counter stayed flat: an exit or a memory fault below the guest",
        |e| e.virtual_machine && e.others == Others::Ran && e.steal == Steal::Flat,
        Verdict::HypervisorUnaccounted,
        Probable,
    ),
    row(
        "only this core stopped; the gap is too short for the steal counter",
        |e| e.virtual_machine && e.others == Others::Ran,
        Verdict::HypervisorUnaccounted,
        Probable,
    ),
    row(
        "a hypervisor is below and no software ran; whether other cores stopped too was not seen",
        |e| e.virtual_machine,
        Verdict::HypervisorUnaccounted,
        CannotTellApartHere,
    ),
    row(
        "the SMI counter rose, but another core ran on, so it was not that SMI",
        |e| smi(e) && e.others == Others::Ran,
        Verdict::HardwareThisCore,
        Probable,
    ),
    row(
        "only this core stopped: frequency or power transition, microcode, bus lock, or the sibling thread",
        |e| e.others == Others::Ran,
        Verdict::HardwareThisCore,
        Probable,
    ),
    row(
        "all cores stopped together although no SMI accounts for it",
        |e| e.others == Others::Stopped && e.smi_rise == Some(0),
        Verdict::Undetermined,
        CannotTellApartHere,
    ),
    row(
        "all cores stopped together with an NMI",
        |e| e.others == Others::Stopped,
        Verdict::Undetermined,
        CannotTellApartHere,
    ),
    row(
        "no SMI accounts for it; no other core was looked at",
        |e| e.smi_rise == Some(0),
        Verdict::HardwareThisCore,
        CannotTellApartHere,
    ),
    row(
        "no other core was looked at and there is no SMI counter",
        |_| true,
        Verdict::Undetermined,
        CannotTellApartHere,
    ),
];

fn smi(evidence: &Evidence) -> bool {
    evidence.smi_rise.is_some_and(|rise| rise > 0)
}

/// Whether all that this kernel ran is seen, so that what is left is none of it.
fn sees_software(evidence: &Evidence) -> bool {
    evidence.traced && !mostly_unseen(evidence)
}

/// Whether at least the tasks are seen that took the core.
fn sees_tasks(evidence: &Evidence) -> bool {
    sees_software(evidence) || evidence.sees_waits
}

/// Whether what ran in most of the uncovered part is not known.
fn mostly_unseen(evidence: &Evidence) -> bool {
    evidence.unseen_ns > evidence.unexplained_ns / 2
}

/// Software can stop all cores at once, too: a cgroup that has used up its quota wakes all its sleepers late. Only a
/// tape on which nothing ran excludes it.
fn bare_all_stopped(evidence: &Evidence) -> bool {
    !evidence.virtual_machine
        && evidence.traced
        && !mostly_unseen(evidence)
        && evidence.smi_rise.is_none()
        && evidence.others == Others::Stopped
        && evidence.nmi_count == 0
}

/// A step of the steal counter.
const STEP_NS: u64 = 10_000_000;

/// Steal of so long can lie beside a gap and count as its: what the counters need to settle, and a step at each end.
const BESIDE_NS: u64 = SETTLING_NS + 2 * STEP_NS;

/// What a context takes without a doubt that it ran: handlers of two cores are often at work in the same instant, as those of
/// their ticks.
const USUAL_NS: u64 = 1_000_000;

/// Steal counts in steps, so "about" is between a half and the double plus one step.
fn steal_covers(evidence: &Evidence, ns: u64) -> bool {
    matches!(evidence.steal, Steal::Rose(rose_ns)
        if evidence.virtual_machine && rose_ns >= ns / 2 && rose_ns <= ns * 2 + STEP_NS)
}

/// Whether steal explains the whole length of the gap, cannot have been beside it, and nothing else fits as well.
fn steal_alone_explains(evidence: &Evidence) -> bool {
    let ns = evidence.unexplained_ns;
    steal_covers(evidence, ns)
        && matches!(evidence.steal, Steal::Rose(rose_ns) if rose_ns + STEP_NS >= ns)
        && ns > BESIDE_NS
        && evidence.others != Others::Stopped
        && !evidence.another_stopped
}

/// Whether it is known for all of the gap what had the core.
fn is_covered(evidence: &Evidence) -> bool {
    (evidence.traced || evidence.sees_waits) && evidence.unexplained_ns <= evidence.allowance_ns
}

/// Whether one context had the core for at least half of the gap, and longer than is usual, without any sign that it ran.
fn is_still(evidence: &Evidence) -> bool {
    evidence.still_ns > USUAL_NS && evidence.still_ns >= evidence.length_ns / 2
}

/// Whether the hypervisor took a part of the time for which something had the core.
fn may_be_stolen(evidence: &Evidence) -> bool {
    evidence.virtual_machine && matches!(evidence.steal, Steal::Rose(_))
}

/// Whether a stop of several cores at once explains the gap as well as what had the core. Where SMIs are counted and none
/// was, there is no such stop on bare metal. A hypervisor can stop two cores and let a third run.
fn may_be_a_stop(evidence: &Evidence) -> bool {
    let stopped_too = evidence.others == Others::Stopped
        || evidence.another_stopped && (evidence.virtual_machine || evidence.others != Others::Ran);
    is_still(evidence) && stopped_too && (evidence.virtual_machine || evidence.smi_rise != Some(0))
}

/// Decides, and says by which row.
pub fn decide(evidence: &Evidence) -> (Verdict, Certainty, &'static str) {
    let row = ROWS.iter().find(|row| (row.fits)(evidence)).unwrap_or(&ROWS[ROWS.len() - 1]);
    (row.verdict, row.certainty, row.because)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bare metal, a spinning loop, tracing on, no SMI counter, nobody else looked.
    const BARE: Evidence = Evidence {
        source: GapSource::Probe,
        traced: true,
        sees_waits: false,
        length_ns: 50_000_000,
        still_ns: 0,
        unexplained_ns: 50_000_000,
        unseen_ns: 0,
        allowance_ns: 2_000,
        maybe_masked: false,
        virtual_machine: false,
        smi_rise: None,
        smi_taken: 0,
        others: Others::NotSeen,
        another_stopped: false,
        nmi_count: 0,
        error_report_followed: false,
        steal: Steal::CannotSay,
        wall_clock_stepped: false,
    };
    const GUEST: Evidence = Evidence { virtual_machine: true, ..BARE };
    /// A softirq had the core all the time.
    const SOFTIRQ: Evidence = Evidence { unexplained_ns: 1_500, still_ns: 49_998_500, ..BARE };
    const SOFTIRQ_OF_GUEST: Evidence = Evidence { virtual_machine: true, ..SOFTIRQ };

    /// One piece of evidence per row, in the order of the rows.
    fn fitting() -> Vec<Evidence> {
        let stopped = Others::Stopped;
        let ran = Others::Ran;
        vec![
            Evidence { unexplained_ns: 1_500, ..BARE },
            Evidence { traced: false, sees_waits: true, ..SOFTIRQ_OF_GUEST },
            Evidence { steal: Steal::Rose(60_000_000), ..SOFTIRQ_OF_GUEST },
            Evidence { smi_rise: Some(1), others: stopped, ..SOFTIRQ },
            Evidence { another_stopped: true, ..SOFTIRQ_OF_GUEST },
            Evidence { traced: false, sees_waits: true, steal: Steal::Rose(60_000_000), ..SOFTIRQ_OF_GUEST },
            Evidence { smi_rise: Some(1), others: stopped, ..BARE },
            Evidence { smi_rise: Some(1), others: stopped, traced: false, ..BARE },
            Evidence { smi_rise: Some(2), ..BARE },
            Evidence { others: stopped, error_report_followed: true, ..BARE },
            Evidence { others: stopped, ..BARE },
            Evidence { steal: Steal::Rose(60_000_000), ..GUEST },
            Evidence { steal: Steal::Rose(60_000_000), others: stopped, ..GUEST },
            Evidence { traced: false, sees_waits: true, steal: Steal::Rose(60_000_000), ..GUEST },
            Evidence { steal: Steal::Rose(10_000_000), ..GUEST },
            Evidence { traced: false, ..GUEST },
            Evidence { unseen_ns: 40_000_000, others: stopped, ..BARE },
            Evidence { maybe_masked: true, source: GapSource::TimerLateness, ..GUEST },
            Evidence { others: stopped, wall_clock_stepped: true, ..GUEST },
            Evidence { others: stopped, ..GUEST },
            Evidence { others: ran, steal: Steal::Flat, ..GUEST },
            Evidence { others: ran, unexplained_ns: 100_000, ..GUEST },
            GUEST,
            Evidence { smi_rise: Some(1), others: ran, ..BARE },
            Evidence { others: ran, ..BARE },
            Evidence { others: stopped, smi_rise: Some(0), ..BARE },
            Evidence { others: stopped, nmi_count: 1, ..BARE },
            Evidence { smi_rise: Some(0), ..BARE },
            BARE,
        ]
    }

    #[test]
    fn every_row_decides_the_case_it_was_written_for() {
        let cases = fitting();
        assert_eq!(cases.len(), ROWS.len());
        for (case, row) in cases.iter().zip(&ROWS) {
            let (verdict, certainty, because) = decide(case);
            assert_eq!((because, verdict, certainty), (row.because, row.verdict, row.certainty), "{case:?}");
        }
    }

    /// What had the core is certain only where it explains the length by itself and nothing else does as well.
    #[test]
    fn a_context_that_merely_had_the_core_is_not_certain() {
        let certain = |evidence: Evidence| decide(&evidence).1 == Certain;
        for plain in [SOFTIRQ, SOFTIRQ_OF_GUEST] {
            assert!(certain(plain));
            assert!(!certain(Evidence { another_stopped: true, ..plain }), "{plain:?}");
            assert!(!certain(Evidence { others: Others::Stopped, ..plain }), "{plain:?}");
            // The ticks of two cores come together, and a context that is interrupted all the time runs.
            for ran in [500_000, 4_000_000] {
                assert!(certain(Evidence { still_ns: ran, others: Others::Stopped, another_stopped: true, ..plain }));
            }
        }
        for rose_ns in [10_000_000, 60_000_000, 200_000_000] {
            assert!(!certain(Evidence { steal: Steal::Rose(rose_ns), ..SOFTIRQ_OF_GUEST }), "{rose_ns}");
        }
        assert!(certain(Evidence { smi_rise: Some(0), others: Others::Stopped, another_stopped: true, ..SOFTIRQ }));
        assert!(
            certain(Evidence { others: Others::Ran, another_stopped: true, ..SOFTIRQ }),
            "no SMI leaves a core out"
        );
        assert!(!certain(Evidence { others: Others::Ran, another_stopped: true, ..SOFTIRQ_OF_GUEST }));
    }

    #[test]
    fn steal_is_certain_only_where_it_explains_the_length_and_nothing_else_does() {
        let stolen = Evidence { steal: Steal::Rose(50_000_000), others: Others::Ran, ..GUEST };
        let verdict = |evidence: Evidence| {
            let (verdict, certainty, _) = decide(&evidence);
            (verdict, certainty)
        };
        assert_eq!(verdict(stolen), (Verdict::HypervisorScheduled, Certain));
        for beaten in [
            Evidence { steal: Steal::Rose(30_000_000), ..stolen },
            Evidence { unexplained_ns: 40_000_000, length_ns: 40_000_000, ..stolen },
            Evidence { others: Others::Stopped, ..stolen },
            Evidence { another_stopped: true, ..stolen },
        ] {
            assert_eq!(verdict(beaten), (Verdict::HypervisorScheduled, Probable), "{beaten:?}");
        }
    }

    #[test]
    fn an_smi_is_certain_only_with_a_count_and_a_second_core() {
        for others in [Others::NotSeen, Others::Ran, Others::Stopped] {
            for smi_rise in [None, Some(0), Some(3)] {
                for virtual_machine in [false, true] {
                    let (verdict, certainty, _) = decide(&Evidence { others, smi_rise, virtual_machine, ..BARE });
                    let sure = verdict == Verdict::Smi && certainty == Certainty::Certain;
                    assert_eq!(sure, !virtual_machine && smi_rise == Some(3) && others == Others::Stopped);
                }
            }
        }
    }

    #[test]
    fn a_guest_never_names_an_smi_and_bare_metal_never_a_hypervisor() {
        for mut case in fitting() {
            case.virtual_machine = true;
            let (verdict, ..) = decide(&case);
            assert!(!matches!(verdict, Verdict::Smi | Verdict::SmiLike | Verdict::HardwareThisCore), "{case:?}");
            case.virtual_machine = false;
            let (verdict, ..) = decide(&case);
            let of_a_host = [Verdict::HypervisorScheduled, Verdict::HypervisorUnaccounted, Verdict::PauseOrSmi];
            assert!(!of_a_host.contains(&verdict), "{case:?}");
        }
    }

    #[test]
    fn without_tracing_software_is_never_excluded() {
        for case in fitting() {
            // That an SMI came while two cores stopped tells without a tape; that one came, or that the hypervisor took some
            // time, does not.
            let dark = Evidence { smi_rise: None, sees_waits: false, ..case };
            let others_ran = Evidence { smi_rise: Some(1), others: Others::NotSeen, ..dark };
            let steals = [Steal::CannotSay, Steal::Flat, Steal::Rose(10_000_000), Steal::Rose(60_000_000)];
            let darks = steals.map(|steal| Evidence { traced: false, steal, ..dark });
            let unseen = steals.map(|steal| Evidence { unseen_ns: dark.unexplained_ns, steal, ..dark });
            for dark in darks.into_iter().chain(unseen).chain([Evidence { traced: false, ..others_ran }]) {
                let (verdict, certainty, _) = decide(&dark);
                if verdict != Verdict::Traced && !is_covered(&dark) {
                    assert_eq!(
                        (verdict, certainty),
                        (Verdict::Undetermined, Certainty::CannotTellApartHere),
                        "{dark:?}"
                    );
                }
            }
        }
    }
}
