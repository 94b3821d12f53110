//! One look at the memory of a host: read, tell the modules apart, count on.
//!
//! ```
//! use surefoot_hostfs::Root;
//! use surefoot_memory::look::Looker;
//! let look = Looker::new(Root::host()).look();
//! for dimm in &look.dimms {
//!     println!("{} {}: {} corrected errors", dimm.id, dimm.label, dimm.corrected());
//! }
//! if let Some(why) = &look.unsupported {
//!     println!("nothing is known of this host's memory errors: {why}");
//! }
//! ```

mod closed;

use crate::counts::{Change, Kept, KeptModule, Moment};
use crate::identity::{Module, number_of, refresh};
use crate::presence;
use crate::rate::Limit;
use crate::read::{Controller, Problems, Reader};
use crate::tune;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use surefoot_hostfs::{Root, Unsupported, clock};
use surefoot_model::{
    Certainty, Dimm, ErrorSeverity, FaultMode, Fidelity, GoneController, MemoryController, MemoryLook, MemorySource,
    Spread,
};

/// Looks at a host again and again, and keeps the counts.
#[derive(Debug)]
pub struct Looker {
    reader: Reader,
    kept: Kept,
    limit: Limit,
    /// The modules of the last look, and the names by which they are kept.
    modules: Vec<Module>,
    names: Vec<String>,
    /// The controllers of all looks until now, by name.
    seen: BTreeMap<String, Seen>,
    looks: u64,
}

/// A controller as it was seen last.
#[derive(Debug, Clone)]
struct Seen {
    told: GoneController,
    modules: Vec<Dimm>,
    /// The first and the last look of those in a row at which it was there.
    first_look: u64,
    last_look: u64,
}

/// Controllers that are remembered: a driver that is loaded again and again may number them anew.
const SEEN_MAX: usize = 256;

impl Looker {
    /// A looker that has seen nothing yet.
    pub fn new(root: Root) -> Self {
        Looker {
            reader: Reader::new(root),
            kept: Kept::default(),
            limit: Limit::default(),
            modules: Vec::new(),
            names: Vec::new(),
            seen: BTreeMap::new(),
            looks: 0,
        }
    }

    /// Counts on from what was kept.
    #[must_use]
    pub fn with_kept(mut self, kept: Kept) -> Self {
        self.kept = kept;
        self
    }

    /// Bears another rate than the default.
    #[must_use]
    pub fn with_limit(mut self, limit: Limit) -> Self {
        self.limit = limit;
        self
    }

    /// From now on bears this rate.
    pub fn set_limit(&mut self, limit: Limit) {
        self.limit = limit;
    }

    /// What is kept, for the next process.
    pub fn kept(&self) -> &Kept {
        &self.kept
    }

    /// Reads everything and counts on.
    pub fn look(&mut self) -> MemoryLook {
        let (begun_ns, looked_realtime_ns) = (clock::monotonic_ns(), clock::realtime_ns());
        let reading = self.reader.read();
        refresh(&mut self.modules, reading);
        let moment = Moment { boot_id: reading.boot_id.as_deref(), clock_s: reading.clock_s, read_ns: Some(begun_ns) };
        let (names, notices) = self.kept.take(moment, &self.modules, self.limit);
        self.kept.seen_at(looked_realtime_ns);
        let mut problems = reading.problems.clone();
        let controllers = reading.controllers.iter().map(controller).collect::<Vec<_>>();
        for notice in notices.iter().filter(|notice| notice.change != Change::Rebooted) {
            let path = self.path_of(&notice.place);
            problems.add(MemorySource::Edac, &path, notice.change.says());
        }
        let mut dimms: Vec<Dimm> =
            self.modules.iter().zip(&names).map(|(module, name)| self.dimm(module, name)).collect();
        self.names = names;
        unplaced(&mut dimms, &self.modules, &self.reader.reading().controllers);
        self.remember_kept(&controllers, &mut problems);
        let gone = self.remember(looked_realtime_ns, &controllers, &mut dimms);
        for one in controllers.iter().filter(|one| one.adds_up == Some(false)) {
            problems.add(MemorySource::Edac, &self.path_of(&one.id), "its total is not that of its modules and of the errors without one, in three readings; the driver counts some errors in one of them only");
        }
        let unsupported = (dimms.is_empty() && controllers.is_empty())
            .then(|| why_not(self.reader.root(), &problems))
            .map(|why| format!("{}; {}", why.why, why.remedy));
        let (slots, slots_left_out) = self.kept.slots();
        let at_ns = clock::monotonic_ns();
        MemoryLook {
            at_ns,
            looked_realtime_ns,
            look_ns: at_ns.saturating_sub(begun_ns),
            dimms,
            controllers,
            gone,
            slots,
            slots_left_out,
            problems: problems.list,
            problems_left_out: problems.left_out,
            unsupported,
            logs_on_console: tune::log_lever(self.reader.root()).map(|lever| lever.is_on),
            recorded_tree: tree(self.reader.root()),
        }
    }

