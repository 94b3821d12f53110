#![allow(clippy::unwrap_used)]
use super::*;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use surefoot_testkit::HostTree;
use surefoot_testkit::not_run::not_run;

const PIPE: &str = "sys/kernel/tracing/trace_pipe";

fn mc_event(at: &str, label: &str, address: u64) -> String {
    format!(
        "     kworker/0:1-123     [000] .....   {at}: mc_event: 1 Corrected error: memory read error on {label} (mc:0 \
         location:0:0:-1 address:{address:#010x} grain:32 syndrome:0x00000000)\n"
    )
}

fn mce_record(address: u64) -> String {
    format!(
        "          <idle>-0       [001] d.h..   2.000000: mce_record: CPU: 1, MCGc/s: f000c14/0, MC7: 8c00004000010092, IPID: \
         0, ADDR/MISC/SYND: {address:016x}/8c/0, RIP: 00:<0>, TSC: 0, PROCESSOR: 0:50654, TIME: 0, SOCKET: 0, APIC: 0\n"
    )
}

fn turn(follower: &mut Follower, bytes_max: usize) -> (Vec<ErrorReport>, bool) {
    let mut reports = Vec::new();
    let is_more = follower.turn(bytes_max, &mut |report| reports.push(report)).unwrap();
    (reports, is_more)
}

#[test]
fn a_recorded_trace_is_followed_line_by_line_and_what_it_misses_is_counted() {
    let text = format!(
        "# tracer: nop\n{}CPU:1 [LOST 41 EVENTS]\n{}     rcu-1 [000] ..... 1.0: sched_switch: x\n{}{}",
        mc_event("1.000000", "A1", 0x1000),
        mc_event("1.500000", "B1", 0x2000),
        "     kworker/0:1-123     [000] .....   1.0: mc_event: nonsense\n",
        mc_event("9.000000", "C1", 0).trim_end(),
    );
    let tree = HostTree::new().file(PIPE, text);
    let mut follower = Follower::open(&Root::at(tree.path())).unwrap();
    let (reports, is_more) = turn(&mut follower, 1 << 20);
    let labels: Vec<&str> = reports.iter().map(|report| report.label.as_str()).collect();
    assert_eq!((labels, is_more), (vec!["A1", "B1"], false), "the last line has no end yet");
    let lost: Vec<(u64, String)> = follower.lost().into_iter().map(|lost| (lost.count, lost.why)).collect();
    assert_eq!(lost[0].0, 41);
    assert_eq!((lost[1].0, lost[1].1.as_str()), (1, "their lines in the trace are not as this release knows them"));
    let mut file = OpenOptions::new().append(true).open(tree.path().join(PIPE)).unwrap();
    file.write_all(b"\n").unwrap();
    assert_eq!(turn(&mut follower, 1 << 20).0[0].label, "C1", "its end has come");
}

#[test]
fn a_turn_takes_no_more_than_it_may_and_an_endless_line_takes_no_memory() {
    let line = mc_event("1.000000", "A1", 0x1000);
    let tree = HostTree::new().file(PIPE, line.repeat(2000));
    let mut follower = Follower::open(&Root::at(tree.path())).unwrap();
    let (reports, is_more) = turn(&mut follower, 10 * line.len());
    assert!(is_more && (9..=10).contains(&reports.len()), "{}", reports.len());
    let mut count = reports.len();
    while turn(&mut follower, 64 << 10).1 {
        count += 1;
    }
    assert!(count > 10);
    let tree = HostTree::new().file(PIPE, format!("{}\n{line}", "x".repeat(1 << 20)));
    let mut follower = Follower::open(&Root::at(tree.path())).unwrap();
    assert_eq!(turn(&mut follower, 4 << 20).0.len(), 1);
    assert!(follower.rest.capacity() <= LINE_BYTES_MAX);
    assert_eq!(follower.lost()[0].count, 1);
}

#[test]
fn a_pipe_without_a_writer_is_not_waited_for() {
    let tree = HostTree::new().folder("sys/kernel/tracing");
    let path = tree.path().join(PIPE);
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    let mut follower = Follower::open(&Root::at(tree.path())).unwrap();
    assert_eq!(turn(&mut follower, 1 << 20), (Vec::new(), false));
    let mut writer = OpenOptions::new().write(true).open(&path).unwrap();
    assert_eq!(turn(&mut follower, 1 << 20), (Vec::new(), false));
    writer.write_all(mc_event("1.000000", "A1", 0x1000).as_bytes()).unwrap();
    assert_eq!(turn(&mut follower, 1 << 20).0.len(), 1);
}

