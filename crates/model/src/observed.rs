//! What was observed of an action that was done: its post-condition as numbers and states that were seen, not what was intended.

use crate::finding::counted;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// What was observed of an action that was done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Observed {
    /// The kernel accepted it; nothing on this host shows more.
    Accepted,
    /// The bytes were written.
    Written,
    /// What was read passed every check.
    Intact,
    /// Its files are gone.
    FilesGone,
    /// The effect was measured.
    Measured,
    /// The driver reports that it recovered.
    DriverRecovered,
    /// The link was switched off and on.
    LinkCycled,
    /// The link had been left off by the process that began it, and is on now.
    LinkSwitchedOn,
    /// The link is on; the process that began it ended before it wrote that down.
    LinkWasOn,
    /// The new value reads back; nothing on this host shows its effect.
    ReadBack,
    /// The effect was seen.
    Effect {
        /// What was seen.
        evidence: String,
    },
    /// The fault is gone.
    FaultGone {
        /// What was looked at.
        evidence: String,
    },
    /// A note in the words of the step.
    Note {
        /// The words.
        text: String,
    },
    /// The scheduler shows that the host takes no new work and has none left.
    Empty {
        /// The scheduler and the state of the host in its words, such as `Slurm: idle+drain`.
        state: String,
        /// Jobs or pods that are left.
        work_count: u32,
        /// CPUs that are allocated to jobs; `None` where the scheduler has no such count.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        allocated_cpus: Option<u32>,
        /// Pods that do not leave with a drain: those of DaemonSets and static ones.
        #[serde(default, skip_serializing_if = "is_zero")]
        staying_count: u32,
        /// Who took the host out of service, if not this case; it is left out of service at the end.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        taken_out_by: String,
    },
    /// The scheduler gives the host work again.
    InService {
        /// The scheduler and the state of the host in its words.
        state: String,
        /// Jobs or pods that run there now; 0 until the first one starts.
        work_count: u64,
    },
    /// The host stays out of service, as someone else wants it.
    LeftOut {
        /// The scheduler and the state of the host in its words.
        state: String,
        /// Who took it out of service.
        taken_out_by: String,
    },
    /// The memory was tested under load.
    Tested {
        /// For how long.
        tested_s: u64,
        /// How much memory was copied and compared, in all passes.
        copied_mebibytes: u64,
        /// Errors that were found.
        error_count: u64,
    },
    /// The host was restarted.
    Restarted {
        /// How that was seen.
        proof: RestartProof,
        /// Seconds from the request until it was seen to be up again; 0 where nobody measured it.
        after_s: u64,
    },
    /// Settings read back with these values.
    Settings {
        /// Their names and values, as whoever holds them tells them.
        values: BTreeMap<String, String>,
        /// Whether they are in force; otherwise they take effect at the next restart.
        in_force: bool,
    },
    /// Errors were looked up in the history of the host.
    RowsFound {
        /// Rows with errors.
        row_count: u64,
        /// Errors without a row.
        unplaced_count: u64,
    },
    /// Firmware reported on a post-package repair.
    RowsRepaired {
        /// For how long they are repaired.
        lasts: RepairLasts,
        /// Rows that it was asked to repair.
        asked_count: u64,
        /// Rows that it accepted.
        accepted_count: u64,
        /// Spare rows that are left.
        spare_count: u64,
    },
    /// The kernel has these pages out of use.
    PagesOffline {
        /// Pages that it was asked to take out of use.
        asked_count: u64,
        /// Pages that it marks as poisoned (`/proc/kpageflags`).
        offline_count: u64,
    },
    /// Every source that knows of the alert was asked.
    Alert {
        /// What each said.
        readings: Vec<AlertReading>,
    },
    /// A ticket system confirmed the ticket.
    Ticket {
        /// Its name there.
        ticket: String,
        /// The system.
        system: String,
    },
    /// A hook reported what it observed (a line `seen: TEXT`).
    Hook {
        /// Its words.
        text: String,
    },
    /// A dry run: nothing was done.
    DryRun {
        /// What would be done.
        would: String,
    },
    /// The outcome cannot be observed.
    Unobserved {
        /// Why not.
        why: String,
    },
}

/// How a restart was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RestartProof {
    /// The kernel has another boot ID.
    BootId,
    /// The management controller reports that the operating system runs (`BootProgress`).
    BootProgress,
    /// The management controller reports another time of the last reset (`LastResetTime`).
    LastReset,
    /// The power was seen off, and then on.
    PowerCycle,
}

/// How long a post-package repair lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RepairLasts {
    /// Until the next reset or loss of power (sPPR).
    UntilReset,
    /// For good (hPPR).
    Permanently,
}

/// Who was asked whether an alert holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AlertSource {
    /// The findings that the agent of the host reported last.
    Agent,
    /// Alertmanager, asked now.
    Alertmanager,
    /// The store of the controller: what was reported last by whoever reports the alert.
    Store,
}

/// What one source says of an alert.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct AlertReading {
    /// The source.
    pub source: AlertSource,
    /// Whether the alert holds; `None` where the source cannot tell.
    pub holds: Option<bool>,
    /// How old that is, seconds; `None` where unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_s: Option<u64>,
    /// Why the source cannot tell; empty otherwise.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

