//! What is not there, may not be read, or is broken: named, never a panic, never an empty success.

use surefoot_hostfs::interrupts::Interrupts;
use surefoot_hostfs::privilege::{Lockdown, Privilege};
use surefoot_hostfs::stat::Stat;
use surefoot_hostfs::symbols::Symbols;
use surefoot_hostfs::tracefs::{Tracefs, TracefsMount};
use surefoot_hostfs::{Error, Root, clock, cpus, usage};
use surefoot_testkit::HostTree;

#[test]
fn on_an_empty_host_every_reader_names_its_file() {
    let tree = HostTree::new();
    let root = Root::at(tree.path());
    let errors: [(&str, Error); 7] = [
        ("proc/interrupts", Interrupts::read(&root).unwrap_err()),
        ("proc/softirqs", Interrupts::read_softirqs(&root).unwrap_err()),
        ("proc/stat", Stat::read(&root).unwrap_err()),
        ("sys/devices/system/cpu/online", cpus::online(&root).unwrap_err()),
        ("sys/devices/system/cpu/possible", cpus::possible(&root).unwrap_err()),
        ("proc/self/statm", usage::resident_bytes(&root).unwrap_err()),
        ("clocksource0/current_clocksource", clock::clocksource(&root).unwrap_err()),
    ];
    for (file, error) in errors {
        assert!(error.is_absent(), "{error}");
        assert!(error.to_string().contains(file), "{error}");
    }
    assert_eq!(cpus::isolated(&root).unwrap(), []);
    assert_eq!(cpus::nohz_full(&root).unwrap(), []);
    assert!(!clock::trusted(&root));
    assert_eq!(Privilege::read(&root), Privilege::default());
    assert!(Symbols::load(&root).unwrap_err().why.contains("proc/kallsyms"));
}

#[test]
fn broken_files_are_named_with_their_line() {
    let tree = HostTree::new()
        .file("proc/interrupts", "not a table\n")
        .file("proc/stat", "cpu  1 2 3 4\ncpu0 1 2 3\n")
        .file("proc/self/statm", "12\n")
        .file("sys/devices/system/cpu/online", "0-\n")
        .file("sys/devices/system/cpu/isolated", "all\n");
    let root = Root::at(tree.path());
    let at = |relative: &str| tree.path().join(relative).display().to_string();
    for (error, message) in [
        (
            Interrupts::read(&root).unwrap_err(),
            format!("{}, line 1: 'not a table' is not a header with the cores", at("proc/interrupts")),
        ),
        (Stat::read(&root).unwrap_err(), format!("{}, line 2: 3 numbers where at least 4 belong", at("proc/stat"))),
        (
            usage::resident_bytes(&root).unwrap_err(),
            format!("{}, line 1: the second number, the resident pages, is missing", at("proc/self/statm")),
        ),
        (
            cpus::online(&root).unwrap_err(),
            format!(
                "{}, line 1: '0-' is neither a number nor a range such as 2-5",
                at("sys/devices/system/cpu/online")
            ),
        ),
        (
            cpus::isolated(&root).unwrap_err(),
            format!(
                "{}, line 1: 'all' is neither a number nor a range such as 2-5",
                at("sys/devices/system/cpu/isolated")
            ),
        ),
    ] {
        assert_eq!(error.to_string(), message);
        assert!(!error.is_absent() && !error.is_denied());
    }
}

#[test]
fn stat_refuses_what_it_cannot_trust() {
    for (text, reason) in [
        ("", "line 1: no core is listed"),
        ("cpu  1 2 3 4\n", "line 1: no core is listed"),
        ("cpu0 1 2 x 4\n", "line 1: 'x' is not a number of ticks"),
        ("cpu0 1 2 -3 4\n", "line 1: '-3' is not a number of ticks"),
        ("cpux 1 2 3 4\n", "line 1: 'cpux' names no core"),
        ("cpu1 1 2 3 4\ncpu1 1 2 3 4\n", "line 2: core 1 comes after a higher one"),
        ("cpu0 1 2 3 99999999999999999999\n", "line 1: '99999999999999999999' is not a number of ticks"),
    ] {
        let message = Stat::parse(text, 100).unwrap_err().to_string();
        assert_eq!(message, format!("/proc/stat, {reason}"));
    }
    // An old kernel has fewer columns, a future one more.
    let stat = Stat::parse("cpu0 1 2 3 4\ncpu7 1 2 3 4 5 6 7 8 9 10 11 12\n", 250).unwrap();
    assert_eq!(stat.cpu(surefoot_model::CpuId(0)).unwrap().total(), 10);
    let ticks = stat.cpu(surefoot_model::CpuId(7)).unwrap();
    assert_eq!((ticks.total(), ticks.guest_nice), (36, 10), "guest time is inside user time");
    assert_eq!(stat.ns(5), 20_000_000);
    assert_eq!(stat.cpu(surefoot_model::CpuId(3)), None);
}

