//! What advice has to know of the host, so that it names no option that is not there. `surefoot-stall` asks the host.

/// What advice has to know of the host.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostFacts {
    /// Whether the kernel is built with `CONFIG_NO_HZ_FULL`.
    pub has_nohz_full: bool,
    /// Whether it is built with `CONFIG_RCU_NOCB_CPU`; `None` where it does not say.
    pub has_rcu_nocb: Option<bool>,
    /// Whether it is built with `CONFIG_CPU_ISOLATION`, which `isolcpus=` needs; `None` where it does not say.
    pub has_isolation: Option<bool>,
    /// Whether systemd runs.
    pub has_systemd: bool,
    /// Whether the control groups have the cpuset controller.
    pub has_cpuset: bool,
    /// Whether unbound workqueues have a mask of cores.
    pub has_workqueue_mask: bool,
    /// What switches DAMON off, a command each, for what runs it now.
    pub damon_off: Vec<String>,
    /// The watched cores, as a list.
    pub watched: String,
    /// The online cores that are not watched, as a list; empty where all are.
    pub housekeeping: String,
}

impl HostFacts {
    /// The other cores by number, or in words.
    pub fn others(&self) -> &str {
        if self.housekeeping.is_empty() { "OTHER_CORES" } else { &self.housekeeping }
    }
}