    /// Remembers the controllers that an earlier process counted and that are gone, and tells of modules with errors that went from a
    /// controller that is there.
    fn remember_kept(&mut self, controllers: &[MemoryController], problems: &mut Problems) {
        let mut gone: BTreeMap<String, (GoneController, Vec<Dimm>)> = BTreeMap::new();
        for (name, controller, module) in self.kept.unseen() {
            if !controllers.iter().any(|one| one.id == controller) {
                let told = || GoneController {
                    id: controller.to_owned(),
                    name: String::new(),
                    seen_realtime_ns: 0,
                    now: None,
                };
                let (told, modules) = gone.entry(controller.to_owned()).or_insert_with(|| (told(), Vec::new()));
                told.seen_realtime_ns = told.seen_realtime_ns.max(module.seen_realtime_ns);
                modules.push(of_kept(name, controller, module));
            } else if self.kept.was_just_there(module) && module.corrected_count + module.uncorrected_count > 0 {
                let why = format!(
                    "module {name} in {}, of which {} corrected and {} uncorrected errors were counted, is not there any more, or its \
                     serial number cannot be read; if it was not replaced, look at its slot",
                    module.here, module.corrected_count, module.uncorrected_count
                );
                problems.add(MemorySource::Edac, &self.path_of(controller), why);
            }
        }
        for (id, (told, modules)) in gone {
            if self.seen.len() < SEEN_MAX && !self.seen.contains_key(&id) {
                self.seen.insert(id, Seen { told, modules, first_look: 0, last_look: 0 });
            }
        }
    }

    /// Remembers what is there, and adds the modules of controllers that were there before and are gone, such as when a driver was
    /// unloaded: that nobody counts any more does not undo what was counted. One whose hardware came back under another number
    /// is counted on there.
    fn remember(
        &mut self,
        now_realtime_ns: u64,
        controllers: &[MemoryController],
        dimms: &mut Vec<Dimm>,
    ) -> Vec<GoneController> {
        self.looks += 1;
        for one in controllers.iter() {
            if self.seen.len() == SEEN_MAX && !self.seen.contains_key(&one.id) {
                continue;
            }
            let (id, name) = (one.id.clone(), one.name.clone());
            let told = GoneController { id, name, seen_realtime_ns: now_realtime_ns, now: None };
            let before = self.seen.get(&one.id).filter(|before| before.last_look + 1 == self.looks);
            let first_look = before.map_or(self.looks, |before| before.first_look);
            let modules = dimms.iter().filter(|dimm| dimm.controller == one.id).cloned().collect();
            self.seen.insert(one.id.clone(), Seen { told, modules, first_look, last_look: self.looks });
        }
        self.find_renumbered(dimms);
        let gone: Vec<Seen> = self.seen.values().filter(|seen| seen.last_look < self.looks).cloned().collect();
        for dimm in gone.iter().filter(|seen| seen.told.now.is_none()).flat_map(|seen| &seen.modules) {
            if dimms.iter().all(|other| other.id != dimm.id) {
                let unread = vec![ErrorSeverity::Corrected, ErrorSeverity::Uncorrected];
                let mut dimm = Dimm { unread, rate_per_s: 0.0, rate_window_s: 0.0, ..dimm.clone() };
                dimm.corrected_count = dimm.told(ErrorSeverity::Corrected, dimm.corrected());
                dimm.uncorrected_count = dimm.told(ErrorSeverity::Uncorrected, dimm.uncorrected());
                dimms.push(dimm);
            }
        }
        gone.into_iter().map(|seen| seen.told).collect()
    }

