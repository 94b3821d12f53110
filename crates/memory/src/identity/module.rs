//! From places with counts to modules.

use super::join::join;
use crate::read::{Block, Controller, Driver, News, Place, PlaceKind, Reading};
use std::collections::{BTreeMap, BTreeSet};
use surefoot_model::{Certainty, Digits, ErrorSeverity, Fidelity, MemorySource};

/// A module with the counters that speak of it; or a remainder, of which only its channel or row is known.
#[derive(Debug, Clone, PartialEq)]
pub struct Module {
    /// Its first place, such as `mc0/dimm3`.
    pub place: String,
    /// Its slot label; for a remainder what it is.
    pub label: String,
    /// Serial number.
    pub serial: Option<String>,
    /// How sure that is.
    pub certainty: Option<Certainty>,
    /// Part number.
    pub part: Option<String>,
    /// Size; 0 where it is not known.
    pub size_bytes: u64,
    /// Its controller, such as `mc0`.
    pub controller: String,
    /// The driver of that.
    pub driver: Driver,
    /// Seconds since the counters of its controller were reset.
    pub reset_s: Option<u64>,
    /// The counters of EDAC that belong to it.
    pub counters: Vec<Counted>,
    /// The channels of its controller that it is on.
    pub channels: BTreeSet<u32>,
    /// The threshold block that counts this module alone.
    pub block: Option<Block>,
    /// How exact its counts are, as far as one reading tells.
    pub fidelity: Fidelity,
    /// Severities of which a counter of its places cannot be read.
    pub unread: Vec<ErrorSeverity>,
    /// Where they come from.
    pub sources: Vec<MemorySource>,
    /// Of a remainder where its errors are, in words: of which module they are is not known. `None` for a module.
    pub only_place: Option<String>,
    /// Of a remainder with a block: places of the modules whose errors that block counted, too.
    pub counted_also: Vec<String>,
}

/// A place's counters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    /// Its name with its controller's.
    pub place: String,
    /// Corrected errors.
    pub corrected: Option<u64>,
    /// Uncorrected errors.
    pub uncorrected: Option<u64>,
    /// The numbers of the layers of its location, by which reports name it.
    pub layers: Vec<u32>,
    /// Which of its controller's places it is.
    pub number: usize,
}

impl Module {
    /// What it is known by.
    pub fn id(&self) -> &str {
        match (&self.serial, self.certainty) {
            (Some(serial), Some(Certainty::Certain)) => serial,
            _ => &self.place,
        }
    }
}

/// All modules of a reading, by controller and place; behind those of a controller its remainders.
pub fn modules(reading: &Reading) -> Vec<Module> {
    let mut found: Vec<Module> = reading.controllers.iter().flat_map(|one| of_controller(one, reading)).collect();
    identify(&mut found, reading);
    let remainders = with_blocks(&mut found, reading);
    found.extend(remainders);
    found.extend(reading.controllers.iter().flat_map(rows));
    found.extend(reading.controllers.iter().filter_map(without_modules));
    found.sort_by_key(|module| number_of(&module.controller));
    found
}

/// Brings the modules of the reading before up to date with this one: what [`modules`] gives of it, without telling modules apart anew.
pub fn refresh(found: &mut Vec<Module>, reading: &Reading) {
    // Remainders come and go with the counts.
    let has_own = |one: &Controller| !one.rows.is_empty() || one.places.is_empty();
    let has_remainders = !reading.blocks.is_empty() || reading.controllers.iter().any(has_own);
    let counts_too = match reading.news {
        News::Times => false,
        News::Counts if !has_remainders => true,
        News::Counts | News::Anything => {
            *found = modules(reading);
            return;
        }
    };
    let mut controllers = reading.controllers.iter().peekable();
    for module in found.iter_mut() {
        // Both are in the order of the controllers' numbers.
        while controllers.next_if(|one| one.id != module.controller).is_some() {}
        let Some(controller) = controllers.peek() else { continue };
        module.reset_s = module.reset_s.and(controller.reset_s);
        if counts_too {
            recount(module, controller, reading);
        }
    }
}

fn recount(module: &mut Module, controller: &Controller, reading: &Reading) {
    for counter in &mut module.counters {
        if let Some(place) = controller.places.get(counter.number) {
            (counter.corrected, counter.uncorrected) = (place.corrected, place.uncorrected);
        }
    }
    module.reset_s = controller.reset_s;
    module.fidelity = fidelity(controller, module.counters.iter().map(|counter| counter.corrected), reading);
    module.unread = unread(controller, module.counters.iter().filter_map(|one| controller.places.get(one.number)));
}

pub(crate) fn number_of(controller: &str) -> u32 {
    controller.strip_prefix("mc").and_then(|number| number.digits()).unwrap_or(u32::MAX)
}

fn of_controller(controller: &Controller, reading: &Reading) -> Vec<Module> {
    let mut groups: BTreeMap<usize, Vec<(usize, &Place)>> = BTreeMap::new();
    let mut first_of: BTreeMap<String, usize> = BTreeMap::new();
    for (number, place) in controller.places.iter().enumerate() {
        let first = group(controller, place).map_or(number, |key| *first_of.entry(key).or_insert(number));
        groups.entry(first).or_default().push((number, place));
    }
    groups.into_values().map(|places| module(controller, &places, reading)).collect()
}

