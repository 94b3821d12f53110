//! What the baseboard management controller knows of the modules: it sees errors that firmware keeps from the kernel.
//!
//! Redfish is asked by the HTTP client of `outside`, the event log by `ipmitool`, a program of others. A
//! management controller is slow and may hang, refuse or answer rubbish, so that each question has a limit of time and of bytes, and
//! what it says is a [`MemoryProblem`] where it makes no sense.

pub mod event_log;
pub mod redfish;
mod sources;

pub use sources::{Answered, PERIOD, Poller, Sources, join_all};

use surefoot_model::{
    Certainty, Dimm, ErrorSeverity, FaultMode, Fidelity, MemoryLook, MemoryProblem, MemorySource, Spread,
};

/// Modules that are taken from one controller; the largest machines have fewer.
pub const MODULES_MAX: usize = 512;

/// A module, as the management controller counts its errors.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counted {
    /// The name of its slot.
    pub label: String,
    /// Serial number.
    pub serial: Option<String>,
    /// Part number.
    pub part: Option<String>,
    /// Size; 0 where it does not tell.
    pub size_bytes: u64,
    /// Corrected errors; `None` where it does not count them.
    pub corrected: Option<u64>,
    /// Uncorrected errors; `None` where it does not count them.
    pub uncorrected: Option<u64>,
}

impl Counted {
    /// Whether it counts any errors.
    fn is_counted(&self) -> bool {
        self.corrected.is_some() || self.uncorrected.is_some()
    }
}

/// What one look at a management controller found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// The modules that it counts.
    pub modules: Vec<Counted>,
    /// What went wrong.
    pub problems: Vec<MemoryProblem>,
}

/// Lays what the management controller counted beside what the kernel did: a module of the same serial number, otherwise of the same
/// label, is the same one. Both count the same errors, each perhaps not all of them, so the larger count is a lower bound; they are
/// never added.
pub fn join(look: &mut MemoryLook, answer: Answer, source: MemorySource) {
    // Two modules of one answer are two, whatever name or number they share.
    let mut is_taken = vec![false; look.dimms.len()];
    for counted in answer.modules {
        let mut places = 0..is_taken.len();
        match places.find(|&place| !is_taken[place] && is_same(&look.dimms[place], &counted)) {
            Some(place) => {
                is_taken[place] = true;
                add(&mut look.dimms[place], &counted, source);
            }
            None => {
                let mut dimm = alone(counted, source);
                dimm.id = free_id(&look.dimms, &dimm);
                look.dimms.push(dimm);
            }
        }
    }
    look.problems.extend(answer.problems);
    if !look.dimms.is_empty() {
        look.unsupported = None;
    }
}

/// What a module is named, where no other has that name.
fn free_id(dimms: &[Dimm], dimm: &Dimm) -> String {
    let names = [dimm.id.clone(), dimm.label.clone()].into_iter().filter(|id| !id.is_empty());
    let mut names = names.chain((2..).map(|number| format!("{} #{number}", dimm.label)));
    names.find(|id| dimms.iter().all(|other| other.id != *id)).unwrap_or_default()
}

fn is_same(dimm: &Dimm, counted: &Counted) -> bool {
    match (&dimm.serial, &counted.serial) {
        (Some(own), Some(other)) => own == other,
        _ => !dimm.label.is_empty() && dimm.label == counted.label,
    }
}

fn add(dimm: &mut Dimm, counted: &Counted, source: MemorySource) {
    let (corrected, uncorrected) = (counted.corrected.unwrap_or(0), counted.uncorrected.unwrap_or(0));
    if corrected > dimm.corrected() || uncorrected > dimm.uncorrected() {
        dimm.fidelity = Fidelity::LowerBound;
    }
    let both = (dimm.corrected().max(corrected), dimm.uncorrected().max(uncorrected));
    // Firmware's count replaces a counter of the kernel that cannot be read.
    for (severity, count) in
        [(ErrorSeverity::Corrected, counted.corrected), (ErrorSeverity::Uncorrected, counted.uncorrected)]
    {
        if count.is_some() && dimm.unread.contains(&severity) {
            dimm.unread.retain(|unread| *unread != severity);
            dimm.fidelity = dimm.fidelity.max(Fidelity::LowerBound);
        }
    }
    dimm.corrected_count = dimm.told(ErrorSeverity::Corrected, both.0);
    dimm.uncorrected_count = dimm.told(ErrorSeverity::Uncorrected, both.1);
    if dimm.fault_mode == FaultMode::None && dimm.corrected().saturating_add(dimm.uncorrected()) > 0 {
        dimm.fault_mode = FaultMode::Undetermined;
    }
    dimm.serial = dimm.serial.take().or_else(|| counted.serial.clone());
    dimm.part = dimm.part.take().or_else(|| counted.part.clone());
    if !dimm.sources.contains(&source) {
        dimm.sources.push(source);
    }
}

