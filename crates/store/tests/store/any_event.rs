//! Every event that the model can say, for properties; and a plausible stream, for examples.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use surefoot_model::{
    Answered, Capability, CapabilityState, Cause, CauseKind, Certainty, CheckpointDirectory, CheckpointEvent,
    CheckpointJob, CheckpointLook, CheckpointProblem, CheckpointTier, ClockChange, Completeness, CoreLedger, CpuId,
    Decided, Event, Finding, Gap, GapCause, GapCorrection, GapSource, Generation, GenerationState, Histogram,
    HostDescription, JournalEntry, JournalEvent, Lost, Notice, ProbeCost, RestartOutcome, Room, SelfCost, Severity,
    SourceReport, SourceState, Subject, SubjectKind, Untimed, Vendor, Verdict, Waiting, Window,
};

fn text() -> impl Strategy<Value = String> {
    vec(any::<char>(), 0..12).prop_map(|characters| characters.into_iter().collect())
}

/// Numbers from all over the range, not only the huge ones that a uniform choice gives.
fn number() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0u32..64).prop_map(|(number, shift)| number >> shift)
}

fn cpu() -> impl Strategy<Value = CpuId> {
    any::<u32>().prop_map(CpuId)
}

fn cause() -> impl Strategy<Value = Cause> {
    (prop::sample::select(CauseKind::ALL.to_vec()), text()).prop_map(|(kind, name)| Cause { kind, name })
}

fn capability() -> impl Strategy<Value = Capability> {
    let state =
        prop_oneof![Just(CapabilityState::Works), Just(CapabilityState::Reduced), Just(CapabilityState::Unsupported)];
    (text(), text(), state, text(), text()).prop_map(|(id, name, state, reason, remedy)| Capability {
        id,
        name,
        state,
        reason,
        remedy,
    })
}

fn host() -> impl Strategy<Value = HostDescription> {
    let vendor = prop_oneof![Just(Vendor::Intel), Just(Vendor::Amd), Just(Vendor::Other)];
    let texts = (text(), text(), text(), text(), text(), text());
    (texts, vendor, option::of(text()), vec(cpu(), 0..4), (number(), any::<i64>())).prop_map(
        |((hostname, kernel, processor, workload, source, missing), vendor, hypervisor, cpus, numbers)| {
            HostDescription {
                hostname,
                kernel,
                processor,
                vendor,
                hypervisor,
                cpus,
                workload,
                gap_threshold_ns: numbers.0,
                source,
                missing,
                realtime_offset_ns: numbers.1,
            }
        },
    )
}

fn lost() -> impl Strategy<Value = Lost> {
    let histogram = vec((any::<u8>(), number()), 0..4).prop_map(Histogram);
    (cause(), number(), number(), number(), number(), histogram).prop_map(
        |(cause, count, total_ns, max_ns, while_idle_ns, histogram)| Lost {
            cause,
            count,
            total_ns,
            max_ns,
            while_idle_ns,
            histogram,
        },
    )
}

fn core() -> impl Strategy<Value = CoreLedger> {
    (cpu(), number(), number(), number(), number(), vec(lost(), 0..4), number()).prop_map(
        |(cpu, wall_ns, idle_ns, user_ns, kernel_ns, lost, unexplained_ns)| CoreLedger {
            cpu,
            wall_ns,
            idle_ns,
            user_ns,
            kernel_ns,
            lost,
            unexplained_ns,
            waiting: None,
        },
    )
}

fn cost() -> impl Strategy<Value = SelfCost> {
    let probe = (text(), number(), number(), number()).prop_map(|(name, count, total_ns, missed)| ProbeCost {
        name,
        count,
        total_ns,
        missed,
    });
    (vec(probe, 0..3), number(), number(), number(), number(), number(), number(), number()).prop_map(
        |(probes, process_cpu_ns, resident_bytes, map_bytes, dropped, torn, unreported, self_interrupts)| SelfCost {
            probes,
            process_cpu_ns,
            resident_bytes,
            map_bytes,
            dropped,
            torn,
            unreported,
            untraced_interrupts: unreported / 2,
            balanced_ns: torn / 2,
            known_late_ns: dropped / 2,
            capped_rows: 0,
            self_interrupts,
            attach_interrupts: None,
        },
    )
}