    /// Finds the controllers that are gone and came back under another number: of the same name, with the same modules at the same
    /// places. Where two have the same, nobody can tell which is which.
    fn find_renumbered(&mut self, dimms: &mut [Dimm]) {
        let gone = |seen: &&Seen| seen.last_look < self.looks && seen.told.now.is_none() && !seen.modules.is_empty();
        let mut pairs: Vec<(String, String)> = Vec::new();
        for before in self.seen.values().filter(gone) {
            let is_it = |now: &&Seen| now.last_look == self.looks && now.first_look > before.last_look;
            let alike = |other: &&Seen| other.told.name == before.told.name && hardware(other) == hardware(before);
            let mut fitting = self.seen.values().filter(is_it).filter(alike);
            let (first, more) = (fitting.next(), fitting.next());
            let is_only_one = self.seen.values().filter(gone).filter(alike).count() == 1;
            if let (Some(now), None, true) = (first, more, is_only_one) {
                pairs.push((before.told.id.clone(), now.told.id.clone()));
            }
        }
        for (before, now) in pairs {
            self.go_on(&before, &now, dimms);
        }
    }

    /// Counts a controller's modules on under its new number.
    fn go_on(&mut self, before: &str, now: &str, dimms: &mut [Dimm]) {
        let Some(seen) = self.seen.get_mut(before) else { return };
        seen.told.now = Some(now.to_owned());
        for dimm in std::mem::take(&mut seen.modules) {
            let place = dimm.id.strip_prefix(before).filter(|rest| rest.starts_with('/'));
            if let Some(rest) = place {
                self.kept.go_on(&dimm.id, &format!("{now}{rest}"));
            }
        }
        for at in 0..self.modules.len().min(self.names.len()) {
            let (module, name) = (&self.modules[at], &self.names[at]);
            if module.controller == now && dimms.get(at).is_some_and(|dimm| dimm.id == *name) {
                let unplaced = std::mem::take(&mut dimms[at].unplaced);
                let fidelity = dimms[at].fidelity;
                dimms[at] = self.dimm(module, name);
                dimms[at].unplaced = unplaced;
                dimms[at].fidelity = dimms[at].fidelity.max(fidelity);
            }
        }
        let modules = dimms.iter().filter(|dimm| dimm.controller == now).cloned().collect();
        if let Some(seen) = self.seen.get_mut(now) {
            seen.modules = modules;
        }
    }

    /// Whether a controller has counted since the last look: a few files instead of all.
    pub fn has_counted(&self) -> bool {
        self.reader.has_counted()
    }

    /// The name of the module at a place that a report gives by numbers: the controller's, and those of its layers, of which a negative
    /// one is not known (as in the trace event `ras:mc_event`). As of the last look.
    pub fn module_at(&self, controller: u32, layers: [i32; 3]) -> Option<&str> {
        let is_there = |own: &[u32]| {
            !own.is_empty() && own.iter().zip(layers).all(|(own, layer)| i64::from(*own) == i64::from(layer))
        };
        let named =
            self.modules.iter().zip(&self.names).filter(|(module, _)| number_of(&module.controller) == controller);
        let mut fitting = named.filter(|(module, _)| module.counters.iter().any(|counter| is_there(&counter.layers)));
        let (_, name) = fitting.next()?;
        fitting.all(|(_, other)| other == name).then_some(name.as_str())
    }

    fn path_of(&self, place: &str) -> PathBuf {
        let root = self.reader.root();
        match place.strip_prefix("cpu") {
            Some(block) => root.sys("devices/system/machinecheck").join(format!("machinecheck{block}")),
            None => root.sys("devices/system/edac/mc").join(place),
        }
    }