/// What ranks and rows have in common that are of one module; `None` for what is a module by itself.
fn group(controller: &Controller, place: &Place) -> Option<String> {
    if place.kind == PlaceKind::Dimm {
        return None;
    }
    if !is_default_label(controller, &place.label) {
        return Some(place.label.clone());
    }
    // On a channel of AMD's controllers chip selects 0 and 1 are those of its first module, 2 and 3 of its second (amd64_edac).
    let (row, channel) = (place.layer("csrow")?, place.layer("channel")?);
    (controller.driver == Driver::Amd64).then(|| format!("channel {channel} slot {}", row / 2))
}

/// Whether a label is the one that the kernel makes up, `mc#0csrow#2channel#1`, or is none.
pub(crate) fn is_default_label(controller: &Controller, label: &str) -> bool {
    label.is_empty() || label.starts_with(&format!("mc#{}", controller.index))
}

fn module(controller: &Controller, places: &[(usize, &Place)], reading: &Reading) -> Module {
    let full = |place: &Place| format!("{}/{}", controller.id, place.name);
    let first = places.first().map(|(_, place)| place);
    Module {
        place: first.map(|place| full(place)).unwrap_or_default(),
        label: first.map(|place| place.label.clone()).unwrap_or_default(),
        serial: None,
        certainty: None,
        part: None,
        size_bytes: size_bytes(places),
        controller: controller.id.clone(),
        driver: controller.driver,
        reset_s: controller.reset_s,
        counters: places.iter().map(|(number, place)| counted(*number, full(place), place)).collect(),
        channels: places.iter().filter_map(|(_, place)| place.layer("channel")).collect(),
        block: None,
        fidelity: fidelity(controller, places.iter().map(|(_, place)| place.corrected), reading),
        unread: unread(controller, places.iter().map(|(_, place)| *place)),
        sources: vec![MemorySource::Edac],
        only_place: None,
        counted_also: Vec::new(),
    }
}

/// The size of a module, 0 where that of any of its places is not known.
fn size_bytes(places: &[(usize, &Place)]) -> u64 {
    let known = places.iter().map(|(_, place)| Some(place.size_bytes).filter(|size| *size > 0));
    known.sum::<Option<u64>>().unwrap_or(0)
}

/// How exact the counts of one module are: a place that could not be read has at least what the others have.
fn fidelity(controller: &Controller, mut corrected: impl Iterator<Item = Option<u64>>, reading: &Reading) -> Fidelity {
    if corrected.any(|count| count.is_none()) {
        return Fidelity::LowerBound;
    }
    controller.driver.fidelity(reading.is_collected == Some(true))
}

/// Severities of which a place cannot be read. Where a driver counts uncorrected errors by row alone, the row's counter tells of them.
fn unread<'a>(controller: &Controller, places: impl Iterator<Item = &'a Place>) -> Vec<ErrorSeverity> {
    let is_row_read = |place: &Place| {
        let row = place.layer("csrow").filter(|_| place.kind == PlaceKind::RowChannel);
        row.is_some_and(|row| controller.rows.iter().any(|(own, errors)| *own == row && errors.is_some()))
    };
    let mut unread = BTreeSet::new();
    for place in places {
        if place.corrected.is_none() {
            unread.insert(ErrorSeverity::Corrected);
        }
        if place.uncorrected.is_none() && !is_row_read(place) {
            unread.insert(ErrorSeverity::Uncorrected);
        }
    }
    unread.into_iter().collect()
}

fn counted(number: usize, full: String, place: &Place) -> Counted {
    Counted {
        number,
        place: full,
        corrected: place.corrected,
        uncorrected: place.uncorrected,
        layers: place.location.iter().map(|(_, number)| *number).collect(),
    }
}

/// Serial and part numbers, from firmware's slots.
fn identify(modules: &mut [Module], reading: &Reading) {
    if reading.installed.is_empty() {
        return;
    }
    let labels: Vec<&str> = modules.iter().map(|module| module.label.as_str()).collect();
    let joined = join(&labels, &reading.installed);
    let serials: Vec<&str> = reading.installed.iter().map(|slot| slot.serial.as_str()).collect();
    for (module, joined) in modules.iter_mut().zip(joined) {
        let Some((slot, certainty)) = joined else { continue };
        let slot = &reading.installed[slot];
        module.part = Some(slot.part.clone()).filter(|part| !part.is_empty());
        if slot.serial.is_empty() {
            continue;
        }
        // Two modules with one number: the number says nothing.
        let is_unique = serials.iter().filter(|serial| **serial == slot.serial).count() == 1;
        module.serial = Some(slot.serial.clone());
        module.certainty = Some(if is_unique { certainty } else { Certainty::CannotTellApartHere });
    }
}

