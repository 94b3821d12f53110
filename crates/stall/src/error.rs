use surefoot_foreign::said;
use surefoot_model::CpuId;

/// Why lost time cannot be measured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A core that cannot be watched.
    #[error("core {cpu} {why}; the cores online are {online}")]
    Core {
        /// The core asked for.
        cpu: CpuId,
        /// What is wrong with it.
        why: &'static str,
        /// The cores that can be watched, as a list.
        online: String,
    },
    /// An option with a value that makes no sense.
    #[error("{option}: {why}")]
    Option {
        /// The option.
        option: &'static str,
        /// What is wrong, and what is allowed.
        why: String,
    },
    /// The processor has no counter to spin on.
    #[error("the probe cannot run here: {0}")]
    NoCounter(#[from] surefoot_hostfs::Unsupported),
    /// A file or system call of the host failed.
    #[error(transparent)]
    Host(#[from] surefoot_hostfs::Error),
    /// The eBPF programs were asked for and cannot run.
    #[error(transparent)]
    Probes(#[from] surefoot_probes::Error),
    /// Who interrupted a core cannot be named from here.
    #[error("{why}; {remedy}")]
    NotNamed {
        /// Why.
        why: String,
        /// What helps.
        remedy: String,
    },
    /// The process that reads names has no connection to who asks.
    #[error("cannot read names: {}; this command is started by 'surefoot' itself", said(source))]
    Naming {
        /// Why.
        source: std::io::Error,
    },
    /// A thread could not be started.
    #[error("cannot start a thread: {}", said(.0))]
    Thread(std::io::Error),
}
