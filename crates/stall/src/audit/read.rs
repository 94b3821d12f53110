//! What the kernel's files say about isolation, as plain data.

use crate::namespaces;
use crate::who::host_facts;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use surefoot_hostfs::identity::Identity;
use surefoot_hostfs::isolation::{self, IdleState, InterruptLine};
use surefoot_hostfs::settings;
use surefoot_hostfs::tasks::Tasks;
use surefoot_hostfs::{Error, Root, cpus};
use surefoot_model::{CpuId, Digits};
use surefoot_who::advice::HostFacts;

/// A value, or why it is not known. The reason is one sentence without a full stop.
pub type Known<T> = Result<T, String>;

/// Folders of per-node settings that are looked at, at most.
const MOST_NODES: usize = 1024;

/// Everything of the whole machine, and of each core that is audited.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The cores that are audited, ascending.
    pub audited: Vec<CpuId>,
    /// The cores that run.
    pub online: Known<Vec<CpuId>>,
    /// The cores that could ever run: boot options mean these by `N` and `all`.
    pub possible: Known<Vec<CpuId>>,
    /// The boot options, by name; of one given several times the last.
    pub boot: BootOptions,
    /// Cores taken from the scheduler, by boot option or by an isolated cpuset partition.
    pub isolated: Known<Vec<CpuId>>,
    /// Cores that may run without a tick.
    pub nohz_full: Known<Vec<CpuId>>,
    /// All threads.
    pub tasks: Known<Tasks>,
    /// Interrupt lines.
    pub lines: Known<Vec<InterruptLine>>,
    /// Where new lines go.
    pub default_affinity: Known<Vec<CpuId>>,
    /// What irqbalance keeps off.
    pub irqbalance: Irqbalance,
    /// Where unbound kernel workers may run.
    pub workqueue: Known<Vec<CpuId>>,
    /// Where writeback workers may run.
    pub writeback: Known<Vec<CpuId>>,
    /// Cores that the watchdogs watch.
    pub watchdog_cores: Known<Vec<CpuId>>,
    /// Whole numbers below /proc/sys, by the name that sysctl takes.
    pub sysctl: BTreeMap<&'static str, Known<i64>>,
    /// Whether the kernel merges equal pages: 0 no, 1 yes, 2 no and undone.
    pub ksm_run: Known<i64>,
    /// The chosen word of transparent_hugepage/enabled.
    pub thp_enabled: Known<String>,
    /// The chosen word of transparent_hugepage/defrag.
    pub thp_defrag: Known<String>,
    /// Whether khugepaged may compact memory: 1 yes.
    pub khugepaged_defrag: Known<i64>,
    /// Swap areas in use.
    pub swap_areas: Known<usize>,
    /// Whether the frequency may rise above the nominal one.
    pub turbo: Known<Turbo>,
    /// The longest wake-up that all holders of /dev/cpu_dma_latency allow, microseconds.
    pub dma_latency_us: Known<i32>,
    /// What advice may name on this host.
    pub host: HostFacts,
    /// What is particular to each audited core, in their order.
    pub cores: Vec<CoreSettings>,
}

/// What is particular to one core.
#[derive(Debug, Clone)]
pub struct CoreSettings {
    /// The core.
    pub cpu: CpuId,
    /// Its idle states.
    pub idle_states: Known<Vec<IdleState>>,
    /// The limit on its wake-up (`pm_qos_resume_latency_us`): 0 none, `n/a` no latency at all.
    pub resume_latency: Known<String>,
    /// The frequency governor.
    pub governor: Known<String>,
    /// The lowest and the highest frequency that may be chosen, kHz.
    pub frequency_range_khz: Known<(i64, i64)>,
    /// The logical processors of the same physical core that are online, itself included.
    pub siblings: Known<Vec<CpuId>>,
    /// Seconds between polls for corrected machine checks; 0 is never.
    pub machine_check_interval_s: Known<i64>,
    /// Whether corrected machine checks are ignored: 1 yes.
    pub machine_check_ignored: Known<i64>,
    /// The memory node of the core and the huge pages reserved there: (node, size in KiB, pages).
    pub huge_pages: Known<(u32, Vec<(u64, u64)>)>,
    /// What the deadline server gives to ordinary tasks, nanoseconds per second or so.
    pub fair_server_ns: Known<i64>,
}

