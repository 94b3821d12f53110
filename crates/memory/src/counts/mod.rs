//! Counts that survive: what is kept of every module between readings, and what a new reading adds to it.
//!
//! The kernel's counters begin anew with each boot, each load of a driver and each write to `reset_counters` by anybody, and
//! wrap at 2^32. The counts of a module here only grow. What could have been lost on the way is said: its count is a lower bound then.

mod closed;
#[cfg(test)]
mod machine;
mod mixed;
mod renumbered;
mod stays;
mod step;
mod text;

pub use closed::Closed;
pub use stays::STAYS_MAX;
pub use step::{Change, Count, step};
pub use text::{KeptFile, Loaded, TEXT_BYTES_MAX};

use crate::identity::Module;
use crate::rate::{Limit, Rates};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Modules and places that are kept; the ones that were not seen for the longest time go first.
pub const KEPT_MAX: usize = 4096;

/// The widest counter of EDAC.
const EDAC_MAX: u64 = u32::MAX as u64;

/// What is kept between readings. A number that is missing in its text is not known, and the text is not believed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Kept {
    /// The host that was counted, see [`crate::read::machine`]; `None` where it is not known, or an older release kept it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    machine: Option<String>,
    /// Modules by [`Module::id`].
    pub modules: BTreeMap<String, KeptModule>,
    /// Counters by place.
    places: BTreeMap<String, KeptPlace>,
    /// Closed faults of modules that no counter of the kernel has.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    closed_elsewhere: BTreeMap<String, Closed>,
    /// Which module was in which slot, in the order in which they were seen first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    stays: Vec<stays::Stay>,
    /// Stays that were dropped because there were too many.
    #[serde(default, skip_serializing_if = "is_0")]
    stays_dropped_count: u64,
    /// Modules, and closings of others, that were dropped because there were too many.
    pub dropped_count: u64,
    /// Readings that were taken in.
    readings: u64,
}

/// What is kept of a module.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct KeptModule {
    /// Corrected errors that EDAC counted.
    pub corrected_count: u64,
    /// Uncorrected errors that EDAC counted.
    pub uncorrected_count: u64,
    /// Errors that its threshold block counted.
    pub block_count: u64,
    /// Whether more may have happened: a counter was reset, or the host began anew, after errors that nobody had read.
    pub is_lower_bound: bool,
    /// Rates of its corrected errors.
    pub rates: Rates,
    /// Where it is: its label, or its place.
    pub here: String,
    /// Where it was before.
    pub moved_from: Option<String>,
    /// What it is, where no serial number names it; older releases kept neither this nor the next.
    #[serde(default)]
    kind: mixed::Kind,
    /// Modules whose counts may be this one's, and this one's theirs, by the names that they are kept by.
    #[serde(default)]
    pub mixed_with: BTreeSet<String>,
    /// When it was seen last, `CLOCK_REALTIME`; 0 where an older release kept it.
    #[serde(default)]
    pub seen_realtime_ns: u64,
    /// Since when it is in its slot, `CLOCK_REALTIME`, where another module was there before; else 0. Until the reading is dated it is
    /// [`COMES`].
    #[serde(default, skip_serializing_if = "is_0")]
    since_realtime_ns: u64,
    /// The newest closing of its fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    closed: Option<Box<Closed>>,
    /// The reading in which it was seen last.
    seen: u64,
}

/// Of a module that came in the reading that is being taken in.
const COMES: u64 = u64::MAX;

#[allow(clippy::trivially_copy_pass_by_ref)] // serde asks for it.
fn is_0(number: &u64) -> bool {
    *number == 0
}

/// What is kept of a counter's place.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
struct KeptPlace {
    corrected: Option<u64>,
    uncorrected: Option<u64>,
    reset_s: Option<u64>,
    boot_id: Option<String>,
    clock_s: Option<f64>,
    /// See [`Moment::read_ns`]; of this process alone.
    #[serde(skip)]
    read_ns: Option<u64>,
    /// When its corrected errors were read, where they could not be since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    corrected_read: Option<ReadAt>,
    /// The same of its uncorrected ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    uncorrected_read: Option<ReadAt>,
    /// Which module was there.
    module: String,
    seen: u64,
}

