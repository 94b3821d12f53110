//! The running host. What is asserted holds on a busy machine.

use std::time::{Duration, Instant};
use surefoot_hostfs::identity::Identity;
use surefoot_hostfs::interrupts::Interrupts;
use surefoot_hostfs::stat::Stat;
use surefoot_hostfs::symbols::Symbols;
use surefoot_hostfs::tracefs::Tracefs;
use surefoot_hostfs::{Root, clock, cpus, usage};
use surefoot_testkit::not_run::not_run;

#[test]
fn the_running_host_has_ascending_cores_and_growing_counts() {
    let root = Root::host();
    let before = Interrupts::read(&root).unwrap();
    let ticks_before = Stat::read(&root).unwrap();
    assert_eq!(before.irregular, 0);
    assert_eq!(before.cpus, cpus::online(&root).unwrap());
    assert_eq!(ticks_before.cpus.iter().map(|(cpu, _)| *cpu).collect::<Vec<_>>(), before.cpus);
    std::thread::sleep(Duration::from_millis(50));
    let after = Interrupts::read(&root).unwrap();
    let delta = after.delta(&before);
    let rise: u64 = delta.rows.iter().map(|row| row.total()).sum();
    // Something must have ended our sleep, and nothing counts a million times in it.
    assert!(rise > 0 && delta.rows.iter().all(|row| row.total() < 100_000_000), "{delta:?}");
    let softirqs = Interrupts::read_softirqs(&root).unwrap();
    assert_eq!(softirqs.cpus, cpus::possible(&root).unwrap());
    assert!(softirqs.row("TIMER").is_some() && softirqs.row("NET_RX").is_some());
}

#[test]
fn the_ticks_of_all_cores_grow_with_the_clock() {
    let root = Root::host();
    let give_up = Instant::now() + Duration::from_secs(60);
    loop {
        let start_ns = clock::monotonic_ns();
        let before = Stat::read(&root).unwrap();
        std::thread::sleep(Duration::from_millis(300));
        let after = Stat::read(&root).unwrap();
        let wall_ns = clock::monotonic_ns() - start_ns;
        let (mut spent_ns, mut cores) = (0, 0);
        for (cpu, ticks) in &after.cpus {
            let Some(then) = before.cpu(*cpu) else { continue };
            spent_ns += after.ns(ticks.since(then).total());
            cores += 1;
        }
        // Time is accounted late, by steal and on cores without a tick, and the clock alone goes on while a guest is stopped; wrong units
        // would be off tenfold each time.
        if spent_ns > cores * wall_ns / 5 && spent_ns < cores * wall_ns * 5 {
            return;
        }
        assert!(Instant::now() < give_up, "{spent_ns} of {cores} times {wall_ns} ns");
    }
}

#[test]
fn what_this_process_used_grows_with_work() {
    let before = usage::cpu_ns();
    let own_before = usage::thread_cpu_ns();
    let mut sum = 0u64;
    while usage::thread_cpu_ns() - own_before < 2_000_000 {
        sum = sum.wrapping_add(clock::tsc());
    }
    assert!(usage::cpu_ns() - before >= 2_000_000, "{sum}");
    let resident = usage::resident_bytes(&Root::host()).unwrap();
    assert!((100_000..10_000_000_000).contains(&resident), "{resident}");
}

#[test]
fn the_counter_never_runs_backwards() {
    let mut last = clock::tsc();
    for _ in 0..100_000 {
        let now = clock::tsc();
        assert!(now >= last);
        last = now;
    }
}

#[test]
fn the_host_says_who_it_is() {
    let identity = Identity::read(&Root::host());
    let uname = |option: &str| {
        let output = std::process::Command::new("uname").arg(option).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    assert_eq!((identity.hostname, identity.kernel), (uname("-n"), uname("-r")));
}

#[test]
fn names_of_functions_agree_with_the_kernel() {
    match Symbols::load(&Root::host()) {
        Ok(symbols) => {
            let address = symbols.address("do_exit").unwrap();
            assert_eq!(symbols.locate(address + 1), Some(("do_exit", 1)));
            assert_eq!(symbols.name(0x1000), None);
            assert_eq!(symbols.dropped(), 0);
        }
        Err(unsupported) => not_run("names_of_functions_agree_with_the_kernel", &unsupported.why),
    }
}

#[test]
fn every_event_of_this_kernel_has_a_format_that_is_understood() {
    let tracefs = match Tracefs::open(&Root::host()) {
        Ok(tracefs) => tracefs,
        Err(unsupported) => {
            not_run("every_event_of_this_kernel_has_a_format_that_is_understood", &unsupported.why);
            return;
        }
    };
    let mut understood = 0;
    for line in tracefs.read("available_events").unwrap().lines() {
        let (group, name) = line.split_once(':').unwrap();
        let format = tracefs.event_format(group, name).unwrap();
        assert_eq!(format.name, name);
        assert!(format.id > 0 && format.field("common_pid").is_some_and(|field| field.offset == 4), "{format:?}");
        understood += 1;
    }
    assert!(understood > 20, "{understood}");
}
