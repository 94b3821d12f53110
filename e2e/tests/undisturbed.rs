//! In the steady state no command disturbs a busy core: neither by what it does itself nor by what it leaves to RCU.

use crate::cost::RESIDENT_MAX;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use surefoot_e2e::actor::{self, Actor, OPENS, POLLING_LOOP};
use surefoot_e2e::command::{PATIENCE, Running, Surefoot, surefoot};
use surefoot_e2e::machine::{Need, interrupts, rise, softirqs, turn};
use surefoot_e2e::watched::{Watch, watch};
use surefoot_hostfs::interrupts::Interrupts;
use surefoot_model::{CpuId, Event};
use surefoot_sys::thread;
use surefoot_testkit::not_run::not_run;

/// Each command, and the files that it may open a second: those of processes that it has not seen before, the file that tells of its
/// health, and a dozen of each network interface every 10 s. Before descriptors were kept it was 22 a second, and 1,500 with a
/// thread that notes its gaps.
const COMMANDS: [(&str, u64); 4] = [
    ("stall report --cpus 1 --duration 60s --json", 10),
    ("stall who --cpu 1 --duration 60s --anew --no-stacks --json", OF_WHO),
    ("watch --no-page --json --cpus 1", 15),
    ("watch --no-page --json --cpus 1 --who 1", OF_WHO),
];

/// Of a command that looks at each process that starts.
const OF_WHO: u64 = 300;

/// How long a command takes to look round once its programs are loaded.
const STEADY: Duration = Duration::from_millis(1500);

/// A command that has loaded no program for so long has loaded them all.
const SETTLED: Duration = Duration::from_millis(700);

/// Programs of the ledger, at least.
const PROGRAMS: usize = 15;

/// A window, and how many are taken at a time.
const WINDOW: Duration = Duration::from_millis(500);
const WINDOWS: usize = 2;

/// Rounds over all commands.
const ROUNDS: usize = 2;

/// Rows of the kernel's tables, and by how much a quiet window (what a command does itself is in every one, what others do is
/// not) may lie over three quarters of the windows without a command.
/// The RCU softirq that ran at every tick made more than 100.
const ROWS: [(&str, u64); 5] = [("RCU", 30), ("CAL", 20), ("RES", 30), ("IWI", 5), ("TLB", 20)];

/// What core 1 does.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Core {
    Idles,
    Spins,
    /// Spins in a thread that notes its own gaps.
    NotesGaps,
}

impl Core {
    /// Keeps it busy, for as long as the actor lives.
    fn begin(self) -> Option<Actor> {
        match self {
            Core::Idles => None,
            Core::Spins => Some(actor::start("spinner", "spin 1 600000")),
            Core::NotesGaps => Some(POLLING_LOOP.start("1000000 200000 1 0 10000 0")),
        }
    }

    /// Rounds over all commands: an idle core is not what its user watches most.
    fn rounds(self) -> usize {
        if self == Core::Idles { 1 } else { ROUNDS }
    }
}

/// Starts a command and waits until it has attached and looked round.
fn steady(command: Surefoot) -> Running {
    let mut running = command.start();
    wait_for_programs(&mut running);
    std::thread::sleep(STEADY - SETTLED);
    running
}

/// Waits until it holds all programs of the ledger at least, and takes no more.
pub(crate) fn wait_for_programs(running: &mut Running) {
    let deadline = Instant::now() + PATIENCE;
    let mut held = 0;
    loop {
        let before = held;
        held = programs_of(running.pid());
        if held >= PROGRAMS && held == before {
            return;
        }
        assert!(Instant::now() < deadline && running.is_running(), "it does not begin: {}", running.stderr());
        std::thread::sleep(SETTLED);
    }
}

/// eBPF programs that a process holds.
fn programs_of(pid: u32) -> usize {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fdinfo")).into_iter().flatten().flatten();
    let is_program = |entry: &std::fs::DirEntry| {
        std::fs::read_to_string(entry.path())
            .is_ok_and(|text| text.contains("prog_id:") && text.contains("prog_jited:"))
    };
    entries.filter(is_program).count()
}

