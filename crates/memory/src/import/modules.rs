//! Imported reports, module by module.

use crate::fault::{self, Evidence};
use crate::reports::only_place_of;
use std::collections::BTreeMap;
use surefoot_model::{Dimm, ErrorReport, ErrorSeverity, Fidelity, MemorySource, Spread};

/// How many modules are told apart; errors of further ones are counted as those of no known module.
pub const MODULES_MAX: usize = 4096;

#[derive(Debug)]
struct Module {
    label: String,
    controller: Option<u32>,
    corrected: u64,
    uncorrected: u64,
    fidelity: Fidelity,
    sources: Vec<MemorySource>,
    evidence: Evidence,
    hours: Hours,
    only_place: Option<String>,
    place: Place,
}

/// Where a module is, as far as its reports tell: boards repeat the labels of one socket, controller or channel on the next.
#[derive(Debug, Clone, Copy, Default)]
struct Place([Option<u32>; 3]);

impl Place {
    fn of(report: &ErrorReport) -> Place {
        let location = &report.location;
        Place([location.socket, location.controller, location.channel])
    }

    /// Both where they may be one; what is not told contradicts nothing.
    fn with(self, other: Place) -> Option<Place> {
        let mut both = self.0;
        for (one, two) in both.iter_mut().zip(other.0) {
            if one.zip(two).is_some_and(|(one, two)| one != two) {
                return None;
            }
            *one = one.or(two);
        }
        Some(Place(both))
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts = ["socket", "controller", "channel"].into_iter().zip(self.0);
        let known: Vec<String> = parts.filter_map(|(word, number)| Some(format!("{word} {}", number?))).collect();
        f.write_str(&known.join(", "))
    }
}

/// Corrected errors of each hour, of as many as two years have; the worst of them is the module's worst window.
#[derive(Debug, Default)]
struct Hours(BTreeMap<u64, u64>);

const HOUR_S: u64 = 3600;
const HOURS_MAX: usize = 17_600;

impl Hours {
    /// Reports without a time are of no hour; hours beyond the limit are not compared.
    fn add(&mut self, report: &ErrorReport) {
        let hour = report.at_realtime_ns / (HOUR_S * 1_000_000_000);
        if hour == 0 || (self.0.len() >= HOURS_MAX && !self.0.contains_key(&hour)) {
            return;
        }
        let count = self.0.entry(hour).or_default();
        *count = count.saturating_add(report.count.into());
    }

    /// Errors per second in the worst hour, and the seconds of an hour; both 0 where nothing is dated.
    fn worst(&self) -> (f64, f64) {
        self.0.values().max().map_or((0.0, 0.0), |&count| (count as f64 / HOUR_S as f64, HOUR_S as f64))
    }
}

/// The modules that reports speak of. Bounded, however many reports there are.
#[derive(Debug, Default)]
pub struct Modules {
    modules: BTreeMap<String, Module>,
    /// Errors of no known module.
    pub unknown_count: u64,
    /// The youngest report of all.
    last_ns: u64,
}

