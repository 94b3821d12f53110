//! Which module a person means.

use std::fmt;
use surefoot_model::{Dimm, FaultClosing, MemoryLook, SlotStay, did_you_mean, one_line};

/// Names that a refusal lists.
const NAMED_MAX: usize = 12;

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Wanted<'a> {
    /// A module that is here, or a place with errors of an unknown module.
    Here(&'a Dimm),
    /// A module that was in a slot and is not there any more, with what is there now.
    Gone(&'a SlotStay, Option<&'a SlotStay>),
}

/// Why a name stands for none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotFound {
    /// No module has that name.
    Unknown {
        /// The name.
        name: String,
        /// Names that exist.
        known: Vec<String>,
    },
    /// Several modules have that name.
    Ambiguous {
        /// The name.
        name: String,
        /// Their IDs.
        modules: Vec<String>,
    },
    /// It is a group of suspects or a place with several modules.
    NotOneModule {
        /// The name.
        name: String,
        /// The place, in words.
        place: String,
        /// What was asked.
        closing: FaultClosing,
    },
    /// It is a module of another host, from an imported log.
    OtherHost {
        /// That host.
        host: String,
        /// Its module.
        module: String,
    },
}

impl fmt::Display for NotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotFound::Unknown { name, known } => {
                let hint = did_you_mean(name, known.iter().map(String::as_str));
                let known = match known.len() {
                    0 => "no module is known here".to_owned(),
                    _ => format!("known here: {}", listed(known)),
                };
                write!(f, "{}: no such module; {known}{hint}", one_line(name))
            }
            NotFound::Ambiguous { name, modules } => write!(
                f,
                "{}: {} modules have this label ({}); name one of them by its ID",
                one_line(name),
                modules.len(),
                listed(modules)
            ),
            NotFound::NotOneModule { name, place, closing } => write!(
                f,
                "{}: errors of {}, and the module is unknown; find the module and name it, or close the errors of the place with \
                 `memory cleared` after it was {}",
                one_line(name),
                one_line(place),
                closing.as_str()
            ),
            NotFound::OtherHost { host, module } => write!(
                f,
                "{} is a module of host {}, known from an imported log; close its fault on that host",
                one_line(module),
                one_line(host)
            ),
        }
    }
}

impl std::error::Error for NotFound {}

fn listed(names: &[String]) -> String {
    let more = match names.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let first: Vec<String> = names.iter().take(NAMED_MAX).map(|name| one_line(name)).collect();
    first.join(", ") + &more
}

/// The module that a name stands for: an ID, a serial number or a slot label. For `replaced` a slot's name stands for the module that was
/// there before, if one is known. `others` are names of modules of other hosts, as `memory import` keeps them (`host: module`).
///
/// # Errors
/// [`NotFound`].
pub fn wanted<'a>(
    look: &'a MemoryLook,
    others: &[String],
    name: &str,
    closing: FaultClosing,
) -> Result<Wanted<'a>, NotFound> {
    let is_serial = |dimm: &Dimm| dimm.serial.as_deref() == Some(name);
    let is_slot = |label: &str, place: &str| !name.is_empty() && (label == name || place == name);
    let open = |place: &str| look.slots.iter().find(|stay| !stay.has_ended && stay.place == place);
    if closing == FaultClosing::Replaced {
        let of_slot = look.slots.iter().filter(|stay| is_slot(&stay.label, &stay.place));
        let places: std::collections::BTreeSet<&str> = of_slot.clone().map(|stay| stay.place.as_str()).collect();
        let now = places.first().filter(|_| places.len() == 1).and_then(|place| open(place));
        let is_open = |stay: &&SlotStay| {
            let has_errors = stay.corrected_count > 0 || stay.uncorrected_count > 0;
            has_errors && stay.closed.is_none() && now.is_none_or(|now| stay.module != now.module)
        };
        let before = of_slot.filter(|stay| stay.has_ended && places.len() == 1).filter(is_open);
        if let Some(before) = before.max_by_key(|stay| stay.last_seen_realtime_ns) {
            return Ok(Wanted::Gone(before, now));
        }
    }
    let by_id = look.dimms.iter().find(|dimm| dimm.id == name);
    let mut fitting: Vec<&Dimm> = match by_id {
        Some(dimm) => vec![dimm],
        None => look.dimms.iter().filter(|dimm| is_serial(dimm)).collect(),
    };
    if fitting.is_empty() {
        fitting = look.dimms.iter().filter(|dimm| is_slot(&dimm.label, "")).collect();
    }
    match &fitting[..] {
        [one] => match &one.only_place {
            Some(place) if closing != FaultClosing::Cleared => {
                Err(NotFound::NotOneModule { name: name.to_owned(), place: place.clone(), closing })
            }
            _ => Ok(Wanted::Here(one)),
        },
        [] => {
            let gone = look.slots.iter().filter(|stay| stay.has_ended);
            let is_it = |stay: &&SlotStay| stay.module == name || stay.serial.as_deref() == Some(name);
            if let Some(stay) = gone.filter(is_it).max_by_key(|stay| stay.last_seen_realtime_ns) {
                return Ok(Wanted::Gone(stay, open(&stay.place)));
            }
            let of_other = others.iter().filter_map(|other| other.split_once(": "));
            let other =
                of_other.into_iter().find(|(host, module)| *module == name || format!("{host}: {module}") == name);
            if let Some((host, module)) = other {
                return Err(NotFound::OtherHost { host: host.to_owned(), module: module.to_owned() });
            }
            let known = look.dimms.iter().map(|dimm| dimm.id.clone()).collect();
            Err(NotFound::Unknown { name: name.to_owned(), known })
        }
        several => {
            let modules = several.iter().map(|dimm| dimm.id.clone()).collect();
            Err(NotFound::Ambiguous { name: name.to_owned(), modules })
        }
    }
}
