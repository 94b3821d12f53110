//! `surefoot stall who`: what a recording says is what was said live, to the byte; what cannot be written is refused
//! before anything is watched; what ends during the watch is told.
#![allow(clippy::unwrap_used)]

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use surefoot_model::{
    Cause, CauseKind, Certainty, CpuId, Event, Interrupt, Notice, Raiser, Timeline, TimelineArrival, TimelineSlice,
    WhoReport,
};
use surefoot_store::recording::{Existing, Writer};
use surefoot_sys::interrupting::Interrupter;
use surefoot_testkit::not_run::not_run;

fn surefoot(words: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_surefoot"));
    command.args(words.split_whitespace()).stdin(Stdio::null());
    command
}

fn output(command: &mut Command) -> Output {
    command.output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A folder that goes away with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("surefoot-who-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn found(timeline: bool) -> WhoReport {
    let mut raiser = Raiser {
        certainty: Certainty::Certain,
        function: "flush_tlb_func".into(),
        syscall: "munmap".into(),
        comm: "stats".into(),
        pid: 70,
        tid: 71,
        wakee: String::new(),
        count: 9,
        kernel_stack: vec!["flush_tlb_mm_range".into(), "__x64_sys_munmap".into()],
        user_stack: vec!["munmap".into(), "close_counter".into()],
        is_sum: false,
    };
    raiser.kernel_stack.extend((0..7).map(|depth| format!("entry_{depth}")));
    let mut deeper = Raiser { count: 4, ..raiser.clone() };
    deeper.kernel_stack.push("beyond_what_is_shown".into());
    let cause = Cause::new(CauseKind::TlbShootdown, "flush_tlb_func");
    let interrupt = |cpu, total_ns| Interrupt {
        cpu: CpuId(cpu),
        cause: cause.clone(),
        handler: "flush_tlb_func".into(),
        count: 10,
        total_ns,
        p50_ns: 1_000,
        p99_ns: 2_000,
        max_ns: 2_500,
        while_idle_ns: 0,
        entry_exit_ns: None,
        intruders: Vec::new(),
        share_of_lost_ppm: 1_000_000,
        detail: Vec::new(),
        raisers: vec![raiser.clone(), deeper.clone()],
        unknown_raisers: 1,
        advice: Vec::new(),
    };
    let slice = TimelineSlice { cpu: CpuId(1), cause: 0, start_ns: 2_000, duration_ns: 900 };
    let arrival = TimelineArrival {
        cpu: CpuId(1),
        cause: 0,
        at_ns: 2_010,
        raiser: Some(0),
        raised_ns: Some(1_500),
        slice: Some(0),
    };
    WhoReport {
        start_ns: 1_000,
        end_ns: 2_000_001_000,
        interrupts: vec![interrupt(1, 10_500), interrupt(2, 10_000)],
        joined_count: 18,
        called_count: 20,
        notices: vec![Notice { at_ns: 5, text: "process 70 ended after 1.5 s; the watch went on without it".into() }],
        timeline: timeline.then(|| Timeline {
            causes: vec![cause.clone()],
            raisers: vec![raiser.clone()],
            slices: vec![slice],
            arrivals: vec![arrival],
            ..Timeline::default()
        }),
        ..WhoReport::default()
    }
}

fn recorded(path: &Path, events: &[Event]) {
    let mut writer = Writer::create(path, Existing::Refuse).unwrap();
    events.iter().for_each(|event| writer.append(event).unwrap());
    writer.finish().unwrap();
}

fn replay(path: &Path, words: &str) -> Output {
    output(surefoot("stall who --replay").arg(path).args(words.split_whitespace()))
}

#[test]
fn a_recording_from_another_machine_prints_as_text_json_stacks_and_trace() {
    let folder = Folder::new("replay");
    let file = folder.file("recording");
    // A later report of the same stream replaces the one before it.
    recorded(&file, &[Event::Who(Box::default()), Event::Who(found(true).into())]);
    let text = replay(&file, "");
    assert_eq!(text.status.code(), Some(0), "{text:?}");
    for part in [
        "2.00 s of watching",
        "core 1, TLB shootdown flush_tlb_func",
        "  13 x stats (thread 71 of process 70) in munmap: flush_tlb_func [certain]",
        "    kernel: flush_tlb_mm_range < __x64_sys_munmap < entry_0 < entry_1 < entry_2 < entry_3 < entry_4 < entry_5 < ...",
        "    user: munmap < close_counter",
        "exactly to their raiser: 18 of 20 (90.0 %)",
        "Notice: process 70 ended after 1.5 s; the watch went on without it",
    ] {
        assert!(stdout(&text).contains(part), "{part} is not in {}", stdout(&text));
    }
    let lines: Vec<Value> =
        stdout(&replay(&file, "--json")).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 4);
    assert_eq!((&lines[0]["type"], &lines[0]["command"]), (&"stream".into(), &"stall who".into()));
    let lines = &lines[1..];
    assert_eq!((&lines[0]["type"], &lines[0]["cpu"]), (&"interrupt".into(), &1.into()));
    assert_eq!(lines[2]["notices"][0]["text"], "process 70 ended after 1.5 s; the watch went on without it");
    assert!(lines[2].get("timeline").is_none(), "{}", lines[2]);
    let (folded, trace) = (folder.file("folded"), folder.file("trace"));
    let both =
        output(surefoot("stall who --replay").arg(&file).arg("--folded").arg(&folded).arg("--trace").arg(&trace));
    assert_eq!((both.status.code(), stdout(&both)), (Some(0), stdout(&text)));
    let stacks = std::fs::read_to_string(folded).unwrap();
    let first = stacks.lines().next().unwrap();
    assert!(
        first.starts_with("core 1;TLB shootdown flush_tlb_func;stats-71;close_counter;munmap;entry_6_[k];"),
        "{first}"
    );
    assert!(first.ends_with(";__x64_sys_munmap_[k];flush_tlb_mm_range_[k] 9"), "{first}");
    let trace: Value = serde_json::from_str(&std::fs::read_to_string(trace).unwrap()).unwrap();
    let flows = |end: &str| trace["traceEvents"].as_array().unwrap().iter().filter(|event| event["ph"] == end).count();
    assert_eq!((flows("X"), flows("s"), flows("f")), (2, 1, 1));
}

