//! What this host and its kernel can do about an interrupt: advice names no option that is not there.

use flate2::read::GzDecoder;
use std::io::Read;
use surefoot_hostfs::{Root, cpus};
use surefoot_model::CpuId;
use surefoot_who::advice::HostFacts;

/// The kernel's configuration is some 300 KB.
const CONFIG_BYTES_MAX: u64 = 4 << 20;

/// Asks the host what advice has to know.
pub(crate) fn read(root: &Root, watched: &[CpuId]) -> HostFacts {
    let online = cpus::online(root).unwrap_or_default();
    let others: Vec<CpuId> = online.into_iter().filter(|cpu| !watched.contains(cpu)).collect();
    let config = Config::read(root);
    let has_nohz_full = root.sys("devices/system/cpu/nohz_full").exists();
    let controllers = root.read(root.sys("fs/cgroup/cgroup.controllers")).unwrap_or_default();
    HostFacts {
        has_nohz_full,
        // The one selects the other.
        has_rcu_nocb: if has_nohz_full { Some(true) } else { config.has("CONFIG_RCU_NOCB_CPU") },
        has_isolation: config.has("CONFIG_CPU_ISOLATION"),
        has_systemd: root.path("run/systemd/system").is_dir(),
        has_cpuset: controllers.split_whitespace().any(|controller| controller == "cpuset"),
        has_workqueue_mask: root.sys("devices/virtual/workqueue/cpumask").exists(),
        damon_off: damon_off(root),
        watched: cpus::format_list(watched),
        housekeeping: cpus::format_list(&others),
    }
}

/// What switches off each user of DAMON that is on: the kernel's own three, and those of the file interface.
fn damon_off(root: &Root) -> Vec<String> {
    const USERS: [&str; 3] = ["damon_reclaim", "damon_lru_sort", "damon_stat"];
    const KDAMONDS: usize = 16;
    let is_on = |path: &str, on: &str| root.read(root.sys(path)).is_ok_and(|text| text.trim() == on);
    let modules = USERS.iter().map(|user| (format!("module/{user}/parameters/enabled"), "Y", "N"));
    let threads = (0..KDAMONDS).map(|number| (format!("kernel/mm/damon/admin/kdamonds/{number}/state"), "on", "off"));
    let on = modules.chain(threads).filter(|(path, on, _)| is_on(path, on));
    on.map(|(path, _, off)| format!("echo {off} > /sys/{path}")).collect()
}

/// The kernel's configuration, where it can be read.
struct Config(Option<String>);

impl Config {
    fn read(root: &Root) -> Self {
        let packed = std::fs::File::open(root.proc("config.gz")).ok().and_then(|file| {
            let mut text = String::new();
            GzDecoder::new(file).take(CONFIG_BYTES_MAX).read_to_string(&mut text).ok()?;
            Some(text)
        });
        Config(packed.or_else(|| {
            let release = root.read(root.proc("sys/kernel/osrelease")).ok()?;
            root.read(root.path(format!("boot/config-{}", release.trim()))).ok()
        }))
    }

    /// Whether an option is set; `None` where there is no configuration to be read.
    fn has(&self, option: &str) -> Option<bool> {
        let text = self.0.as_ref()?;
        Some(text.lines().any(|line| line.strip_prefix(option).is_some_and(|rest| rest == "=y" || rest == "=m")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use std::io::Write;
    use surefoot_testkit::HostTree;

    #[test]
    fn a_slim_host_says_what_it_has_not() {
        let tree = HostTree::new()
            .file("sys/devices/system/cpu/online", "0-3\n")
            .file("proc/sys/kernel/osrelease", "6.18.1-slim\n")
            .file("boot/config-6.18.1-slim", "CONFIG_CPU_ISOLATION=y\n# CONFIG_RCU_NOCB_CPU is not set\n")
            .file("sys/module/damon_stat/parameters/enabled", "Y\n")
            .file("sys/module/damon_reclaim/parameters/enabled", "N\n");
        let facts = read(&Root::at(tree.path()), &[CpuId(1), CpuId(3)]);
        assert_eq!(
            facts,
            HostFacts {
                has_rcu_nocb: Some(false),
                has_isolation: Some(true),
                damon_off: vec!["echo N > /sys/module/damon_stat/parameters/enabled".into()],
                watched: "1,3".into(),
                housekeeping: "0,2".into(),
                ..HostFacts::default()
            }
        );
        assert_eq!(read(&Root::at(HostTree::new().path()), &[]).has_isolation, None);
    }

    #[test]
    fn a_full_host_is_believed_and_its_packed_configuration_read() {
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(b"CONFIG_CPU_ISOLATION=y\nCONFIG_RCU_NOCB_CPU_X=y\n").unwrap();
        let tree = HostTree::new()
            .file("sys/devices/system/cpu/nohz_full", "(null)\n")
            .file("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io\n")
            .file("sys/devices/virtual/workqueue/cpumask", "f\n")
            .file("sys/kernel/mm/damon/admin/kdamonds/0/state", "on\n")
            .folder("run/systemd/system")
            .file("proc/config.gz", packed.finish().unwrap());
        let facts = read(&Root::at(tree.path()), &[]);
        assert!(facts.has_nohz_full && facts.has_systemd && facts.has_cpuset && facts.has_workqueue_mask);
        assert_eq!((facts.has_rcu_nocb, facts.has_isolation), (Some(true), Some(true)));
        assert_eq!(facts.damon_off, ["echo off > /sys/kernel/mm/damon/admin/kdamonds/0/state"]);
        assert_eq!(facts.others(), "OTHER_CORES");
    }
}
