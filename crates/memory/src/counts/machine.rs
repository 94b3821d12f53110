//! A made-up machine as the oracle of the counts: it knows every error, and which of them nobody could ever read.
#![allow(clippy::unwrap_used)]

use super::{Kept, Moment};
use crate::identity::{Counted, Module};
use crate::rate::Limit;
use crate::read::Driver;
use proptest::prelude::*;
use std::collections::BTreeMap;
use surefoot_model::{Certainty, Fidelity, MemorySource};

const SLOTS: usize = 4;
const WRAP: u64 = 1 << 32;

/// What happens to the machine between two looks.
#[derive(Debug, Clone)]
enum Step {
    /// Time goes by.
    Wait(u32),
    /// Errors of the module in a slot: corrected, uncorrected.
    Errors(usize, u32, u32),
    /// Enough errors to carry a counter over its end, and the time that takes.
    Storm(usize),
    /// Somebody writes `reset_counters`, or loads the driver anew.
    Reset,
    /// The host is booted anew, with two modules exchanged or not, and so many errors of the first before anybody looks.
    Reboot(Option<(usize, usize)>, u32),
    /// A look.
    Look,
    /// A look at which firmware's tables could not be read.
    LookWithoutSerials,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (3..5_000_u32).prop_map(Step::Wait),
        6 => (0..SLOTS, 0..5_000_u32, 0..3_u32).prop_map(|(slot, corrected, uncorrected)| Step::Errors(slot, corrected, uncorrected)),
        1 => (0..SLOTS).prop_map(Step::Storm),
        1 => Just(Step::Reset),
        1 => (prop::option::of((0..SLOTS, 0..SLOTS)), 0..9_000_u32).prop_map(|(exchanged, errors)| Step::Reboot(exchanged, errors)),
        6 => Just(Step::Look),
        2 => Just(Step::LookWithoutSerials),
    ];
    prop::collection::vec(step, 1..60)
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Truth {
    corrected: u64,
    uncorrected: u64,
}

/// The machine: counters as the kernel has them, and for each module what can be known of its errors.
struct Machine {
    boot: u32,
    clock_s: f64,
    reset_at_s: f64,
    /// Which module is in each slot.
    modules: [usize; SLOTS],
    counters: [Truth; SLOTS],
    /// Of each slot, what was in its counter at the last look.
    looked: [Truth; SLOTS],
    /// Errors of each module that a look has seen, or still can see.
    knowable: [Truth; SLOTS],
    /// Whether counters were reset after the last look.
    was_reset: bool,
    /// Whether there may be errors of a module that nobody saw.
    is_lost: [bool; SLOTS],
}

impl Machine {
    fn new() -> Self {
        Machine {
            boot: 0,
            clock_s: 10.0,
            reset_at_s: 10.0,
            modules: std::array::from_fn(|slot| slot),
            counters: [Truth::default(); SLOTS],
            looked: [Truth::default(); SLOTS],
            knowable: [Truth::default(); SLOTS],
            was_reset: false,
            is_lost: [false; SLOTS],
        }
    }

    fn errors(&mut self, slot: usize, corrected: u64, uncorrected: u64) {
        let (counter, known) = (&mut self.counters[slot], &mut self.knowable[self.modules[slot]]);
        counter.corrected += corrected;
        counter.uncorrected += uncorrected;
        known.corrected += corrected;
        known.uncorrected += uncorrected;
    }