#[test]
fn tracing_says_what_is_missing() {
    let none = HostTree::new();
    let state = |tree: &HostTree| Tracefs::open(&Root::at(tree.path()));
    assert_eq!(state(&none).unwrap_err().why, "this kernel was built without tracing (CONFIG_TRACING)");
    let unmounted = HostTree::new().folder("sys/kernel/tracing");
    assert_eq!(state(&unmounted).unwrap_err().remedy, "mount it: mount -t tracefs nodev /sys/kernel/tracing");
    let old = HostTree::new()
        .folder("sys/kernel/tracing")
        .file("sys/kernel/debug/tracing/events/irq/irq_handler_entry/format", "name: irq_handler_entry\nID: 9\n");
    let tracefs = state(&old).unwrap();
    assert_eq!(tracefs.place(), &TracefsMount::Mounted(old.path().join("sys/kernel/debug/tracing")));
    assert!(tracefs.event_exists("irq", "irq_handler_entry"));
    assert_eq!(tracefs.event_format("irq", "irq_handler_entry").unwrap().id, 9);
    for (group, name) in [("irq", "irq_handler_exit"), ("..", "irq"), ("irq/irq_handler_entry", "x"), ("", "irq")] {
        assert!(!tracefs.event_exists(group, name), "{group}:{name}");
        assert!(tracefs.event_format(group, name).unwrap_err().is_absent(), "{group}:{name}");
    }
}

#[test]
fn lockdown_is_the_word_in_brackets() {
    for (text, mode) in [
        ("[none] integrity confidentiality\n", Some(Lockdown::None)),
        ("none [integrity] confidentiality\n", Some(Lockdown::Integrity)),
        ("none integrity [confidentiality]\n", Some(Lockdown::Confidentiality)),
        ("none integrity confidentiality\n", None),
        ("[new-mode]", None),
        ("]none[", None),
        ("", None),
    ] {
        assert_eq!(Lockdown::parse(text), mode, "{text}");
        if let Some(mode) = mode {
            assert!(text.contains(&format!("[{}]", mode.label())));
        }
    }
}

#[test]
fn a_user_namespace_makes_no_root() {
    let status = "Name:\tx\nUid:\t0\t0\t0\t0\nCapEff:\t000001ffffffffff\n";
    let inside = HostTree::new().file("proc/self/status", status).file("proc/self/uid_map", "0 100000 65536\n");
    let privilege = Privilege::read(&Root::at(inside.path()));
    assert_eq!((privilege.effective_uid, privilege.initial_user_namespace), (Some(0), Some(false)));
    assert!(privilege.capabilities.bpf() && !privilege.is_root());
    let outside = inside.file("proc/self/uid_map", "         0          0 4294967295\n");
    assert!(Privilege::read(&Root::at(outside.path())).is_root());
}

#[test]
fn capabilities_are_told_apart() {
    let held = |bits: u64| {
        let status = format!("Uid:\t7\t8\t9\t10\nCapEff:\t{bits:016x}\n");
        let tree = HostTree::new().file("proc/self/status", status);
        let privilege = Privilege::read(&Root::at(tree.path()));
        assert_eq!(privilege.effective_uid, Some(8));
        let held = privilege.capabilities;
        [held.bpf(), held.perfmon(), held.sys_admin(), held.sys_rawio(), held.sys_nice(), held.ipc_lock()]
    };
    assert_eq!(held(0), [false; 6]);
    assert_eq!(held(1 << 39), [true, false, false, false, false, false]);
    assert_eq!(held(1 << 38), [false, true, false, false, false, false]);
    assert_eq!(held(1 << 21), [true, true, true, false, false, false]);
    assert_eq!(held(1 << 17), [false, false, false, true, false, false]);
    assert_eq!(held(1 << 23), [false, false, false, false, true, false]);
    assert_eq!(held(1 << 14), [false, false, false, false, false, true]);
}

#[test]
fn a_named_pipe_in_a_hostile_tree_stops_nobody() {
    let tree = HostTree::new().folder("proc");
    let path = tree.path().join("proc/stat");
    let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    // Nobody writes into the pipe: a blocking open would never come back.
    assert!(matches!(Stat::read(&Root::at(tree.path())), Err(Error::Malformed { line: 1, .. })));
}

#[test]
fn an_endless_file_is_cut_off() {
    let tree = HostTree::new().folder("proc").link("proc/stat", "/dev/zero");
    assert!(matches!(Stat::read(&Root::at(tree.path())), Err(Error::TooLarge { .. })));
}