/// The kernel's command line.
#[derive(Debug, Clone)]
pub struct BootOptions(pub Known<Identity>);

impl BootOptions {
    /// The value of an option; `None` when it is not given.
    ///
    /// # Errors
    /// Why the command line is not known.
    pub fn get(&self, name: &str) -> Known<Option<&str>> {
        self.0.as_ref().map(|identity| identity.boot_option(name)).map_err(Clone::clone)
    }
}

/// What is known about irqbalance.
#[derive(Debug, Clone, Default)]
pub struct Irqbalance {
    /// The file that sets its environment, with its text.
    pub configuration: Option<(String, String)>,
    /// The environment of the running one, if it may be read.
    pub environment: Option<String>,
}

/// Whether the processor may clock above its nominal frequency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turbo {
    /// Whether it may.
    pub on: bool,
    /// Switched by intel_pstate, whose file is negated; by cpufreq otherwise.
    pub intel_pstate: bool,
}

/// The numbers below /proc/sys that some rule asks for.
const SYSCTLS: [&str; 8] = [
    "kernel.timer_migration",
    "kernel.watchdog",
    "kernel.nmi_watchdog",
    "kernel.numa_balancing",
    "kernel.sched_rt_runtime_us",
    "kernel.sched_rt_period_us",
    "vm.stat_interval",
    "vm.nr_hugepages",
];

/// All threads of the machine.
///
/// # Errors
/// Why they are not all known: a PID namespace shows its own alone.
pub(crate) fn all_tasks(root: &Root) -> Known<Tasks> {
    namespaces::shows_all_tasks(root)?;
    let tasks = Tasks::read(root).map_err(reason)?;
    if tasks.tasks.is_empty() { Err("no thread can be seen below /proc".to_owned()) } else { Ok(tasks) }
}

impl Settings {
    /// Reads everything; what cannot be read is known to be unknown, with the reason.
    pub fn read(root: &Root, cores: &[CpuId]) -> Self {
        let reader = Reader { root };
        let cpu_folder = root.sys("devices/system/cpu");
        let huge = root.sys("kernel/mm/transparent_hugepage");
        let tasks = all_tasks(root);
        Settings {
            audited: cores.to_vec(),
            online: cpus::online(root).map_err(reason),
            possible: cpus::possible(root).map_err(reason),
            boot: BootOptions(root.read(root.proc("cmdline")).map(|_| Identity::read(root)).map_err(reason)),
            isolated: reader.isolated(),
            nohz_full: reader.list(cpu_folder.join("nohz_full"), "the kernel is built without CONFIG_NO_HZ_FULL"),
            irqbalance: reader.irqbalance(tasks.as_ref().ok()),
            tasks,
            lines: isolation::interrupt_lines(root).map_err(reason),
            default_affinity: reader.mask(root.proc("irq/default_smp_affinity")),
            workqueue: reader.mask(root.sys("devices/virtual/workqueue/cpumask")),
            writeback: reader.mask(root.sys("bus/workqueue/devices/writeback/cpumask")),
            watchdog_cores: reader.list(root.proc("sys/kernel/watchdog_cpumask"), "the kernel has no watchdogs"),
            sysctl: SYSCTLS
                .iter()
                .map(|&name| (name, reader.number(root.proc("sys").join(name.replace('.', "/")))))
                .collect(),
            ksm_run: reader.number(root.sys("kernel/mm/ksm/run")),
            thp_enabled: reader.chosen(huge.join("enabled")),
            thp_defrag: reader.chosen(huge.join("defrag")),
            khugepaged_defrag: reader.number(huge.join("khugepaged/defrag")),
            swap_areas: root.read(root.proc("swaps")).map(|text| text.lines().skip(1).count()).map_err(reason),
            turbo: reader.turbo(&cpu_folder),
            dma_latency_us: isolation::cpu_dma_latency_us(root).map_err(reason),
            host: host_facts::read(root, cores),
            cores: cores.iter().map(|&cpu| reader.core(cpu)).collect(),
        }
    }

