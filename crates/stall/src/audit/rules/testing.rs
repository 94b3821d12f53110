//! Made-up hosts for the tests of the rules: one on which all is as expected, changed by each test.
#![allow(clippy::unwrap_used)]

use super::{Facts, all};
use crate::audit::measure::Ran;
use crate::audit::{Finding, Measured, Settings, State};
use std::collections::BTreeMap;
use std::time::Duration;
use surefoot_hostfs::Root;
use surefoot_hostfs::interrupts::Interrupts;
use surefoot_hostfs::stat::Ticks;
use surefoot_model::CpuId;
use surefoot_testkit::HostTree;

/// Four cores, of which 2 and 3 are isolated in every way.
pub fn good() -> HostTree {
    let cpu = "sys/devices/system/cpu";
    let mut tree = HostTree::new()
        .file("proc/cmdline", "ro isolcpus=managed_irq,domain,2-3 nohz_full=2-3 rcu_nocbs=2-3\n")
        .file(format!("{cpu}/online"), "0-3\n")
        .file(format!("{cpu}/possible"), "0-3\n")
        .file(format!("{cpu}/isolated"), "2-3\n")
        .file(format!("{cpu}/nohz_full"), "2-3\n")
        .file(format!("{cpu}/intel_pstate/no_turbo"), "1\n")
        .file("proc/interrupts", "  CPU0 CPU1 CPU2 CPU3\n 36: 9 9 0 0 PCI-MSIX-0000:01:00.0 1-edge nvme0q1\n")
        .file("proc/irq/36/smp_affinity_list", "0-1\n")
        .file("proc/irq/36/effective_affinity_list", "1\n")
        .file("proc/irq/default_smp_affinity", "3\n")
        .file("sys/devices/virtual/workqueue/cpumask", "3\n")
        .file("sys/bus/workqueue/devices/writeback/cpumask", "3\n")
        .file("proc/sys/kernel/watchdog_cpumask", "0-1\n")
        .file("proc/swaps", "Filename\tType\tSize\tUsed\tPriority\n")
        .file("sys/kernel/mm/ksm/run", "0\n")
        .file("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n")
        .file("sys/kernel/mm/transparent_hugepage/defrag", "always defer defer+madvise [madvise] never\n")
        .file("sys/kernel/mm/transparent_hugepage/khugepaged/defrag", "0\n")
        .file("sys/devices/system/node/node0/cpulist", "0-3\n")
        .file("sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages", "64\n")
        .file("sys/devices/system/node/node0/hugepages/hugepages-1048576kB/nr_hugepages", "0\n");
    for (name, value) in [
        ("kernel/timer_migration", "1\n"),
        ("kernel/watchdog", "1\n"),
        ("kernel/nmi_watchdog", "0\n"),
        ("kernel/numa_balancing", "0\n"),
        ("kernel/sched_rt_runtime_us", "-1\n"),
        ("kernel/sched_rt_period_us", "1000000\n"),
        ("vm/stat_interval", "60\n"),
    ] {
        tree = tree.file(format!("proc/sys/{name}"), value);
    }
    for core in [2, 3] {
        let at = format!("{cpu}/cpu{core}");
        for (index, name, latency, disable) in [(0, "POLL", "0", "0"), (1, "C1", "1", "0"), (2, "C6", "133", "1")] {
            let state = format!("{at}/cpuidle/state{index}");
            tree = tree
                .file(format!("{state}/name"), name)
                .file(format!("{state}/latency"), latency)
                .file(format!("{state}/disable"), disable);
        }
        tree = tree
            .file(format!("{at}/power/pm_qos_resume_latency_us"), "0\n")
            .file(format!("{at}/cpufreq/scaling_governor"), "performance\n")
            .file(format!("{at}/topology/thread_siblings_list"), format!("{core}\n"))
            .file(format!("sys/kernel/debug/sched/fair_server/cpu{core}/runtime"), "0\n")
            .file(format!("sys/devices/system/machinecheck/machinecheck{core}/check_interval"), "0\n")
            .file(format!("sys/devices/system/machinecheck/machinecheck{core}/ignore_ce"), "0\n");
    }
    let tree = task(tree, 1, "init", false, false, "0-1");
    task(tree, 30, "rcuog/0", true, false, "0-1")
}

