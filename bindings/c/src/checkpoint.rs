//! The functions that C programs call. `surefoot_checkpoint.h` is made from them.

use crate::config::{self, SurefootConfig};
use crate::group::{SurefootGroup, group};
use crate::handle::Table;
use crate::resized::Opened;
use crate::status::{Failure, SurefootStatus, border, last_text, to_c};
use std::collections::VecDeque;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use surefoot_checkpoint::generation::RegionEntry;
use surefoot_checkpoint::{Checkpointer, Decision, Error, Group, Manifest, Place, Restored, Saved};

/// The checkpoints of one rank of a job. Belongs to who opened it. Any thread may use it, one at a time.
#[repr(C)]
pub struct SurefootCheckpoint {
    _opaque: [u8; 0],
}

/// Where a checkpoint went.
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SurefootPlace {
    /// Nowhere: none was taken. surefoot_checkpoint_reasons says why.
    Skipped = 0,
    /// Into memory: it survives the end of the process.
    Memory = 1,
    /// Into memory, and from there to the durable tier, in the background: it survives the end of the process now, and
    /// the loss of power only after surefoot_checkpoint_finish, or a later save that finds it written, has marked it as
    /// complete. surefoot_checkpoint_notice says when that was, or why it was not.
    Both = 2,
    /// To the durable tier: it survives the loss of power.
    Durable = 3,
}

/// A checkpoint that was taken.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct SurefootSaved {
    /// Its number, which rises by one with each checkpoint of the job; 0 when none was taken.
    pub generation: u64,
    /// Bytes of this rank's regions and files.
    pub payload_bytes: u64,
    /// Seconds that the call took.
    pub visible_s: f64,
    /// A surefoot_place.
    pub place: c_int,
}

/// A checkpoint that was brought back.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct SurefootRestored {
    /// Its number.
    pub generation: u64,
    /// When it was taken, CLOCK_REALTIME nanoseconds.
    pub taken_realtime_ns: u64,
}

/// A region of a checkpoint that is there.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct SurefootPart {
    /// Its name.
    pub name: *const c_char,
    /// Its length.
    pub bytes: usize,
    /// Where it is to go: room for that many bytes. NULL before, and for one of 0 bytes.
    pub start: *mut c_void,
}

/// Finds memory for what is brought back.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct SurefootPlacer {
    /// Passed to the function; the library does not look at it.
    pub context: *mut c_void,
    /// Fills in where each part of a checkpoint goes. Returns 0, or any other number to refuse this checkpoint. It is
    /// called in the thread of the call, once for each copy that is tried, and must not jump out of the call.
    pub place: Option<
        unsafe extern "C" fn(context: *mut c_void, generation: u64, parts: *mut SurefootPart, count: usize) -> c_int,
    >,
}

// SAFETY: the context is only passed on, and from the thread that is in the call.
unsafe impl Send for SurefootPlacer {}

/// What an open handle stands for.
pub(crate) struct Job {
    pub(crate) checkpointer: Checkpointer,
    reasons: CString,
    pub(crate) report: CString,
    pub(crate) resized: Option<Opened>,
    notices: VecDeque<String>,
    notice: CString,
    error: CString,
}

static JOBS: Table<Job> = Table::new("surefoot_checkpoint");

/// Runs a call on an open job, and keeps its failure's text there as well.
pub(crate) fn on_job(
    handle: *mut SurefootCheckpoint,
    work: impl FnOnce(&mut Job) -> Result<SurefootStatus, Failure>,
) -> c_int {
    border(|| {
        JOBS.with(handle.addr(), |job| {
            let done = work(job);
            if let Err(failure) = &done {
                job.error = failure.text();
            }
            done
        })
    })
}

/// Where a call of all ranks cannot be made because of this rank's arguments: takes part in it all the same, so that the others
/// fail with the reason instead of waiting. Returns what this rank fails with.
pub(crate) fn refused(job: &mut Job, call: &str, failure: Failure) -> Failure {
    let why = failure.text().to_string_lossy().into_owned();
    let about = job.resized.as_ref().filter(|_| call == "read_resized").map(|opened| &opened.resized);
    match job.checkpointer.refuse(call, about, &why) {
        Ok(()) => failure,
        Err(error) => Failure::Library(error),
    }
}