/// When a counter was read.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
struct ReadAt {
    reset_s: Option<u64>,
    clock_s: Option<f64>,
    #[serde(skip)]
    read_ns: Option<u64>,
}

/// When a reading was made, by the host that was read.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Moment<'a> {
    /// Which boot.
    pub boot_id: Option<&'a str>,
    /// Seconds since that boot.
    pub clock_s: Option<f64>,
    /// Nanoseconds by the clock of whoever reads, which never jumps. Rates go by it where the host's own clock stands still, as that of a
    /// recorded tree does while somebody writes other counts into it, or where the host has none.
    pub read_ns: Option<u64>,
}

/// What a reading changed that somebody should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// The counter's place.
    pub place: String,
    /// What became of it.
    pub change: Change,
}

impl Kept {
    /// Takes in the modules of a reading. Gives the names by which they are kept, in their order, and what was odd.
    ///
    /// A module whose serial number could not be read this time keeps the name that it had in this boot; one whose serial number
    /// is known for the first time takes along what was counted at its place in this boot.
    pub fn take(&mut self, moment: Moment<'_>, modules: &[Module], limit: Limit) -> (Vec<String>, Vec<Notice>) {
        self.readings += 1;
        self.renumber(modules);
        let mut notices = Vec::new();
        let mixed = self.mixed(moment, modules);
        let mut names = Vec::with_capacity(modules.len());
        for module in modules {
            self.end_predecessor(moment, module);
            let name = self.name(moment, module, &names);
            self.note_arrival(module, &name);
            self.take_module(moment, module, &name, limit, &mut notices);
            names.push(name);
        }
        self.note_stays(moment, modules, &names);
        self.note_mixed(&mixed, &mut notices);
        self.drop_oldest();
        (names, notices)
    }

    /// The module that was at a place in the newest reading.
    pub(crate) fn module_of(&self, place: &str) -> Option<&KeptModule> {
        self.modules.get(&self.places.get(place)?.module)
    }

    /// Since when a module is in its slot, `CLOCK_REALTIME`: 0 where no other was seen there before.
    pub(crate) fn here_since(&self, name: &str) -> u64 {
        self.modules.get(name).map_or(0, |module| module.since_realtime_ns)
    }

    /// Where another serial or part number, or another size, is told of a place that names its module, the module was exchanged: the one
    /// before keeps what was counted, and the new one begins.
    fn end_predecessor(&mut self, moment: Moment<'_>, module: &Module) {
        let name = &module.place;
        let is_named_by_place = module.id() == name && module.only_place.is_none();
        let is_other = |kept: &KeptModule| kept.kind.is_other(&mixed::Kind::of(module));
        if !is_named_by_place || !self.modules.get(name).is_some_and(is_other) {
            return;
        }
        let Some(before) = self.modules.remove(name) else { return };
        let what = before.kind.texts().last().cloned().unwrap_or_else(|| format!("{} bytes", before.kind.size_bytes));
        let ended = format!("{name}, before: {what}");
        for stay in self.stays.iter_mut().filter(|stay| stay.module == *name) {
            stay.module.clone_from(&ended);
        }
        self.modules.insert(ended, before);
        let next = KeptModule { since_realtime_ns: COMES, ..KeptModule::default() };
        self.modules.insert(name.clone(), next);
        for counter in &module.counters {
            let place = self.places.get_mut(&counter.place);
            // The counters of another boot are the new module's from their start.
            if let Some(place) = place.filter(|place| place.boot_id.as_deref() != moment.boot_id) {
                *place = KeptPlace { module: name.clone(), ..KeptPlace::default() };
            }
        }
    }

    /// A module by serial number in a slot in which another was.
    fn note_arrival(&mut self, module: &Module, name: &str) {
        let before = self.places.get(&module.place).map(|place| place.module.as_str());
        let is_new_here = before.is_some_and(|before| !before.is_empty() && before != name && before != module.place);
        if is_new_here && name != module.place && module.only_place.is_none() {
            self.modules.entry(name.to_owned()).or_default().since_realtime_ns = COMES;
        }
    }