/// Adds a thread.
pub fn task(tree: HostTree, pid: u32, name: &str, kernel: bool, bound: bool, allowed: &str) -> HostTree {
    let flags = u64::from(kernel) * 0x0020_0000 + u64::from(bound) * 0x0400_0000;
    tree.file(format!("proc/{pid}/stat"), format!("{pid} ({name}) S 2 0 0 0 -1 {flags} {}0 0 0\n", "0 ".repeat(29)))
        .file(format!("proc/{pid}/status"), format!("Name:\t{name}\nCpus_allowed_list:\t{allowed}\n"))
}

/// What a tree says about these cores.
pub fn settings(tree: &HostTree, cores: &[u32]) -> Settings {
    let cores: Vec<CpuId> = cores.iter().copied().map(CpuId).collect();
    Settings::read(&Root::at(tree.path()), &cores)
}

/// Two seconds on four cores in which these rows rose, and core 2 was busy for this share.
pub fn measured(interrupts: &str, softirqs: &str, busy: f64) -> Measured {
    let table =
        |rows: &str| Interrupts::parse(&format!("  CPU0 CPU1 CPU2 CPU3\n{rows}")).map_err(|error| error.to_string());
    let user = (200.0 * busy) as u64;
    let ticks = Ticks { user, idle: 200 - user, ..Ticks::default() };
    Measured {
        duration: Duration::from_secs(2),
        interrupts: table(interrupts),
        softirqs: table(softirqs),
        stat: Ok((0..4).map(|cpu| (CpuId(cpu), ticks)).collect()),
        vmstat: Ok(BTreeMap::new()),
        ksm_scans: Ok(0),
        ran: Ok(Vec::new()),
        idle: BTreeMap::new(),
    }
}

/// A thread that ran.
pub fn ran(cpu: u32, name: &str, kernel: bool, switches: u64) -> Ran {
    Ran { cpu: CpuId(cpu), tid: 999, name: name.to_owned(), kernel, switches }
}

/// One rule, tried on core 2 of a host whose cores 2 and 3 are audited.
pub struct Try(&'static str);

impl Try {
    pub fn new(name: &'static str) -> Self {
        assert!(all().any(|rule| rule.name == name), "there is no rule {name}");
        Try(name)
    }

    fn apply(&self, tree: &HostTree, measured: Option<&Measured>, expected: State) -> Finding {
        let settings = settings(tree, &[2, 3]);
        let facts = Facts { settings: &settings, core: &settings.cores[0], measured };
        let finding = all().find(|rule| rule.name == self.0).unwrap().apply(&facts);
        assert_eq!(finding.state, expected, "{finding:?}");
        assert_eq!(finding.fix.is_empty(), expected != State::Fix, "{finding:?}");
        finding
    }

    pub fn ok(&self, tree: &HostTree) -> Finding {
        self.apply(tree, None, State::Ok)
    }

    pub fn fix(&self, tree: &HostTree) -> Finding {
        self.apply(tree, None, State::Fix)
    }

    pub fn cannot(&self, tree: &HostTree) -> Finding {
        self.apply(tree, None, State::CannotBeChecked)
    }

    pub fn ok_with(&self, tree: &HostTree, measured: &Measured) -> Finding {
        self.apply(tree, Some(measured), State::Ok)
    }

    pub fn fix_with(&self, tree: &HostTree, measured: &Measured) -> Finding {
        self.apply(tree, Some(measured), State::Fix)
    }

    pub fn cannot_with(&self, tree: &HostTree, measured: &Measured) -> Finding {
        self.apply(tree, Some(measured), State::CannotBeChecked)
    }
}
