//! A watch that is made up.

use surefoot_model::{
    Cause, CauseKind, Certainty, CoreLedger, CpuId, Event, Finding, Gap, GapSource, Headline, HostDescription,
    Interrupt, Lost, Notice, Raiser, Room, Severity, Subject, Vendor, Verdict, Waiting, WhoReport, Window,
};
use surefoot_terminal::{Kept, RoomState};

/// The core that loses most, modulo the number of cores.
pub const WORST: u32 = 37;

const SECOND_NS: u64 = 1_000_000_000;
/// Monotonic time of the first window, and what it is on the wall clock: the 70th window ends at 06:00:00.
const BEGIN_NS: u64 = 1_000 * SECOND_NS;
const OFFSET_NS: i64 = 1_795_932_000_000_000_000 - 1_070_000_000_000;

pub fn sentence(cores: u32) -> String {
    format!(
        "All {cores} cores are 55 % busy on average. Core 1 lost 41 ms per second, 5.9 % of its busy time, most of it to kernel \
         threads, above all kswapd0; the longest interruption took 2.0 ms on core 1 (kernel thread kswapd0)."
    )
}

pub fn finding(severity: Severity, sentence: &str) -> Finding {
    Finding::new(Room::Stall, "lost-time", Subject::host(), severity, sentence)
        .with_evidence(vec!["41 ms of 693 ms in each second".into()])
}

/// A watch of so many cores after so many seconds.
pub fn kept(cores: u32, seconds: u64) -> Kept {
    let mut kept = Kept::new(Some("http://127.0.0.1:7070/".into()), None);
    kept.add(&Event::Host(HostDescription {
        hostname: "node17".into(),
        kernel: "6.12.0".into(),
        processor: "a processor".into(),
        vendor: Vendor::Amd,
        hypervisor: None,
        cpus: (0..cores).map(CpuId).collect(),
        workload: String::new(),
        gap_threshold_ns: 100_000,
        source: "eBPF (BTF)".into(),
        missing: "no counters of SMIs: run as root".into(),
        realtime_offset_ns: OFFSET_NS,
    }));
    kept.add(&Event::Notice(Notice { at_ns: BEGIN_NS, text: "Core 3 went offline.".into() }));
    for number in 0..seconds {
        second(&mut kept, cores, number);
    }
    kept
}

/// One more second that nobody judged.
pub fn window(kept: &mut Kept, cores: u32, number: u64) {
    let start_ns = BEGIN_NS + number * SECOND_NS;
    let ledgers = (0..cores).map(|cpu| ledger(cpu, cores)).collect();
    let window = Window { start_ns, end_ns: start_ns + SECOND_NS, cores: ledgers, ..Window::default() };
    kept.add(&Event::Window(window));
}

/// One more second.
pub fn second(kept: &mut Kept, cores: u32, number: u64) {
    let start_ns = BEGIN_NS + number * SECOND_NS;
    window(kept, cores, number);
    kept.add(&Event::Gap(Gap {
        cpu: CpuId(0),
        source: GapSource::TimerLateness,
        start_ns: start_ns + 1,
        duration_ns: 200_000 + number,
        causes: Vec::new(),
        unexplained_ns: 200_000,
        verdict: Verdict::SmiLike,
        certainty: Certainty::Probable,
        evidence: Vec::new(),
    }));
    let mut findings = vec![finding(Severity::Warning, &sentence(cores))];
    findings.push(Finding::new(
        Room::Memory,
        "errors",
        Subject::host(),
        Severity::Ok,
        "All 8 DIMMs are without errors.",
    ));
    // One sentence: the headline is the worst finding.
    let headline = Headline::of(&findings);
    let why = |room| (room == Room::Nic).then(|| "No interface was found; name one.".to_owned());
    let rooms = Room::ALL.into_iter().map(|room| RoomState { room, why_not_watched: why(room) }).collect();
    kept.judge(headline, findings, rooms);
}

/// The worst core loses a tenth of its time, each one after it a little less.
fn ledger(cpu: u32, cores: u32) -> CoreLedger {
    let behind = u64::from((cpu + cores - WORST % cores) % cores);
    let thread_ns = 100_000_000 - behind * 150_000;
    let mut timer = Lost::new(Cause::new(CauseKind::Timer, "local_timer"), 250, 3_000_000, 40_000);
    timer.while_idle_ns = 2_500_000;
    let lost = vec![Lost::new(Cause::new(CauseKind::KernelThread, "kswapd0"), 20, thread_ns, 2_000_000), timer];
    let unexplained_ns = 1_000;
    CoreLedger {
        cpu: CpuId(cpu),
        wall_ns: SECOND_NS,
        idle_ns: 400_000_000,
        user_ns: SECOND_NS - 400_000_000 - 50_000_000 - thread_ns - 3_000_000 - unexplained_ns,
        kernel_ns: 50_000_000,
        lost,
        unexplained_ns,
        waiting: Some(Waiting { count: 5, total_ns: 7_000_000, ..Waiting::default() }),
    }
}

/// Names that strangers chose, in every place where there are names.
pub fn hostile(kept: &mut Kept) {
    const NAME: &str = "\u{1b}[2J\u{1b}]0;x\u{7}\u{202e}学習学習学習学習学習学習学習学習学習学習e\u{301}\n\r\u{9b}2J";
    let number = kept.numbers().end;
    let start_ns = BEGIN_NS + number * SECOND_NS;
    let lost = Lost::new(Cause::new(CauseKind::KernelThread, NAME), 1, SECOND_NS, SECOND_NS);
    let core = CoreLedger { wall_ns: SECOND_NS, lost: vec![lost], ..CoreLedger::empty(CpuId(0)) };
    kept.add(&Event::Window(Window { start_ns, end_ns: start_ns + SECOND_NS, cores: vec![core], ..Window::default() }));
    kept.add(&Event::Notice(Notice { at_ns: start_ns, text: NAME.into() }));
    let mut interrupt = Interrupt::new(CpuId(0), Cause::new(CauseKind::CallFunction, NAME), 3, 1_000);
    interrupt.raisers.push(Raiser {
        certainty: Certainty::Certain,
        function: NAME.into(),
        syscall: NAME.into(),
        comm: NAME.into(),
        pid: 5,
        tid: 5,
        wakee: String::new(),
        count: 3,
        kernel_stack: Vec::new(),
        user_stack: Vec::new(),
        is_sum: false,
    });
    kept.add(&Event::Who(Box::new(WhoReport { interrupts: vec![interrupt], ..WhoReport::default() })));
    let mut finding = finding(Severity::Notice, "Named by a stranger.");
    finding.sentence = NAME.into();
    finding.evidence = vec![NAME.into()];
    let headline = Headline { lost_time: Some(NAME.into()), ..Headline::new(Severity::Notice, NAME) };
    kept.judge(headline, vec![finding], Vec::new());
}