/// Reads one of a job's texts; the empty text where there is no such job.
fn text_of(handle: *mut SurefootCheckpoint, text: impl FnOnce(&mut Job) -> *const c_char) -> *const c_char {
    let mut found = c"".as_ptr();
    border(|| {
        found = JOBS.with(handle.addr(), |job| Ok(text(job)))?;
        Ok(SurefootStatus::Ok)
    });
    found
}

/// The text at an address.
///
/// # Safety
/// `text` is NULL or the address of a text that ends in a NUL and is left alone as long as the result is used.
pub(crate) unsafe fn text_at<'a>(text: *const c_char, what: &str) -> Result<&'a str, Failure> {
    if text.is_null() {
        return Err(Failure::argument(format!("the {what} is NULL")));
    }
    // SAFETY: by the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| Failure::argument(format!("the {what} is no UTF-8 text")))
}

/// Puts a value where the caller wants it; nowhere for NULL.
///
/// # Safety
/// `out` is NULL or the address of room for the value.
pub(crate) unsafe fn put<T>(out: *mut T, value: T) {
    if !out.is_null() {
        // SAFETY: by the caller's promise.
        unsafe { out.write(value) };
    }
}

/// Keeps the report of what came back, and tells which it was.
///
/// # Safety
/// As [`put`].
pub(crate) unsafe fn tell(job: &mut Job, restored: Option<Restored>, out: *mut SurefootRestored) -> SurefootStatus {
    let Some(restored) = restored else { return SurefootStatus::Nothing };
    job.report = to_c(&restored.report);
    let told =
        SurefootRestored { generation: restored.generation.number, taken_realtime_ns: restored.taken_realtime_ns };
    // SAFETY: by the caller's promise.
    unsafe { put(out, told) };
    SurefootStatus::Ok
}

fn reasons_of(decision: &Decision) -> CString {
    to_c(&decision.reasons.join("\n"))
}

fn place_of(place: Place) -> SurefootPlace {
    match place {
        Place::Skip => SurefootPlace::Skipped,
        Place::Memory => SurefootPlace::Memory,
        Place::Both => SurefootPlace::Both,
        Place::Durable => SurefootPlace::Durable,
    }
}

/// Opens the job's tiers. With a group, every rank calls it, and it succeeds on all or on none.
///
/// The ranks must agree on the job and on all settings but those that are a host's own (threads, limits of a write, what is
/// known of its drive, where its health is published): otherwise it is SUREFOOT_STATUS_OPTION on all ranks, with the settings
/// that differ, the ranks and the values, and nothing was touched. A rank whose `config` is NULL or refused still takes part,
/// so that the others get SUREFOOT_STATUS_OTHER_RANK with its reason.
///
/// `config` and `group` are copied; what the group's context points to must live until the handle is closed. `group` is
/// NULL for a job of one rank. `out` receives the handle, or NULL when it fails; close it with
/// surefoot_checkpoint_close.
///
/// # Safety
/// `group` is NULL or describes functions that keep to what surefoot_group says. `out` is the address of a pointer, or
/// NULL, which is refused.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn surefoot_checkpoint_open(
    config: *mut SurefootConfig,
    group: *const SurefootGroup,
    out: *mut *mut SurefootCheckpoint,
) -> c_int {
    border(|| {
        // SAFETY: it is NULL or the address of a pointer, by the caller's promise.
        unsafe { put(out, ptr::null_mut()) };
        // SAFETY: it is NULL or a group, by the caller's promise.
        let group = self::group(unsafe { group.as_ref() }.copied())?;
        // What may fail on this rank alone comes before the others wait for it.
        let prepared = if out.is_null() {
            Err(Failure::argument("the address for the handle is NULL"))
        } else {
            let settings =
                |wished: &mut config::Wished| Ok((wished.settings.to_open()?.clone(), wished.settings.clone()));
            config::with(config, settings).and_then(|settings| Ok((settings, JOBS.reserve()?)))
        };
        let ((config, settings), place) = match prepared {
            Ok(prepared) => prepared,
            Err(failure) => return Err(declined(failure, group)),
        };
        let mut checkpointer = Checkpointer::open(config, group)?;
        checkpointer.publish_settings(settings.told());
        let job = Job {
            checkpointer,
            reasons: CString::default(),
            report: CString::default(),
            resized: None,
            notices: VecDeque::new(),
            notice: CString::default(),
            error: CString::default(),
        };
        // SAFETY: as above.
        unsafe { put(out, ptr::without_provenance_mut(place.fill(job))) };
        Ok(SurefootStatus::Ok)
    })
}