impl fmt::Display for AlertReading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = match self.source {
            AlertSource::Agent => "agent",
            AlertSource::Alertmanager => "Alertmanager",
            AlertSource::Store => "store",
        };
        let says = match self.holds {
            Some(true) => "firing",
            Some(false) => "over",
            None => "unknown",
        };
        write!(f, "{source}: {says}")?;
        match (self.age_s, self.why.as_str()) {
            (Some(age_s), _) => write!(f, " ({age_s} s ago)"),
            (None, "") => Ok(()),
            (None, why) => write!(f, " ({why})"),
        }
    }
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl Observed {
    /// Whether everybody may read it: it names nothing of others.
    pub(crate) fn is_public(&self) -> bool {
        matches!(
            self,
            Observed::Accepted
                | Observed::Written
                | Observed::Intact
                | Observed::FilesGone
                | Observed::Measured
                | Observed::DriverRecovered
                | Observed::LinkCycled
                | Observed::LinkSwitchedOn
                | Observed::LinkWasOn
                | Observed::ReadBack
                | Observed::Tested { .. }
                | Observed::Restarted { .. }
                | Observed::RowsFound { .. }
                | Observed::RowsRepaired { .. }
                | Observed::PagesOffline { .. }
        )
    }

    /// Whether it shows the effect of an action. A request that was accepted, a note and a dry run show none.
    pub fn shows_effect(&self) -> bool {
        !matches!(
            self,
            Observed::Accepted | Observed::Note { .. } | Observed::DryRun { .. } | Observed::Unobserved { .. }
        )
    }
}

impl fmt::Display for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Observed::Accepted => f.write_str("the kernel accepted it"),
            Observed::Written => f.write_str("written"),
            Observed::Intact => f.write_str("every check passed"),
            Observed::FilesGone => f.write_str("its files are gone"),
            Observed::Measured => f.write_str("the effect was measured"),
            Observed::DriverRecovered => f.write_str("the driver reports that it recovered"),
            Observed::LinkCycled => {
                f.write_str("switched off and on; IPv6 addresses and routes on it may have to be set again")
            }
            Observed::LinkSwitchedOn => {
                f.write_str("the process that began it ended between off and on; switched on now")
            }
            Observed::LinkWasOn => {
                f.write_str("the process that began it ended before it recorded the end; the link is on")
            }
            Observed::ReadBack => f.write_str("the new value reads back"),
            Observed::Effect { evidence } | Observed::FaultGone { evidence } => f.write_str(evidence),
            Observed::Note { text } | Observed::Hook { text } => f.write_str(text),
            Observed::Empty { state, work_count, allocated_cpus, staying_count, taken_out_by } => {
                write!(f, "{state}; {work_count} jobs or pods left")?;
                allocated_cpus.iter().try_for_each(|cpus| write!(f, ", CPUAlloc {cpus}"))?;
                if *staying_count > 0 {
                    let pods = counted(
                        u64::from(*staying_count),
                        "DaemonSet or static pod stays",
                        "DaemonSet or static pods stay",
                    );
                    write!(f, ", {pods}")?;
                }
                match taken_out_by.as_str() {
                    "" => Ok(()),
                    who => write!(f, "; taken out of service by {who}, not by this case, and left so at the end"),
                }
            }
            Observed::InService { state, work_count: 0 } => write!(f, "{state}; no job or pod has started there yet"),
            Observed::InService { state, work_count } => {
                write!(f, "{state}; {} there", counted(*work_count, "job or pod runs", "jobs or pods run"))
            }
            Observed::LeftOut { state, taken_out_by } => {
                write!(f, "{state}; it stays out of service: taken out by {taken_out_by}, not by this case")
            }
            Observed::Tested { tested_s, copied_mebibytes, error_count } => {
                write!(f, "{} in {tested_s} s, {copied_mebibytes} MiB copied", counted(*error_count, "error", "errors"))
            }
            Observed::Restarted { proof, after_s } => {
                let proof = match proof {
                    RestartProof::BootId => "another boot ID",
                    RestartProof::BootProgress => "the operating system runs (BootProgress)",
                    RestartProof::LastReset => "another LastResetTime, power on",
                    RestartProof::PowerCycle => "power off, then on",
                };
                match after_s {
                    0 => write!(f, "restarted: {proof}"),
                    after_s => write!(f, "restarted: {proof}, {after_s} s after the request"),
                }
            }
            Observed::Settings { values, in_force } => {
                let values: Vec<String> = values.iter().map(|(name, value)| format!("{name} = {value}")).collect();
                let when = if *in_force { "" } else { " from the next restart on" };
                write!(f, "read back: {}{when}", values.join(", "))
            }
            Observed::RowsFound { row_count, unplaced_count } => {
                write!(f, "{} with errors, {unplaced_count} errors without a row", counted(*row_count, "row", "rows"))
            }
            Observed::RowsRepaired { lasts, asked_count, accepted_count, spare_count } => {
                let lasts = match lasts {
                    RepairLasts::UntilReset => "until the next reset (soft PPR)",
                    RepairLasts::Permanently => "permanently (hard PPR)",
                };
                write!(f, "{accepted_count} of {asked_count} rows repaired {lasts}, {spare_count} spare rows left")
            }
            Observed::PagesOffline { asked_count, offline_count } => {
                write!(f, "{offline_count} of {asked_count} pages offline until the next boot")
            }
            Observed::Alert { readings } => {
                f.write_str(&readings.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
            }
            Observed::Ticket { ticket, system } => write!(f, "ticket {ticket}: {system}"),
            Observed::DryRun { would } => write!(f, "dry run: {would}"),
            Observed::Unobserved { why } => write!(f, "not observed: {why}"),
        }
    }
}