    fn name(&mut self, moment: Moment<'_>, module: &Module, taken: &[String]) -> String {
        let own = module.id().to_owned();
        let before = self.places.get(&module.place).filter(|place| place.boot_id.as_deref() == moment.boot_id);
        // Without a boot's name nothing proves that it is the same.
        let Some(before) = before.filter(|place| place.boot_id.is_some() && place.module != own) else { return own };
        let before = before.module.clone();
        if taken.contains(&before) || !self.modules.contains_key(&before) {
            return own;
        }
        if own == module.place {
            return before;
        }
        if before == module.place
            && !self.modules.contains_key(&own)
            && let Some(kept) = self.modules.remove(&before)
        {
            self.modules.insert(own.clone(), kept);
            if let Some(place) = self.places.get_mut(&module.place) {
                place.module.clone_from(&own);
            }
        }
        own
    }

    fn take_module(
        &mut self,
        moment: Moment<'_>,
        module: &Module,
        name: &str,
        limit: Limit,
        notices: &mut Vec<Notice>,
    ) {
        let readings = self.readings;
        let kept = self.modules.entry(name.to_owned()).or_default();
        if kept.rates.bucket.limit != limit {
            kept.rates.bucket = crate::rate::Bucket::new(limit);
        }
        // A slot whose label was registered since has another name, and the module did not move.
        let was_here =
            self.places.get(&module.place).is_some_and(|place| place.module == name && place.seen == kept.seen);
        kept.seen = readings;
        kept.kind.learn(mixed::Kind::of(module));
        let here = if module.label.is_empty() { &module.place } else { &module.label };
        if kept.here != *here {
            let before = std::mem::replace(&mut kept.here, here.clone());
            if !was_here {
                kept.moved_from = Some(before).filter(|before| !before.is_empty());
            }
        }
        let mut window = None;
        let mut corrected = 0_u64;
        let seen_per_s = kept.rates.worst_per_s;
        for counter in &module.counters {
            let place = self.places.entry(counter.place.clone()).or_default();
            let mut add = |(before, read): (Option<u64>, Option<ReadAt>), now: Option<u64>| {
                let added = place.advance(moment, (before, read), now, module.reset_s, seen_per_s)?;
                kept.is_lower_bound |= !added.change.is_exact();
                let notice = Notice { place: counter.place.clone(), change: added.change };
                // One reset clears both counters of a place.
                if added.change != Change::Grew && added.change != Change::First && notices.last() != Some(&notice) {
                    notices.push(notice);
                }
                window = window.max(added.within_ns);
                Some(added.count)
            };
            let more = add((place.corrected, place.corrected_read), counter.corrected).unwrap_or(0);
            let uncorrected = add((place.uncorrected, place.uncorrected_read), counter.uncorrected).unwrap_or(0);
            corrected = corrected.saturating_add(more);
            kept.uncorrected_count = kept.uncorrected_count.saturating_add(uncorrected);
            place.keep(moment, counter.corrected, counter.uncorrected, module.reset_s, name, readings);
        }
        kept.corrected_count = kept.corrected_count.saturating_add(corrected);
        if let Some(block) = &module.block {
            let place = self.places.entry(block.place()).or_default();
            let before = (place.corrected, place.corrected_read);
            if let Some(added) = place.advance(moment, before, block.errors, None, seen_per_s) {
                kept.is_lower_bound |= !added.change.is_exact();
                kept.block_count = kept.block_count.saturating_add(added.count);
                window = window.max(added.within_ns);
                corrected = corrected.max(added.count);
            }
            place.keep(moment, block.errors, None, None, name, readings);
        }
        if let Some(within_ns) = window {
            kept.rates.add(corrected, 0, within_ns);
        }
    }

    /// Goes on with what was counted under another name of the same module. Errors of the time between the two were counted by nobody.
    pub(crate) fn go_on(&mut self, before: &str, now: &str) {
        let Some(old) = self.modules.remove(before) else { return };
        let kept = self.modules.entry(now.to_owned()).or_default();
        kept.corrected_count = kept.corrected_count.saturating_add(old.corrected_count);
        kept.uncorrected_count = kept.uncorrected_count.saturating_add(old.uncorrected_count);
        kept.block_count = kept.block_count.saturating_add(old.block_count);
        kept.is_lower_bound = true;
        // What was counted under the new name came after the closing.
        kept.closed = kept.closed.take().or(old.closed);
        if old.rates.worst_per_s > kept.rates.worst_per_s {
            kept.rates.worst_per_s = old.rates.worst_per_s;
            kept.rates.worst_window_ns = old.rates.worst_window_ns;
        }
    }