    fn dimm(&self, module: &Module, name: &str) -> Dimm {
        let nothing = KeptModule::default();
        let kept = self.kept.modules.get(name).unwrap_or(&nothing);
        let (corrected_count, is_beyond_block) = self.corrected(module, kept);
        let is_lower_bound = kept.is_lower_bound || is_beyond_block;
        let fidelity = match module.fidelity {
            Fidelity::Exact if is_lower_bound => Fidelity::LowerBound,
            fidelity => fidelity,
        };
        let has_errors = corrected_count > 0 || kept.uncorrected_count > 0;
        let mut dimm = Dimm {
            id: name.to_owned(),
            label: module.label.clone(),
            serial: module.serial.clone(),
            serial_certainty: module.certainty,
            part: module.part.clone(),
            size_bytes: module.size_bytes,
            controller: module.controller.clone(),
            corrected_count: None,
            uncorrected_count: None,
            rate_per_s: kept.rates.now_per_s,
            rate_window_s: kept.rates.now_window_ns as f64 / 1e9,
            worst_rate_per_s: kept.rates.worst_per_s,
            worst_window_s: kept.rates.worst_window_ns as f64 / 1e9,
            is_over_rate: kept.rates.bucket.is_over(),
            fidelity,
            unread: module.unread.clone(),
            unplaced: Vec::new(),
            sources: module.sources.clone(),
            spread: Spread::default(),
            fault_mode: if has_errors || !module.unread.is_empty() { FaultMode::Undetermined } else { FaultMode::None },
            fault: None,
            moved_from: kept.moved_from.clone(),
            mixed_with: kept.mixed_with.iter().cloned().collect(),
            only_place: module.only_place.clone(),
            closed: None,
        };
        dimm.corrected_count = dimm.told(ErrorSeverity::Corrected, corrected_count);
        dimm.uncorrected_count = dimm.told(ErrorSeverity::Uncorrected, kept.uncorrected_count);
        dimm
    }

    /// Corrected errors of a module, and whether EDAC saw more of them than its block, so that the block cannot have counted all.
    fn corrected(&self, module: &Module, kept: &KeptModule) -> (u64, bool) {
        if module.block.is_none() {
            return (kept.corrected_count, false);
        }
        // A block counts errors of every severity.
        let others: u64 =
            module.counted_also.iter().filter_map(|place| self.kept.module_of(place)).fold(0, |sum, other| {
                sum.saturating_add(other.corrected_count).saturating_add(other.uncorrected_count)
            });
        let of_block = kept.block_count.saturating_sub(others).saturating_sub(kept.uncorrected_count);
        let is_beyond = module.counted_also.is_empty() && kept.corrected_count > of_block;
        (of_block.max(kept.corrected_count), is_beyond)
    }
}

/// A module that nobody counts now, as it is kept.
fn of_kept(name: &str, controller: &str, kept: &KeptModule) -> Dimm {
    let is_named_by_place = name.strip_prefix(controller).is_some_and(|rest| rest.starts_with('/'));
    Dimm {
        id: name.to_owned(),
        label: if kept.here.starts_with("mc") && kept.here.contains('/') { String::new() } else { kept.here.clone() },
        serial: (!is_named_by_place).then(|| name.to_owned()),
        serial_certainty: (!is_named_by_place).then_some(Certainty::Certain),
        part: None,
        size_bytes: 0,
        controller: controller.to_owned(),
        corrected_count: Some(kept.corrected_count.max(kept.block_count)).filter(|count| *count > 0),
        uncorrected_count: Some(kept.uncorrected_count).filter(|count| *count > 0),
        rate_per_s: 0.0,
        rate_window_s: 0.0,
        worst_rate_per_s: kept.rates.worst_per_s,
        worst_window_s: kept.rates.worst_window_ns as f64 / 1e9,
        is_over_rate: kept.rates.bucket.is_over(),
        fidelity: Fidelity::LowerBound,
        unread: vec![ErrorSeverity::Corrected, ErrorSeverity::Uncorrected],
        unplaced: Vec::new(),
        sources: vec![MemorySource::Edac],
        spread: Spread::default(),
        fault_mode: FaultMode::Undetermined,
        fault: None,
        moved_from: None,
        mixed_with: kept.mixed_with.iter().cloned().collect(),
        only_place: None,
        closed: None,
    }
}

