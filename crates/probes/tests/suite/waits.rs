//! Who waits, and from whom the time is taken, on the running kernel. What is compared holds however busy the machine is.

use super::ledger::{attach, cores, snapshot, spin};
use super::raisers::{PATIENCE, pin};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use surefoot_model::CpuId;
use surefoot_probes::layout::{KEY_THREAD, LEFT_STOPPED, LEFT_THROTTLED, Slot, Turn};
use surefoot_probes::{Flavour, Probes};
use surefoot_testkit::not_run::not_run;

/// A thread's waiting as the kernel counts it.
fn run_delay_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').nth(1).unwrap().parse().unwrap()
}

/// Spins on a core; returns by how much its `run_delay` rose. It reads that while it runs, so no wait is open.
fn waited_while_spinning(cpu: CpuId, duration: Duration, together: &Barrier) -> u64 {
    pin(cpu.0);
    together.wait();
    let before_ns = run_delay_ns();
    spin(duration);
    run_delay_ns() - before_ns
}

fn make_real_time() -> bool {
    let parameter = libc::sched_param { sched_priority: 1 };
    // SAFETY: the parameter is only read, for as long as the call lasts.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameter) == 0 }
}

/// The last core of a few: others run what has no place of its own on the first.
fn some_core(probes: &Probes) -> CpuId {
    cores(probes).last().unwrap()
}

#[test]
fn all_tasks_that_wait_are_counted_as_the_kernel_counts_them() {
    const TEST: &str = "all_tasks_that_wait_are_counted_as_the_kernel_counts_them";
    let Some(probes) = attach(TEST, Flavour::Btf) else { return };
    let cpu = some_core(&probes);
    let before = snapshot(&probes, cpu);
    let (done, together) = (AtomicBool::new(false), Barrier::new(3));
    let told_ns: u64 = std::thread::scope(|scope| {
        // Bursts of a tenth of the time, which the ordinary tasks wait out.
        scope.spawn(|| {
            pin(cpu.0);
            if make_real_time() {
                while !done.load(Ordering::Relaxed) {
                    spin(Duration::from_millis(5));
                    std::thread::sleep(Duration::from_millis(45));
                }
            }
        });
        let spins = || waited_while_spinning(cpu, Duration::from_millis(600), &together);
        let spinners: Vec<_> = (0..3).map(|_| scope.spawn(spins)).collect();
        let told_ns = spinners.into_iter().map(|spinner| spinner.join().unwrap()).sum();
        done.store(true, Ordering::Relaxed);
        told_ns
    });
    let after = snapshot(&probes, cpu);
    let waited_ns = after.slot.waited_ns - before.slot.waited_ns;
    // Other tasks may have waited there, too, and a switch can go unreported.
    assert!(told_ns > 500_000_000, "three tasks on one core wait for each other: {told_ns} ns");
    assert!(waited_ns >= told_ns / 100 * 97, "{waited_ns} ns of the kernel's {told_ns}");
    println!("tasks waited {waited_ns} ns, of which the three say {told_ns}");
}

/// What kernel threads ran on a core, and what of it they took from tasks.
fn threads(slot: &Slot) -> (u64, u64) {
    let rows = || slot.causes.iter().filter(|cause| cause.kind() == KEY_THREAD);
    (rows().map(|cause| cause.total_ns).sum(), rows().map(|cause| cause.taken_ns).sum())
}

/// Makes a kernel thread of each core work: the kernel folds its counters there.
fn refresh_counters(times: u32) -> bool {
    (0..times).all(|_| {
        std::thread::sleep(Duration::from_micros(500));
        std::fs::read("/proc/sys/vm/stat_refresh").is_ok()
    })
}

fn not_refreshed(test: &str) {
    not_run(test, "reading /proc/sys/vm/stat_refresh needs root");
}