/// What rose on core 1 in some windows, by row.
fn windows() -> Vec<Vec<u64>> {
    let mut found = vec![Vec::new(); ROWS.len()];
    for _ in 0..WINDOWS {
        let before = (softirqs(), interrupts());
        std::thread::sleep(WINDOW);
        let after = (softirqs(), interrupts());
        for ((row, _), counts) in ROWS.iter().zip(&mut found) {
            counts.push(rise(&before.0, &after.0, row, 1).max(rise(&before.1, &after.1, row, 1)));
        }
    }
    found
}

fn add(to: &mut [Vec<u64>], more: Vec<Vec<u64>>) {
    to.iter_mut().zip(more).for_each(|(to, more)| to.extend(more));
}

/// The count that this many quarters of the windows do not exceed.
fn quarters(counts: &[u64], number: usize) -> u64 {
    let mut sorted = counts.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() * number / 4]
}

/// The most interrupts that one line of the output says Surefoot raised itself.
fn own_interrupts(lines: &[Value]) -> u64 {
    let of = |line: &Value| line["cost"]["self_interrupts"].as_u64().unwrap_or(0);
    lines.iter().map(of).max().unwrap_or(0)
}

/// Calls a second after which the kernel frees something through RCU, or changes a map of memory.
fn calls(counted: &Value) -> u64 {
    let is_call = |name: &str| !["milliseconds", "close", "starts"].contains(&name);
    let per_name = counted.as_object().unwrap().iter().filter(|(name, _)| is_call(name));
    let count: u64 = per_name.map(|(_, count)| count.as_u64().unwrap()).sum();
    (count * 1000).div_ceil(counted["milliseconds"].as_u64().unwrap())
}

/// How many calls a second are not too many: who names raisers looks at each process that starts, in up to ten calls.
fn allowed(counted: &Value, per_second: u64) -> u64 {
    let number = |name: &str| counted[name].as_u64().unwrap();
    let of_starts = if per_second == OF_WHO { 10 * number("starts") } else { 0 };
    per_second + of_starts * 1000 / number("milliseconds")
}

/// What a process calls in a second; in ten where a look that it makes every 10 s fell into that one. With the processes and threads that
/// started on this machine meanwhile.
fn counted(pid: u32, per_second: u64) -> Value {
    let starts = || -> u64 {
        let stat = std::fs::read_to_string("/proc/stat").unwrap();
        stat.lines().find_map(|line| line.strip_prefix("processes ")).unwrap().trim().parse().unwrap()
    };
    let count = |milliseconds: u32| {
        let before = starts();
        let mut counted = OPENS.start(&format!("{pid} {milliseconds}")).finish();
        counted["starts"] = (starts() - before).into();
        counted
    };
    let in_short = count(1000);
    if calls(&in_short) <= allowed(&in_short, per_second) { in_short } else { count(10_000) }
}

/// What one state of core 1 came to, attaching and detaching left out.
struct Measured {
    core: Core,
    ticks_per_window: u64,
    /// What rose in the windows without a command, by row.
    without: Vec<Vec<u64>>,
    with: Vec<With>,
}

/// What a command came to.
#[derive(Default)]
struct With {
    rose: Vec<Vec<u64>>,
    own_interrupts: u64,
    /// Calls of the command itself in a second.
    calls: Vec<Value>,
}

/// The commands run once for both tests that ask.
fn measured() -> &'static [Measured] {
    static ALL: OnceLock<Vec<Measured>> = OnceLock::new();
    ALL.get_or_init(|| {
        actor::prepare();
        POLLING_LOOP.path();
        OPENS.path();
        [Core::Spins, Core::NotesGaps, Core::Idles].map(measure).into()
    })
}