/// Tells the other ranks why this one does not open; returns what this one is told.
fn declined(failure: Failure, group: Box<dyn Group>) -> Failure {
    if group.size() == 1 {
        return failure;
    }
    match failure {
        Failure::Library(error) => Failure::Library(Checkpointer::decline(error, group)),
        failure => {
            let why = failure.text().to_string_lossy().into_owned();
            match Checkpointer::decline(Error::Option { option: "settings", why }, group) {
                Error::Option { .. } => failure,
                error => Failure::Library(error),
            }
        }
    }
}

/// Lets the other ranks know, which are in surefoot_checkpoint_open, that this one cannot open, and why: for a program or a
/// layer above that finds a mistake on one rank. Returns SUREFOOT_STATUS_OPTION; SUREFOOT_STATUS_OTHER_RANK where a rank before
/// this one has the same reason; SUREFOOT_STATUS_GROUP. It never returns 0.
///
/// # Safety
/// As surefoot_checkpoint_open; `why` is a text that ends in a NUL, or NULL, which is refused.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn surefoot_checkpoint_decline(group: *const SurefootGroup, why: *const c_char) -> c_int {
    border(|| {
        // SAFETY: by the caller's promise.
        let (group, why) = unsafe { (self::group(group.as_ref().copied())?, text_at(why, "reason")) };
        Err(match why {
            Ok(why) => {
                let error = Error::Option { option: "settings", why: why.to_owned() };
                Failure::Library(Checkpointer::decline(error, group))
            }
            Err(failure) => declined(failure, group),
        })
    })
}

/// Takes part in an agreement before a call, for a layer above that prepares calls and may fail on one rank: `call` is its
/// name without surefoot_checkpoint_, such as "save", and `failure` says at what this rank failed, or is NULL. Collective.
///
/// Returns 0 on all ranks when none failed, and else SUREFOOT_STATUS_OTHER_RANK on all with the first that did, also on that
/// one. Where ranks are in different calls it is SUREFOOT_STATUS_GROUP, as from the calls themselves.
///
/// # Safety
/// `call` is a text that ends in a NUL, or NULL, which is refused; `failure` is such a text or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn surefoot_checkpoint_prepare(
    handle: *mut SurefootCheckpoint,
    call: *const c_char,
    failure: *const c_char,
) -> c_int {
    on_job(handle, |job| {
        // SAFETY: by the caller's promise.
        let call = unsafe { text_at(call, "name of a call") }?;
        // SAFETY: as above.
        let failure = if failure.is_null() { None } else { Some(unsafe { text_at(failure, "failure") }?) };
        job.checkpointer.prepare(call, failure)?;
        Ok(SurefootStatus::Ok)
    })
}

/// Registers memory that every checkpoint saves and every restart fills, under a name. The same name again moves it.
///
/// The memory stays the caller's. Not collective, but all ranks have the same names at a restart as at the save.
///
/// # Safety
/// Until it is released or moved, or the handle is closed, `bytes` bytes from `start` on may be read and written during
/// every call with this handle, and no other thread writes to them during a save, or touches them during a restart.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn surefoot_checkpoint_protect(
    handle: *mut SurefootCheckpoint,
    name: *const c_char,
    start: *mut c_void,
    bytes: usize,
) -> c_int {
    on_job(handle, |job| {
        // SAFETY: by the caller's promise.
        let name = unsafe { text_at(name, "name") }?;
        if start.is_null() && bytes > 0 {
            return Err(Failure::argument(format!("the address of {name:?} is NULL")));
        }
        if start.addr().checked_add(bytes).is_none() || isize::try_from(bytes).is_err() {
            return Err(Failure::argument(format!("{name:?} has {bytes} bytes, which no memory has")));
        }
        // SAFETY: by the caller's promise.
        unsafe { job.checkpointer.protect(name, start.cast(), bytes) }?;
        Ok(SurefootStatus::Ok)
    })
}