/// Tells the modules of a place of the errors that were counted for the place alone.
fn unplaced(dimms: &mut [Dimm], modules: &[Module], controllers: &[Controller]) {
    let severities = |corrected: u64, uncorrected: u64| {
        let both = [(ErrorSeverity::Corrected, corrected), (ErrorSeverity::Uncorrected, uncorrected)];
        both.into_iter().filter(|(_, count)| *count > 0).map(|(severity, _)| severity).collect::<Vec<_>>()
    };
    // What is counted for a row, or by a block for its channel.
    let places: Vec<(String, &[String], Vec<ErrorSeverity>)> = modules
        .iter()
        .zip(dimms.iter())
        .filter(|(module, _)| module.only_place.is_some())
        .map(|(module, dimm)| {
            let begin = format!("{}/", module.place);
            (begin, module.counted_also.as_slice(), severities(dimm.corrected(), dimm.uncorrected()))
        })
        .collect();
    for (module, dimm) in modules.iter().zip(dimms).filter(|(module, _)| module.only_place.is_none()) {
        let is_of = |(begin, counted_also, _): &&(String, &[String], _)| {
            counted_also.contains(&module.place)
                || module.counters.iter().any(|counter| counter.place.starts_with(begin.as_str()))
        };
        let of_places = places.iter().filter(is_of).flat_map(|(_, _, severities)| severities.iter().copied());
        let of_controller = controllers.iter().filter(|one| one.id == module.controller).flat_map(|one| {
            // What cannot be read may be any number.
            let [corrected, uncorrected] = one.of_no_module().map(|count| count.unwrap_or(1));
            // Nor is a count all that there were where it and the total contradict each other.
            let [of_corrected, of_uncorrected] = one.contradicts().map(u64::from);
            severities(corrected.max(of_corrected), uncorrected.max(of_uncorrected))
        });
        dimm.unplaced = of_places.chain(of_controller).collect::<BTreeSet<_>>().into_iter().collect();
        if dimm.fidelity == Fidelity::Exact && dimm.unplaced.contains(&ErrorSeverity::Corrected) {
            dimm.fidelity = Fidelity::LowerBound;
        }
    }
}

/// A module but for the number of its controller and what was counted: place, label, size, part and serial number.
type Hardware<'a> = (&'a str, String, u64, Option<&'a str>, Option<&'a str>);

/// The modules of a controller; what stands for a place comes and goes with the counts.
fn hardware(seen: &Seen) -> BTreeSet<Hardware<'_>> {
    let id = &seen.told.id;
    let made_up = format!("mc#{}", id.strip_prefix("mc").unwrap_or(id));
    let modules = seen.modules.iter().filter(|dimm| dimm.only_place.is_none());
    let of = |dimm: &'_ Dimm| -> String {
        // The kernel's own label has the controller's number in it.
        dimm.label.strip_prefix(&made_up).map_or_else(|| dimm.label.clone(), |rest| format!("mc#{rest}"))
    };
    modules
        .map(|dimm| {
            let place = dimm.id.strip_prefix(id.as_str()).unwrap_or(&dimm.id);
            (place, of(dimm), dimm.size_bytes, dimm.part.as_deref(), dimm.serial.as_deref())
        })
        .collect()
}

fn controller(found: &Controller) -> MemoryController {
    MemoryController {
        id: found.id.clone(),
        name: found.name.clone(),
        corrected_count: found.corrected,
        uncorrected_count: found.uncorrected,
        no_information_count: found.corrected_no_information,
        adds_up: found.adds_up(),
        reset_s: found.reset_s,
    }
}

/// The folder of a recorded tree.
fn tree(root: &Root) -> Option<String> {
    (!root.is_host()).then(|| surefoot_model::one_line(&root.path("").components().as_path().display().to_string()))
}

/// Why there is no source of memory errors at all.
fn why_not(root: &Root, problems: &Problems) -> Unsupported {
    if let Some(problem) = problems.list.first() {
        return Unsupported::new(format!("{}: {}", problem.path, problem.why), "then look again");
    }
    presence::without(
        root,
        "no EDAC driver has a memory controller here (/sys/devices/system/edac/mc holds none), and there is no threshold block",
    )
}