    /// Counters begin anew: what they got since the last look is lost.
    fn clear(&mut self) {
        for slot in 0..SLOTS {
            let known = &mut self.knowable[self.modules[slot]];
            known.corrected -= self.counters[slot].corrected - self.looked[slot].corrected;
            known.uncorrected -= self.counters[slot].uncorrected - self.looked[slot].uncorrected;
        }
        self.counters = [Truth::default(); SLOTS];
        self.looked = [Truth::default(); SLOTS];
        // Two looks and a reset are told apart by whole seconds.
        self.clock_s += 5.0;
        self.reset_at_s = self.clock_s;
        self.was_reset = true;
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Wait(seconds) => self.clock_s += f64::from(*seconds),
            Step::Errors(slot, corrected, uncorrected) => {
                self.errors(*slot, u64::from(*corrected), u64::from(*uncorrected))
            }
            Step::Storm(slot) => {
                // Less than a whole turn: two turns between two looks would be seen by nobody.
                let since = self.counters[*slot].corrected - self.looked[*slot].corrected;
                if since < 10_000_000 {
                    self.errors(*slot, WRAP - 100_000_000, 0);
                    self.clock_s += 1_000.0;
                }
            }
            Step::Reset => self.clear(),
            Step::Reboot(exchanged, errors) => {
                self.clear();
                self.boot += 1;
                self.clock_s = 30.0;
                self.reset_at_s = 20.0;
                if let Some((one, other)) = exchanged {
                    self.modules.swap(*one, *other);
                }
                self.errors(0, u64::from(*errors), 0);
            }
            Step::Look | Step::LookWithoutSerials => {}
        }
    }

    fn look(&mut self, kept: &mut Kept, has_serials: bool) {
        let boot = format!("boot {}", self.boot);
        let moment = Moment { boot_id: Some(&boot), clock_s: Some(self.clock_s), read_ns: None };
        let reset_s = (self.clock_s - self.reset_at_s) as u64;
        let modules: Vec<Module> = (0..SLOTS).map(|slot| self.module(slot, reset_s, has_serials)).collect();
        kept.take(moment, &modules, Limit::default());
        self.looked = self.counters;
        if std::mem::take(&mut self.was_reset) {
            self.modules.iter().for_each(|module| self.is_lost[*module] = true);
        }
    }

    fn module(&self, slot: usize, reset_s: u64, has_serials: bool) -> Module {
        let counter = self.counters[slot];
        Module {
            place: format!("mc0/dimm{slot}"),
            label: format!("DIMM_{slot}"),
            serial: has_serials.then(|| format!("S{}", self.modules[slot])),
            certainty: has_serials.then_some(Certainty::Certain),
            part: None,
            size_bytes: 0,
            controller: "mc0".into(),
            driver: Driver::Skx,
            reset_s: Some(reset_s),
            counters: vec![Counted {
                place: format!("mc0/dimm{slot}"),
                corrected: Some(counter.corrected % WRAP),
                uncorrected: Some(counter.uncorrected),
                layers: vec![slot as u32],
                number: slot,
            }],
            channels: std::collections::BTreeSet::from([0]),
            block: None,
            fidelity: Fidelity::Exact,
            unread: Vec::new(),
            sources: vec![MemorySource::Edac],
            only_place: None,
            counted_also: Vec::new(),
        }
    }
}