/// Forgets a region. From then on its memory may be freed.
///
/// # Safety
/// `name` is a text that ends in a NUL, or NULL, which is refused.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn surefoot_checkpoint_release(handle: *mut SurefootCheckpoint, name: *const c_char) -> c_int {
    on_job(handle, |job| {
        // SAFETY: by the caller's promise.
        job.checkpointer.release(unsafe { text_at(name, "name") }?)?;
        Ok(SurefootStatus::Ok)
    })
}

/// Says where this rank writes a file that belongs to its checkpoints, from now on. The file is complete when the next
/// checkpoint is taken, and left alone during it. After a restart it is there again. Not collective.
///
/// The path, with its NUL, goes into `buffer`; when that is too small nothing is written, and the error's text says how
/// much is needed. PATH_MAX bytes are always enough.
///
/// # Safety
/// `name` is a text that ends in a NUL; `buffer` has room for `buffer_bytes` bytes. NULL is refused.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn surefoot_checkpoint_route_file(
    handle: *mut SurefootCheckpoint,
    name: *const c_char,
    buffer: *mut c_char,
    buffer_bytes: usize,
) -> c_int {
    use std::os::unix::ffi::OsStringExt;
    on_job(handle, |job| {
        if buffer.is_null() {
            return Err(Failure::argument("the buffer for the path is NULL"));
        }
        // SAFETY: by the caller's promise.
        let path = job.checkpointer.route_file(unsafe { text_at(name, "name") }?)?;
        let path = CString::new(path.into_os_string().into_vec());
        let path = path.map_err(|_| Failure::argument("the path has a NUL in it"))?;
        let path = path.as_bytes_with_nul();
        if path.len() > buffer_bytes {
            return Err(Failure::argument(format!(
                "the path needs {} bytes, the buffer has {buffer_bytes}",
                path.len()
            )));
        }
        // SAFETY: the buffer has room for that many bytes, as was just checked, and is not ours.
        unsafe { ptr::copy_nonoverlapping(path.as_ptr().cast(), buffer, path.len()) };
        Ok(SurefootStatus::Ok)
    })
}

/// Whether a checkpoint is worth its time now: 1 or 0 in `is_needed`, the same on all ranks. A program that takes one
/// whenever it likes need not ask. Collective; surefoot_checkpoint_reasons says why.
///
/// # Safety
/// `is_needed` is the address of an int, or NULL, which is refused.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn surefoot_checkpoint_need(handle: *mut SurefootCheckpoint, is_needed: *mut c_int) -> c_int {
    on_job(handle, |job| {
        if is_needed.is_null() {
            return Err(refused(job, "need", Failure::argument("the address for the answer is NULL")));
        }
        let decision = job.checkpointer.need_checkpoint()?;
        job.reasons = reasons_of(&decision);
        // SAFETY: it is the address of an int, by the caller's promise.
        unsafe { put(is_needed, c_int::from(decision.place != Place::Skip)) };
        Ok(SurefootStatus::Ok)
    })
}

/// Takes a checkpoint of all regions and files, where the policy says. Collective; it succeeds on all ranks or on none.
///
/// When it returns 0, every rank's part is where `out` says. Of SUREFOOT_PLACE_BOTH that is memory; the copy on the durable
/// tier counts after surefoot_checkpoint_finish, or a later call that finds it written. When it fails, the program and
/// its former checkpoints are as before: go on computing.
///
/// # Safety
/// `out` is NULL or has room for a surefoot_saved.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn surefoot_checkpoint_save(handle: *mut SurefootCheckpoint, out: *mut SurefootSaved) -> c_int {
    on_job(handle, |job| {
        let saved = job.checkpointer.checkpoint()?;
        // SAFETY: by the caller's promise.
        unsafe { tell_saved(job, &saved, out) };
        Ok(SurefootStatus::Ok)
    })
}

/// Keeps the reasons of a save, and tells where it went.
///
/// # Safety
/// As [`put`].
unsafe fn tell_saved(job: &mut Job, saved: &Saved, out: *mut SurefootSaved) {
    job.reasons = reasons_of(&saved.decision);
    let told = SurefootSaved {
        generation: saved.generation.map_or(0, |generation| generation.number),
        payload_bytes: saved.payload_bytes,
        visible_s: saved.visible_s,
        place: place_of(saved.decision.place) as c_int,
    };
    // SAFETY: by the caller's promise.
    unsafe { put(out, told) };
}

