//! The text in which [`Kept`] outlives a process: JSON, and believed only within limits.

use super::{KEPT_MAX, Kept};
use std::path::Path;

/// The format's version, the first field of the text.
const VERSION: u32 = 1;
/// No text is longer; who reads a file stops there.
pub const TEXT_BYTES_MAX: u64 = 8 << 20;
/// Names of modules, labels.
const NAME_MAX: usize = 256;

/// Where the text is kept. How a file is read and replaced safely is for who has files.
pub trait KeptFile: std::fmt::Debug + Send {
    /// Its path, for messages.
    fn path(&self) -> &Path;
    /// Reads it for this host, see [`crate::read::machine`]; nothing there is no error.
    ///
    /// # Errors
    /// Why it cannot be read; then nothing is written to it either.
    fn load(&mut self, machine: Option<&str>) -> Result<Loaded, String>;
    /// Replaces it as a whole. What was not believed is put aside first.
    ///
    /// # Errors
    /// Why it stays as it was.
    fn save(&mut self, kept: &Kept) -> Result<(), String>;
}

/// What a file had.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// The counts; empty where there were none that are believed.
    pub kept: Kept,
    /// Why what was there is not believed.
    pub refused: Option<String>,
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Content<K> {
    version: u32,
    kept: K,
}

impl Kept {
    /// As [`Kept::from_text`] reads it.
    ///
    /// # Errors
    /// For a number that JSON does not have.
    pub fn to_text(&self) -> serde_json::Result<Vec<u8>> {
        let mut text = serde_json::to_vec(&Content { version: VERSION, kept: self })?;
        text.push(b'\n');
        Ok(text)
    }

    /// What is kept of this host.
    ///
    /// # Errors
    /// That it is another host's, where both are known: its modules in the same slots are others.
    pub fn of_machine(self, machine: Option<&str>) -> Result<Kept, String> {
        match (self.machine.as_deref(), machine) {
            (Some(kept), Some(own)) if kept != own => Err("it is of another host (another /etc/machine-id)".to_owned()),
            _ => Ok(Kept { machine: machine.map(str::to_owned).or(self.machine), ..self }),
        }
    }

    /// Reads what [`Kept::to_text`] wrote.
    ///
    /// # Errors
    /// Why it is not such a text: a clause that goes on from the file's name.
    pub fn from_text(bytes: &[u8]) -> Result<Kept, String> {
        if bytes.len() as u64 > TEXT_BYTES_MAX {
            return Err(format!("it is longer than {TEXT_BYTES_MAX} bytes"));
        }
        let text = std::str::from_utf8(bytes).map_err(|_| "it is no text".to_owned())?;
        serde_json::from_str::<Content<Kept>>(text).map_err(|error| format!("it is damaged ({error})")).and_then(sound)
    }
}

/// Whether it is what [`Kept::to_text`] writes: within the limits, and every number one.
fn sound(content: Content<Kept>) -> Result<Kept, String> {
    if content.version != VERSION {
        return Err(format!("its version is {} and this surefoot knows {VERSION}", content.version));
    }
    let kept = content.kept;
    let is_short = |name: &String| name.len() <= NAME_MAX && !name.contains(char::is_control);
    let modules = kept.modules.iter().all(|(name, module)| {
        let texts = [Some(name), Some(&module.here), module.moved_from.as_ref()];
        let texts = texts.into_iter().flatten().chain(module.kind.texts()).chain(&module.mixed_with);
        texts.into_iter().all(is_short) && module.rates.is_sound()
    });
    let places = kept.places.iter().all(|(name, place)| {
        let texts = [Some(name), Some(&place.module), place.boot_id.as_ref()];
        texts.into_iter().flatten().all(is_short) && place.clock_s.is_none_or(|clock| clock.is_finite() && clock >= 0.0)
    });
    let is_machine = kept.machine.as_ref().is_none_or(&is_short);
    let is_small = is_machine && kept.modules.len() <= KEPT_MAX && kept.places.len() <= KEPT_MAX;
    if modules && places && is_small && kept.is_sound_of_closings() && kept.is_sound_of_stays(is_short) {
        Ok(kept)
    } else {
        Err("it holds what surefoot never writes".into())
    }
}
