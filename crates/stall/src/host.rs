//! What a stream says about its host before the first window.

use crate::config::Config;
use surefoot_hostfs::clock;
use surefoot_hostfs::identity::Identity;
use surefoot_model::HostDescription;
use surefoot_probes::Workload;

/// Describes the host for the first event of a stream.
pub fn describe(identity: &Identity, config: &Config, source: &str, missing: &str) -> HostDescription {
    HostDescription {
        hostname: identity.hostname.clone(),
        kernel: identity.kernel.clone(),
        processor: identity.processor.clone(),
        vendor: identity.vendor,
        hypervisor: identity.hypervisor.clone(),
        cpus: config.cpus.clone(),
        workload: workload(&config.workload),
        gap_threshold_ns: config.gap_threshold_ns,
        source: source.to_owned(),
        missing: missing.to_owned(),
        realtime_offset_ns: clock::realtime_offset_ns(),
    }
}

/// The workload as the user named it.
fn workload(workload: &Workload) -> String {
    match workload {
        Workload::None => String::new(),
        Workload::Processes(ids) => {
            let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
            format!("process {}", ids.join(", "))
        }
        Workload::Comm(comm) => format!("threads named {comm}"),
        Workload::Cores => "the task that each core belongs to (--workload none leaves it out)".to_owned(),
    }
}
