//! One look at the memory of a host: read, tell the modules apart, count on.
//!
//! ```
//! use surefoot_hostfs::Root;
//! use surefoot_memory::look::Looker;
//! let look = Looker::new(Root::host()).look();
//! for dimm in &look.dimms {
//!     println!("{} {}: {} corrected errors", dimm.id, dimm.label, dimm.corrected_count);
//! }
//! if let Some(why) = &look.unsupported {
//!     println!("nothing is known of this host's memory errors: {why}");
//! }
//! ```

use crate::counts::{Change, Kept, KeptModule, Moment};
use crate::identity::{Module, number_of, refresh};
use crate::presence;
use crate::rate::Limit;
use crate::read::{Controller, Problems, Reader};
use crate::tune;
use std::path::PathBuf;
use surefoot_hostfs::{Root, Unsupported, clock};
use surefoot_model::{Dimm, FaultMode, Fidelity, MemoryController, MemoryLook, MemorySource, Spread};

/// Looks at a host again and again, and keeps the counts.
#[derive(Debug)]
pub struct Looker {
    reader: Reader,
    kept: Kept,
    limit: Limit,
    /// The modules of the last look, and the names by which they are kept.
    modules: Vec<Module>,
    names: Vec<String>,
}

impl Looker {
    /// A looker that has seen nothing yet.
    pub fn new(root: Root) -> Self {
        Looker {
            reader: Reader::new(root),
            kept: Kept::default(),
            limit: Limit::default(),
            modules: Vec::new(),
            names: Vec::new(),
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
        let mut problems = reading.problems.clone();
        let controllers = reading.controllers.iter().map(controller).collect::<Vec<_>>();
        for notice in notices.iter().filter(|notice| notice.change != Change::Rebooted) {
            let path = self.path_of(&notice.place);
            problems.add(MemorySource::Edac, &path, notice.change.says());
        }
        let dimms: Vec<Dimm> = self.modules.iter().zip(&names).map(|(module, name)| self.dimm(module, name)).collect();
        self.names = names;
        for one in controllers.iter().filter(|one| one.adds_up == Some(false)) {
            problems.add(MemorySource::Edac, &self.path_of(&one.id), "its total is not that of its modules and of the errors without one, in three readings; the driver counts some errors in one of them only");
        }
        let unsupported = (dimms.is_empty() && controllers.is_empty())
            .then(|| why_not(self.reader.root(), &problems))
            .map(|why| format!("{}; {}", why.why, why.remedy));
        let at_ns = clock::monotonic_ns();
        MemoryLook {
            at_ns,
            looked_realtime_ns,
            look_ns: at_ns.saturating_sub(begun_ns),
            dimms,
            controllers,
            problems: problems.list,
            problems_left_out: problems.left_out,
            unsupported,
            logs_on_console: tune::log_lever(self.reader.root()).map(|lever| lever.is_on),
            recorded_tree: tree(self.reader.root()),
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
        Dimm {
            id: name.to_owned(),
            label: module.label.clone(),
            serial: module.serial.clone(),
            serial_certainty: module.certainty,
            part: module.part.clone(),
            size_bytes: module.size_bytes,
            controller: module.controller.clone(),
            corrected_count,
            uncorrected_count: kept.uncorrected_count,
            rate_per_s: kept.rates.now_per_s,
            rate_window_s: kept.rates.now_window_ns as f64 / 1e9,
            worst_rate_per_s: kept.rates.worst_per_s,
            worst_window_s: kept.rates.worst_window_ns as f64 / 1e9,
            is_over_rate: kept.rates.bucket.is_over(),
            fidelity,
            unread: module.unread.clone(),
            sources: module.sources.clone(),
            spread: Spread::default(),
            fault_mode: if has_errors { FaultMode::Undetermined } else { FaultMode::None },
            fault: None,
            moved_from: kept.moved_from.clone(),
            only_place: module.only_place.clone(),
        }
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
