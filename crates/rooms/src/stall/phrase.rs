//! The words of a finding: subjects, causes, lengths, shares.

use super::findings::{CoreSum, STEP_NS, Sight, is_almost_idle, rate_ns_per_s, share_ppm, sum};
use super::public::{MESSAGES, TASK};
use std::collections::BTreeSet;
use surefoot_model::{Cause, CauseKind, Certainty, CpuId, Gap, Verdict};

/// Unexplained time is in the sentence from this share of lost and unexplained time on, parts per million.
const UNEXPLAINED_SHARE_PPM: u64 = 50_000;
/// More than half.
const MOST_PPM: u64 = 500_000;
/// A name stands for its kind from this share of the kind's time on.
const NAME_SHARE_PPM: u64 = 800_000;
/// Characters of a name from the machine within a sentence.
const NAME_CHARACTERS_MAX: usize = 40;

/// The longest stretch in which a core did not get on with its work.
pub(crate) enum Longest<'a> {
    /// A gap, with its verdict.
    Gap(&'a Gap),
    /// A single occurrence of a named cause, which is on no list of gaps.
    Occurrence { cpu: CpuId, cause: &'a Cause, duration_ns: u64 },
}

impl Longest<'_> {
    pub(crate) fn duration_ns(&self) -> u64 {
        match self {
            Longest::Gap(gap) => gap.duration_ns,
            Longest::Occurrence { duration_ns, .. } => *duration_ns,
        }
    }

    fn cpu(&self) -> CpuId {
        match self {
            Longest::Gap(gap) => gap.cpu,
            Longest::Occurrence { cpu, .. } => *cpu,
        }
    }

    fn what(&self) -> &'static str {
        match self {
            Longest::Gap(_) => "gap",
            Longest::Occurrence { .. } => "interruption",
        }
    }

    fn why(&self) -> String {
        match self {
            Longest::Gap(gap) => gap_why(gap),
            Longest::Occurrence { cause, .. } => one(cause),
        }
    }
}

/// The sentence about a host on which no core lost much.
pub(crate) fn quiet(cores: &[CoreSum], longest: Option<&Longest<'_>>, (sight, gap_ns): (Sight, u64)) -> String {
    let lost_ns = sum(cores.iter().map(|core| core.lost_ns));
    let unexplained_ns = sum(cores.iter().map(|core| core.unexplained_ns));
    let wall_ns = sum(cores.iter().map(|core| core.wall_ns));
    let busy_ns = sum(cores.iter().map(|core| core.busy_ns));
    let amount = |ns| match is_almost_idle(busy_ns, wall_ns) {
        // A share of next to nothing says nothing.
        true => rate(rate_ns_per_s(ns, wall_ns)),
        false => format!("{} of that", percent(share_ppm(ns, busy_ns))),
    };
    let lost = match lost_ns {
        0 if sight == Sight::Counters => String::new(),
        0 if unexplained_ns > 0 => " and lost nothing to a known cause".to_owned(),
        0 => " and lost nothing".to_owned(),
        _ => {
            let least = if sight == Sight::Counters { "at least " } else { "" };
            let few_steps = cores.iter().all(|core| core.lost_ns == 0 || core.is_few_steps());
            let amount = match few_steps {
                true => format!("{}, counted in steps of {}", length(lost_ns), length(STEP_NS)),
                false => amount(lost_ns),
            };
            format!(" and lost {least}{amount}")
        }
    };
    let unexplained = match is_told(unexplained_ns, lost_ns) {
        true => format!("; {} unexplained", amount(unexplained_ns)),
        false => String::new(),
    };
    format!("{}{lost}{unexplained}{}.", how_busy(cores), at_longest(cores, longest, (sight, gap_ns)))
}

/// Whether unexplained time is large enough beside what was lost to be in the sentence.
fn is_told(unexplained_ns: u64, lost_ns: u64) -> bool {
    share_ppm(unexplained_ns, lost_ns.saturating_add(unexplained_ns)) > UNEXPLAINED_SHARE_PPM
}

