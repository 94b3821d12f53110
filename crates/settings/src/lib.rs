//! The settings of `surefoot watch`: what can be set, to what, by whom, and what holds.
//!
//! [`SETTINGS`] is the one list. The commented file of `surefoot config defaults`, docs/defaults.md, the names of environment variables
//! and every check of a value are made from it. A new setting is a field of [`Settings`] and a row there.
//!
//! # Invariants
//! - A value comes from the last of these that names it: the default, the file, the environment, the option. [`Effective::origin`] says
//!   which, with the line of the file.
//! - A file is taken as a whole or not at all: an unknown key, a wrong type or a value out of range refuses it, with its line.
//! - Root takes no file that another user can change.
//! - Whoever needs a setting while the watch runs asks [`Live`], which changes all of them at once.
//!
//! ```
//! use surefoot_settings::{Effective, Origin};
//! let file = "[memory]\ninterval = \"10s\"\n";
//! let held = Effective::of(Some(("surefoot.toml".as_ref(), file)), &[], &[])?;
//! assert_eq!(held.settings.memory.interval.as_secs(), 10);
//! assert_eq!(held.origin("memory.interval").to_string(), "surefoot.toml:2");
//! assert_eq!(held.origin("nic.interval"), &Origin::Default);
//! let wrong = Effective::of(Some(("surefoot.toml".as_ref(), "[memory]\nintervall = \"10s\"\n")), &[], &[]);
//! assert!(wrong.unwrap_err().to_string().contains("did you mean 'memory.interval'?"));
//! # Ok::<(), surefoot_settings::Error>(())
//! ```
#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "SETTINGS says what each field is")]

mod effective;
mod error;
mod file;
mod live;
mod table;
mod value;

#[cfg(test)]
mod tests;

pub use effective::{Chosen, Effective, Origin, variable_of};
pub use error::Error;
pub use file::{DEFAULT_FILE, FILE_BYTES_MAX, commented, text_of};
pub use live::{Live, Reload};
pub use table::SETTINGS;
pub use value::{Allowed, Field, Setting, When};

use std::path::PathBuf;
use std::time::Duration;

/// Everything that can be set.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Settings {
    /// Lost time.
    pub stall: Stall,
    /// Memory errors.
    pub memory: Memory,
    /// Checkpoints and drives.
    pub checkpoint: Checkpoint,
    /// Network interfaces.
    pub nic: Nic,
    /// Experiments.
    pub disturb: Disturb,
    /// Periodic checks.
    pub remedy: Remedy,
    /// The watch itself.
    pub watch: Watch,
    /// The history.
    pub history: History,
    /// The page, the API and the metrics.
    pub page: Page,
    /// Where else they are served.
    pub listen: Listen,
    /// The metrics.
    pub metrics: Metrics,
    /// What an Alertmanager is told.
    pub alerts: Alerts,
}

/// Lost time.
#[derive(Debug, Clone, PartialEq)]
pub struct Stall {
    pub watched: bool,
    pub interval: Duration,
    pub min_gap: Duration,
    pub source: String,
    pub cores: Option<String>,
    pub workload: Option<String>,
    pub who: Option<String>,
    pub sentinel: Option<String>,
    pub notice_share: f64,
    pub notice_per_s: Duration,
    pub notice_gap: Duration,
    pub warning_share: f64,
    pub warning_per_s: Duration,
    pub warning_gap: Duration,
    pub little_busy_share: f64,
}

impl Default for Stall {
    fn default() -> Self {
        Stall {
            watched: true,
            interval: Duration::from_secs(1),
            min_gap: Duration::from_micros(100),
            source: "best".to_owned(),
            cores: None,
            workload: None,
            who: None,
            sentinel: None,
            notice_share: 0.01,
            notice_per_s: Duration::from_millis(1),
            notice_gap: Duration::from_millis(1),
            warning_share: 0.05,
            warning_per_s: Duration::from_millis(5),
            warning_gap: Duration::from_millis(10),
            little_busy_share: 0.05,
        }
    }
}

/// Memory errors.
#[derive(Debug, Clone, PartialEq)]
pub struct Memory {
    pub watched: bool,
    pub interval: Duration,
    pub busy_interval: Duration,
    pub report_interval: Duration,
    pub check_interval: Duration,
    pub rate_limit_per_s: f64,
    pub burst: f64,
    pub bmc_interval: Duration,
    pub bmc_timeout: Duration,
    pub redfish: Option<String>,
    pub redfish_system: Option<String>,
    pub redfish_ca: Option<PathBuf>,
    pub redfish_insecure: bool,
    pub event_log: Option<String>,
    pub bmc_user: Option<String>,
    pub bmc_password_file: Option<PathBuf>,
}

impl Default for Memory {
    fn default() -> Self {
        Memory {
            watched: true,
            interval: Duration::from_secs(30),
            busy_interval: Duration::from_secs(2),
            report_interval: Duration::from_secs(1),
            check_interval: Duration::from_secs(600),
            rate_limit_per_s: 10.0,
            burst: 100.0,
            bmc_interval: Duration::from_secs(60),
            bmc_timeout: Duration::from_secs(30),
            redfish: None,
            redfish_system: None,
            redfish_ca: None,
            redfish_insecure: false,
            event_log: None,
            bmc_user: None,
            bmc_password_file: None,
        }
    }
}