    /// The cores that are left for everything else: online, and neither audited nor isolated. Falls back to those that
    /// are merely not audited; empty when the audit covers the whole machine.
    pub fn housekeeping(&self) -> Vec<CpuId> {
        let online = self.online.as_deref().unwrap_or_default();
        let others: Vec<CpuId> = online.iter().copied().filter(|cpu| !self.audited.contains(cpu)).collect();
        let isolated = self.isolated.as_deref().unwrap_or_default();
        let ordinary: Vec<CpuId> = others.iter().copied().filter(|cpu| !isolated.contains(cpu)).collect();
        if ordinary.is_empty() { others } else { ordinary }
    }

    /// Whether no online core would be left for everything else if these cores and all audited ones were set apart. Where the online
    /// cores are not known, that is not known either, and no.
    pub fn leaves_none(&self, already: &[CpuId]) -> bool {
        let online = self.online.as_deref().unwrap_or_default();
        let is_apart = |cpu: &CpuId| self.audited.contains(cpu) || already.contains(cpu);
        !online.is_empty() && online.iter().all(is_apart)
    }

    /// A number below /proc/sys.
    ///
    /// # Errors
    /// Why it is not known.
    pub fn sysctl(&self, name: &str) -> Known<i64> {
        self.sysctl.get(name).cloned().unwrap_or_else(|| Err(format!("{name} was not read")))
    }
}

fn reason(error: Error) -> String {
    error.to_string()
}

struct Reader<'a> {
    root: &'a Root,
}