fn measure(core: Core) -> Measured {
    let _busy = core.begin();
    std::thread::sleep(Duration::from_millis(500));
    let before = interrupts();
    std::thread::sleep(WINDOW);
    let ticks_per_window = rise(&before, &interrupts(), "LOC", 1);
    let mut without = windows();
    let mut with = COMMANDS.map(|_| With { rose: vec![Vec::new(); ROWS.len()], ..With::default() });
    for round in 0..core.rounds() {
        for (with, (command, per_second)) in with.iter_mut().zip(COMMANDS) {
            let running = steady(surefoot(command));
            add(&mut with.rose, windows());
            let is_traced = round == 0 && core != Core::Idles;
            if is_traced {
                with.calls.push(counted(running.pid(), per_second));
            }
            running.ask_to_end();
            let finished = running.finish();
            finished.expect_code(0);
            // Whoever traces it makes it slower, and may make it do more.
            if !is_traced {
                with.own_interrupts = with.own_interrupts.max(own_interrupts(&finished.json()));
            }
            // What detaching leaves behind is over.
            std::thread::sleep(WINDOW);
            add(&mut without, windows());
        }
    }
    Measured { core, ticks_per_window, without, with: with.into() }
}

/// Needs no quiet machine: what is counted is what the command itself does.
#[test]
fn in_the_steady_state_no_file_is_opened_and_no_memory_mapped_at_a_rate() {
    const NAME: &str = "in_the_steady_state_no_file_is_opened_and_no_memory_mapped_at_a_rate";
    let Some(_turn) = turn(NAME, Need::Ebpf) else { return };
    let mut looked_at = 0;
    for Measured { core, with, .. } in measured() {
        for (with, (command, per_second)) in with.iter().zip(COMMANDS) {
            for counted in &with.calls {
                eprintln!("{command}, core 1 {core:?}: {counted}");
                assert!(calls(counted) <= allowed(counted, per_second), "{command} (core 1 {core:?}): {counted}");
                looked_at += 1;
            }
        }
    }
    assert_eq!(looked_at, 2 * COMMANDS.len());
}

/// Interrupts of a core with and without each command, in turns.
#[test]
fn a_core_is_interrupted_as_often_with_a_command_as_without() {
    const NAME: &str = "a_core_is_interrupted_as_often_with_a_command_as_without";
    let Some(_turn) = turn(NAME, Need::Ebpf) else { return };
    let mut too_busy = Vec::new();
    for Measured { core, ticks_per_window, without, with } in measured() {
        for (row, (name, more)) in ROWS.iter().enumerate() {
            let most = quarters(&without[row], 3);
            // An idle core stops its tick, so that nothing keeps its RCU from running at each that is left.
            if *name == "RCU" && *core != Core::Idles && most + more > ticks_per_window * 9 / 10 {
                too_busy.push(format!("RCU at {most} of {ticks_per_window} ticks without a command"));
                continue;
            }
            for (with, (command, _)) in with.iter().zip(COMMANDS) {
                let (found, own) = (quarters(&with.rose[row], 1), with.own_interrupts);
                eprintln!(
                    "{name}, {command}: {found}; without {} ({most} in three of four)",
                    quarters(&without[row], 2)
                );
                // What one window had without a command, too, is none of the command's; a machine with such windows says little, and so
                // does one whose windows differ by more than what is looked for.
                let ever = without[row].iter().copied().max().unwrap_or(0);
                let is_restless = most - quarters(&without[row], 1) > *more;
                if found > most + more + own && (found <= ever || is_restless) {
                    too_busy.push(format!("{name} at up to {ever} in {WINDOW:?} without a command"));
                    continue;
                }
                assert!(
                    found <= most + more + own,
                    "{name} in {WINDOW:?} with {command} (core 1 {core:?}): {:?}, {own} by its own cost; \
                     without {:?}",
                    with.rose[row],
                    without[row]
                );
            }
        }
    }
    if !too_busy.is_empty() {
        not_run(NAME, &format!("the machine is too busy to tell all: {}", too_busy.join("; ")));
    }
}