    fn drop_oldest(&mut self) {
        self.dropped_count += drop_oldest(&mut self.modules, |module| module.seen);
        drop_oldest(&mut self.places, |place| place.seen);
    }
}

fn drop_oldest<T>(kept: &mut BTreeMap<String, T>, seen: impl Fn(&T) -> u64) -> u64 {
    let beyond = kept.len().saturating_sub(KEPT_MAX);
    if beyond > 0 {
        let mut ages: Vec<(u64, String)> = kept.iter().map(|(name, one)| (seen(one), name.clone())).collect();
        ages.sort_unstable();
        for (_, name) in ages.into_iter().take(beyond) {
            kept.remove(&name);
        }
    }
    beyond as u64
}

/// What one counter adds, and in which time.
struct Added {
    count: u64,
    change: Change,
    within_ns: Option<u64>,
}

impl KeptPlace {
    /// When it was looked at last.
    fn read_at(&self) -> ReadAt {
        ReadAt { reset_s: self.reset_s, clock_s: self.clock_s, read_ns: self.read_ns }
    }

    fn advance(
        &self,
        moment: Moment<'_>,
        (before, read): (Option<u64>, Option<ReadAt>),
        now: Option<u64>,
        reset_s: Option<u64>,
        seen_per_s: f64,
    ) -> Option<Added> {
        let count = |value, reset_s, boot_id, clock_s| {
            let max = EDAC_MAX;
            Count { value, reset_s, boot_id, clock_s, max, seen_per_s }
        };
        let then = read.unwrap_or(self.read_at());
        let before = before.map(|value| count(value, then.reset_s, self.boot_id.as_deref(), then.clock_s));
        let now = count(now?, reset_s, moment.boot_id, moment.clock_s);
        let (added, change) = step(before.as_ref(), &now);
        let nanoseconds = |seconds: f64| (seconds * 1e9) as u64;
        let within_ns = match (change, before) {
            (Change::Grew | Change::Wrapped, Some(before)) => {
                let by_host = now.clock_s.zip(before.clock_s).map(|(now, before)| now - before);
                let by_reader = moment.read_ns.zip(then.read_ns).map(|(now, before)| now.saturating_sub(before));
                by_host.filter(|seconds| *seconds > 0.0).map(nanoseconds).or(by_reader)
            }
            _ => reset_s.map(|seconds| nanoseconds(seconds as f64)),
        };
        Some(Added { count: added, change, within_ns })
    }

    fn keep(
        &mut self,
        moment: Moment<'_>,
        corrected: Option<u64>,
        uncorrected: Option<u64>,
        reset_s: Option<u64>,
        module: &str,
        seen: u64,
    ) {
        let is_same_boot = self.boot_id.as_deref() == moment.boot_id;
        // What cannot be read now is compared with what was read before, in the same boot, over the time since then.
        let known = |now: Option<u64>, before: Option<u64>| now.or(before.filter(|_| is_same_boot));
        let last = self.read_at();
        let read = |now: Option<u64>, before: Option<u64>, read: Option<ReadAt>| {
            (now.is_none() && before.is_some() && is_same_boot).then(|| read.unwrap_or(last))
        };
        self.corrected_read = read(corrected, self.corrected, self.corrected_read);
        self.uncorrected_read = read(uncorrected, self.uncorrected, self.uncorrected_read);
        self.corrected = known(corrected, self.corrected);
        self.uncorrected = known(uncorrected, self.uncorrected);
        (self.reset_s, self.clock_s, self.seen) = (reset_s, moment.clock_s, seen);
        self.read_ns = moment.read_ns;
        if !is_same_boot {
            self.boot_id = moment.boot_id.map(str::to_owned);
        }
        if self.module != module {
            self.module = module.to_owned();
        }
    }
}