/// Gives blocks to the one module of their channel; what a block counted of a channel with several modules, beyond what EDAC has
/// for them, becomes a remainder.
fn with_blocks(modules: &mut [Module], reading: &Reading) -> Vec<Module> {
    let mut remainders = Vec::new();
    for block in &reading.blocks {
        let channel = channel_of(block, reading);
        let is_there = |module: &Module| {
            channel.is_some_and(|(controller, number)| {
                module.controller == controller && module.channels.contains(&number)
            })
        };
        let own: Vec<usize> = (0..modules.len()).filter(|place| is_there(&modules[*place])).collect();
        // A module whose ranks lie on several channels is counted by no block alone, and one whose channel is not told may be on this one.
        let has_more = |module: &Module| {
            module.channels.len() > 1 && is_there(module)
                || module.channels.is_empty() && channel.is_some_and(|(controller, _)| module.controller == controller)
        };
        let is_mixed = modules.iter().any(has_more);
        if let ([only], false) = (&own[..], is_mixed) {
            let module = &mut modules[*only];
            module.fidelity = block_fidelity(block);
            if block.errors.is_some() {
                module.unread.retain(|severity| *severity != ErrorSeverity::Corrected);
            }
            module.sources = vec![MemorySource::ThresholdBlock, MemorySource::Edac];
            module.block = Some(block.clone());
            continue;
        }
        let counted_also = own.iter().map(|place| modules[*place].place.clone()).collect();
        let mut remainder = remainder(block, counted_also, reading);
        if is_mixed {
            remainder.fidelity = Fidelity::LowerBound;
        }
        remainders.push(remainder);
    }
    remainders
}

fn block_fidelity(block: &Block) -> Fidelity {
    if block.errors.is_none() || block.is_full() { Fidelity::LowerBound } else { Fidelity::Exact }
}

fn remainder(block: &Block, counted_also: Vec<String>, reading: &Reading) -> Module {
    let controller =
        reading.controllers.iter().find(|one| Some(one.index) == block.node && one.driver == Driver::Amd64);
    let counter = format!("{} of processor {}", block.bank, block.cpu);
    let of = controller.map(|one| format!(" on memory controller {}", one.id)).unwrap_or_default();
    Module {
        place: block.place(),
        label: format!("{counter}, module not known"),
        serial: None,
        certainty: None,
        part: None,
        size_bytes: 0,
        controller: controller.map(|one| one.id.clone()).unwrap_or_default(),
        driver: Driver::Amd64,
        reset_s: None,
        counters: Vec::new(),
        channels: BTreeSet::new(),
        block: Some(block.clone()),
        fidelity: block_fidelity(block),
        unread: if block.errors.is_none() { vec![ErrorSeverity::Corrected] } else { Vec::new() },
        sources: vec![MemorySource::ThresholdBlock],
        only_place: Some(format!("the channel that {counter} counts{of}")),
        counted_also,
    }
}

/// The channel that a block counts, where that is certain: its bank has the channel's number only on the one processor of its node
/// that shows the banks of all channels. Where several processors of a node show some each, every one begins with 0.
fn channel_of<'a>(block: &Block, reading: &'a Reading) -> Option<(&'a str, u32)> {
    let (node, channel) = (block.node?, block.channel?);
    let controller = reading.controllers.iter().find(|one| one.index == node && one.driver == Driver::Amd64)?;
    let alone = reading.blocks.iter().all(|other| other.node != block.node || other.cpu == block.cpu);
    alone.then_some((controller.id.as_str(), channel))
}

/// The place of all that a controller counted which shows no modules.
pub(crate) const ALL: &str = "all";

/// What a controller counted that shows no modules, where that is anything or not known: one whose slots are empty shows none either.
fn without_modules(controller: &Controller) -> Option<Module> {
    let (corrected, uncorrected) = (controller.corrected, controller.uncorrected);
    let has_errors = [corrected, uncorrected].into_iter().any(|count| count != Some(0));
    (has_errors && controller.places.is_empty()).then(|| {
        let place = Place { name: ALL.into(), corrected, uncorrected, ..Place::default() };
        let mut module = module(controller, &[(0, &place)], &Reading::default());
        module.label = format!("all of {}, module not known", controller.id);
        module.only_place = Some(format!("memory controller {}", controller.id));
        module
    })
}

/// Uncorrected errors of a row of chip selects beyond those of its channels, where there are any.
fn rows(controller: &Controller) -> Vec<Module> {
    let beyond = |(row, errors): &(u32, Option<u64>)| {
        let begin = format!("csrow{row}/");
        let own = controller.places.iter().filter(|place| place.name.starts_with(&begin));
        let of_channels: u64 = own.filter_map(|place| place.uncorrected).sum();
        let uncorrected = errors.map(|errors| errors.saturating_sub(of_channels));
        let name = format!("csrow{row}");
        let place = Place { name, kind: PlaceKind::RowChannel, corrected: Some(0), uncorrected, ..Place::default() };
        let mut module = module(controller, &[(0, &place)], &Reading::default());
        module.label = format!("row {row} of {}, channel not known", controller.id);
        module.only_place = Some(format!("chip-select row {row} of memory controller {}", controller.id));
        (uncorrected.unwrap_or(0) > 0).then_some(module)
    };
    controller.rows.iter().filter_map(beyond).collect()
}