#[test]
fn a_kernel_thread_takes_its_time_from_the_task_that_waits_behind_it() {
    const TEST: &str = "a_kernel_thread_takes_its_time_from_the_task_that_waits_behind_it";
    let Some(probes) = attach(TEST, Flavour::Btf) else { return };
    let cpu = some_core(&probes);
    let (done, spins) = (AtomicBool::new(false), Barrier::new(2));
    std::thread::scope(|scope| {
        // It can always run, so whatever else runs there keeps it waiting.
        scope.spawn(|| {
            pin(cpu.0);
            spins.wait();
            while !done.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        spins.wait();
        let before = snapshot(&probes, cpu);
        let is_refreshed = refresh_counters(300);
        let after = snapshot(&probes, cpu);
        done.store(true, Ordering::Relaxed);
        if !is_refreshed {
            return not_refreshed(TEST);
        }
        let ((was_ns, was_taken_ns), (is_ns, is_taken_ns)) = (threads(&before.slot), threads(&after.slot));
        let (ran_ns, taken_ns) = (is_ns - was_ns, is_taken_ns - was_taken_ns);
        assert!(ran_ns > 100_000, "kernel threads ran for {ran_ns} ns");
        assert!(taken_ns >= ran_ns / 100 * 90 && taken_ns <= is_ns, "{taken_ns} of {ran_ns} ns were taken");
        println!("kernel threads took {taken_ns} ns of the {ran_ns} that they ran");
    });
}

/// The rise of the waiting of all tasks on a core, of what its kernel threads ran, and of what they took, from one slot
/// to the next; nothing where a task that waited was moved away, whose waiting nobody knows.
fn rise(before: &Slot, after: &Slot) -> Option<(u64, u64, u64)> {
    let ((was_ns, was_taken_ns), (is_ns, is_taken_ns)) = (threads(before), threads(after));
    let is_followed = after.moved_away == before.moved_away;
    is_followed.then_some((after.waited_ns - before.waited_ns, is_ns - was_ns, is_taken_ns - was_taken_ns))
}

/// A task of the core starts the thread's work and sleeps until it is done. So a task gets the core right after each run,
/// and waited for the end of it at most: whoever counts the whole run as taken counts more than anybody waited.
#[test]
fn a_kernel_thread_on_a_core_where_nobody_waits_takes_nothing() {
    const TEST: &str = "a_kernel_thread_on_a_core_where_nobody_waits_takes_nothing";
    let Some(probes) = attach(TEST, Flavour::Btf) else { return };
    let cpu = some_core(&probes);
    pin(cpu.0);
    let give_up = Instant::now() + Duration::from_secs(10);
    let mut told = 0;
    while told < 5 {
        let before = snapshot(&probes, cpu);
        // A few at a time: between others' work there are moments in which nobody else wants this core.
        if !refresh_counters(8) {
            return not_refreshed(TEST);
        }
        let after = snapshot(&probes, cpu);
        // Nobody can lose more than he waits.
        if let Some((waited_ns, ran_ns, taken_ns)) = rise(&before.slot, &after.slot)
            && ran_ns > 4_000
            && waited_ns < ran_ns / 2
        {
            println!("kernel threads ran for {ran_ns} ns, tasks waited {waited_ns}, taken {taken_ns}");
            assert!(taken_ns <= waited_ns, "{taken_ns} of {ran_ns} ns were taken while tasks waited {waited_ns} ns");
            told += 1;
        } else if Instant::now() > give_up {
            return not_run(TEST, "tasks wait for every core of this machine all the time");
        }
    }
}

struct Stopped(Child);

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A process that can always run, on this core.
fn looping_on(cpu: CpuId) -> Child {
    let mut looping = Command::new("sh");
    let child = looping.args(["-c", "while :; do :; done"]).stdout(Stdio::null()).spawn().unwrap();
    // SAFETY: a set of cores is made of integers, and is read for as long as it is; the child is ours.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu.0 as usize, &mut set);
        assert_eq!(libc::sched_setaffinity(child.id() as i32, size_of_val(&set), &set), 0);
    }
    child
}

#[test]
fn the_tape_says_that_a_thread_left_because_it_was_stopped() {
    for flavour in [Flavour::Btf, Flavour::Plain] {
        let Some(probes) = attach("the_tape_says_that_a_thread_left_because_it_was_stopped", flavour) else { return };
        let cpu = some_core(&probes);
        let child = Stopped(looping_on(cpu));
        let pid = child.0.id();
        std::thread::sleep(Duration::from_millis(100));
        let mut from = probes.tape_end(cpu);
        // SAFETY: the child is ours and not waited for yet.
        assert_eq!(unsafe { libc::kill(pid as i32, libc::SIGSTOP) }, 0);
        let mut turns: Vec<Turn> = Vec::new();
        let give_up = Instant::now() + PATIENCE;
        let stopped = |pair: &[Turn]| {
            pair[0].pid == pid && pair[1].depth == 0 && pair[1].pid != pid && pair[1].why_left() == LEFT_STOPPED
        };
        while !turns.windows(2).any(stopped) {
            assert!(Instant::now() < give_up, "{flavour:?}: no such turn among {}", turns.len());
            std::thread::sleep(Duration::from_millis(10));
            from = probes.read_tape(cpu, from, &mut turns).0;
        }
    }
}

/// A control group of this test with a hundredth of a core, which ends with it.
struct Quota(PathBuf);

impl Quota {
    /// Wherever the host has the controller; the group with its reason where it has not.
    fn make() -> Result<Quota, String> {
        let name = format!("surefoot-test-{}", std::process::id());
        let (first, second) =
            (PathBuf::from("/sys/fs/cgroup").join(&name), PathBuf::from("/sys/fs/cgroup/cpu").join(&name));
        for (folder, files) in [
            (first, [("cpu.max", "1000 100000")].as_slice()),
            (second, &[("cpu.cfs_period_us", "100000"), ("cpu.cfs_quota_us", "1000")]),
        ] {
            if std::fs::create_dir(&folder).is_err() {
                continue;
            }
            let quota = Quota(folder);
            // Where control groups of version 1 are mounted, their parent is no group but a plain folder.
            let write = |(file, text): &(&str, &str)| std::fs::write(quota.0.join(file), text).is_ok();
            if quota.0.join("cgroup.procs").exists() && files.iter().all(write) {
                return Ok(quota);
            }
        }
        Err("no control group of the cpu controller can be made here".to_owned())
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        let give_up = Instant::now() + PATIENCE;
        // A process that has just ended may be a member for a moment more.
        while std::fs::remove_dir(&self.0).is_err() && Instant::now() < give_up {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn time_in_which_a_task_is_throttled_is_no_time_that_it_waits() {
    const TEST: &str = "time_in_which_a_task_is_throttled_is_no_time_that_it_waits";
    let Some(probes) = attach(TEST, Flavour::Btf) else { return };
    let quota = match Quota::make() {
        Ok(quota) => quota,
        Err(why) => return not_run(TEST, &why),
    };
    let cpu = some_core(&probes);
    let child = Stopped(looping_on(cpu));
    let pid = child.0.id();
    let before = snapshot(&probes, cpu);
    let mut from = probes.tape_end(cpu);
    if let Err(error) = std::fs::write(quota.0.join("cgroup.procs"), pid.to_string()) {
        return not_run(TEST, &error.to_string());
    }
    let mut turns: Vec<Turn> = Vec::new();
    let give_up = Instant::now() + PATIENCE;
    loop {
        std::thread::sleep(Duration::from_millis(100));
        from = probes.read_tape(cpu, from, &mut turns).0;
        let left = |pair: &[Turn]| pair[0].pid == pid && pair[1].pid != pid && pair[1].why_left() == LEFT_THROTTLED;
        let throttled_ns = snapshot(&probes, cpu).slot.throttled_ns - before.slot.throttled_ns;
        if turns.windows(2).any(left) && throttled_ns > 100_000_000 {
            println!("throttled for {throttled_ns} ns");
            break;
        }
        assert!(Instant::now() < give_up, "throttled for {throttled_ns} ns, {} turns", turns.len());
    }
    drop(child);
}
