//! The settings of a watch that runs.

use crate::{Effective, Error, SETTINGS, Settings, When};
use std::sync::{Arc, PoisonError, RwLock};

/// What holds now, for everybody who needs it; a clone is the same settings.
#[derive(Debug, Clone, Default)]
pub struct Live(Arc<RwLock<State>>);

#[derive(Debug, Default)]
struct State {
    held: Arc<Effective>,
    /// Of the last reload.
    reload: Reload,
}

/// How the last reload went.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reload {
    /// Why nothing was taken over, so that the settings before it hold.
    pub problem: Option<String>,
    /// What the watch must be started again for: the key, the new value, and where it stands.
    pub waiting: Vec<String>,
    /// What changed at once, in the same words.
    pub changed: Vec<String>,
}

impl Live {
    /// These settings.
    pub fn new(held: Effective) -> Self {
        Live(Arc::new(RwLock::new(State { held: Arc::new(held), reload: Reload::default() })))
    }

    /// What holds now. Ask once for what belongs together.
    pub fn now(&self) -> Arc<Effective> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner).held)
    }

    /// How the last reload went.
    pub fn last_reload(&self) -> Reload {
        self.0.read().unwrap_or_else(PoisonError::into_inner).reload.clone()
    }

    /// Takes over what may change while the watch runs, all of it at once, and tells the rest. Nothing is taken over of settings that
    /// are wrong.
    pub fn reload(&self, read: Result<Effective, Error>) -> Reload {
        let mut state = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let reload = match read {
            // Whoever writes a file anew may have it empty for a moment, and by the defaults a history may be cut.
            Ok(wanted) if state.held.has_file() && !wanted.has_file() => Reload {
                problem: Some(
                    "the file is gone or sets nothing any more; start the watch again for the defaults".to_owned(),
                ),
                ..Reload::default()
            },
            Ok(wanted) => {
                let mut next = wanted.clone();
                let mut reload = Reload::default();
                let before = &state.held;
                for setting in SETTINGS.iter().filter(|one| !one.is_same(&before.settings, &wanted.settings)) {
                    let value = setting.value_in(&wanted.settings).unwrap_or_else(|| "not set".to_owned());
                    let said = format!("{} = {value} ({})", setting.key, wanted.origin(setting.key));
                    match setting.when {
                        When::Reload => reload.changed.push(said),
                        When::Start => {
                            setting.copy(&before.settings, &mut next.settings);
                            next.keep_origin(setting.key, before);
                            reload.waiting.push(said);
                        }
                    }
                }
                state.held = Arc::new(next);
                reload
            }
            Err(error) => Reload { problem: Some(error.to_string()), ..Reload::default() },
        };
        state.reload = reload.clone();
        reload
    }

    /// Settings alone, for tests of what uses them.
    pub fn of(settings: Settings) -> Self {
        Live::new(Effective::with(settings))
    }
}
