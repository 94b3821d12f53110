//! The running host. What is asserted holds on a busy machine.

use surefoot_hostfs::identity::Identity;
use surefoot_hostfs::privilege::Privilege;
use surefoot_hostfs::smi::SmiCounter;
use surefoot_hostfs::tasks::Tasks;
use surefoot_hostfs::{Root, cpus};
use surefoot_model::CpuId;
use surefoot_sys::thread;
use surefoot_testkit::not_run::not_run;

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
fn the_running_host_shows_this_thread() {
    let tasks = Tasks::read(&Root::host()).unwrap().tasks;
    let own = tasks.iter().find(|task| task.tid == thread::current_tid()).unwrap();
    assert_eq!(own.pid, std::process::id());
    assert_eq!(own.allowed.to_vec(), thread::affinity().unwrap());
    assert!(!own.kernel);
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