/// The sentence about a host on which `loud_count` cores lost much, `worst` the most.
pub(crate) fn loud(
    worst: &CoreSum,
    loud_count: usize,
    cores: &[CoreSum],
    longest: Option<&Longest<'_>>,
    (sight, gap_ns): (Sight, u64),
) -> String {
    let (cpu, busy, at_longest) = (worst.cpu, how_busy(cores), at_longest(cores, longest, (sight, gap_ns)));
    let lost = worst.lost_ns > 0;
    let how_much = |of: &str| {
        let (rate_of, share) =
            (|ns| rate(rate_ns_per_s(ns, worst.wall_ns)), |ns| percent(share_ppm(ns, worst.busy_ns)));
        let amount = |ns| format!("{}, {} of {of}", rate_of(ns), share(ns));
        match (lost, is_told(worst.unexplained_ns, worst.lost_ns)) {
            (true, false) => format!("{}, {}", amount(worst.lost_ns), to_what(worst)),
            (true, true) => format!(
                "{}, {}; another {} unexplained",
                amount(worst.lost_ns),
                to_what(worst),
                rate_of(worst.unexplained_ns)
            ),
            (false, _) => format!("{}, unexplained", amount(worst.unexplained_ns)),
        }
    };
    match (loud_count, cores.len()) {
        (_, 1) => format!("{busy} and {} {}{at_longest}.", if lost { "lost" } else { "has" }, how_much("that")),
        (1, _) => {
            let verb = if lost { "lost" } else { "has" };
            format!("{busy}. Core {cpu} {verb} {}{at_longest}.", how_much("its busy time"))
        }
        (some, count) => {
            let who = match some {
                2 if count == 2 => "Both".to_owned(),
                _ if some == count => format!("All {count}"),
                _ => format!("{some} of them"),
            };
            let what = if is_told(worst.unexplained_ns, worst.lost_ns) { "have lost or unexplained" } else { "lost" };
            format!("{busy}. {who} {what} time, core {cpu} most: {}{at_longest}.", how_much("its busy time"))
        }
    }
}

/// How busy the cores are, all together: the beginning of each sentence.
fn how_busy(cores: &[CoreSum]) -> String {
    let wall_ns = sum(cores.iter().map(|core| core.wall_ns));
    let busy_ns = sum(cores.iter().map(|core| core.busy_ns));
    let (everyone, is) = match cores {
        [core] => (format!("Core {}", core.cpu), "is"),
        [_, _] => ("Both cores".to_owned(), "are"),
        _ => (format!("All {} cores", cores.len()), "are"),
    };
    let ppm = share_ppm(busy_ns, wall_ns);
    // An average of which nothing is missing is no average worth the word.
    let (busy, is_full) = (percent(ppm), percent(ppm) == percent(1_000_000));
    if is_almost_idle(busy_ns, wall_ns) {
        format!("{everyone} {is} almost idle ({busy} busy)")
    } else if cores.len() > 1 && !is_full {
        format!("{everyone} {is} {busy} busy on average")
    } else {
        format!("{everyone} {is} {busy} busy")
    }
}

/// The longest gap or interruption and what is not seen, as the end of a sentence.
fn at_longest(cores: &[CoreSum], longest: Option<&Longest<'_>>, (sight, gap_ns): (Sight, u64)) -> String {
    let unmeasured: BTreeSet<CauseKind> = cores.iter().flat_map(|core| core.unmeasured.iter().copied()).collect();
    let measures_any = cores.iter().flat_map(|core| core.kinds.keys()).any(|kind| !unmeasured.contains(kind));
    let unseen = match sight {
        Sight::Traced => "",
        Sight::Counters if cores.iter().any(|core| core.lost_ns > 0) => {
            "; what else was lost is not seen without eBPF: reduced"
        }
        Sight::Counters => "; what was lost is not seen without eBPF: reduced",
    };
    let told = match longest {
        Some(longest) if longest.duration_ns() >= gap_ns => {
            let (what, length, why) = (longest.what(), length(longest.duration_ns()), longest.why());
            let place = if cores.len() == 1 { String::new() } else { format!(" on core {}", longest.cpu()) };
            format!("; the longest {what} took {length}{place} ({why})")
        }
        _ if sight == Sight::Counters => String::new(),
        _ if !unmeasured.is_empty() && !measures_any => "; how long single interruptions were is not known".to_owned(),
        Some(longest) => {
            let (what, length, why) = (longest.what(), length(longest.duration_ns()), longest.why());
            let besides: Vec<&str> = unmeasured.iter().map(|kind| kind.label()).collect();
            match besides.is_empty() {
                true => format!("; no {what} longer than {length} ({why})"),
                false => format!(
                    "; no other {what} longer than {length} ({why}); of {} time only the sum is known",
                    besides.join(" and ")
                ),
            }
        }
        None => String::new(),
    };
    told + unseen
}

/// What a core lost its time to.
fn to_what(core: &CoreSum) -> String {
    let mut kinds: Vec<(CauseKind, u64)> =
        core.kinds.iter().map(|(&kind, names)| (kind, sum(names.values().copied()))).collect();
    kinds.sort_by_key(|&(kind, total_ns)| (std::cmp::Reverse(total_ns), kind));
    let share = |total_ns: u64| share_ppm(total_ns, core.lost_ns);
    match kinds.as_slice() {
        [first, ..] if share(first.1) > MOST_PPM => format!("most of it to {}", many(core, first.0)),
        [first, second, ..] if share(first.1.saturating_add(second.1)) > MOST_PPM => {
            format!("mainly to {} and {}", many(core, first.0), many(core, second.0))
        }
        [first, ..] => format!("to many causes, the largest being {}", many(core, first.0)),
        [] => String::new(),
    }
}

