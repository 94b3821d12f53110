//! In the steady state no command disturbs a busy core: neither by what it does itself nor by what it leaves to RCU.

use serde_json::Value;
use std::time::{Duration, Instant};
use surefoot_e2e::actor::{self, Actor, OPENS, POLLING_LOOP};
use surefoot_e2e::command::{Running, WAIT, surefoot};
use surefoot_e2e::machine::{Need, interrupts, rise, softirqs, turn};
use surefoot_e2e::watched::Watch;
use surefoot_model::Event;
use surefoot_testkit::not_run::not_run;

/// Each command, and the files that it may open a second: those of processes that it has not seen before, and the file that
/// tells of its health. Before descriptors were kept it was 22 a second, and 1,500 with a thread that notes its gaps.
const COMMANDS: [(&str, u64); 4] = [
    ("stall report --cpus 1 --duration 60s --json", 10),
    ("stall who --cpu 1 --duration 60s --anew --no-stacks --json", 300),
    ("watch --no-page --json --cpus 1", 10),
    ("watch --no-page --json --cpus 1 --who 1", 300),
];

/// How long a command takes to look round once its programs are loaded.
const STEADY: Duration = Duration::from_millis(1500);

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

/// A busy core 1, whose thread notes its own gaps or does not.
fn busy(notes_gaps: bool) -> Actor {
    if notes_gaps { POLLING_LOOP.start("1000000 200000 1 0 10000 0") } else { actor::start("spinner", "spin 1 600000") }
}

/// Starts a command and waits until it has attached and looked round.
fn steady(command: &str) -> Running {
    let mut running = surefoot(command).start();
    let deadline = Instant::now() + WAIT;
    while programs_of(running.pid()) < PROGRAMS {
        assert!(Instant::now() < deadline && running.is_running(), "it does not begin: {}", running.stderr());
        std::thread::sleep(Duration::from_millis(50));
    }
    std::thread::sleep(STEADY);
    running
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

/// Names of the kernel's calls after which it frees something through RCU, or changes a map of memory.
fn calls(counted: &Value) -> u64 {
    let per_name = counted.as_object().unwrap().iter().filter(|(name, _)| *name != "milliseconds" && *name != "close");
    per_name.map(|(_, count)| count.as_u64().unwrap()).sum()
}

/// Needs no quiet machine: what is counted is what the command itself does.
#[test]
fn in_the_steady_state_no_file_is_opened_and_no_memory_mapped_at_a_rate() {
    const NAME: &str = "in_the_steady_state_no_file_is_opened_and_no_memory_mapped_at_a_rate";
    const SECONDS: u64 = 1;
    let Some(_turn) = turn(NAME, Need::Ebpf) else { return };
    actor::prepare();
    POLLING_LOOP.path();
    OPENS.path();
    for notes_gaps in [false, true] {
        let _busy = busy(notes_gaps);
        for (command, per_second) in COMMANDS {
            let running = steady(command);
            let counted = OPENS.start(&format!("{} {}", running.pid(), SECONDS * 1000)).finish();
            running.ask_to_end();
            running.finish().expect_code(0);
            eprintln!("{command}, a thread notes gaps: {notes_gaps}: {counted}");
            assert!(calls(&counted) <= per_second * SECONDS, "{command} (gaps noted: {notes_gaps}): {counted}");
        }
    }
}

/// Interrupts of a busy core with and without each command, in turns, attaching and detaching left out.
#[test]
fn a_busy_core_is_interrupted_as_often_with_a_command_as_without() {
    const NAME: &str = "a_busy_core_is_interrupted_as_often_with_a_command_as_without";
    let Some(_turn) = turn(NAME, Need::Ebpf) else { return };
    actor::prepare();
    POLLING_LOOP.path();
    let mut too_busy = Vec::new();
    for notes_gaps in [false, true] {
        let _busy = busy(notes_gaps);
        std::thread::sleep(Duration::from_millis(500));
        let before = interrupts();
        std::thread::sleep(WINDOW);
        let ticks_per_window = rise(&before, &interrupts(), "LOC", 1);
        let mut without = windows();
        let mut with = vec![vec![Vec::new(); ROWS.len()]; COMMANDS.len()];
        let mut own = [0; COMMANDS.len()];
        for _ in 0..ROUNDS {
            for (number, (command, _)) in COMMANDS.iter().enumerate() {
                let running = steady(command);
                add(&mut with[number], windows());
                running.ask_to_end();
                let finished = running.finish();
                finished.expect_code(0);
                own[number] = own[number].max(own_interrupts(&finished.json()));
                // What detaching leaves behind is over.
                std::thread::sleep(WINDOW);
                add(&mut without, windows());
            }
        }
        for (row, (name, more)) in ROWS.iter().enumerate() {
            let most = quarters(&without[row], 3);
            if *name == "RCU" && most + more > ticks_per_window * 9 / 10 {
                too_busy.push(format!("RCU at {most} of {ticks_per_window} ticks without a command"));
                continue;
            }
            for (number, (command, _)) in COMMANDS.iter().enumerate() {
                let (found, own) = (quarters(&with[number][row], 1), own[number]);
                eprintln!(
                    "{name}, {command}: {found}; without {} ({most} in three of four)",
                    quarters(&without[row], 2)
                );
                assert!(
                    found <= most + more + own,
                    "{name} in {WINDOW:?} with {command} (gaps noted: {notes_gaps}): {:?}, {own} by its own cost; \
                     without {:?}",
                    with[number][row],
                    without[row]
                );
            }
        }
    }
    if !too_busy.is_empty() {
        not_run(NAME, &format!("the machine is too busy to tell of RCU: {}", too_busy.join("; ")));
    }
}

/// Attaching interrupts a busy core for each tracepoint, which whoever asks a running watch need not.
#[test]
fn a_watch_that_runs_answers_who_without_attaching_anew() {
    const NAME: &str = "a_watch_that_runs_answers_who_without_attaching_anew";
    const ROUNDS: usize = 3;
    let Some(_turn) = turn(NAME, Need::Ebpf) else { return };
    actor::prepare();
    let _busy = busy(false);
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