impl Reader<'_> {
    fn number(&self, path: PathBuf) -> Known<i64> {
        settings::number_file(self.root, &path).map_err(reason)
    }

    fn mask(&self, path: PathBuf) -> Known<Vec<CpuId>> {
        settings::mask_file(self.root, &path).map_err(reason)
    }

    /// A list of cores; when the file is absent the reason adds what that usually means.
    fn list(&self, path: PathBuf, absent: &str) -> Known<Vec<CpuId>> {
        settings::list_file(self.root, &path).map_err(|error| {
            if error.is_absent() && !absent.is_empty() { format!("{error}: {absent}") } else { reason(error) }
        })
    }

    /// The word in brackets of a file such as `always [madvise] never`.
    fn chosen(&self, path: PathBuf) -> Known<String> {
        let text = settings::word_file(self.root, &path).map_err(reason)?;
        let word = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(word, _)| word.to_owned());
        word.ok_or_else(|| format!("{} has no word in brackets", path.display()))
    }

    /// Older kernels show partitions only in the cgroup tree, so both places count.
    fn isolated(&self) -> Known<Vec<CpuId>> {
        let mut cores = self.list(self.root.sys("devices/system/cpu/isolated"), "")?;
        cores.extend(self.list(self.root.sys("fs/cgroup/cpuset.cpus.isolated"), "").unwrap_or_default());
        cores.sort_unstable();
        cores.dedup();
        Ok(cores)
    }

    fn irqbalance(&self, tasks: Option<&Tasks>) -> Irqbalance {
        const FILES: [&str; 2] = ["etc/default/irqbalance", "etc/sysconfig/irqbalance"];
        let configuration =
            FILES.iter().find_map(|file| Some((format!("/{file}"), self.root.read(self.root.path(file)).ok()?)));
        let running = tasks.and_then(|tasks| tasks.tasks.iter().find(|task| task.name == "irqbalance"));
        let environment = running.and_then(|task| self.root.read(self.root.proc(format!("{}/environ", task.pid))).ok());
        // The environment may hold what is nobody's business: keep irqbalance's own words only.
        let own_words = |text: String| -> String {
            text.split('\0').filter(|word| word.starts_with("IRQBALANCE_")).collect::<Vec<_>>().join("\n")
        };
        Irqbalance { configuration, environment: environment.map(own_words) }
    }

    fn turbo(&self, cpu_folder: &Path) -> Known<Turbo> {
        match self.number(cpu_folder.join("intel_pstate/no_turbo")) {
            Ok(off) => Ok(Turbo { on: off == 0, intel_pstate: true }),
            Err(_) => {
                let boost = self.number(cpu_folder.join("cpufreq/boost"))?;
                Ok(Turbo { on: boost != 0, intel_pstate: false })
            }
        }
    }

    fn core(&self, cpu: CpuId) -> CoreSettings {
        let root = self.root;
        let at = root.sys(format!("devices/system/cpu/cpu{cpu}"));
        let machine_check = root.sys(format!("devices/system/machinecheck/machinecheck{cpu}"));
        let word = |path: &str| settings::word_file(root, &at.join(path)).map_err(reason);
        let khz = |path: &str| self.number(at.join("cpufreq").join(path));
        CoreSettings {
            cpu,
            idle_states: isolation::idle_states(root, cpu).map_err(reason),
            resume_latency: word("power/pm_qos_resume_latency_us"),
            governor: word("cpufreq/scaling_governor"),
            frequency_range_khz: khz("scaling_min_freq").and_then(|low| Ok((low, khz("scaling_max_freq")?))),
            siblings: self.list(at.join("topology/thread_siblings_list"), ""),
            machine_check_interval_s: self.interval(machine_check.join("check_interval")),
            machine_check_ignored: self.number(machine_check.join("ignore_ce")),
            huge_pages: self.huge_pages(cpu),
            fair_server_ns: self.number(root.sys(format!("kernel/debug/sched/fair_server/cpu{cpu}/runtime"))),
        }
    }

    /// Decimal on today's kernels (`300`), hexadecimal on very old ones (`12c`).
    fn interval(&self, path: PathBuf) -> Known<i64> {
        let text = settings::word_file(self.root, &path).map_err(reason)?;
        let number = text.signed_digits().or_else(|| text.hex_digits());
        number.ok_or_else(|| format!("{}: '{text}' is not a number of seconds", path.display()))
    }

    /// Huge pages of the core's own node, because those of another are slower and may not be given.
    fn huge_pages(&self, cpu: CpuId) -> Known<(u32, Vec<(u64, u64)>)> {
        let nodes = self.root.sys("devices/system/node");
        let entries = std::fs::read_dir(&nodes).map_err(|error| format!("cannot read {}: {error}", nodes.display()))?;
        let numbers = entries.flatten().take(MOST_NODES).filter_map(|entry| number_after(&entry, "node"));
        let node = numbers.map(|node| node as u32).find(|node| {
            settings::list_file(self.root, &nodes.join(format!("node{node}/cpulist")))
                .is_ok_and(|list| list.contains(&cpu))
        });
        let node = node.ok_or_else(|| format!("no folder in {} names core {cpu}", nodes.display()))?;
        let folder = nodes.join(format!("node{node}/hugepages"));
        let entries =
            std::fs::read_dir(&folder).map_err(|error| format!("cannot read {}: {error}", folder.display()))?;
        let mut sizes: Vec<(u64, u64)> = entries
            .flatten()
            .take(MOST_NODES)
            .filter_map(|entry| {
                let name = entry.file_name();
                let size: u64 = name.to_str()?.strip_prefix("hugepages-")?.strip_suffix("kB")?.digits()?;
                let pages = self.number(entry.path().join("nr_hugepages")).ok()?;
                Some((size, u64::try_from(pages).ok()?))
            })
            .collect();
        sizes.sort_unstable();
        Ok((node, sizes))
    }
}

fn number_after(entry: &std::fs::DirEntry, prefix: &str) -> Option<u64> {
    entry.file_name().to_str()?.strip_prefix(prefix)?.digits()
}
