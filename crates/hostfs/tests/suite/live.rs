//! The running host. What is asserted holds on a busy machine.

use std::time::{Duration, Instant};
use surefoot_hostfs::identity::Identity;
use surefoot_hostfs::interrupts::Interrupts;
use surefoot_hostfs::privilege::Privilege;
use surefoot_hostfs::smi::SmiCounter;
use surefoot_hostfs::stat::Stat;
use surefoot_hostfs::symbols::Symbols;
use surefoot_hostfs::tracefs::Tracefs;
use surefoot_hostfs::{Root, clock, cpus, thread};
use surefoot_model::CpuId;
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
fn a_thread_is_tied_to_one_core_and_to_several() {
    let all = thread::affinity().unwrap();
    assert!(!all.is_empty());
    std::thread::spawn(move || {
        for &cpu in &all {
            thread::pin_to(cpu).unwrap();
            assert_eq!(thread::affinity().unwrap(), [cpu]);
            assert_eq!(thread::current_cpu(), cpu);
        }
        thread::pin_to_any(&all).unwrap();
        assert_eq!(thread::affinity().unwrap(), all);
    })
    .join()
    .unwrap();
}

#[test]
fn a_core_that_does_not_exist_is_refused_by_name() {
    let before = thread::affinity().unwrap();
    for cpu in [1_023, 1_024, 4_096, 65_535, 65_536, u32::MAX] {
        if cpus::possible(&Root::host()).unwrap().contains(&CpuId(cpu)) {
            continue;
        }
        let message = thread::pin_to(CpuId(cpu)).unwrap_err().to_string();
        assert!(message.starts_with(&format!("cannot run on core {cpu}: ")), "{message}");
    }
    assert!(thread::pin_to_any(&[]).is_err());
    assert_eq!(thread::affinity().unwrap(), before);
}

#[test]
fn real_time_priority_is_taken_or_its_remedy_named() {
    let root = Root::host();
    let held = Privilege::read(&root).capabilities.sys_nice();
    let taken = std::thread::spawn(|| {
        thread::set_fifo(1).map(|()| {
            let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
            let fields: Vec<String> = stat.rsplit_once(')').unwrap().1.split_whitespace().map(str::to_owned).collect();
            // Fields 40 and 41 of proc(5), counted from the state, which is the third.
            (fields[37].clone(), fields[38].clone())
        })
    })
    .join()
    .unwrap();
    match taken {
        Ok((priority, policy)) => assert_eq!((priority.as_str(), policy.as_str()), ("1", "1")),
        Err(error) => {
            assert!(!held || error.is_denied(), "{error}");
            assert!(error.to_string().ends_with("run as root or give CAP_SYS_NICE"), "{error}");
        }
    }
    assert!(thread::set_fifo(100).is_err());
}

#[test]
fn memory_is_locked_as_it_is_touched_or_not_at_all() {
    let locked_kib = || -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("VmLck:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    match thread::lock_memory() {
        Ok(()) => assert!(locked_kib() > 0),
        Err(error) => {
            assert_eq!(locked_kib(), 0);
            assert!(error.to_string().contains("CAP_IPC_LOCK"), "{error}");
        }
    }
}

#[test]
fn what_this_process_used_grows_with_work() {
    let before = thread::cpu_ns();
    let own_before = thread::thread_cpu_ns();
    let mut sum = 0u64;
    while thread::thread_cpu_ns() - own_before < 2_000_000 {
        sum = sum.wrapping_add(clock::tsc());
    }
    assert!(thread::cpu_ns() - before >= 2_000_000, "{sum}");
    let resident = thread::resident_bytes(&Root::host()).unwrap();
    assert!((100_000..10_000_000_000).contains(&resident), "{resident}");
    assert!(thread::current_tid() > 0);
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
fn smis_are_counted_or_it_is_said_why_not() {
    let root = Root::host();
    let identity = Identity::read(&root);
    let cpu = thread::affinity().unwrap()[0];
    let counted = std::thread::spawn(move || {
        thread::pin_to(cpu).unwrap();
        let mut counter = SmiCounter::open(&root, &identity, cpu)?;
        Ok::<_, surefoot_hostfs::Unsupported>((counter.read().unwrap(), counter.read().unwrap()))
    });
    match counted.join().unwrap() {
        Ok((first, second)) => assert!(first <= second && second < 1_000_000),
        Err(unsupported) => {
            assert!(unsupported.why.len() > 20, "{unsupported}");
            not_run("smis_are_counted_or_it_is_said_why_not", &unsupported.why);
        }
    }
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