/// What is kept of each module, by number.
fn counted(kept: &Kept) -> BTreeMap<String, (u64, u64, bool)> {
    let counts = |(name, one): (&String, &super::KeptModule)| {
        (name.clone(), (one.corrected_count, one.uncorrected_count, one.is_lower_bound))
    };
    kept.modules.iter().map(counts).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Whatever happens, each module has exactly the errors that could be known, and is a lower bound once some could be lost.
    #[test]
    fn every_module_keeps_its_errors(steps in steps()) {
        let (mut machine, mut kept) = (Machine::new(), Kept::default());
        machine.look(&mut kept, true);
        for step in &steps {
            machine.step(step);
            // After a boot only a serial number says which module is where: look once with them.
            let is_reboot = matches!(step, Step::Reboot(..));
            if is_reboot || matches!(step, Step::Look | Step::LookWithoutSerials) {
                machine.look(&mut kept, is_reboot || matches!(step, Step::Look));
                let found = counted(&kept);
                prop_assert_eq!(found.len(), SLOTS);
                for module in 0..SLOTS {
                    let known = machine.knowable[module];
                    let wanted = (known.corrected, known.uncorrected, machine.is_lost[module]);
                    prop_assert_eq!(found[&format!("S{module}")], wanted, "module {}", module);
                }
            }
        }
    }

    /// What was written and read back counts on as if nothing had been between.
    #[test]
    fn what_is_kept_outlives_the_process(steps in steps()) {
        let (mut machine, mut kept, mut written) = (Machine::new(), Kept::default(), Kept::default());
        for step in &steps {
            machine.step(step);
            if matches!(step, Step::Look) {
                machine.look(&mut kept, true);
                written = serde_json::from_str(&serde_json::to_string(&written).unwrap()).unwrap();
                machine.look(&mut written, true);
                prop_assert_eq!(counted(&kept), counted(&written));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// The slot history names the module that is there; and it never says "the same" where no serial number was read since the boot.
    #[test]
    fn the_slot_history_follows_every_module(steps in steps()) {
        let (mut machine, mut kept) = (Machine::new(), Kept::default());
        let mut has_read = false;
        // Of each slot, the modules that looks with serial numbers saw there, without repetition.
        let mut truth: [Vec<usize>; SLOTS] = std::array::from_fn(|_| Vec::new());
        for (at, step) in steps.iter().enumerate() {
            machine.step(step);
            has_read &= !matches!(step, Step::Reboot(..));
            let has_serials = matches!(step, Step::Look);
            if !has_serials && !matches!(step, Step::LookWithoutSerials) {
                continue;
            }
            machine.look(&mut kept, has_serials);
            kept.seen_at(1 + at as u64);
            kept = serde_json::from_str(&serde_json::to_string(&kept).unwrap()).unwrap();
            has_read |= has_serials;
            let (stays, _) = kept.slots();
            for (slot, truth) in truth.iter_mut().enumerate() {
                let place = format!("mc0/dimm{slot}");
                let of: Vec<_> = stays.iter().filter(|stay| stay.place == place).collect();
                let open: Vec<_> = of.iter().filter(|stay| !stay.has_ended).collect();
                prop_assert_eq!(open.len(), 1);
                let name = has_read.then(|| format!("S{}", machine.modules[slot]));
                prop_assert_eq!(&open[0].serial, &name, "slot {}", slot);
                if has_serials && truth.last() != Some(&machine.modules[slot]) {
                    truth.push(machine.modules[slot]);
                }
                let mut named: Vec<String> = of.iter().filter_map(|stay| stay.serial.clone()).collect();
                named.dedup();
                let wanted: Vec<String> = truth.iter().map(|module| format!("S{module}")).collect();
                prop_assert_eq!(named, wanted, "slot {}", slot);
                prop_assert!(of.windows(2).all(|pair| pair[0].last_seen_realtime_ns <= pair[1].first_seen_realtime_ns));
                prop_assert!(of.iter().all(|stay| stay.first_seen_realtime_ns > 0));
            }
        }
    }
}

/// Slots of a controller that is unloaded are not empty: nothing is known of them. A slot that its controller does not show is.
#[test]
fn a_slot_ends_a_stay_only_where_something_says_so() {
    let (mut machine, mut kept) = (Machine::new(), Kept::default());
    machine.look(&mut kept, true);
    kept.seen_at(5);
    let moment = Moment { boot_id: Some("boot 0"), clock_s: Some(50.0), read_ns: None };
    kept.take(moment, &[], Limit::default());
    kept.seen_at(6);
    assert!(kept.slots().0.iter().all(|stay| !stay.has_ended && stay.last_seen_realtime_ns == 5));
    let one = machine.module(0, 40, true);
    kept.take(moment, &[one], Limit::default());
    kept.seen_at(7);
    let ended: Vec<bool> = kept.slots().0.iter().map(|stay| stay.has_ended).collect();
    assert_eq!(ended, [false, true, true, true]);
    machine.look(&mut kept, true);
    kept.seen_at(8);
    assert_eq!(kept.slots().0.len(), 2 * SLOTS - 1, "a module that is put back begins a new stay");
}

/// Beyond the limit the stays that ended first go, and are counted.
#[test]
fn the_slot_history_has_a_limit() {
    let mut kept = Kept::default();
    let machine = Machine::new();
    for round in 0..super::STAYS_MAX + 7 {
        let boot = format!("boot {round}");
        let module = Module { serial: Some(format!("R{round}")), ..machine.module(0, 10, true) };
        kept.take(Moment { boot_id: Some(&boot), clock_s: Some(30.0), read_ns: None }, &[module], Limit::default());
        kept.seen_at(1 + round as u64);
    }
    let (stays, left_out) = kept.slots();
    assert_eq!((stays.len(), left_out), (super::STAYS_MAX, 7));
    assert_eq!(stays.last().unwrap().serial.as_deref(), Some(format!("R{}", super::STAYS_MAX + 6).as_str()));
    assert!(Kept::from_text(&kept.to_text().unwrap()).is_ok());
}

/// A module that is looked at without its serial number first takes what was counted along when it is known.
#[test]
fn a_serial_number_that_is_known_later_takes_the_counts_of_its_place_along() {
    let (mut machine, mut kept) = (Machine::new(), Kept::default());
    machine.errors(2, 40, 0);
    machine.look(&mut kept, false);
    assert_eq!(counted(&kept)["mc0/dimm2"].0, 40);
    machine.errors(2, 2, 0);
    machine.look(&mut kept, true);
    assert_eq!((counted(&kept)["S2"].0, kept.modules.len()), (42, SLOTS));
}

/// Beyond the limit the modules that were not seen for the longest time go, and are counted.
#[test]
fn what_is_kept_has_a_limit() {
    let (mut machine, mut kept) = (Machine::new(), Kept::default());
    for round in 0..super::KEPT_MAX / SLOTS + 10 {
        machine.step(&Step::Reboot(None, 0));
        machine.modules = std::array::from_fn(|slot| slot);
        let boot = format!("boot {round}");
        let modules: Vec<Module> = (0..SLOTS)
            .map(|slot| Module { serial: Some(format!("R{round}-{slot}")), ..machine.module(slot, 10, true) })
            .collect();
        kept.take(Moment { boot_id: Some(&boot), clock_s: Some(30.0), read_ns: None }, &modules, Limit::default());
    }
    assert_eq!((kept.modules.len(), kept.dropped_count), (super::KEPT_MAX, 10 * SLOTS as u64));
    assert!(!kept.modules.contains_key("R0-0") && kept.modules.contains_key("R1033-0"));
}

/// A look at which the counter cannot be read takes no time off the next rate.
#[test]
fn an_unreadable_look_does_not_double_the_rate() {
    let (mut kept, boot) = (Kept::default(), "boot");
    let mut look = |clock_s: f64, corrected: Option<u64>, uncorrected: Option<u64>, reset_s: u64| {
        let mut module = Machine::new().module(0, reset_s, true);
        (module.counters[0].corrected, module.counters[0].uncorrected) = (corrected, uncorrected);
        kept.take(Moment { boot_id: Some(boot), clock_s: Some(clock_s), read_ns: None }, &[module], Limit::default());
        // As if another process went on.
        kept = serde_json::from_str(&serde_json::to_string(&kept).unwrap()).unwrap();
        kept.modules["S0"].clone()
    };
    look(1000.0, Some(0), Some(0), 900);
    for round in 1..20_u64 {
        let at = 1000.0 + 20.0 * round as f64;
        let blind = look(at - 10.0, None, Some(0), 890 + 20 * round);
        assert_eq!(blind.corrected_count, 100 * (round - 1));
        let seen = look(at, Some(100 * round), Some(0), 900 + 20 * round);
        assert_eq!(
            (seen.corrected_count, seen.rates.now_per_s, seen.rates.worst_per_s),
            (100 * round, 5.0, 5.0),
            "{round}"
        );
    }
    // A reset that a look in between has seen by the other counter is none again.
    look(2000.0, None, Some(7), 5);
    let last = look(2010.0, Some(3), Some(9), 15);
    assert_eq!((last.corrected_count, last.uncorrected_count), (1903, 9));
}

/// A module that was exchanged begins a new life, also where its serial number is only probably the slot's: what was counted of the one
/// before stays with that one.
#[test]
fn an_exchanged_module_begins_anew_and_its_predecessor_keeps_its_errors() {
    let look = |kept: &mut Kept, boot: &str, serial: Option<&str>, certainty, size_bytes, counts: (u64, u64)| {
        let mut module = Machine::new().module(0, 100, false);
        module.serial = serial.map(str::to_owned);
        module.certainty = serial.map(|_| certainty);
        module.size_bytes = size_bytes;
        (module.counters[0].corrected, module.counters[0].uncorrected) = (Some(counts.0), Some(counts.1));
        let moment = Moment { boot_id: Some(boot), clock_s: Some(200.0), read_ns: None };
        let names = kept.take(moment, &[module], Limit::default()).0;
        kept.seen_at(7_000);
        *kept = serde_json::from_str(&serde_json::to_string(kept).unwrap()).unwrap();
        let now = &kept.modules[&names[0]];
        (names[0].clone(), now.corrected_count, now.uncorrected_count, now.since_realtime_ns)
    };
    let (probable, certain) = (Certainty::Probable, Certainty::Certain);
    let mut kept = Kept::default();
    assert_eq!(look(&mut kept, "a", Some("OLD111"), probable, 1 << 30, (5, 1)), ("mc0/dimm0".into(), 5, 1, 0));
    // Firmware's tables could not be read for once.
    assert_eq!(look(&mut kept, "b", None, probable, 0, (1, 0)), ("mc0/dimm0".into(), 6, 1, 0));
    assert_eq!(look(&mut kept, "c", Some("NEW222"), probable, 1 << 30, (2, 0)), ("mc0/dimm0".into(), 2, 0, 7_000));
    let before = &kept.modules["mc0/dimm0, before: OLD111"];
    assert_eq!((before.corrected_count, before.uncorrected_count), (6, 1));
    assert_eq!(look(&mut kept, "c", Some("NEW222"), probable, 1 << 30, (4, 0)), ("mc0/dimm0".into(), 4, 0, 7_000));
    // Only its size tells.
    let mut kept = Kept::default();
    look(&mut kept, "a", None, probable, 1 << 30, (5, 1));
    assert_eq!(look(&mut kept, "b", None, probable, 1 << 31, (0, 0)), ("mc0/dimm0".into(), 0, 0, 7_000));
    // By serial numbers that are certain.
    let mut kept = Kept::default();
    look(&mut kept, "a", Some("OLD111"), certain, 1 << 30, (5, 1));
    assert_eq!(look(&mut kept, "b", Some("NEW222"), certain, 1 << 30, (0, 0)), ("NEW222".into(), 0, 0, 7_000));
    assert_eq!((kept.modules["OLD111"].uncorrected_count, kept.here_since("OLD111")), (1, 0));
}
