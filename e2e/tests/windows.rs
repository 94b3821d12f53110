//! Whatever happens to the machine and to Surefoot itself, what each window says can be true.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use surefoot_e2e::actor;
use surefoot_e2e::command::{Finished, Running, surefoot};
use surefoot_e2e::machine::{Need, signal, turn};
use surefoot_e2e::report::{number, of_type};
use surefoot_model::{Event, Window};

/// Timers that are due all the time.
const SLEEPERS: u64 = 40;

/// Says so when it is dropped, also by a panic: the threads of a scope are waited for.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs with tasks that end at once, threads that change their names, timers, load on all cores, and now and then a process
/// that is stopped for longer than a window.
///
/// Ends it once it has closed so many windows.
fn churn(mut running: Running, windows: usize) -> Finished {
    let over = AtomicBool::new(false);
    let is_over = || over.load(Ordering::Relaxed);
    std::thread::scope(|scope| {
        let _over = Over(&over);
        scope.spawn(|| {
            while !is_over() {
                std::process::Command::new("true").status().unwrap();
            }
        });
        scope.spawn(|| {
            for number in 0u64.. {
                if is_over() {
                    break;
                }
                // Writing there is what prctl(PR_SET_NAME) does.
                std::fs::write("/proc/thread-self/comm", format!("renamed-{}", number % 7)).unwrap();
                (0..20_000).for_each(|_| std::hint::spin_loop());
                std::thread::sleep(Duration::from_micros(300));
            }
        });
        for sleeper in 0..SLEEPERS {
            let is_over = &is_over;
            scope.spawn(move || {
                while !is_over() {
                    std::thread::sleep(Duration::from_micros(500 + 37 * sleeper));
                }
            });
        }
        let pid = running.pid();
        scope.spawn(move || {
            let mut lengths_ms = [5, 90, 30, 210, 60].into_iter().cycle();
            while !is_over() {
                std::thread::sleep(Duration::from_millis(150));
                signal(pid, "STOP");
                std::thread::sleep(Duration::from_millis(lengths_ms.next().unwrap()));
                signal(pid, "CONT");
            }
        });
        (0..windows).for_each(|_| drop(running.line_where(is_window)));
    });
    running.ask_to_end();
    running.finish()
}

fn is_window(line: &str) -> bool {
    line.contains(r#""type":"window""#)
}

fn can_be_true(window: &Window, options: &str) {
    assert_eq!((window.faulty.len(), window.cost.capped_rows), (0, 0), "{options}: {window:#?}");
    let length_ns = window.length_ns();
    for core in &window.cores {
        assert_eq!(core.fault(), None, "{options}: {core:#?}");
        assert!(core.wall_ns > 0, "{options}: {core:?}");
        assert!(core.wall_ns <= length_ns, "{options}: {} ns in a window of {length_ns} ns", core.wall_ns);
        assert!(core.lost_ns() <= core.wall_ns && core.busy_ns() <= core.wall_ns, "{options}: {core:#?}");
        for lost in &core.lost {
            let mut capped = lost.clone();
            assert!(!capped.cap(), "{options}: a single one is longer than the total: {lost:#?}");
            let quantile = |share| lost.quantile_ns(share).unwrap_or(0);
            assert!(quantile(0.5) <= quantile(0.99) && quantile(0.99) <= lost.max_ns, "{options}: {lost:#?}");
            assert!(lost.histogram.count() <= lost.count, "{options}: {lost:#?}");
        }
    }
}

/// Some sixty windows of each source, the first and the last included.
#[test]
fn what_each_window_says_can_be_true() {
    const WINDOWS: usize = 60;
    let Some(_turn) = turn("what_each_window_says_can_be_true", Need::Ebpf) else { return };
    actor::prepare();
    let _spinner = actor::start("spinner", "spin 1 120000");
    let _napper = actor::start("napper", "nap 0 120000");
    let mut count = 0;
    for options in ["", "--cpu 1", "--comm spinner", "--workload none --source plain", "--source counters"] {
        let mut running = surefoot("watch --json --no-page --no-history --interval 100ms").words(options).start();
        // A signal breaks off the kernel's check of a program: libbpf tries again a few times, and then gives up.
        running.line_where(is_window);
        let finished = churn(running, WINDOWS);
        finished.expect_code(0);
        let lines = finished.stdout.lines().skip(1);
        let events = lines.map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}")));
        let windows: Vec<Window> =
            events.filter_map(|event| if let Event::Window(window) = event { Some(window) } else { None }).collect();
        assert!(windows.len() >= WINDOWS, "{options}: {}", windows.len());
        windows.iter().for_each(|window| can_be_true(window, options));
        for pair in windows.windows(2) {
            assert!(pair[1].start_ns <= pair[0].end_ns, "{options}: a hole between windows");
        }
        count += windows.len();
    }
    println!("{count} windows");
}

/// Stopped across its end, a probe has lost no more than all of its time.
#[test]
fn a_probe_that_is_stopped_across_its_end_lost_no_more_than_its_time() {
    let Some(_turn) = turn("a_probe_that_is_stopped_across_its_end_lost_no_more_than_its_time", Need::Ebpf) else {
        return;
    };
    for source in ["ebpf", "counters"] {
        let mut running = surefoot("stall probe --cpu 1 --duration 8s --json --source").arg(source).start();
        // The first gap says that it spins; each tick of the timer is one.
        let _ = running.line_where(|line| line.contains(r#""type":"gap""#));
        std::thread::sleep(Duration::from_millis(500));
        running.signal("STOP");
        std::thread::sleep(Duration::from_secs(9));
        running.signal("CONT");
        let finished = running.finish();
        finished.expect_code(0);
        let lines = finished.json();
        let summary = of_type(&lines, "summary")[0];
        let core = &summary["cores"][0];
        let (wall_ns, lost_ns) = (number(core, "wall_ns"), number(core, "gap_total_ns"));
        assert!(wall_ns <= number(summary, "duration_ns"), "{source}: {summary}");
        assert!(lost_ns > wall_ns / 4, "{source}: it was stopped for most of its time: {summary}");
        assert!(lost_ns <= wall_ns, "{source}: {summary}");
        let parts = ["named_ns", "judged_ns", "unexplained_ns"].map(|part| number(core, part));
        assert_eq!(parts.iter().sum::<u64>(), lost_ns, "{source}: {summary}");
        let steps = ["p50_ns", "p90_ns", "p99_ns", "p999_ns", "max_ns"].map(|step| number(core, step));
        assert!(steps.is_sorted() && steps[4] <= lost_ns, "{source}: {summary}");
    }
}
