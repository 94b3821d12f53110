//! What the numbers were measured on.

use crate::peers;
use surefoot_hostfs::identity::Identity;
use surefoot_hostfs::{Root, cpus};

/// The machine in a few lines: kernel, processor, cores, what is below, how busy it is, which peers.
pub fn description(root: &Root) -> String {
    let identity = Identity::read(root);
    let cores = cpus::online(root).map_or(0, |cpus| cpus.len());
    let below = identity.hypervisor.map_or("none".to_owned(), |name| format!("{name}, so this is a virtual machine"));
    let mut text =
        format!("kernel      Linux {}\nprocessor   {}\ncores       {cores}\n", identity.kernel, identity.processor);
    text += &format!("hypervisor  {below}\nload        {}\n", load(root));
    for tool in ["perf", "bpftrace", "oslat", "cyclictest", "stress-ng"] {
        let version = peers::version(tool).unwrap_or_else(|why| why);
        text += &format!("peer        {version}\n");
    }
    text
}

/// The load averages over 1, 5 and 15 minutes.
pub fn load(root: &Root) -> String {
    let text = root.read(root.proc("loadavg")).unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}
