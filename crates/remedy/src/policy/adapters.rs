//! What a policy file says of the systems that steps use. Passwords and tokens stand in files of their own, which are read when they
//! are needed.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use surefoot_outside::address::shown;

/// Who takes a service's hosts out and brings them back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Drain {
    /// Nobody: taking out and bringing back is only written down.
    #[default]
    None,
    /// Slurm.
    Slurm,
    /// Kubernetes.
    Kubernetes,
}

impl Drain {
    /// Each with its word.
    pub const ALL: [(&'static str, Drain); 3] =
        [("none", Drain::None), ("slurm", Drain::Slurm), ("kubernetes", Drain::Kubernetes)];
}

/// How Slurm is reached: the table `[slurm]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Slurm {
    /// Its `slurm.conf`; `None` for where its commands look anyway.
    pub conf: Option<PathBuf>,
    /// Whether jobs that run on a node are requeued, instead of waited for.
    pub requeues_jobs: bool,
}

/// What is said of an executable that `run:PATH` starts: a table `[[hook]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    /// Its path.
    pub path: String,
    /// It is ended when it takes longer.
    pub time_limit: Duration,
    /// Whether doing it twice does no harm, so that after a crash it is done again.
    pub is_repeatable: bool,
    /// Whether it answers `find`.
    pub can_find: bool,
}

/// How Kubernetes is reached: the table `[kubernetes]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kubernetes {
    /// The address of its API server, such as `https://kubernetes.example:6443`.
    pub server: String,
    /// The file with the bearer token.
    pub token_file: PathBuf,
    /// The certificate of the authority that the server's is checked against; `None` for those that the machine trusts.
    pub ca_file: Option<PathBuf>,
    /// Whether pods without a controller are evicted, too, as by `kubectl drain --force`.
    pub force: bool,
    /// Whether pods with local storage are evicted, too, as by `kubectl drain --delete-emptydir-data`.
    pub delete_emptydir_data: bool,
}

/// How a host's baseboard management controller is reached, by Redfish or by IPMI: a table `[[bmc]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bmc {
    /// The host; `*` for every other one.
    pub host: String,
    /// The address; of `*`, `{host}` in it becomes the host's name, such as `https://{host}-bmc` or `ipmi://{host}-bmc`.
    pub url: String,
    /// The user, and the file with the password; `None` where the controller asks for none.
    pub user: Option<(String, PathBuf)>,
    /// As of [`Kubernetes::ca_file`].
    pub ca_file: Option<PathBuf>,
    /// The controller's system that is the host, where it has several: a path, a UUID or a serial number.
    pub system: Option<String>,
}

impl Bmc {
    /// Whether it speaks IPMI alone.
    pub fn is_ipmi(&self) -> bool {
        self.url.starts_with("ipmi://")
    }

    /// Why a step for one of these hosts could act on another's machine.
    pub fn shared(all: &[Bmc]) -> Option<String> {
        let plain = |word: &str| word.trim_end_matches('/').to_ascii_lowercase();
        let mut places: BTreeMap<String, BTreeMap<Option<String>, &str>> = BTreeMap::new();
        for bmc in all {
            let system = bmc.system.as_deref().map(plain);
            let others = places.entry(plain(&bmc.url)).or_default();
            // Where one table names no system, it may be any.
            let any = if system.is_none() { others.values().next() } else { others.get(&None) };
            if let Some(other) = others.get(&system).or(any) {
                let hosts = format!("{other} and {}", bmc.host);
                let way =
                    if bmc.is_ipmi() { "give each its own address" } else { "choose each host's with system = '...'" };
                return Some(format!(
                    "the [[bmc]] tables of {hosts} name the same machine at {}; {way}",
                    shown(&bmc.url)
                ));
            }
            others.insert(system, &bmc.host);
        }
        None
    }
}

/// A system that takes tickets: a table `[[ticket]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TicketSystem {
    /// Its name, in steps and policies.
    pub name: String,
    /// How it takes them.
    pub way: TicketWay,
}

/// How a ticket system takes tickets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TicketWay {
    /// By an HTTP POST of JSON.
    Webhook {
        /// Where to.
        url: String,
        /// The file with a bearer token, where it asks for one.
        token_file: Option<PathBuf>,
        /// As of [`Kubernetes::ca_file`].
        ca_file: Option<PathBuf>,
    },
    /// By the machine's `sendmail`.
    Email {
        /// To whom.
        to: String,
    },
    /// As a file in a directory.
    Directory {
        /// Which one.
        path: PathBuf,
    },
}

/// How long restarts of hosts take: the table `[reboot]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reboot {
    /// A host whose controller does not tell how far it has started counts as back after so long with power.
    pub settle: Option<Duration>,
    /// A host that is not back after so long has failed.
    pub limit: Option<Duration>,
}

/// Where the debug mode finds what it needs: the table `[debug]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Debug {
    /// The directory of vendors' adapters.
    pub adapters: Option<PathBuf>,
    /// The history that errors are read from.
    pub history: Option<PathBuf>,
}