fn window() -> impl Strategy<Value = Window> {
    let untimed =
        (cpu(), text(), text(), number()).prop_map(|(cpu, row, name, count)| Untimed { cpu, row, name, count });
    let completeness = (text(), number(), number()).prop_map(|(row, kernel_count, probe_count)| Completeness {
        row,
        kernel_count,
        probe_count,
    });
    (number(), number(), vec(core(), 0..4), vec(untimed, 0..3), vec(completeness, 0..3), cost()).prop_map(
        |(start_ns, end_ns, cores, untimed, completeness, cost)| Window {
            start_ns,
            end_ns,
            cores,
            faulty: Vec::new(),
            untimed,
            completeness,
            cost,
        },
    )
}

fn clock_change() -> impl Strategy<Value = ClockChange> {
    (number(), any::<i64>(), any::<i64>(), number()).prop_map(
        |(at_ns, former_offset_ns, realtime_offset_ns, slept_ns)| ClockChange {
            at_ns,
            former_offset_ns,
            realtime_offset_ns,
            slept_ns,
        },
    )
}

pub fn gap() -> impl Strategy<Value = Gap> {
    let source = prop_oneof![
        Just(GapSource::Probe),
        Just(GapSource::Sentinel),
        Just(GapSource::TimerLateness),
        Just(GapSource::SleepLateness)
    ];
    let verdict = prop::sample::select(vec![
        Verdict::Traced,
        Verdict::Smi,
        Verdict::SmiLike,
        Verdict::CorrectedErrorLogging,
        Verdict::HypervisorScheduled,
        Verdict::HypervisorUnaccounted,
        Verdict::PauseOrSmi,
        Verdict::HardwareThisCore,
        Verdict::Undetermined,
    ]);
    let causes = vec((cause(), number()).prop_map(|(cause, duration_ns)| GapCause { cause, duration_ns }), 0..3);
    (cpu(), source, number(), number(), causes, number(), verdict, certainty(), vec(text(), 0..3)).prop_map(
        |(cpu, source, start_ns, duration_ns, causes, unexplained_ns, verdict, certainty, evidence)| Gap {
            cpu,
            source,
            start_ns,
            duration_ns,
            causes,
            unexplained_ns,
            verdict,
            certainty,
            evidence,
        },
    )
}

fn certainty() -> impl Strategy<Value = Certainty> {
    prop_oneof![Just(Certainty::Certain), Just(Certainty::Probable), Just(Certainty::CannotTellApartHere)]
}

/// One of few subjects, so that boards have findings in common.
pub fn finding() -> impl Strategy<Value = Finding> {
    let room = prop::sample::select(Room::ALL.to_vec());
    let severity = prop::sample::select(Severity::ALL.to_vec());
    (room, 0u32..3, severity, certainty(), text(), vec(text(), 0..3), number()).prop_map(
        |(room, core, severity, certainty, sentence, evidence, since_realtime_ns)| {
            let subject = Subject::new(SubjectKind::Core, core.to_string());
            Finding::new(room, "rule", subject, severity, sentence)
                .with_certainty(certainty)
                .with_evidence(evidence)
                .since(since_realtime_ns)
        },
    )
}

fn source() -> impl Strategy<Value = SourceReport> {
    let state = prop_oneof![Just(SourceState::Works), Just(SourceState::Failed), Just(SourceState::Ended)];
    (number(), text(), state, text()).prop_map(|(at_ns, source, state, why)| SourceReport { at_ns, source, state, why })
}

/// JSON has no other numbers than finite ones.
fn seconds() -> impl Strategy<Value = f64> {
    prop::num::f64::NORMAL | prop::num::f64::ZERO
}