#[test]
fn a_watched_core_is_hardly_interrupted_by_the_watching() {
    let Some(_turn) = turn("a_watched_core_is_hardly_interrupted_by_the_watching", Need::Ebpf) else { return };
    // A reader that slept on the watched core would be woken there by each line that the watch writes.
    let reader = std::thread::spawn(|| {
        thread::pin_to(CpuId(0)).unwrap();
        let mut watch = watch("--cpu 1");
        std::thread::sleep(Duration::from_secs(3));
        watch.catch_up();
        watch.stop()
    });
    let seen = reader.join().unwrap();
    let cost = &seen.report.cost;
    // Reading /proc and the maps interrupts no watched core; the kernel may have work of its own done there for what a window
    // ends with. A reading by an interrupt for each program would count twenty times as many.
    // Attaching does as much, is told beforehand, and may reach into the first window.
    let windows = seen.events.iter().filter_map(|event| match event {
        Event::Window(window) => Some(window.cost.self_interrupts),
        _ => None,
    });
    let later: Vec<u64> = windows.skip(1).collect();
    let count: u64 = later.iter().sum();
    assert!(later.len() >= 3 && count <= 3 * later.len() as u64, "self-inflicted interrupts: {later:?}");
    assert!(cost.resident_bytes > 0 && cost.resident_bytes < RESIDENT_MAX, "{} bytes", cost.resident_bytes);
    assert!(cost.map_bytes > 0 && cost.map_bytes < 50 << 20, "{} bytes of maps", cost.map_bytes);
    assert!(cost.process_cpu_ns > 0);
    assert!(cost.probes.iter().any(|probe| probe.name.contains("sched_switch") && probe.count > 0), "{cost:?}");
    let spent_ns: u64 = cost.probes_ns();
    assert!(spent_ns > 0 && spent_ns < (seen.report.end_ns - seen.report.start_ns) / 10, "{spent_ns} ns in programs");
}

/// How often the threads of a process have gone to sleep so far, by thread; each time somebody had to wake them. Being
/// preempted does not count.
fn sleeps(pid: u32) -> BTreeMap<String, u64> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let of_task = |task: std::fs::DirEntry| {
        let status = std::fs::read_to_string(task.path().join("status")).ok()?;
        let value = |name: &str| Some(status.lines().find_map(|line| line.strip_prefix(name))?.trim().to_owned());
        Some((value("Name:")?, value("voluntary_ctxt_switches:")?.parse::<u64>().ok()?))
    };
    let mut sleeps = BTreeMap::new();
    tasks.filter_map(of_task).for_each(|(name, count)| *sleeps.entry(name).or_default() += count);
    sleeps
}

/// Wake-ups a second of each thread in the steady state, and what is the most that core 1 can have written on its tape
/// meanwhile, a second.
fn wake_ups(pid: u32, seconds: f64) -> (BTreeMap<String, f64>, f64) {
    let all =
        |counts: &Interrupts| counts.rows.iter().filter_map(|row| counts.count(&row.label, CpuId(1))).sum::<u64>();
    let switches = || {
        let stat = std::fs::read_to_string("/proc/stat").unwrap();
        let line = stat.lines().find_map(|line| line.strip_prefix("ctxt ")).unwrap().trim().to_owned();
        line.parse::<u64>().unwrap()
    };
    let events = || 2 * (all(&interrupts()) + all(&softirqs())) + switches();
    let (began, before, earlier) = (Instant::now(), sleeps(pid), events());
    std::thread::sleep(Duration::from_secs_f64(seconds));
    let (after, later) = (sleeps(pid), events());
    let seconds = began.elapsed().as_secs_f64();
    let per_second = |(name, count): (String, u64)| {
        let rise = count.saturating_sub(before.get(&name).copied().unwrap_or(0));
        (name, rise as f64 / seconds)
    };
    (after.into_iter().map(per_second).collect(), (later - earlier) as f64 / seconds)
}

