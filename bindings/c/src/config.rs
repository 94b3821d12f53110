//! The settings of a job, before it is opened.

use crate::checkpoint::text_at;
use crate::handle::Table;
use crate::status::{Failure, SurefootStatus, border, to_c};
use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::fmt::Write;
use std::ptr;
use surefoot_checkpoint::Error;
use surefoot_checkpoint::config::memory_default;
use surefoot_checkpoint::generation::check_job_name;
use surefoot_checkpoint::settings::{Settings, Surroundings};

/// The settings of a job. Belongs to who made it; several threads may each use their own.
#[repr(C)]
pub struct SurefootConfig {
    _opaque: [u8; 0],
}

/// What an open handle stands for.
pub(crate) struct Wished {
    pub(crate) settings: Settings,
    text: CString,
}

static CONFIGS: Table<Wished> = Table::new("surefoot_config");

thread_local! {
    /// Why the last surefoot_config_new in this thread returned NULL: who does not look at that passes the NULL on.
    static REFUSED: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs something with open settings.
pub(crate) fn with<R>(
    config: *mut SurefootConfig,
    work: impl FnOnce(&mut Wished) -> Result<R, Failure>,
) -> Result<R, Failure> {
    match REFUSED.with_borrow(|refused| refused.clone()).filter(|_| config.is_null()) {
        Some(why) => Err(Failure::argument(format!("the surefoot_config is NULL; it was refused: {why}"))),
        None => CONFIGS.with(config.addr(), work),
    }
}

/// Makes the settings of a job: memory in /dev/shm and no durable tier, unless the host's file of settings or variables
/// (SUREFOOT_CHECKPOINT_DURABLE and the like) say otherwise. All ranks make the same.
///
/// Returns NULL when the name cannot be one (letters, digits and ._-:/[] are allowed), or when the file or a variable says
/// what cannot be. Free it with surefoot_config_free.
///
/// # Safety
/// `job` is a text that ends in a NUL, or NULL, which is refused. No other thread changes the environment meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn surefoot_config_new(job: *const c_char) -> *mut SurefootConfig {
    let mut config = ptr::null_mut();
    border(|| {
        // SAFETY: by the caller's promise.
        let job = unsafe { text_at(job, "job") }?;
        let settings = settings_of(job);
        REFUSED.set(settings.as_ref().err().map(Error::to_string));
        let settings = settings?;
        config = ptr::without_provenance_mut(CONFIGS.add(Wished { settings, text: CString::default() })?);
        Ok(SurefootStatus::Ok)
    });
    config
}

fn settings_of(job: &str) -> Result<Settings, Error> {
    check_job_name(job).map_err(|why| Error::Option { option: "job", why })?;
    Settings::of(&Surroundings::here(), job, memory_default())
}

/// Changes one setting, such as "durable" to "/ssd/checkpoints"; stronger than the file and the variables. The guide lists
/// all of them, and so does `surefoot checkpoint settings`. When it fails nothing is changed. The order does not matter: what
/// belongs to a tier that the job does not have is refused by surefoot_checkpoint_open.
///
/// Both texts are copied.
///
/// # Safety
/// `name` and `value` are texts that end in a NUL, or NULL, which is refused.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn surefoot_config_set(
    config: *mut SurefootConfig,
    name: *const c_char,
    value: *const c_char,
) -> c_int {
    border(|| {
        // SAFETY: by the caller's promise.
        let (name, value) = unsafe { (text_at(name, "name")?, text_at(value, "value")?) };
        with(config, |wished| Ok(wished.settings.set(name, value)?))?;
        Ok(SurefootStatus::Ok)
    })
}

/// The settings that are in force: a line `name = value (where it was said)` each. NULL for a handle that is not open. The
/// text stays until the next call of this with the same handle, or surefoot_config_free.
#[unsafe(no_mangle)]
pub extern "C" fn surefoot_config_text(config: *mut SurefootConfig) -> *const c_char {
    let mut found = ptr::null();
    border(|| {
        found = with(config, |wished| {
            let mut text = String::new();
            for told in wished.settings.told().iter().filter(|told| told.is_in_force) {
                let line = writeln!(text, "{} = {} ({})", told.name, told.value, told.source);
                line.map_err(|error| Failure::Internal(error.to_string()))?;
            }
            wished.text = to_c(&text);
            Ok(wished.text.as_ptr())
        })?;
        Ok(SurefootStatus::Ok)
    });
    found
}

/// Frees settings. Jobs that were opened with them keep their own copy. NULL is left alone.
#[unsafe(no_mangle)]
pub extern "C" fn surefoot_config_free(config: *mut SurefootConfig) -> c_int {
    border(|| {
        if !config.is_null() {
            drop(CONFIGS.remove(config.addr())?);
        }
        Ok(SurefootStatus::Ok)
    })
}