fn journal_event() -> impl Strategy<Value = JournalEvent> {
    let decided = (text(), option::of(number()), vec(text(), 0..3), text(), option::of(seconds()), number()).prop_map(
        |(place, generation, reasons, failure, staleness_max_s, count)| Decided {
            decided: [(place.clone(), count)].into(),
            place,
            generation,
            reasons,
            failure,
            payload_bytes: count,
            staleness_max_s,
            ..Decided::default()
        },
    );
    let answered =
        (text(), vec(text(), 0..3), number(), seconds()).prop_map(|(place, reasons, asked_count, durable_age_s)| {
            Answered { place, reasons, asked_count, durable_age_s, session_s: 1.5 }
        });
    prop_oneof![
        (text(), any::<u32>(), text(), text(), option::of(text()), any::<bool>()).prop_map(
            |(job, ranks, policy, shared, weakness, is_repeated)| JournalEvent::Opened {
                job,
                ranks,
                policy,
                shared,
                weakness,
                is_repeated
            }
        ),
        decided.prop_map(|decided| JournalEvent::Decision(Box::new(decided))),
        answered.prop_map(|answered| JournalEvent::Asked(Box::new(answered))),
        (text(), number(), seconds(), seconds(), number(), option::of(any::<bool>())).prop_map(
            |(tier, generation, age_s, took_s, bytes, is_durable)| JournalEvent::Durable {
                tier,
                generation,
                age_s,
                took_s,
                bytes,
                is_durable
            }
        ),
        (text(), 0..=u32::MAX).prop_map(|(tier, uid)| JournalEvent::Removed { tier, uid }),
        (text(), number(), text()).prop_map(|(tier, generation, why)| JournalEvent::NotDurable {
            tier,
            generation,
            why
        }),
        (option::of(number()), text(), option::of(Just(RestartOutcome::Failed))).prop_map(
            |(generation, report, outcome)| JournalEvent::Restart { generation, report, outcome, tier: None }
        ),
        number().prop_map(|since_realtime_ns| JournalEvent::Unread { since_realtime_ns }),
    ]
}

fn generation() -> impl Strategy<Value = Generation> {
    let tiers = vec![CheckpointTier::Memory, CheckpointTier::Durable, CheckpointTier::Shared];
    let state = prop::sample::select(GenerationState::ALL.to_vec());
    (number(), prop::sample::select(tiers), state, text(), option::of(number()), any::<u32>()).prop_map(
        |(number, tier, state, missing, taken_realtime_ns, ranks)| Generation {
            number,
            nonce: format!("{number:016x}"),
            tier,
            state,
            missing,
            taken_realtime_ns,
            ranks_here: ranks / 2,
            ranks,
            payload_bytes: (ranks % 2 == 0).then_some(number / 2),
            stored_bytes: number,
            protection: "shard".into(),
            directory: "/ckpt".into(),
        },
    )
}

fn checkpoint() -> impl Strategy<Value = CheckpointEvent> {
    let entry = (number(), number(), journal_event()).prop_map(|(realtime_ns, lost_count, event)| JournalEntry {
        realtime_ns,
        lost_count,
        event,
    });
    let look = (number(), number(), text(), option::of(number()), any::<bool>()).prop_map(
        |(at_ns, looked_realtime_ns, path, free_bytes, is_cut)| CheckpointLook {
            at_ns,
            looked_realtime_ns,
            directories: vec![CheckpointDirectory { path: path.clone(), free_bytes, ..CheckpointDirectory::default() }],
            is_cut,
            problems: vec![CheckpointProblem { path, why: "it is a link".into(), uid: Some(7) }],
            ..CheckpointLook::default()
        },
    );
    let job =
        (text(), option::of(any::<bool>()), vec(generation(), 0..3)).prop_map(|(name, is_running, generations)| {
            CheckpointJob { name, is_running, generations, ..CheckpointJob::default() }
        });
    prop_oneof![
        look.prop_map(CheckpointEvent::Look),
        job.prop_map(CheckpointEvent::Job),
        (text(), vec(entry, 0..4), number(), number()).prop_map(|(job, entries, left_out_count, skipped_count)| {
            CheckpointEvent::Journal { job, entries, left_out_count, skipped_count, is_another: skipped_count % 2 == 1 }
        }),
        text().prop_map(|job| CheckpointEvent::Gone { job }),
    ]
}

