//! The JSON lines of `surefoot nic inject`: a line per scene, then the fault's own as a campaign writes it.

use serde::Serialize;
use surefoot_nic::campaign::movie::{Scene, What};
use surefoot_rooms::nic::campaign::words::why_name;

/// Something that happened after a fault.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "scene")]
pub struct SceneLine<'a> {
    /// Virtual time.
    pub at_ns: u64,
    /// From the fault on.
    pub since_ns: u64,
    /// The host where it happened; of a delivery the one that receives.
    pub host: Option<u8>,
    /// The rest: `scene` says what happened, and the fields are those of it.
    #[serde(flatten)]
    #[cfg_attr(test, schemars(with = "std::collections::BTreeMap<String, serde_json::Value>"))]
    pub what: Happened<'a>,
}

/// What happened.
#[derive(Serialize)]
#[serde(tag = "scene", rename_all = "snake_case")]
pub enum Happened<'a> {
    /// The bit flipped, or is stuck.
    Struck {
        place: &'a str,
        function: Option<&'a str>,
        /// The word of code before and after, and the instructions.
        before: Option<u32>,
        after: Option<u32>,
        was: Option<&'a str>,
        is: Option<&'a str>,
    },
    /// The first instruction that was done otherwise than without the fault.
    Diverged { pc: u32, function: Option<&'a str>, after_instructions: u64, done: &'a str, usually: &'a str },
    /// No instruction was done otherwise among those that were watched.
    NotDiverged { watched_instructions: u64 },
    /// The processor halted in a trap.
    Halted { cause: &'a str, pc: u32, function: Option<&'a str> },
    /// The host went down.
    Crashed,
    /// What the daemon did: suspected, dismissed, detected, reloaded, passed, recovered, reload_failed, given_up.
    Daemon { step: &'static str, by: Option<&'static str>, finding: Option<&'static str>, epoch: Option<u32> },
    /// A message was delivered late, again, or otherwise than it was sent.
    Delivered { message: u32, from: u8, how: &'static str, late_ns: Option<u64> },
    /// The sender was told that a message did not arrive.
    Refused { message: u32, why: &'static str },
    /// The end.
    Ended,
}

impl<'a> SceneLine<'a> {
    pub fn of(scene: &'a Scene) -> Self {
        let what = match &scene.what {
            What::Struck { place, function, before, after, was, is } => Happened::Struck {
                place,
                function: function.as_deref(),
                before: *before,
                after: *after,
                was: was.as_deref(),
                is: is.as_deref(),
            },
            What::Diverged { pc, function, after_instructions, done, usually } => Happened::Diverged {
                pc: *pc,
                function: function.as_deref(),
                after_instructions: *after_instructions,
                done,
                usually,
            },
            What::NotDiverged { watched_instructions } => {
                Happened::NotDiverged { watched_instructions: *watched_instructions }
            }
            What::Halted { cause, pc, function } => Happened::Halted { cause, pc: *pc, function: function.as_deref() },
            What::Crashed => Happened::Crashed,
            What::Daemon { step, by, finding, epoch } => {
                Happened::Daemon { step, by: *by, finding: *finding, epoch: *epoch }
            }
            What::Delivered { message, from, how, late_ns } => {
                Happened::Delivered { message: *message, from: *from as u8, how, late_ns: *late_ns }
            }
            What::Refused { message, why } => Happened::Refused { message: *message, why: why_name(*why) },
            What::Ended => Happened::Ended,
        };
        SceneLine { at_ns: scene.at_ns, since_ns: scene.since_ns, host: scene.place.map(|place| place as u8), what }
    }
}