#[test]
fn an_error_that_two_events_tell_is_told_once_and_one_that_only_the_first_tells_is_told() {
    let text = mce_record(0x5040) + &mc_event("2.000001", "A1", 0x5000) + &mce_record(0x9040);
    let tree = HostTree::new().file(PIPE, text);
    let mut follower = Follower::open(&Root::at(tree.path())).unwrap();
    let sources = |reports: Vec<ErrorReport>| reports.into_iter().map(|one| one.source).collect::<Vec<_>>();
    assert_eq!(sources(turn(&mut follower, 1 << 20).0), [MemorySource::McEvent]);
    let (late, _) = turn(&mut follower, 1 << 20);
    assert_eq!(late.iter().map(|one| one.location.address).collect::<Vec<_>>(), [Some(0x9000)]);
    assert_eq!(sources(turn(&mut follower, 1 << 20).0), []);
    // The driver may be a turn behind.
    let mut file = OpenOptions::new().append(true).open(tree.path().join(PIPE)).unwrap();
    file.write_all(mce_record(0x7040).as_bytes()).unwrap();
    assert_eq!(sources(turn(&mut follower, 1 << 20).0), []);
    file.write_all(mc_event("3.000001", "A1", 0x7000).as_bytes()).unwrap();
    assert_eq!(sources(turn(&mut follower, 1 << 20).0), [MemorySource::McEvent]);
    file.write_all(mce_record(0xb040).as_bytes()).unwrap();
    assert_eq!(sources(turn(&mut follower, 1 << 20).0), []);
    let mut last = Vec::new();
    follower.finish(&mut |report| last.push(report));
    assert_eq!(sources(last), [MemorySource::MceRecord]);
}

#[test]
fn a_tree_without_a_trace_says_so() {
    let tree = HostTree::new();
    let unsupported = Follower::open(&Root::at(tree.path())).unwrap_err();
    assert!(unsupported.why.contains("no recorded trace"), "{unsupported}");
}

/// The instances that are there, as this process sees them, and where.
fn instances() -> Option<(Tracefs, PathBuf)> {
    use std::os::fd::{AsFd, AsRawFd};
    let tracefs = Tracefs::open(&Root::host()).ok()?;
    let path = PathBuf::from(format!("/proc/self/fd/{}/instances", tracefs.as_fd().as_raw_fd()));
    Some((tracefs, path))
}

#[test]
fn an_instance_of_the_kernel_is_our_own_is_read_and_goes_with_us() {
    let test = "follow::an_instance_of_the_kernel_is_our_own_is_read_and_goes_with_us";
    let Some((_tracefs, base)) = instances() else { return not_run(test, "tracefs cannot be opened here") };
    let own = |base: &PathBuf| -> Vec<String> {
        let names = fs::read_dir(base).unwrap().flatten().map(|entry| entry.file_name().into_string().unwrap());
        // A watch of this machine has one of its own.
        let prefix = format!("surefoot-memory-{}-", std::process::id());
        let mut names: Vec<String> = names.filter(|name| name.starts_with(&prefix)).collect();
        names.sort();
        names
    };
    // What a run that was killed left: a process of this number may be there, but it began later.
    let old = base.join(format!("surefoot-memory-{}-1", std::process::id()));
    let dead = base.join("surefoot-memory-4194304-7");
    for folder in [&old, &dead] {
        if let Err(error) = fs::create_dir(folder) {
            return not_run(test, &format!("no instance can be made: {error}"));
        }
    }
    let mut follower = Follower::open(&Root::host()).unwrap_or_else(|why| panic!("{why}"));
    assert!(!old.exists() && !dead.exists(), "{:?}", own(&base));
    let [name] = &own(&base)[..] else { panic!("{:?}", own(&base)) };
    let instance = base.join(name);
    let text = |file: &str| fs::read_to_string(instance.join(file)).unwrap();
    assert!(text("trace_clock").contains("[mono]"), "{}", text("trace_clock"));
    assert_eq!(text("events/ras/mc_event/enable").trim(), "1");
    if instance.join("buffer_percent").exists() {
        assert_eq!(text("buffer_percent").trim(), "0");
    }
    assert!(follower.sources().contains(&MemorySource::McEvent) && follower.problems().is_empty());
    assert_eq!(turn(&mut follower, 1 << 20), (Vec::new(), false), "nothing is reported, and nothing is waited for");
    // The kernel's own header of a line, and its way through the pipe, with a text of ours.
    fs::write(instance.join("trace_marker"), "hello").unwrap();
    let mut bytes = [0; 4096];
    let count = follower.pipe.read(&mut bytes).unwrap();
    let line = String::from_utf8_lossy(&bytes[..count]).into_owned();
    let now_ns = clock::monotonic_ns();
    let Line::Event { at_ns, name, text } = line::read(line.trim_end()) else { panic!("{line}") };
    assert_eq!((name, text), ("tracing_mark_write", "hello"));
    assert!(at_ns <= now_ns && now_ns - at_ns < 5_000_000_000, "{at_ns} is a time of this clock, now {now_ns}");
    // A storm that nobody reads is counted.
    (0..20_000).for_each(|_| fs::write(instance.join("trace_marker"), "x".repeat(200)).unwrap());
    follower.has_read = true;
    let lost = follower.lost();
    assert!(lost[0].count > 1_000 && lost[0].why.contains("buffer was full"), "{lost:?}");
    assert!(Follower::open(&Root::host()).is_err(), "one at a time");
    drop(follower);
    assert!(own(&base).is_empty(), "{:?}", own(&base));
}