/// As surefoot_checkpoint_save, to a place that the program names, whatever the policy says: SUREFOOT_PLACE_MEMORY;
/// SUREFOOT_PLACE_BOTH; or SUREFOOT_PLACE_DURABLE, which is durable when this returns 0. SUREFOOT_PLACE_SKIPPED leaves it
/// to the policy. Collective; all ranks name the same. Where there is no such tier it is SUREFOOT_STATUS_OPTION.
///
/// # Safety
/// `out` is NULL or has room for a surefoot_saved.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn surefoot_checkpoint_save_to(
    handle: *mut SurefootCheckpoint,
    place: c_int,
    out: *mut SurefootSaved,
) -> c_int {
    const PLACES: [Place; 4] = [Place::Skip, Place::Memory, Place::Both, Place::Durable];
    on_job(handle, |job| {
        let wanted = PLACES.into_iter().find(|known| place_of(*known) as c_int == place);
        let Some(wanted) = wanted else {
            return Err(refused(job, "save", Failure::argument(format!("{place} is not a surefoot_place"))));
        };
        let saved = job.checkpointer.checkpoint_to(wanted)?;
        // SAFETY: by the caller's promise.
        unsafe { tell_saved(job, &saved, out) };
        Ok(SurefootStatus::Ok)
    })
}

/// Fills the regions and files from the newest checkpoint that all ranks can prove intact: from memory first, repaired
/// where it is bad, else from the durable tier, else from an older one. Collective.
///
/// Returns SUREFOOT_STATUS_NOTHING on all ranks when there is none at all, and SUREFOOT_STATUS_OTHER_RANKS when the
/// newest was saved by another number of ranks; then nothing was touched. surefoot_checkpoint_report says what was read,
/// repaired or refused.
///
/// # Safety
/// `out` is NULL or has room for a surefoot_restored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn surefoot_checkpoint_restart(
    handle: *mut SurefootCheckpoint,
    out: *mut SurefootRestored,
) -> c_int {
    on_job(handle, |job| {
        job.report = CString::default();
        let restored = job.checkpointer.restart()?;
        // SAFETY: by the caller's promise.
        Ok(unsafe { tell(job, restored, out) })
    })
}

/// As surefoot_checkpoint_restart, for programs that do not know the lengths of the saved regions: they go where
/// the placer says for each checkpoint that is tried, and registered memory is left alone. Collective.
///
/// # Safety
/// `placer` is NULL, which is refused, or describes a function that names, for each part, room that nothing else uses
/// until this call returns. `out` is NULL or has room for a surefoot_restored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn surefoot_checkpoint_restart_into(
    handle: *mut SurefootCheckpoint,
    placer: *const SurefootPlacer,
    out: *mut SurefootRestored,
) -> c_int {
    on_job(handle, |job| {
        job.report = CString::default();
        // SAFETY: it is NULL or a placer, by the caller's promise.
        let placer = unsafe { placer.as_ref() }.copied();
        let Some(placer) = placer.filter(|placer| placer.place.is_some()) else {
            return Err(refused(job, "restart", Failure::argument("the placer or its function is NULL")));
        };
        let place = move |manifest: &Manifest, saved: &[RegionEntry]| placed(placer, manifest, saved);
        // SAFETY: the function names room that is as long as it was asked for, by the caller's promise.
        let restored = unsafe { job.checkpointer.restart_into(Box::new(place)) }?;
        // SAFETY: by the caller's promise.
        Ok(unsafe { tell(job, restored, out) })
    })
}

/// Asks the program where the regions of a checkpoint go.
fn placed(placer: SurefootPlacer, manifest: &Manifest, saved: &[RegionEntry]) -> Result<Vec<*mut u8>, String> {
    let Some(place) = placer.place else { return Err("there is no function".into()) };
    let names: Vec<CString> = saved.iter().map(|entry| to_c(&entry.name)).collect();
    let part = |(entry, name): (&RegionEntry, &CString)| SurefootPart {
        name: name.as_ptr(),
        // One that is longer than memory can be is refused by who asked.
        bytes: usize::try_from(entry.bytes).unwrap_or(usize::MAX),
        start: ptr::null_mut(),
    };
    let mut parts: Vec<SurefootPart> = saved.iter().zip(&names).map(part).collect();
    // SAFETY: the parts and their names live through the call, and their number is right.
    match unsafe { place(placer.context, manifest.generation.number, parts.as_mut_ptr(), parts.len()) } {
        0 => Ok(parts.iter().map(|part| part.start.cast()).collect()),
        number => Err(format!("the program refused it with {number}")),
    }
}

