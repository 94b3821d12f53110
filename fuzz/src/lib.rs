//! Everything that Surefoot reads and strangers may write, as functions of bytes.
//!
//! Each target is one function. The fuzzer (`fuzz/coverage`, by `make fuzz`) looks for bytes that make it panic, take more than
//! a second or more than 512 MiB; `tests/replay.rs` runs what it has found so far, on every `make test`. A target that hides its
//! bytes behind a checksum mends the checksum, so that what is behind it is reached.
//!
//! ```
//! let target = surefoot_fuzz::target("perf_map").expect("it is in the list");
//! (target.run)(b"1000 10 run\n");
//! ```
#![forbid(unsafe_code)]

mod scratch;
mod targets;

use targets::{checkpoint, disturb, http, inloop, memory, names, nic, people, recording, remedy, settings};

/// Something that reads bytes.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name: that of its folder below `corpus`.
    pub name: &'static str,
    /// Reads them. Whatever they are, it returns.
    pub run: fn(&[u8]),
    /// The longest input that is tried.
    pub bytes_max: usize,
}

/// All of them.
pub const TARGETS: &[Target] = &[
    Target { name: "recording", run: recording::recording, bytes_max: 16 << 10 },
    Target { name: "manifest", run: checkpoint::manifest, bytes_max: 4 << 10 },
    Target { name: "sidecar", run: checkpoint::sidecar, bytes_max: 48 << 10 },
    Target { name: "journal", run: checkpoint::journal, bytes_max: 8 << 10 },
    Target { name: "inloop", run: inloop::ring, bytes_max: 2 << 10 },
    Target { name: "symbols", run: names::symbols, bytes_max: 24 << 10 },
    Target { name: "frames", run: names::frames, bytes_max: 16 << 10 },
    Target { name: "demangle", run: names::demangle, bytes_max: 2 << 10 },
    Target { name: "perf_map", run: names::perf_map, bytes_max: 8 << 10 },
    Target { name: "names_channel", run: names::channel, bytes_max: 4 << 10 },
    Target { name: "http_head", run: http::head, bytes_max: 4 << 10 },
    Target { name: "settings", run: settings::settings, bytes_max: 1 << 10 },
    Target { name: "proc_text", run: settings::proc_text, bytes_max: 2 << 10 },
    Target { name: "kernel_log", run: memory::kernel_log, bytes_max: 4 << 10 },
    Target { name: "mcelog", run: memory::mcelog, bytes_max: 2 << 10 },
    Target { name: "sel", run: memory::sel, bytes_max: 2 << 10 },
    Target { name: "driver_detail", run: memory::driver_detail, bytes_max: 2 << 10 },
    Target { name: "nic_packets", run: nic::packets, bytes_max: 12 << 10 },
    Target { name: "nic_firmware", run: nic::firmware, bytes_max: 8 << 10 },
    Target { name: "nic_campaign", run: nic::campaign, bytes_max: 4 << 10 },
    Target { name: "smbios", run: memory::smbios, bytes_max: 2 << 10 },
    Target { name: "hest", run: memory::hest, bytes_max: 1 << 10 },
    Target { name: "memory_state", run: memory::state, bytes_max: 4 << 10 },
    Target { name: "trace_pipe", run: memory::trace_pipe, bytes_max: 4 << 10 },
    Target { name: "experiment_journal", run: disturb::experiment_journal, bytes_max: 8 << 10 },
    Target { name: "prediction_shard", run: disturb::prediction_shard, bytes_max: 4 << 10 },
    Target { name: "people", run: people::people, bytes_max: 1 << 10 },
    Target { name: "alertmanager", run: remedy::webhook, bytes_max: 8 << 10 },
    Target { name: "host_findings", run: remedy::findings, bytes_max: 8 << 10 },
    Target { name: "policy", run: remedy::policy, bytes_max: 4 << 10 },
    Target { name: "adapter", run: remedy::adapter, bytes_max: 2 << 10 },
    Target { name: "check_output", run: remedy::check, bytes_max: 2 << 10 },
];

/// The target of this name.
pub fn target(name: &str) -> Option<Target> {
    TARGETS.iter().copied().find(|target| target.name == name)
}
