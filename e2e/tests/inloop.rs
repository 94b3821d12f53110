//! Polling threads that note their own gaps, and what `who` says of each gap.

use serde_json::Value;
use std::fs;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use surefoot_e2e::actor::POLLING_LOOP;
use surefoot_e2e::command::{PATIENCE, Running, surefoot};
use surefoot_e2e::machine::{Need, turn};
use surefoot_e2e::report::{has_fields, number, of_type};
use surefoot_hostfs::Root;
use surefoot_hostfs::stat::Stat;
use surefoot_model::CpuId;
use surefoot_testkit::not_run::not_run;

const TIMES: u64 = 2_000;

/// Starts watching and returns when it sees what happens.
fn watching(options: &str) -> Running {
    POLLING_LOOP.path();
    let mut running = surefoot("stall who --cpu 1 --duration 60s").words(options).start();
    let deadline = Instant::now() + PATIENCE;
    while !running.stderr().contains("watching") {
        assert!(Instant::now() < deadline && running.is_running(), "who does not begin: {}", running.stderr());
        std::thread::sleep(Duration::from_millis(10));
    }
    running
}

/// Watches while the loop polls; returns the lines and what the program said of itself.
fn who(words: &str) -> (Vec<Value>, Value) {
    let running = watching("--json --no-stacks");
    let truth = POLLING_LOOP.start(words).answer();
    running.ask_to_end();
    let finished = running.finish();
    finished.expect_code(0);
    (finished.json(), truth)
}

fn of_process<'a>(lines: &'a [Value], kind: &str, truth: &Value) -> Vec<&'a Value> {
    of_type(lines, kind).into_iter().filter(|line| line["pid"] == truth["pid"]).collect()
}

fn parts(gap: &Value) -> &[Value] {
    gap["parts"].as_array().unwrap()
}

/// The part of a gap in which translations were dropped.
fn flush(gap: &Value) -> Option<&Value> {
    parts(gap).iter().find(|part| part["kind"] == "tlb_shootdown" && part["name"] == "flush_tlb_func")
}

fn says_missing(lines: &[Value], words: &str) -> bool {
    let missing = of_type(lines, "who")[0]["missing"].as_array().unwrap();
    missing.iter().any(|missing| missing.as_str().unwrap().contains(words))
}

/// The gaps of a process with a shootdown, in which nothing but its own threads ran: while another process is on the
/// core, that one's threads flush there.
fn of_shootdowns<'a>(gaps: &[&'a Value]) -> Vec<&'a Value> {
    let is_other = |part: &Value| part["kind"] == "preemption" && part["name"] != "entry and exit";
    gaps.iter().copied().filter(|gap| flush(gap).is_some() && !parts(gap).iter().any(is_other)).collect()
}

#[test]
fn the_gaps_of_a_polling_loop_add_up_and_the_thread_that_unmaps_is_named() {
    const NAME: &str = "the_gaps_of_a_polling_loop_add_up_and_the_thread_that_unmaps_is_named";
    let Some(_turn) = turn(NAME, Need::Ebpf) else { return };
    let (lines, truth) = who(&format!("{TIMES} 200 1 0 2000 1"));
    let [summary] = of_process(&lines, "loop", &truth)[..] else { panic!("{lines:?}") };
    has_fields(
        summary,
        &["type", "pid", "tid", "name", "threshold_ns", "gap_count", "total_ns", "overwritten", "not_listed"],
        &[],
    );
    assert_eq!((summary["name"].as_str(), &summary["tid"]), (Some("receive"), &truth["poller_tid"]), "{summary}");
    assert!(number(summary, "threshold_ns").abs_diff(2_000) <= 20, "{summary}");
    assert_eq!(number(summary, "gap_count") + number(summary, "overwritten"), number(&truth, "noted"), "{summary}");
    let gaps = of_process(&lines, "loop_gap", &truth);
    assert_eq!(gaps.len() as u64 + number(summary, "not_listed"), number(summary, "gap_count"), "{summary}");
    for gap in &gaps {
        has_fields(
            gap,
            &["type", "pid", "tid", "name", "cpu", "start_ns", "duration_ns", "parts", "unexplained_ns"],
            &[],
        );
        let sum_ns: u64 = parts(gap).iter().map(|part| number(part, "total_ns")).sum();
        assert_eq!(sum_ns + number(gap, "unexplained_ns"), number(gap, "duration_ns"), "{gap}");
        assert!(number(gap, "duration_ns") > 1_900, "{gap}");
    }
    let shootdowns = of_shootdowns(&gaps);
    let raiser = format!("stats-{} in munmap", truth["pid"]);
    let is_named = |gap: &&&Value| {
        let flush = flush(gap).unwrap();
        has_fields(flush, &["kind", "name", "total_ns", "count", "raisers"], &[]);
        assert_eq!(gap["cpu"], 1, "{gap}");
        flush["raisers"].as_array().unwrap().iter().any(|name| *name == raiser.as_str())
    };
    let named = shootdowns.iter().filter(is_named).count();
    // The list has the longest gaps only, and a busy machine makes others that are longer.
    assert!(shootdowns.len() as u64 > TIMES / 200, "{} of {} gaps", shootdowns.len(), gaps.len());
    assert!(named * 100 >= shootdowns.len() * 95, "{named} of {} with the raiser", shootdowns.len());
}

