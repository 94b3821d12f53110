use std::path::PathBuf;
use surefoot_foreign::said;

/// Why the probes cannot run or be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel or the privilege does not allow eBPF here.
    #[error("eBPF is not available: {why}; {remedy}")]
    Unsupported {
        /// What is missing.
        why: String,
        /// What helps.
        remedy: String,
    },
    /// The kernel refused the programs.
    #[error("the kernel refused the eBPF programs: {why}")]
    Refused {
        /// The kernel's or the loader's words.
        why: String,
    },
    /// A map's layout is not what this library was built for.
    #[error("eBPF map '{map}' has values of {found_bytes} bytes, this library was built for {wanted_bytes}")]
    Layout {
        /// The map.
        map: String,
        /// Bytes found.
        found_bytes: usize,
        /// Bytes wanted.
        wanted_bytes: usize,
    },
    /// A map could not be mapped into memory.
    #[error("cannot map eBPF map '{map}' into memory: {}", said(source))]
    Map {
        /// The map.
        map: String,
        /// The kernel's word.
        source: std::io::Error,
    },
    /// A tracepoint's format file could not be used.
    #[error("cannot read {}: {}", path.display(), said(source))]
    Format {
        /// The file.
        path: PathBuf,
        /// The kernel's word.
        source: std::io::Error,
    },
    /// A workload that cannot be told to the programs.
    #[error("workload: {0}")]
    Workload(String),
}