/// Checks and repairs what this rank keeps in memory and in the durable tier. Not collective. What was found is in
/// surefoot_checkpoint_report, a line for each copy.
#[unsafe(no_mangle)]
pub extern "C" fn surefoot_checkpoint_scrub(handle: *mut SurefootCheckpoint) -> c_int {
    on_job(handle, |job| {
        job.report = to_c(&job.checkpointer.scrub().join("\n"));
        Ok(SurefootStatus::Ok)
    })
}

/// Makes the newest checkpoint durable, whatever the policy says, and waits until it is marked as complete. Collective; call
/// it before the program ends, and whenever memory may be lost. The job can go on afterwards.
///
/// surefoot_checkpoint_report says where the newest is then. Without a durable tier that is memory only, and no failure.
/// When the durable tier does not take it, the status says why, and it stays in memory.
#[unsafe(no_mangle)]
pub extern "C" fn surefoot_checkpoint_finish(handle: *mut SurefootCheckpoint) -> c_int {
    on_job(handle, |job| {
        job.report = CString::default();
        job.report = to_c(&job.checkpointer.finish()?.said);
        Ok(SurefootStatus::Ok)
    })
}

/// As surefoot_checkpoint_finish, and marks the job as completed: its next run begins anew instead of going on from its
/// end, unless it sets after_completion to continue. Collective. The checkpoints stay until those of that run take their
/// place.
#[unsafe(no_mangle)]
pub extern "C" fn surefoot_checkpoint_complete(handle: *mut SurefootCheckpoint) -> c_int {
    on_job(handle, |job| {
        job.report = CString::default();
        job.report = to_c(&job.checkpointer.complete()?.said);
        Ok(SurefootStatus::Ok)
    })
}

/// Removes all checkpoints of the job, of all ranks in all tiers, and closes the handle, also when it fails: for a job whose
/// result is elsewhere. Collective. What another program put into the job's directories stays.
#[unsafe(no_mangle)]
pub extern "C" fn surefoot_checkpoint_discard(handle: *mut SurefootCheckpoint) -> c_int {
    border(|| {
        let job = JOBS.remove(handle.addr())?;
        let mut job = job.try_lock().map_err(|_| Failure::Busy)?;
        job.checkpointer.discard()?;
        Ok(SurefootStatus::Ok)
    })
}

/// Whether a rank of the job was told to end by SIGTERM, as of the last surefoot_checkpoint_need or _save: 1 or 0 in
/// `is_told`, the same on all ranks. Always 0 unless the setting sigterm is checkpoint; then SIGTERM does not end the
/// program, the next _need asks for a checkpoint, and that one is durable when its _save returns. Not collective.
///
/// # Safety
/// `is_told` is the address of an int, or NULL, which is refused.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn surefoot_checkpoint_told_to_end(
    handle: *mut SurefootCheckpoint,
    is_told: *mut c_int,
) -> c_int {
    on_job(handle, |job| {
        if is_told.is_null() {
            return Err(Failure::argument("the address for the answer is NULL"));
        }
        // SAFETY: it is the address of an int, by the caller's promise.
        unsafe { put(is_told, c_int::from(job.checkpointer.is_told_to_end())) };
        Ok(SurefootStatus::Ok)
    })
}

/// As surefoot_checkpoint_close, after a failure of the program on this rank: the other ranks, whose next call is
/// SUREFOOT_STATUS_GROUP, are told why.
///
/// # Safety
/// `why` is a text that ends in a NUL, or NULL, which is refused; the handle is closed all the same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn surefoot_checkpoint_close_after(handle: *mut SurefootCheckpoint, why: *const c_char) -> c_int {
    border(|| {
        // SAFETY: by the caller's promise.
        let why = unsafe { text_at(why, "reason") };
        if handle.is_null() {
            return why.map(|_| SurefootStatus::Ok);
        }
        if let Ok(why) = &why {
            JOBS.with(handle.addr(), |job| {
                job.checkpointer.explain_close(why);
                Ok(())
            })?;
        }
        drop(JOBS.remove(handle.addr())?);
        why.map(|_| SurefootStatus::Ok)
    })
}