/// Nanoseconds that the hypervisor has taken of the watched core, in ticks.
fn stolen_ns() -> u64 {
    let stat = Stat::read(&Root::host()).unwrap();
    let core = stat.cpus.iter().find(|(cpu, _)| *cpu == CpuId(1));
    core.map_or(0, |(_, ticks)| ticks.steal * (1_000_000_000 / stat.ticks_per_s))
}

/// The list keeps the longest gaps, which are those that the hypervisor made longer. So the share is taken where the list
/// has all gaps: over several watches, each with few enough.
#[test]
fn nine_tenths_of_the_time_in_gaps_with_a_shootdown_are_explained() {
    const NAME: &str = "nine_tenths_of_the_time_in_gaps_with_a_shootdown_are_explained";
    const WATCHES: u64 = 5;
    /// A tick that is stolen in part may not be counted yet.
    const TICK_NS: u64 = 10_000_000;
    let Some(_turn) = turn(NAME, Need::Ebpf) else { return };
    let stolen_before_ns = stolen_ns();
    let (mut unexplained_ns, mut total_ns, mut count, mut complete, mut explained) = (0, 0, 0, 0, 0);
    for _ in 0..WATCHES {
        let (lines, truth) = who(&format!("{} 200 1 0 2000 1", TIMES / WATCHES));
        let [summary] = of_process(&lines, "loop", &truth)[..] else { panic!("{lines:?}") };
        if number(summary, "not_listed") > 0 {
            continue;
        }
        complete += 1;
        for gap in of_shootdowns(&of_process(&lines, "loop_gap", &truth)) {
            unexplained_ns += number(gap, "unexplained_ns");
            total_ns += number(gap, "duration_ns");
            count += 1;
            explained += u64::from(number(gap, "unexplained_ns") * 2 <= number(gap, "duration_ns"));
        }
    }
    let found = format!(
        "{explained} of {count} gaps explained for the most part; {unexplained_ns} of {total_ns} ns not; {complete} of \
         {WATCHES} watches"
    );
    eprintln!("{found}");
    if complete == 0 {
        return not_run(NAME, "the machine is so busy that no watch could list all gaps");
    }
    assert!(count > 20 && explained * 10 >= count * 9, "{found}");
    if unexplained_ns * 10 > total_ns {
        // What a hypervisor takes within a gap has no cause in this kernel. Only where its own count covers it is that
        // what happened; everywhere else nine tenths are due.
        let stolen_ns = stolen_ns().saturating_sub(stolen_before_ns);
        assert!(stolen_ns + TICK_NS >= unexplained_ns, "{found}; the hypervisor took {stolen_ns} ns of the core");
        not_run(NAME, &format!("the hypervisor took {} ms of the core meanwhile", stolen_ns / 1_000_000));
    }
}