impl Modules {
    /// Adds a report to its module, and names the module as [`Modules::dimms`] does; `None` where it is of no known one.
    pub fn add(&mut self, report: &ErrorReport) -> Option<String> {
        self.last_ns = self.last_ns.max(report.at_realtime_ns);
        let count = u64::from(report.count);
        let Some(dimm) = &report.dimm else {
            self.unknown_count = self.unknown_count.saturating_add(count);
            return None;
        };
        let place = Place::of(report);
        // Another socket, controller or channel of the same label is another module.
        let is_other = self.modules.get(dimm).is_some_and(|known| known.place.with(place).is_none());
        let name = if is_other { format!("{dimm} ({place})") } else { dimm.clone() };
        if self.modules.len() == MODULES_MAX && !self.modules.contains_key(&name) {
            self.unknown_count = self.unknown_count.saturating_add(count);
            return None;
        }
        let module = self.modules.entry(name.clone()).or_insert_with(|| Module {
            label: report.label.clone(),
            controller: report.location.controller,
            corrected: 0,
            uncorrected: 0,
            fidelity: Fidelity::Exact,
            sources: Vec::new(),
            evidence: Evidence::default(),
            hours: Hours::default(),
            only_place: only_place_of(report),
            place,
        });
        module.place = module.place.with(place).unwrap_or(module.place);
        if report.severity == ErrorSeverity::Corrected {
            module.hours.add(report);
        }
        let counter = match report.severity {
            ErrorSeverity::Corrected => &mut module.corrected,
            ErrorSeverity::Deferred | ErrorSeverity::Uncorrected => &mut module.uncorrected,
        };
        *counter = counter.saturating_add(count);
        // The least exact report decides.
        module.fidelity = module.fidelity.max(report.fidelity);
        if !module.sources.contains(&report.source) {
            module.sources.push(report.source);
        }
        module.evidence.add(report);
        Some(name)
    }

    /// The modules with their faults, by name, as of the youngest report of all of them.
    pub fn dimms(&self) -> Vec<Dimm> {
        self.modules.iter().map(|(id, module)| module.dimm(id, self.last_ns)).collect()
    }
}