/// A module that the kernel does not show.
fn alone(counted: Counted, source: MemorySource) -> Dimm {
    let has_errors = [counted.corrected, counted.uncorrected].iter().flatten().any(|&count| count > 0);
    // Firmware counts from a threshold on, or for a while only; it does not say which.
    let fidelity = if counted.is_counted() { Fidelity::LowerBound } else { Fidelity::Unknown };
    let unread = [(ErrorSeverity::Corrected, counted.corrected), (ErrorSeverity::Uncorrected, counted.uncorrected)];
    let unread = unread.into_iter().filter(|(_, count)| count.is_none()).map(|(severity, _)| severity).collect();
    Dimm {
        id: counted.serial.clone().unwrap_or_else(|| counted.label.clone()),
        label: counted.label,
        serial_certainty: counted.serial.as_ref().map(|_| Certainty::Certain),
        serial: counted.serial,
        part: counted.part,
        size_bytes: counted.size_bytes,
        controller: String::new(),
        corrected_count: counted.corrected,
        uncorrected_count: counted.uncorrected,
        rate_per_s: 0.0,
        rate_window_s: 0.0,
        worst_rate_per_s: 0.0,
        worst_window_s: 0.0,
        is_over_rate: false,
        fidelity,
        unread,
        unplaced: Vec::new(),
        sources: vec![source],
        spread: Spread::default(),
        fault_mode: if has_errors { FaultMode::Undetermined } else { FaultMode::None },
        fault: None,
        moved_from: None,
        mixed_with: Vec::new(),
        only_place: None,
        closed: None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn counted(label: &str, serial: Option<&str>, corrected: u64) -> Counted {
        Counted {
            label: label.into(),
            serial: serial.map(Into::into),
            corrected: Some(corrected),
            uncorrected: Some(0),
            ..Counted::default()
        }
    }

    fn joined(dimms: Vec<Dimm>, modules: Vec<Counted>) -> MemoryLook {
        let mut look = MemoryLook { dimms, unsupported: Some("no driver".into()), ..MemoryLook::default() };
        join(&mut look, Answer { modules, problems: Vec::new() }, MemorySource::Redfish);
        look
    }

    #[test]
    fn a_module_that_both_count_is_one_and_its_errors_are_not_added() {
        let mut dimm = alone(counted("A1", Some("S1"), 7), MemorySource::Edac);
        dimm.fidelity = Fidelity::Exact;
        let look = joined(vec![dimm.clone()], vec![counted("DIMM.Socket.A1", Some("S1"), 5)]);
        assert_eq!((look.dimms.len(), look.dimms[0].corrected()), (1, 7));
        assert_eq!(look.dimms[0].sources, [MemorySource::Edac, MemorySource::Redfish]);
        assert_eq!(look.dimms[0].fidelity, Fidelity::Exact, "the kernel saw all that it did, and more");
        let look = joined(vec![dimm.clone()], vec![counted("A1", None, 9)]);
        assert_eq!((look.dimms[0].corrected(), look.dimms[0].fidelity), (9, Fidelity::LowerBound));
        // Another serial number in the same slot is another module.
        let look = joined(vec![dimm], vec![counted("A1", Some("S2"), 9)]);
        assert_eq!(look.dimms.iter().map(|dimm| dimm.corrected()).collect::<Vec<_>>(), [7, 9]);
    }

    #[test]
    fn two_modules_of_one_answer_are_two() {
        let shared = |label| counted(label, Some("S1"), 7);
        let look = joined(Vec::new(), vec![shared("A1"), shared("A2"), counted("B1", None, 1), counted("B1", None, 2)]);
        let found: Vec<_> = look.dimms.iter().map(|dimm| (dimm.id.as_str(), dimm.corrected())).collect();
        assert_eq!(found, [("S1", 7), ("A2", 7), ("B1", 1), ("B1 #2", 2)]);
        let look = joined(vec![alone(shared("A1"), MemorySource::Edac)], vec![shared("A1"), shared("A2")]);
        assert_eq!(look.dimms.len(), 2);
    }

    #[test]
    fn a_host_whose_kernel_shows_nothing_is_known_by_its_management_controller() {
        let look = joined(Vec::new(), vec![counted("A1", None, 0), counted("A2", None, 3)]);
        assert_eq!(look.unsupported, None);
        assert_eq!(
            look.dimms.iter().map(|dimm| dimm.fault_mode).collect::<Vec<_>>(),
            [FaultMode::None, FaultMode::Undetermined]
        );
        assert!(joined(Vec::new(), Vec::new()).unsupported.is_some());
        // Numbers that no memory has, of a controller that answers rubbish.
        let rubbish = Counted { uncorrected: Some(1 << 63), ..counted("A3", None, 1 << 63) };
        assert_eq!(joined(Vec::new(), vec![rubbish]).dimms[0].fault_mode, FaultMode::Undetermined);
    }
}
