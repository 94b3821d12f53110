//! The answer of `/api/v1/nic/movie`: one fault, replayed.

use super::lines::FaultLine;
use super::words::{Part, part, scene, short_words};
use crate::SCHEMA;
use crate::stall::length;
use schemars::JsonSchema;
use serde::Serialize;
use surefoot_nic::campaign::movie::{Movie, Scene, What};
use surefoot_nic::campaign::{CampaignError, Experiment, FaultId, Preset};

/// Longer texts are no id.
const ID_BYTES_MAX: usize = 300;
/// No run has so many instructions.
const INSTRUCTIONS_MAX: u64 = 1 << 40;

/// One fault, step by step.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "NicMovie")]
pub struct MovieAnswer {
    /// [`crate::SCHEMA`].
    schema: u32,
    /// The version of Surefoot.
    version: &'static str,
    /// What the campaign says of it.
    fault: FaultLine,
    /// What happened, in order.
    scenes: Vec<SceneView>,
    /// Scenes that are not here.
    missed_count: u64,
}

/// Something that happened. Times are virtual.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "MovieScene")]
struct SceneView {
    /// Since the beginning of the run.
    at_ns: u64,
    /// Since the fault; of what was before, 0.
    since_ns: u64,
    /// The host on which it happened: of a delivery the one that receives.
    host: Option<u8>,
    part: Part,
    /// In a word: struck, diverged, `not_diverged`, halted, crashed, daemon, delivered, refused or ended.
    scene: &'static str,
    /// Of a daemon: suspected, dismissed, detected, reloaded, passed, recovered, `reload_failed` or `given_up`. Of a
    /// delivery: late, again or wrong.
    step: Option<&'static str>,
    /// In a sentence.
    text: String,
    /// The instruction without the fault, and what it does.
    usually: Option<String>,
    /// And with it.
    instead: Option<String>,
}

impl SceneView {
    fn of(of: &Scene) -> Self {
        let (usually, instead) = match &of.what {
            What::Struck { was, is, .. } => (was.clone(), is.clone()),
            What::Diverged { done, usually, .. } => (Some(usually.clone()), Some(done.clone())),
            _ => (None, None),
        };
        let step = match of.what {
            What::Daemon { step, .. } | What::Delivered { how: step, .. } => Some(step),
            _ => None,
        };
        SceneView {
            at_ns: of.at_ns,
            since_ns: of.since_ns,
            host: of.place.map(|host| host as u8),
            part: part(&of.what),
            scene: scene(&of.what),
            step,
            text: short_words(&of.what, length),
            usually,
            instead,
        }
    }
}

impl MovieAnswer {
    /// The answer of a replay.
    pub fn of(movie: &Movie) -> Self {
        MovieAnswer {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            fault: FaultLine::of(&movie.record, None),
            scenes: movie.scenes.iter().map(SceneView::of).collect(),
            missed_count: movie.missed_count,
        }
    }
}

/// The fault of an id, and its experiment.
///
/// # Errors
/// When it is no id, or of nothing that can be replayed here.
pub fn wanted(id: &str, own: &[Experiment]) -> Result<(FaultId, Experiment), String> {
    if id.len() > ID_BYTES_MAX {
        return Err(format!("an id has at most {ID_BYTES_MAX} bytes"));
    }
    let id: FaultId = id.parse().map_err(|error: CampaignError| error.to_string())?;
    if id.fault.at_instruction > INSTRUCTIONS_MAX {
        return Err(format!("no run has {} instructions", id.fault.at_instruction));
    }
    let own = || own.iter().find(|one| one.name == id.experiment).cloned();
    let found = Preset::named(&id.experiment).map(Experiment::preset).or_else(own);
    let Some(mut experiment) = found else {
        let text = "the fault is of an experiment that this watch does not know; start it with --nic-experiment FILE, \
                    or replay it with: surefoot nic inject --fault ID --experiment FILE";
        return Err(text.to_owned());
    };
    id.stack.apply(&mut experiment);
    Ok((id, experiment))
}