/// A kind of cause as the receiver of lost time; with its name where one name stands for it.
fn many(core: &CoreSum, kind: CauseKind) -> String {
    let names = &core.kinds[&kind];
    let total_ns = sum(names.values().copied());
    let name = names
        .iter()
        .find(|&(name, &name_ns)| says_more(name) && share_ppm(name_ns, total_ns) >= NAME_SHARE_PPM)
        .map(|(name, _)| clipped(name));
    let named = |plural: &str, of: &str| match &name {
        Some(name) => format!("{plural}{of}{name}"),
        None => plural.to_owned(),
    };
    match kind {
        CauseKind::Smi => "SMIs".to_owned(),
        CauseKind::Hypervisor => "the hypervisor (at least; steal time misses some)".to_owned(),
        CauseKind::Nmi => named("NMIs", " of "),
        CauseKind::MachineCheck => "machine-check interrupts".to_owned(),
        CauseKind::DeviceInterrupt => named("device interrupts", " of "),
        CauseKind::Timer => "the timer".to_owned(),
        CauseKind::CallFunction => named("calls from other cores", " of "),
        CauseKind::TlbShootdown => "TLB shootdowns".to_owned(),
        CauseKind::Reschedule => "reschedule interrupts".to_owned(),
        CauseKind::IrqWork => "irq_work".to_owned(),
        CauseKind::Softirq => named("softirqs", ", above all "),
        CauseKind::KernelThread => named("kernel threads", ", above all "),
        CauseKind::Preemption => named("other tasks", ", above all "),
        CauseKind::ThreadState => named("threads that could not run", ", above all "),
        CauseKind::OtherInterrupt => named("other interrupts", ", above all "),
        CauseKind::Console => named("printing to the console", ", above all "),
    }
}

/// Whether a name says more than its kind: what stands for many names, or for one that is not shown, does not.
fn says_more(name: &str) -> bool {
    !matches!(name, "" | "not told apart" | TASK | MESSAGES)
}

/// A single occurrence of a cause.
fn one(cause: &Cause) -> String {
    let with_name = says_more(&cause.name)
        && matches!(
            cause.kind,
            CauseKind::Nmi
                | CauseKind::DeviceInterrupt
                | CauseKind::CallFunction
                | CauseKind::Softirq
                | CauseKind::KernelThread
                | CauseKind::ThreadState
                | CauseKind::OtherInterrupt
        );
    match cause.kind {
        CauseKind::Preemption if cause.name == TASK => TASK.to_owned(),
        CauseKind::Preemption if !cause.name.is_empty() => format!("task {}", clipped(&cause.name)),
        kind if with_name => format!("{} {}", kind.label(), clipped(&cause.name)),
        kind => kind.label().to_owned(),
    }
}

/// Who took a gap's time: the largest traced cause when traced causes cover more than half, else the verdict. Where they cover
/// all of it and the verdict is another one, it is about the whole gap.
fn gap_why(gap: &Gap) -> String {
    let mostly_traced = gap.unexplained_ns.saturating_mul(2) < gap.duration_ns;
    let of_the_rest = mostly_traced && gap.unexplained_ns.saturating_mul(100) > gap.duration_ns;
    match (gap.verdict, gap.causes.first()) {
        (Verdict::Traced, Some(first)) => {
            let cause = one(&first.cause);
            return match gap.certainty {
                Certainty::Certain => cause,
                Certainty::Probable => format!("probably {cause}"),
                Certainty::CannotTellApartHere => format!("{cause} or a stop of several cores"),
            };
        }
        (_, Some(first)) if of_the_rest => return one(&first.cause),
        _ => {}
    }
    let what = match gap.verdict {
        Verdict::Traced => "traced",
        Verdict::Smi => "SMI",
        Verdict::SmiLike => "an SMI",
        Verdict::CorrectedErrorLogging => "the logging of a corrected error",
        Verdict::HypervisorScheduled => "the hypervisor scheduled another task",
        Verdict::HypervisorUnaccounted => "the hypervisor, unaccounted",
        Verdict::PauseOrSmi => "a pause of this machine, or an SMI of the hypervisor's machine",
        Verdict::HardwareThisCore => "hardware of this core",
        Verdict::Undetermined => return "cause undetermined".to_owned(),
    };
    match gap.certainty {
        Certainty::Certain => what.to_owned(),
        Certainty::Probable => format!("probably {what}"),
        Certainty::CannotTellApartHere => format!("{what}: cannot be told apart here"),
    }
}

