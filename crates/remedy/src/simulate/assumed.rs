use crate::Step;
use surefoot_model::{Room, Severity};

/// A kind of fault.
#[derive(Debug, Clone, PartialEq)]
pub struct Kind {
    /// See [`surefoot_model::Alert::fault`].
    pub fault: String,
    /// The room that says it.
    pub room: Room,
    /// How bad it is.
    pub severity: Severity,
    /// How many there are per host and year.
    pub per_host_year: f64,
    /// Which share of them is none: the alert ends by itself.
    pub false_share: f64,
}

/// What is assumed of faults, steps and people. The uncorrected memory errors are those of Schroeder, Pinheiro and Weber ("DRAM Errors
/// in the Wild", SIGMETRICS 2009: 1.3 % of the machines in a year); everything else is a guess, to be replaced by a fleet's own numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct Assumed {
    /// The kinds of faults.
    pub kinds: Vec<Kind>,
    /// How long a false alert lasts on average, hours.
    pub false_hours: f64,
    /// How long after a repair an alert ends, minutes.
    pub quiet_minutes: f64,
    /// The probability that a recheck finds a false alert out.
    pub recheck_sees: f64,
    /// The probability that a step fails and may work later.
    pub fails_for_now: f64,
    /// The probability that a step fails for good.
    pub fails_for_good: f64,
    /// The probability that the fault of a part that a step repaired comes back.
    pub comes_back: f64,
    /// After how long it does, days.
    pub comes_back_days: f64,
    /// The probability that a part that is replaced is not what is wrong: it tests good, and the fault comes back.
    pub not_the_part: f64,
    /// How long until a person approves, hours.
    pub approve_hours: f64,
    /// A person's work for an approval, hours.
    pub approve_work_hours: f64,
    /// How long until a person has repaired a host, hours.
    pub repair_hours: f64,
    /// A person's work for that, hours.
    pub repair_work_hours: f64,
}

impl Default for Assumed {
    fn default() -> Self {
        let kind = |fault: &str, room, severity, per_host_year, false_share| Kind {
            fault: fault.to_owned(),
            room,
            severity,
            per_host_year,
            false_share,
        };
        Assumed {
            kinds: vec![
                kind("memory/uncorrected", Room::Memory, Severity::Critical, 0.013, 0.0),
                kind("memory/rate", Room::Memory, Severity::Critical, 0.08, 0.1),
                kind("memory/rate", Room::Memory, Severity::Warning, 0.2, 0.3),
                kind("nic/carrier", Room::Nic, Severity::Critical, 0.03, 0.3),
                kind("checkpoint/wear", Room::Checkpoint, Severity::Warning, 0.02, 0.0),
                kind("stall/lost-time", Room::Stall, Severity::Warning, 0.1, 0.5),
            ],
            false_hours: 2.0,
            quiet_minutes: 5.0,
            recheck_sees: 0.7,
            fails_for_now: 0.02,
            fails_for_good: 0.01,
            comes_back: 0.3,
            comes_back_days: 30.0,
            not_the_part: 0.2,
            approve_hours: 1.0,
            approve_work_hours: 0.1,
            repair_hours: 24.0,
            repair_work_hours: 2.0,
        }
    }
}

impl Assumed {
    /// How long a step takes on average, seconds.
    pub(super) fn step_s(step: &Step) -> f64 {
        match step {
            Step::Recheck | Step::TuneReporting(_) | Step::OfflinePage | Step::Ticket(_) | Step::Collect(_) => 10.0,
            Step::Drain => 600.0,
            Step::Return | Step::Restart(_) | Step::ResetInterface(_) => 60.0,
            Step::Firmware { .. } | Step::Debug(_) | Step::Restore(_) | Step::Reboot => 600.0,
            Step::SoftRepair(_) | Step::HardRepair(_) => 900.0,
            Step::Stress(time) => time.as_secs_f64(),
            Step::Run(_) => 3_600.0,
        }
    }

    /// The probability that a step repairs a fault.
    pub(super) fn repairs(step: &Step) -> f64 {
        match step {
            Step::Run(_) => 0.8,
            Step::HardRepair(_) => 0.9,
            Step::SoftRepair(_) => 0.6,
            Step::OfflinePage => 0.5,
            Step::ResetInterface(_) => 0.5,
            Step::Reboot | Step::Restart(_) => 0.3,
            _ => 0.0,
        }
    }
}