impl Module {
    fn dimm(&self, id: &str, now_realtime_ns: u64) -> Dimm {
        let (worst_rate_per_s, worst_window_s) = self.hours.worst();
        let (spread, mut fault): (Spread, _) = self.evidence.judge_at(now_realtime_ns);
        if let Some(place) = &self.only_place {
            fault::at_place(&mut fault, place);
        }
        Dimm {
            id: id.to_owned(),
            label: self.label.clone(),
            serial: None,
            serial_certainty: None,
            part: None,
            size_bytes: 0,
            controller: self.controller.map(|number| format!("mc{number}")).unwrap_or_default(),
            corrected_count: Some(self.corrected),
            uncorrected_count: Some(self.uncorrected),
            // A log is of the past: nothing is happening now.
            rate_per_s: 0.0,
            rate_window_s: 0.0,
            worst_rate_per_s,
            worst_window_s,
            is_over_rate: false,
            fidelity: self.fidelity,
            unread: Vec::new(),
            unplaced: Vec::new(),
            sources: self.sources.clone(),
            spread,
            fault_mode: fault.mode,
            fault: Some(fault),
            moved_from: None,
            mixed_with: Vec::new(),
            only_place: self.only_place.clone(),
            closed: None,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::fault::FIND_MODULE;
    use crate::reports::{McErrorType, McEvent, mc_event, place_of};
    use surefoot_model::DramLocation;

    #[test]
    fn the_worst_window_is_the_hour_with_the_most_corrected_errors() {
        let mut modules = Modules::default();
        let mut add = |minute: u64, error_count| {
            let mut report = mc_event(&McEvent { error_count, label: "A1".into(), ..McEvent::default() });
            report.at_realtime_ns = minute * 60_000_000_000;
            report.dimm = Some("A1".into());
            modules.add(&report);
        };
        // Undated ones are of no hour; two of one hour are summed, also where the log is not in order.
        for (minute, count) in [(0, 9_000), (6_000, 7), (7_000, 3_000), (6_030, 2), (7_010, 600)] {
            add(minute, count);
        }
        let dimm = modules.dimms().remove(0);
        assert_eq!((dimm.worst_rate_per_s, dimm.worst_window_s, dimm.corrected()), (1.0, 3600.0, 12_609));
    }

    /// Two sockets whose slots have the same words on the board, one flip each: no fault of one module.
    #[test]
    fn modules_that_share_a_label_are_not_merged() {
        let mut modules = Modules::default();
        let mut add = |place: [Option<u32>; 3], row: u32| {
            let mut report = mc_event(&McEvent { error_count: 1, label: "DIMM_A1".into(), ..McEvent::default() });
            report.location = DramLocation {
                socket: place[0],
                controller: place[1],
                channel: place[2],
                row: Some(row),
                ..DramLocation::default()
            };
            report.dimm = place_of(&report);
            modules.add(&report);
        };
        for (number, place) in [
            [Some(0), Some(0), Some(0)],
            [Some(1), Some(2), Some(0)],
            [Some(0), Some(0), Some(1)],
            // What tells less contradicts nothing.
            [Some(0), None, None],
            [Some(1), Some(2), Some(0)],
        ]
        .into_iter()
        .enumerate()
        {
            add(place, number as u32);
        }
        let rows: Vec<(String, u64)> = modules.dimms().iter().map(|dimm| (dimm.id.clone(), dimm.corrected())).collect();
        let expected = [
            ("DIMM_A1", 2),
            ("DIMM_A1 (socket 0, controller 0, channel 1)", 1),
            ("DIMM_A1 (socket 1, controller 2, channel 0)", 2),
        ];
        assert_eq!(rows, expected.map(|(name, count)| (name.to_owned(), count)));
    }

    #[test]
    fn what_names_no_module_is_not_advised_to_be_replaced_by_name() {
        let mut modules = Modules::default();
        let place = DramLocation { socket: Some(1), channel: Some(2), ..DramLocation::default() };
        for (dimm, location) in
            [("socket1/channel2", place), ("socket1/channel2/slot0", DramLocation { slot: Some(0), ..place })]
        {
            let mut report =
                mc_event(&McEvent { error_count: 1, error_type: McErrorType::Uncorrected, ..McEvent::default() });
            (report.dimm, report.location) = (Some(dimm.into()), location);
            modules.add(&report);
        }
        let [place, module] = &modules.dimms()[..] else { panic!("two rows") };
        let advice = |dimm: &Dimm| dimm.fault.clone().unwrap();
        assert_eq!(place.only_place.as_deref(), Some("socket 1, channel 2"));
        let (of_place, of_module) = (advice(place), advice(module));
        assert_eq!((of_place.action, of_place.urgency), (of_module.action, of_module.urgency));
        assert!(
            of_place.advice.contains("its place is socket 1, channel 2. Find the module in the event log"),
            "{of_place:?}"
        );
        assert!(!of_place.advice.contains("replace the module"), "{of_place:?}");
        assert_eq!(module.only_place, None);
        assert!(of_module.advice.starts_with("Move work away and replace the module"), "{of_module:?}");
    }

    #[test]
    fn a_list_of_labels_or_a_sensor_alone_is_no_module_to_replace() {
        let two = "CPU_SrcID#0_MC#0_Chan#0_DIMM#0 or CPU_SrcID#0_MC#0_Chan#0_DIMM#1";
        let lockstep = "CPU_SrcID#0_MC#0_Chan#0_DIMM#1 or CPU_SrcID#0_MC#0_Chan#1_DIMM#1";
        for (label, dimm) in [(two, two), (lockstep, lockstep), ("sensor 0x87", "sensor 0x87")] {
            let event = McEvent { mc_index: Some(0), label: label.into(), ..McEvent::default() };
            let event = McEvent { error_type: McErrorType::Uncorrected, ..event };
            let mut report =
                mc_event(&McEvent { error_count: 1, top_layer: -1, middle_layer: -1, lower_layer: -1, ..event });
            report.dimm = place_of(&report);
            let mut modules = Modules::default();
            modules.add(&report);
            let [row] = &modules.dimms()[..] else { panic!("one row") };
            assert_eq!((row.id.as_str(), row.only_place.as_deref()), (dimm, Some(label)));
            let advice = &row.fault.as_ref().unwrap().advice;
            assert!(advice.contains(FIND_MODULE) && !advice.contains("replace the module"), "{advice}");
        }
    }
}