#[test]
fn a_loop_on_a_core_that_is_not_watched_is_counted_and_that_is_said() {
    const NAME: &str = "a_loop_on_a_core_that_is_not_watched_is_counted_and_that_is_said";
    let Some(_turn) = turn(NAME, Need::Ebpf) else { return };
    let (lines, truth) = who("50 200 0 1 2000 0");
    let [summary] = of_process(&lines, "loop", &truth)[..] else { panic!("{lines:?}") };
    assert!(number(summary, "gap_count") > 0, "{summary}");
    assert!(number(summary, "not_listed") * 10 >= number(summary, "gap_count") * 9, "{summary}");
    assert!(says_missing(&lines, "on a core that is not watched"), "{:?}", of_type(&lines, "who"));
}

#[test]
fn the_text_names_the_loop_and_its_longest_gaps() {
    const NAME: &str = "the_text_names_the_loop_and_its_longest_gaps";
    let Some(_turn) = turn(NAME, Need::Ebpf) else { return };
    let running = watching("--no-stacks");
    let truth = POLLING_LOOP.start("300 200 1 0 2000 1").answer();
    running.ask_to_end();
    let finished = running.finish();
    let text = &finished.expect_code(0).stdout;
    let section = text.split_once("\nGaps that the loops noted themselves\n").expect(text).1;
    let line = section.lines().find(|line| line.contains(&format!("(thread {})", truth["poller_tid"]))).expect(section);
    assert!(line.starts_with("  loop \"receive\" (thread ") && line.contains(" gaps over 2.00 us, "), "{line}");
    assert!(section.contains(" on core 1 after "), "{section}");
}

/// What does not belong into the directory of loops; taken away again at the end.
struct Junk {
    paths: Vec<PathBuf>,
}

impl Junk {
    fn lay(directory: &Path) -> Self {
        // Whoever comes first makes it as the libraries do; the mode given to mkdir is cut by the umask.
        if fs::DirBuilder::new().mode(0o1777).create(directory).is_ok() {
            fs::set_permissions(directory, fs::Permissions::from_mode(0o1777)).unwrap();
        }
        let name = |pid: u32, number: u32| directory.join(format!("{pid}-{pid}-{number:016x}.loop"));
        let own = std::process::id();
        let mut junk = Junk { paths: Vec::new() };
        let mut add = |path: PathBuf, make: &dyn Fn(&Path)| {
            make(&path);
            junk.paths.push(path);
        };
        add(name(own, 1), &|path| fs::write(path, vec![0xff; 100_000]).unwrap());
        add(name(own, 2), &|path| fs::write(path, b"SFINLOOP").unwrap());
        add(name(1, 3), &|path| fs::write(path, b"").unwrap());
        add(name(own, 4), &|path| symlink("/dev/zero", path).unwrap());
        add(name(own, 5), &|path| fs::create_dir(path).unwrap());
        add(directory.join("\u{1b}[31m.loop"), &|path| fs::write(path, b"x").unwrap());
        // Opening a pipe that nobody writes to waits for ever, if one lets it.
        add(name(own, 6), &|path| {
            assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
        });
        junk
    }
}

impl Drop for Junk {
    fn drop(&mut self) {
        for path in &self.paths {
            let _ = if path.is_dir() && !path.is_symlink() { fs::remove_dir(path) } else { fs::remove_file(path) };
        }
    }
}

#[test]
fn what_does_not_belong_there_does_no_harm_and_is_counted() {
    const NAME: &str = "what_does_not_belong_there_does_no_harm_and_is_counted";
    let Some(_turn) = turn(NAME, Need::Ebpf) else { return };
    let _junk = Junk::lay(Path::new("/dev/shm/surefoot-loops"));
    let (lines, truth) = who("200 200 1 0 2000 1");
    let [summary] = of_process(&lines, "loop", &truth)[..] else { panic!("{lines:?}") };
    assert!(number(summary, "gap_count") > 0, "{summary}");
    assert!(says_missing(&lines, "in the directory of loops"), "{:?}", of_type(&lines, "who"));
    assert_eq!(of_process(&lines, "loop", &serde_json::json!({"pid": std::process::id()})).len(), 0);
}