/// Checkpoints and drives.
#[derive(Debug, Clone, PartialEq)]
pub struct Checkpoint {
    pub watched: bool,
    pub directories: Vec<PathBuf>,
    pub interval: Duration,
    pub worn_notice_percent: u64,
    pub worn_warning_percent: u64,
    pub spare_warning_percent: u64,
}

impl Default for Checkpoint {
    fn default() -> Self {
        Checkpoint {
            watched: true,
            directories: Vec::new(),
            interval: Duration::from_secs(2),
            worn_notice_percent: 90,
            worn_warning_percent: 100,
            spare_warning_percent: 10,
        }
    }
}

/// Network interfaces.
#[derive(Debug, Clone, PartialEq)]
pub struct Nic {
    pub watched: bool,
    pub interval: Duration,
    pub use_interval: Duration,
    pub damaged_packets: u64,
    pub damaged_share: f64,
    pub link_changes: u64,
}

impl Default for Nic {
    fn default() -> Self {
        Nic {
            watched: true,
            interval: Duration::from_secs(10),
            use_interval: Duration::from_secs(60),
            damaged_packets: 10,
            damaged_share: 0.001,
            link_changes: 3,
        }
    }
}

/// Experiments.
#[derive(Debug, Clone, PartialEq)]
pub struct Disturb {
    pub watched: bool,
    pub journals: Vec<PathBuf>,
    pub interval: Duration,
    pub failed_for: Duration,
    pub running_of_user: u64,
}

impl Default for Disturb {
    fn default() -> Self {
        Disturb {
            watched: true,
            journals: Vec::new(),
            interval: Duration::from_secs(1),
            failed_for: Duration::from_secs(3_600),
            running_of_user: 4,
        }
    }
}

/// Periodic checks.
#[derive(Debug, Clone, PartialEq)]
pub struct Remedy {
    pub watched: bool,
    pub checks: Option<PathBuf>,
}

impl Default for Remedy {
    fn default() -> Self {
        Remedy { watched: true, checks: None }
    }
}

/// The watch itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Watch {
    pub run_directory: Option<PathBuf>,
    pub health_users: Vec<String>,
    pub deeds_interval: Duration,
    pub findings_interval: Duration,
    pub stale_after: Duration,
    pub stale_windows: u64,
    pub loss_notice_for: Duration,
    pub untraced_per_min: u64,
}

impl Default for Watch {
    fn default() -> Self {
        Watch {
            run_directory: None,
            health_users: Vec::new(),
            deeds_interval: Duration::from_secs(2),
            findings_interval: Duration::from_secs(1),
            stale_after: Duration::from_secs(10),
            stale_windows: 3,
            loss_notice_for: Duration::from_secs(60),
            untraced_per_min: 60,
        }
    }
}

/// The history.
#[derive(Debug, Clone, PartialEq)]
pub struct History {
    pub kept: bool,
    pub file: Option<PathBuf>,
    pub size: u64,
    pub seconds_for: Duration,
    pub minutes_for: Duration,
    pub gaps_per_day: u64,
    pub notices: u64,
    pub findings: u64,
    pub records: u64,
    pub record_size: u64,
    pub waiting_size: u64,
}

impl Default for History {
    fn default() -> Self {
        History {
            kept: true,
            file: None,
            size: 256 << 20,
            seconds_for: Duration::from_secs(3_600),
            minutes_for: Duration::from_secs(30 * 86_400),
            gaps_per_day: 1_000,
            notices: 10_000,
            findings: 10_000,
            records: 10_000,
            record_size: 8 << 10,
            waiting_size: 8 << 20,
        }
    }
}

/// The page, the API and the metrics.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    pub served: bool,
    pub port: u64,
    pub group: Option<String>,
    pub windows: u64,
    pub gaps: u64,
}

impl Default for Page {
    fn default() -> Self {
        Page { served: true, port: 7_077, group: None, windows: 900, gaps: 2_000 }
    }
}

/// Where the page, the API and the metrics are served beside 127.0.0.1.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Listen {
    pub addresses: Vec<String>,
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
    pub client_authority: Option<PathBuf>,
    pub roles: Option<PathBuf>,
}

/// What a scrape tells.
#[derive(Debug, Clone, PartialEq)]
pub struct Metrics {
    pub detail: String,
    pub series: u64,
    pub edac: bool,
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics { detail: "host".to_owned(), series: 0, edac: false }
    }
}

/// The Alertmanager that is told of findings.
#[derive(Debug, Clone, PartialEq)]
pub struct Alerts {
    pub url: Option<String>,
    pub token_file: Option<PathBuf>,
    pub authority: Option<PathBuf>,
    pub interval: Duration,
    pub docs: Option<String>,
}

impl Default for Alerts {
    fn default() -> Self {
        Alerts { url: None, token_file: None, authority: None, interval: Duration::from_secs(10), docs: None }
    }
}