/// Each wake-up may find its core idle, and a tick that finds the thread may interrupt another core that is. So the thread
/// that reads sleeps for as long as the rings hold what comes, and the others wake for what it hands on alone. Both are
/// driven by time and by what comes, and not by how busy the machine is.
#[test]
fn threads_wake_no_more_often_than_what_comes_asks_for() {
    const NAME: &str = "threads_wake_no_more_often_than_what_comes_asks_for";
    const SECONDS: f64 = 4.0;
    /// Looks a second while nothing comes: ten, and one right after the end of each window.
    const LOOKS: f64 = 11.0;
    /// Turns that may come between two looks: an 8,192nd part of 64 times as many.
    const TURNS: f64 = 128.0;
    /// The thread that prints wakes for each window, and once more where the pipe or a lock let it wait.
    const PRINTS: f64 = 3.5;
    let Some(_turn) = turn(NAME, Need::Ebpf) else { return };
    let mut too_busy = Vec::new();
    for (command, reader) in [
        ("watch --no-page --json --cpus 1", "surefoot-stall"),
        // Without stacks, which come in bursts of bytes that bring looks closer.
        ("stall who --cpu 1 --duration 60s --anew --no-stacks --json", "surefoot"),
    ] {
        // Whoever waits for a core sleeps less often than he would; going first, he sleeps as on a machine of his own.
        let running = steady(surefoot(command).going_first());
        let (wakes, events) = wake_ups(running.pid(), SECONDS);
        running.ask_to_end();
        running.finish().expect_code(0);
        eprintln!("{command}: at most {events:.0} turns a second, wake-ups {wakes:.1?}");
        if reader != "surefoot" {
            assert!(wakes["surefoot"] <= PRINTS, "{command}: {wakes:.1?}");
        }
        // What comes in bursts brings the looks that follow closer to each other.
        let most = 1.5 * (LOOKS + if command.contains("who") { events / TURNS } else { 0.0 });
        if most > 100.0 {
            too_busy.push(format!("{command}: {events:.0} turns a second"));
            continue;
        }
        assert!(wakes[reader] <= most, "{command}: {wakes:.1?} for at most {events:.0} turns a second, not {most:.1}");
    }
    if !too_busy.is_empty() {
        not_run(NAME, &format!("so much comes here that the rings must be read often: {}", too_busy.join("; ")));
    }
}

/// Attaching interrupts a busy core for each tracepoint, which whoever asks a running watch need not.
#[test]
fn a_watch_that_runs_answers_who_without_attaching_anew() {
    const NAME: &str = "a_watch_that_runs_answers_who_without_attaching_anew";
    const ROUNDS: usize = 3;
    let Some(_turn) = turn(NAME, Need::Ebpf) else { return };
    actor::prepare();
    let _busy = Core::Spins.begin();
    let folder = tempfile::tempdir().unwrap();
    let watch = surefoot("watch --json --port 0 --no-history --cpu 0-1 --who 1 --interval 200ms --run-directory");
    let mut watch = Watch::over(watch.arg(folder.path()).start());
    watch.until(|event| matches!(event, Event::Who(_)));
    let ask = |words: &str| {
        let asked = surefoot("stall who --json").words(words);
        let asked = if words.is_empty() { asked.arg("--run-directory").arg(folder.path()) } else { asked };
        let before = interrupts();
        let finished = asked.words("--cpu 1").run();
        let after = interrupts();
        let of = |row| rise(&before, &after, row, 1);
        let sent = of("CAL").saturating_sub(of("TLB"));
        finished.expect_code(0);
        let lines = finished.json();
        let told = lines.iter().any(|line| line.to_string().contains("has followed raisers for"));
        (sent, told)
    };
    // Others interrupt this core as well, so the quietest of some rounds counts.
    let answered: Vec<(u64, bool)> = (0..ROUNDS).map(|_| ask("")).collect();
    let anew: Vec<(u64, bool)> = (0..ROUNDS).map(|_| ask("--anew --no-stacks --duration 200ms")).collect();
    assert!(answered.iter().all(|(_, told)| *told) && anew.iter().all(|(_, told)| !told), "{answered:?} {anew:?}");
    let fewest = |rounds: &[(u64, bool)]| rounds.iter().map(|(sent, _)| *sent).min().unwrap();
    if fewest(&anew) < 100 {
        not_run(NAME, "somebody else traces the same, so that the kernel has nothing to patch");
    }
    assert!(fewest(&answered) < 20, "{answered:?}, and anew {anew:?}");
    watch.stop();
}