/// Closes a handle. The checkpoints stay. Waits for this rank's write in the background, but for no other rank, so that it
/// may be called after any failure; without surefoot_checkpoint_finish before, that write is not marked as complete, and
/// must not be counted on. NULL is left alone. See also surefoot_checkpoint_discard.
///
/// Close after the last call of all ranks. The next call of a rank that goes on is SUREFOOT_STATUS_GROUP, and its text says
/// which rank closed, if the group has a post.
#[unsafe(no_mangle)]
pub extern "C" fn surefoot_checkpoint_close(handle: *mut SurefootCheckpoint) -> c_int {
    border(|| {
        if !handle.is_null() {
            drop(JOBS.remove(handle.addr())?);
        }
        Ok(SurefootStatus::Ok)
    })
}

/// Why the last surefoot_checkpoint_need or _save decided as it did: a sentence per line, the deciding one first. Empty
/// before the first. The text is the handle's, and stays until the next _need, _save or _close.
#[unsafe(no_mangle)]
pub extern "C" fn surefoot_checkpoint_reasons(handle: *mut SurefootCheckpoint) -> *const c_char {
    text_of(handle, |job| job.reasons.as_ptr())
}

/// What the last surefoot_checkpoint_restart or _scrub met: what was read, repaired or refused; after _finish or _complete
/// where the newest checkpoint is. Empty when there was nothing. The text is the handle's, and stays until the next of
/// these, or _close.
#[unsafe(no_mangle)]
pub extern "C" fn surefoot_checkpoint_report(handle: *mut SurefootCheckpoint) -> *const c_char {
    text_of(handle, |job| job.report.as_ptr())
}

/// The next thing that happened in the background, such as a checkpoint that became durable, or did not; NULL when
/// there is no more. Call it until then. The text is the handle's, and stays until the next _notice or _close.
#[unsafe(no_mangle)]
pub extern "C" fn surefoot_checkpoint_notice(handle: *mut SurefootCheckpoint) -> *const c_char {
    let mut found = ptr::null();
    border(|| {
        found = JOBS.with(handle.addr(), |job| {
            if job.notices.is_empty() {
                job.notices.extend(job.checkpointer.take_notices());
            }
            let Some(notice) = job.notices.pop_front() else { return Ok(ptr::null()) };
            job.notice = to_c(&notice);
            Ok(job.notice.as_ptr())
        })?;
        Ok(SurefootStatus::Ok)
    });
    found
}