/// Parts per million as a percentage, rounded to what matters.
pub(crate) fn percent(ppm: u64) -> String {
    match ppm {
        0 => "0 %".to_owned(),
        1..500 => "less than 0.1 %".to_owned(),
        500..99_500 => format!("{:.1} %", ppm as f64 / 10_000.0),
        _ => format!("{:.0} %", ppm as f64 / 10_000.0),
    }
}

/// Lost time per second.
pub(crate) fn rate(ns_per_s: u64) -> String {
    format!("{} per second", length(ns_per_s))
}

/// A duration with two digits or more, in the largest unit that fits.
pub fn length(duration_ns: u64) -> String {
    let (value, unit) = match duration_ns {
        0..1_000 => return format!("{duration_ns} ns"),
        1_000..999_500 => (duration_ns as f64 / 1e3, "us"),
        999_500..999_500_000 => (duration_ns as f64 / 1e6, "ms"),
        _ => (duration_ns as f64 / 1e9, "s"),
    };
    if value < 9.95 { format!("{value:.1} {unit}") } else { format!("{value:.0} {unit}") }
}

fn clipped(name: &str) -> String {
    // A name from the machine may hold anything, marks that turn the direction of writing too; a sentence stays one line as it was written.
    let clipped = surefoot_model::clipped(name, NAME_CHARACTERS_MAX);
    if name.chars().count() > NAME_CHARACTERS_MAX { format!("{clipped}…") } else { clipped }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surefoot_model::{CoreLedger, Lost, SelfCost, Window};

    #[test]
    fn a_name_of_a_stranger_turns_no_sentence_around() {
        assert_eq!(clipped("a\u{202e}b\nc"), surefoot_model::one_line("a\u{202e}b\nc"));
        assert!(!clipped("a\u{202e}b").contains('\u{202e}') && clipped(&"x".repeat(500)).ends_with('…'));
    }

    #[test]
    fn lengths_and_shares_round_without_leaving_their_unit() {
        let lengths: Vec<String> =
            [0, 999, 1_000, 9_949, 9_950, 999_499, 999_500, 31_000_000, 999_500_000, 61_000_000_000].map(length).into();
        assert_eq!(
            lengths,
            ["0 ns", "999 ns", "1.0 us", "9.9 us", "10 us", "999 us", "1.0 ms", "31 ms", "1.0 s", "61 s"]
        );
        let shares: Vec<String> = [0, 1, 499, 500, 31_000, 99_499, 99_500, 1_000_000].map(percent).into();
        assert_eq!(shares, ["0 %", "less than 0.1 %", "less than 0.1 %", "0.1 %", "3.1 %", "9.9 %", "10 %", "100 %"]);
    }

    #[test]
    fn what_stands_for_a_name_is_not_told_as_one() {
        let most = |kind, name: &str| {
            let lost = Lost::new(Cause::new(kind, name), 1, 600_000_000, 600_000_000);
            let core = CoreLedger {
                wall_ns: 1_000_000_000,
                user_ns: 400_000_000,
                lost: vec![lost],
                ..CoreLedger::empty(CpuId(0))
            };
            let window = Window {
                start_ns: 0,
                end_ns: 1_000_000_000,
                cores: vec![core],
                faulty: Vec::new(),
                untimed: Vec::new(),
                completeness: Vec::new(),
                cost: SelfCost::default(),
            };
            super::super::findings::of(&[window], &[]).sentence
        };
        for (kind, name, words) in [
            (CauseKind::Console, MESSAGES, "printing to the console"),
            (CauseKind::Preemption, TASK, "other tasks"),
            (CauseKind::Softirq, "not told apart", "softirqs"),
            (CauseKind::Softirq, "NET_RX", "softirqs, above all NET_RX"),
        ] {
            let said = most(kind, name);
            assert!(
                said.contains(&format!("most of it to {words};")) || said.contains(&format!("most of it to {words}.")),
                "{said}"
            );
        }
        assert_eq!(one(&Cause::new(CauseKind::Preemption, TASK)), "another task");
        assert_eq!(one(&Cause::new(CauseKind::Preemption, "rustc")), "task rustc");
        assert_eq!(one(&Cause::new(CauseKind::Softirq, "not told apart")), CauseKind::Softirq.label());
    }

    #[test]
    fn names_from_the_machine_stay_short_and_on_one_line() {
        let cause = Cause::new(CauseKind::KernelThread, format!("a\nb{}", "x".repeat(100)));
        let text = one(&cause);
        assert!(text.starts_with("kernel thread a?bxxx") && text.ends_with('…'), "{text}");
        assert!(text.chars().count() <= "kernel thread ".len() + NAME_CHARACTERS_MAX + 1);
    }
}