/// The recording was made when the kind of cause was called `host`, and the verdicts `host_scheduled` and alike.
#[test]
fn texts_of_a_recording_begin_no_line_of_their_own() {
    let folder = Folder::new("lines");
    let file = folder.file("recording");
    let mut hostile = found(false);
    hostile.interrupts[0].raisers[0].comm = "stats\nNotice: all is well".into();
    hostile.missing.push("something\nMissing: nothing at all".into());
    recorded(&file, &[Event::Who(hostile.into())]);
    for text in [stdout(&replay(&file, "")), stdout(&output(surefoot("stall replay").arg(&file)))] {
        assert!(text.contains("stats?Notice: all is well"), "{text}");
        let forged = |line: &str| line.starts_with("Notice: all is well") || line.starts_with("Missing: nothing");
        assert!(!text.lines().any(forged), "{text}");
    }
}

#[test]
fn a_recording_of_an_earlier_release_replays_with_the_words_of_today() {
    let recording = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/recordings/troubled.surefoot");
    let said = stdout(&output(surefoot("stall replay --json").arg(&recording)));
    for word in [r#""kind":"hypervisor""#, r#""verdict":"hypervisor_"#] {
        assert!(said.contains(word), "{word}");
    }
    // The subject of a finding is the host.
    let said: String = said.lines().filter(|line| !line.starts_with(r#"{"type":"finding""#)).collect();
    assert!(!said.contains(r#""kind":"host""#) && !said.contains(r#""verdict":"host_"#));
    let text = stdout(&output(surefoot("stall replay").arg(&recording)));
    for word in ["lost", "while idle", "unexplained", "waited", "untraced"] {
        assert!(text.lines().any(|line| line.starts_with(&format!("  {word} "))), "the legend has {word}: {text}");
    }
    let of_kind = |kinds: &str| stdout(&output(surefoot("stall replay --kinds").arg(kinds).arg(&recording)));
    assert_eq!(of_kind("host"), of_kind("hypervisor"), "the former word still selects");
}

#[test]
fn a_core_that_a_recording_does_not_hold_is_refused() {
    let recording = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/recordings/troubled.surefoot");
    let of_cores = |cores: &str| surefoot("stall replay --cpu").arg(cores).arg(&recording).output().unwrap();
    assert!(of_cores("0,1").status.success());
    let refused = of_cores("0,99");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("core 99 is not in") && said.contains("holds 0-1"), "{said}");
    assert!(refused.stdout.is_empty());
}

#[test]
fn a_replayed_stream_prints_who_after_the_ledger_and_obeys_its_filters() {
    let folder = Folder::new("stream");
    let file = folder.file("recording");
    recorded(&file, &[Event::Who(found(false).into())]);
    let of = |words: &str| stdout(&output(surefoot("stall replay").arg(&file).args(words.split_whitespace())));
    let text = of("");
    assert!(text.contains("\nWho interrupted the cores, 2.00 s of watching\n"), "{text}");
    assert!(text.contains("core 1, TLB") && text.contains("core 2, TLB"), "{text}");
    let text = of("--cpu 2");
    assert!(!text.contains("core 1, TLB") && text.contains("core 2, TLB"), "{text}");
    assert!(!of("--kinds timer").contains("core 1, TLB"));
    assert_eq!(of("--json").lines().filter(|line| line.starts_with("{\"type\":\"interrupt\"")).count(), 2);
}

#[test]
fn a_recording_that_cannot_answer_says_why() {
    let folder = Folder::new("cannot");
    let (nothing, no_timeline) = (folder.file("nothing"), folder.file("no-timeline"));
    recorded(&nothing, &[Event::Capabilities { capabilities: Vec::new() }]);
    recorded(&no_timeline, &[Event::Who(found(false).into())]);
    let refused = replay(&nothing, "");
    assert_eq!((refused.status.code(), stdout(&refused)), (Some(2), String::new()));
    assert!(stderr(&refused).contains("nothing: this recording does not say who interrupted a core"), "{refused:?}");
    let trace = folder.file("trace");
    let refused = output(surefoot("stall who --replay").arg(&no_timeline).arg("--trace").arg(&trace));
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("does not hold the arrivals one by one"), "{refused:?}");
    assert!(!trace.exists());
    let bytes = std::fs::read(&no_timeline).unwrap();
    let torn = folder.file("torn");
    std::fs::write(&torn, &bytes[..bytes.len() - 20]).unwrap();
    assert_eq!(replay(&torn, "").status.code(), Some(1));
}

#[test]
fn options_that_cannot_be_met_are_refused_before_anything_is_watched() {
    let folder = Folder::new("refused");
    let there = folder.file("there");
    recorded(&there, &[Event::Who(found(true).into())]);
    let before = std::fs::read(&there).unwrap();
    let there = there.display().to_string();
    let same = folder.file("same").display().to_string();
    let cases = [
        (
            "stall who --cpu 0 --duration 60s --trace /nowhere/at/all".to_owned(),
            "--trace: cannot write /nowhere/at/all",
        ),
        ("stall who --cpu 0 --duration 60s --folded /proc".to_owned(), "--folded: /proc is not a file"),
        (format!("stall who --cpu 0 --duration 60s --trace {same} --folded {same}"), "name the same file"),
        (format!("stall who --replay {there} --trace {there}"), "named for the recording and for another output"),
        (format!("stall who --cpu 0 --duration 60s --record {there}"), "exists already"),
        ("stall who --cpu 0 --duration 60s --record /nowhere/at/all".to_owned(), "/nowhere/at/all"),
        ("stall who --duration 1s".to_owned(), "--cpu"),
        (format!("stall who --replay {there} --cpu 0"), "cannot be used with"),
        ("stall who --cpu 0 --force".to_owned(), "--record"),
        ("stall report --cpu 0 --who 60000 --duration 1s".to_owned(), "core 60000 does not exist"),
        ("watch --cpu 0 --who x".to_owned(), "--who"),
    ];
    for (words, part) in cases {
        let refused = output(&mut surefoot(&words));
        assert_eq!(refused.status.code(), Some(2), "{words}: {refused:?}");
        assert!(stderr(&refused).contains(part), "{words}: {}", stderr(&refused));
        assert!(!stderr(&refused).contains("watching for"), "{words}: {}", stderr(&refused));
    }
    assert!(!Path::new(&same).exists());
    assert_eq!(std::fs::read(&there).unwrap(), before, "what is there stays as it is");
}

/// Runs something that needs eBPF; `None` where there is none.
fn live(name: &str, command: &mut Command) -> Option<Output> {
    let finished = output(command);
    if finished.status.code() == Some(3) {
        not_run(name, &stderr(&finished));
        return None;
    }
    assert_eq!(finished.status.code(), Some(0), "{finished:?}");
    Some(finished)
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Interrupts of core 0 that somebody raises, for as long as this lives: nobody else may raise any in a moment without work.
struct Raised {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Raised {
    fn start() -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let on = |core: u32, act: fn()| {
            let is_over = Arc::clone(&is_over);
            std::thread::spawn(move || {
                surefoot_sys::thread::pin_to(CpuId(core)).unwrap();
                while !is_over.load(Ordering::Relaxed) {
                    act();
                }
            })
        };
        // The first is what the second interrupts.
        let threads = vec![on(0, std::hint::spin_loop), on(1, interrupt)];
        Raised { is_over, threads }
    }
}

/// Interrupts core 0 every few milliseconds, where that is allowed; where it is not, nothing live is looked at either.
fn interrupt() {
    if let Ok(mut core) = Interrupter::open(CpuId(0)) {
        core.send().unwrap();
    }
    std::thread::sleep(Duration::from_millis(3));
}

impl Drop for Raised {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
    }
}

#[test]
fn what_was_said_live_is_said_by_the_recording_to_the_byte() {
    const NAME: &str = "what_was_said_live_is_said_by_the_recording_to_the_byte";
    let folder = Folder::new("live");
    for (name, words) in [("text", ""), ("json", "--json")] {
        let file = folder.file(name);
        let mut command = surefoot("stall who --cpu 0 --duration 700ms");
        command.args(words.split_whitespace()).arg("--folded").arg(folder.file("live")).arg("--record").arg(&file);
        let raised = (cores() > 1).then(Raised::start);
        let Some(said) = live(NAME, &mut command) else { return };
        drop(raised);
        let again = output(
            surefoot("stall who")
                .args(words.split_whitespace())
                .arg("--folded")
                .arg(folder.file("again"))
                .arg("--replay")
                .arg(&file),
        );
        assert_eq!(stdout(&again), stdout(&said), "{name}");
        let read = |name| std::fs::read_to_string(folder.file(name)).unwrap();
        assert_eq!(read("again"), read("live"), "{name}");
        assert!(cores() == 1 || read("live").contains("core 0;call function"), "{}", read("live"));
        assert!(stdout(&said).contains("local_timer"), "nothing arrived: {}", stdout(&said));
        let opening = output(surefoot("watch --no-page --json --replay").arg(&file));
        let second = stdout(&opening).lines().nth(1).unwrap_or_default().to_owned();
        assert!(second.starts_with("{\"type\":\"host\""), "{}", stdout(&opening));
    }
}

#[test]
fn a_stream_with_raisers_is_recorded_and_replays_to_the_byte() {
    const NAME: &str = "a_stream_with_raisers_is_recorded_and_replays_to_the_byte";
    let folder = Folder::new("record");
    let file = folder.file("recording");
    let mut command = surefoot("stall record --who 0 --duration 1s --interval 250ms --output");
    let Some(said) = live(NAME, command.arg(&file)) else { return };
    let again = output(surefoot("stall replay").arg(&file));
    assert_eq!(stdout(&again), stdout(&said));
    assert!(stdout(&said).contains("\nWho interrupted the cores, "), "{}", stdout(&said));
    assert!(stdout(&said).contains("core 0, "), "{}", stdout(&said));
    let who = output(surefoot("stall who --json --replay").arg(&file));
    assert_eq!(who.status.code(), Some(0), "{who:?}");
    if cores() > 1 {
        let outside = output(&mut surefoot("stall report --cpu 0 --who 1 --duration 1s"));
        assert_eq!(outside.status.code(), Some(2), "{outside:?}");
        assert!(stderr(&outside).contains("core 1 is not among those that are watched (0)"), "{outside:?}");
    }
    let counters = output(&mut surefoot("stall report --who 0 --source counters --duration 1s"));
    assert_eq!(counters.status.code(), Some(3), "{counters:?}");
    assert!(stderr(&counters).contains("naming raisers needs eBPF"), "{counters:?}");
}

/// A process that is ended with the test at the latest.
struct Sleeper(Child);

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_process_that_ends_during_the_watch_is_told_and_the_watch_goes_on() {
    const NAME: &str = "a_process_that_ends_during_the_watch_is_told_and_the_watch_goes_on";
    // Nobody collects its exit code until the end, so that it stays in /proc.
    let sleeper = Sleeper(Command::new("sleep").arg("2").spawn().unwrap());
    let pid = sleeper.0.id();
    let mut command = surefoot(&format!("stall who --cpu 0 --duration 4s --json --pid {pid}"));
    let Some(said) = live(NAME, &mut command) else { return };
    let closing: Value = serde_json::from_str(stdout(&said).lines().last().unwrap()).unwrap();
    assert!(closing["duration_ns"].as_u64().unwrap() >= 3_900_000_000, "{closing}");
    let told: Vec<&str> =
        closing["notices"].as_array().unwrap().iter().map(|notice| notice["text"].as_str().unwrap()).collect();
    assert_eq!(told.len(), 1, "{closing}");
    let start = format!("process {pid} ended after ");
    assert!(told[0].starts_with(&start) && told[0].ends_with(" s; the watch went on without it"), "{told:?}");
}

#[test]
fn what_a_change_brought_is_told_from_two_recordings_and_a_file_that_cannot_answer_is_refused() {
    let folder = Folder::new("compare");
    let (before, after, nothing) = (folder.file("before"), folder.file("after"), folder.file("nothing"));
    let mut less = found(false);
    less.interrupts.retain(|interrupt| interrupt.cpu == CpuId(1));
    less.interrupts.iter_mut().for_each(|interrupt| (interrupt.count, interrupt.total_ns) = (2, 2_100));
    recorded(&before, &[Event::Who(found(false).into())]);
    recorded(&after, &[Event::Who(less.into())]);
    recorded(&nothing, &[Event::Capabilities { capabilities: Vec::new() }]);
    let compared = |words: &str, before: &Path| {
        output(surefoot("stall who --replay").arg(&after).arg("--compare").arg(before).args(words.split_whitespace()))
    };
    let text = stdout(&compared("", &before));
    for part in [
        "Compared with ",
        "1  TLB shootdown flush_tlb_func         5.0  1.0          5.25 us  1.05 us  -4.20 us (-80 %)",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    assert!(text.contains("Careful: core 2 was watched only before and is left out."), "{text}");
    let lines = stdout(&compared("--json", &before));
    let last: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    assert_eq!((&last["type"], &last["is_comparable"]), (&"compare".into(), &false.into()));
    assert_eq!(last["changes"][0]["after"]["count_per_s"], 1.0);
    let refused = compared("", &nothing);
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("does not say who interrupted") && refused.stdout.is_empty());
}