pub fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        host().prop_map(Event::Host),
        vec(capability(), 0..4).prop_map(|capabilities| Event::Capabilities { capabilities }),
        window().prop_map(Event::Window),
        gap().prop_map(Event::Gap),
        (gap(), gap()).prop_map(|(gap, was)| {
            let (former_verdict, former_certainty) = (was.verdict, was.certainty);
            Event::GapCorrection(GapCorrection { gap, former_verdict, former_certainty })
        }),
        clock_change().prop_map(Event::Clock),
        (number(), text()).prop_map(|(at_ns, text)| Event::Notice(Notice { at_ns, text })),
        source().prop_map(Event::Source),
        checkpoint().prop_map(Event::Checkpoint),
    ]
}

pub const SECOND_NS: u64 = 1_000_000_000;

/// Realtime minus monotonic of the plausible host: some time in 2026.
pub const OFFSET_NS: i64 = 1_790_000_000 * SECOND_NS as i64;

/// The time of day of this second of the plausible host.
pub fn realtime_ns(second: u64) -> i64 {
    OFFSET_NS + (second * SECOND_NS) as i64
}

pub fn plausible_host(cores: u32) -> Event {
    Event::Host(HostDescription {
        hostname: "node17".into(),
        kernel: "6.12.0".into(),
        processor: "A processor".into(),
        vendor: Vendor::Amd,
        hypervisor: Some("KVM".into()),
        cpus: (0..cores).map(CpuId).collect(),
        workload: String::new(),
        gap_threshold_ns: 100_000,
        source: "eBPF (BTF)".into(),
        missing: String::new(),
        realtime_offset_ns: OFFSET_NS,
    })
}

/// A window of one second that begins at this second; its parts add up, and its numbers depend on the second.
pub fn plausible_window(second: u64, cores: u32) -> Event {
    let ledger = |cpu: u32| {
        let tick = Lost {
            cause: Cause::new(CauseKind::Timer, "local_timer"),
            count: 250,
            total_ns: 500_000 + second,
            max_ns: 9_000 + second,
            while_idle_ns: 200_000,
            histogram: Histogram(vec![(38, 200), (40, 50)]),
        };
        let shootdown = Lost::new(Cause::new(CauseKind::TlbShootdown, "flush_tlb_func"), 12, 40_000, 6_000);
        CoreLedger {
            cpu: CpuId(cpu),
            wall_ns: SECOND_NS,
            idle_ns: 700_000_000,
            user_ns: SECOND_NS - 700_000_000 - 90_000_000 - tick.total_ns - shootdown.total_ns - 10_000,
            kernel_ns: 90_000_000,
            lost: vec![tick, shootdown],
            unexplained_ns: 10_000,
            // Only some cores' sources know.
            waiting: (cpu == 0).then(|| Waiting {
                count: 3,
                total_ns: 7_000 + second,
                moved_away: 1,
                ..Waiting::default()
            }),
        }
    };
    Event::Window(Window {
        start_ns: second * SECOND_NS,
        end_ns: (second + 1) * SECOND_NS,
        cores: (0..cores).map(ledger).collect(),
        faulty: Vec::new(),
        untimed: vec![],
        completeness: vec![],
        cost: SelfCost::default(),
    })
}

pub fn plausible_gap(second: u64, duration_ns: u64) -> Event {
    Event::Gap(Gap {
        cpu: CpuId(1),
        source: GapSource::Probe,
        start_ns: second * SECOND_NS + 1_234,
        duration_ns,
        causes: vec![GapCause { cause: Cause::new(CauseKind::Timer, "local_timer"), duration_ns: duration_ns / 2 }],
        unexplained_ns: duration_ns - duration_ns / 2,
        verdict: Verdict::HypervisorUnaccounted,
        certainty: Certainty::Probable,
        evidence: vec!["steal did not move".into()],
    })
}