/// What the last failure was. With a handle, the last one of a call with it, which stays until the next failure or
/// _close. With NULL, the last one of any call in this thread, with or without a handle, which stays until the next
/// failure in this thread. Never NULL; empty when nothing failed.
#[unsafe(no_mangle)]
pub extern "C" fn surefoot_error_text(handle: *mut SurefootCheckpoint) -> *const c_char {
    let of_job = if handle.is_null() { None } else { JOBS.with(handle.addr(), |job| Ok(job.error.as_ptr())).ok() };
    of_job.unwrap_or_else(last_text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::time::Duration;
    use surefoot_checkpoint::Config;
    use surefoot_checkpoint::group::{ThreadGroup, thread_group};

    fn number(done: Result<(), Error>) -> c_int {
        done.map_or(1, |()| 0)
    }

    unsafe extern "C" fn broadcast(context: *mut c_void, data: *mut c_void, bytes: usize, root: u32) -> c_int {
        // SAFETY: the context is a group of threads, and the data has that many bytes.
        let (group, data) =
            unsafe { (&*context.cast::<ThreadGroup>(), std::slice::from_raw_parts_mut(data.cast(), bytes)) };
        number(group.broadcast(data, root))
    }

    unsafe extern "C" fn all_gather(context: *mut c_void, own: *const c_void, all: *mut c_void, each: usize) -> c_int {
        // SAFETY: the context is a group of threads, and the buffers have that many bytes of one rank and of all.
        unsafe {
            let group = &*context.cast::<ThreadGroup>();
            let said = group.gather_all(std::slice::from_raw_parts(own.cast(), each));
            number(said.map(|said| all.cast::<u8>().copy_from(said.concat().as_ptr(), each * group.size() as usize)))
        }
    }

    unsafe extern "C" fn exchange(
        context: *mut c_void,
        to: u32,
        send: *const c_void,
        send_bytes: usize,
        from: u32,
        receive: *mut c_void,
        receive_bytes: usize,
    ) -> c_int {
        let own = |at: *mut c_void, bytes| if bytes == 0 { ptr::NonNull::dangling().as_ptr() } else { at.cast::<u8>() };
        // SAFETY: the context is a group of threads, and the buffers have the lengths that are told.
        let (group, send, receive) = unsafe {
            let send = std::slice::from_raw_parts(own(send.cast_mut(), send_bytes).cast_const(), send_bytes);
            let receive = std::slice::from_raw_parts_mut(own(receive, receive_bytes), receive_bytes);
            (&*context.cast::<ThreadGroup>(), send, receive)
        };
        number(group.exchange(to, send, from, receive))
    }

    /// A rank that is about to open with these settings.
    struct Opening {
        config: *mut SurefootConfig,
        group: SurefootGroup,
    }

    impl Opening {
        fn open(&self, out: *mut *mut SurefootCheckpoint) -> c_int {
            // SAFETY: the group's functions keep to what they are to do, and `out` is NULL or the address of a pointer.
            unsafe { surefoot_checkpoint_open(self.config, &self.group, out) }
        }
    }

    /// Opens on two ranks, of which rank 1 does this; returns what both are told.
    fn apart(home: &std::path::Path, open: impl Fn(&Opening) -> c_int + Sync) -> (String, c_int, String) {
        let mut groups = thread_group(2, Some(Duration::from_secs(300)));
        let (other, own) = (groups.pop().unwrap(), groups.pop().unwrap());
        let open = &open;
        std::thread::scope(|scope| {
            let odd = scope.spawn(move || {
                let context = ptr::from_ref(&other).cast_mut().cast();
                let (broadcast, all_gather, exchange) =
                    (Some(broadcast as _), Some(all_gather as _), Some(exchange as _));
                let group = SurefootGroup { context, rank: 1, size: 2, broadcast, all_gather, exchange, post: None };
                // SAFETY: it is a text that ends in a NUL.
                let config = unsafe { config::surefoot_config_new(c"job".as_ptr()) };
                let status = open(&Opening { config, group });
                // SAFETY: nothing fails in this thread before the text is copied.
                let said = unsafe { CStr::from_ptr(last_text()) }.to_str().unwrap().to_owned();
                config::surefoot_config_free(config);
                (status, said)
            });
            let opened = Checkpointer::open(Config::new("job", home, None), Box::new(own));
            let said = opened.err().map_or_else(|| "it opened".to_owned(), |error| error.to_string());
            let (status, odd) = odd.join().unwrap();
            (said, status, odd)
        })
    }

    #[test]
    fn whatever_keeps_one_rank_from_opening_is_told_to_the_others() {
        let home = tempfile::tempdir().unwrap();
        let expect = |(told, status, said): (String, c_int, String), wanted: SurefootStatus, why: &str| {
            assert!(status == wanted as c_int && said.contains(why), "{status}: {said}");
            assert!(told.contains("rank 1 failed") && told.contains(why), "{told}");
        };
        let mut handle: *mut SurefootCheckpoint = ptr::null_mut();
        let out = ptr::from_mut(&mut handle).expose_provenance();
        let there = || ptr::with_exposed_provenance_mut(out);
        let nowhere = apart(home.path(), |rank| rank.open(ptr::null_mut()));
        expect(nowhere, SurefootStatus::Argument, "the address for the handle is NULL");
        let busy = apart(home.path(), |rank| {
            let mut status = 0;
            let used = config::with(rank.config, |_| {
                status = rank.open(there());
                Ok(())
            });
            used.map_or(1, |()| status)
        });
        expect(busy, SurefootStatus::Busy, "another thread");
        let full = apart(home.path(), |rank| {
            let _places: Vec<_> = std::iter::from_fn(|| JOBS.reserve().ok()).collect();
            rank.open(there())
        });
        expect(full, SurefootStatus::Argument, "are open already");
        let silent = apart(home.path(), |rank| {
            // SAFETY: the group's functions keep to what they are to do.
            unsafe { surefoot_checkpoint_decline(&rank.group, ptr::null()) }
        });
        expect(silent, SurefootStatus::Argument, "the reason is NULL");
        assert!(handle.is_null());
    }
}
