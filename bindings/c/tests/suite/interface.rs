//! The functions themselves, called as C calls them, with everything that can be wrong.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::{null, null_mut, without_provenance_mut};
use std::sync::{Condvar, Mutex};
use surefoot::*;

pub const OK: c_int = SurefootStatus::Ok as c_int;
pub const ARGUMENT: c_int = SurefootStatus::Argument as c_int;

pub fn text(at: *const c_char) -> String {
    assert!(!at.is_null());
    // SAFETY: the library's texts end in a NUL and are copied before the next call.
    unsafe { CStr::from_ptr(at) }.to_str().unwrap().to_owned()
}

pub fn error() -> String {
    text(surefoot_error_text(null_mut()))
}

fn c(text: &str) -> CString {
    CString::new(text).unwrap()
}

pub struct Home(pub tempfile::TempDir);

impl Home {
    pub fn new() -> Self {
        Home(tempfile::tempdir().unwrap())
    }

    fn config(&self, settings: &[(&str, &str)]) -> *mut SurefootConfig {
        let directory = self.0.path().to_str().unwrap();
        let health = format!("{directory}/health.json");
        // SAFETY: every text ends in a NUL.
        unsafe {
            let config = surefoot_config_new(c"job".as_ptr());
            for (name, value) in [("memory", directory), ("health_file", &health)].iter().chain(settings) {
                assert_eq!(surefoot_config_set(config, c(name).as_ptr(), c(value).as_ptr()), OK, "{}", error());
            }
            config
        }
    }

    pub fn open(&self, settings: &[(&str, &str)]) -> *mut SurefootCheckpoint {
        let config = self.config(settings);
        let mut job = null_mut();
        // SAFETY: the handle's address is that of a pointer.
        assert_eq!(unsafe { surefoot_checkpoint_open(config, null(), &mut job) }, OK, "{}", error());
        assert_eq!(surefoot_config_free(config), OK);
        // That its memory lies on a disk, which is another test's.
        while !surefoot_checkpoint_notice(job).is_null() {}
        job
    }
}

#[test]
fn every_function_refuses_null_and_handles_that_are_not_open() {
    let home = Home::new();
    let job = home.open(&[]);
    let config = home.config(&[]);
    let mut name: [c_char; 16] = [0; 16];
    let mut data = [0u8; 8];
    let mut is_needed = 0;
    let mut out = null_mut();
    let name_text = c"name".as_ptr();
    // SAFETY: what is not NULL is what the function asks for.
    unsafe {
        assert!(surefoot_config_new(null()).is_null() && error().contains("NULL"));
        assert!(surefoot_config_new(c"../up".as_ptr()).is_null() && error().starts_with("job: "), "{}", error());
        assert!(surefoot_config_new(c"\xFF".as_ptr()).is_null() && error().contains("UTF-8"), "{}", error());
        assert_eq!(surefoot_config_set(config, null(), name_text), ARGUMENT);
        assert_eq!(surefoot_config_set(config, name_text, null()), ARGUMENT);
        assert_eq!(surefoot_config_set(config, name_text, name_text), SurefootStatus::Option as c_int);
        assert_eq!(surefoot_checkpoint_open(config, null(), null_mut()), ARGUMENT);
        assert_eq!(surefoot_checkpoint_protect(job, null(), data.as_mut_ptr().cast(), 8), ARGUMENT);
        assert_eq!(surefoot_checkpoint_protect(job, name_text, null_mut(), 8), ARGUMENT);
        assert_eq!(surefoot_checkpoint_protect(job, name_text, data.as_mut_ptr().cast(), usize::MAX), ARGUMENT);
        assert_eq!(surefoot_checkpoint_release(job, null()), ARGUMENT);
        assert_eq!(surefoot_checkpoint_release(job, name_text), SurefootStatus::Option as c_int);
        assert_eq!(surefoot_checkpoint_route_file(job, null(), name.as_mut_ptr(), 16), ARGUMENT);
        assert_eq!(surefoot_checkpoint_route_file(job, name_text, null_mut(), 16), ARGUMENT);
        assert_eq!(surefoot_checkpoint_route_file(job, name_text, name.as_mut_ptr(), 3), ARGUMENT);
        assert!(error().contains("the path needs") && name[0] == 0, "{}", error());
        assert_eq!(text(surefoot_error_text(job)), error());
        assert_eq!(surefoot_checkpoint_need(job, null_mut()), ARGUMENT);
        assert_eq!(surefoot_checkpoint_told_to_end(job, null_mut()), ARGUMENT);
        assert_eq!(surefoot_checkpoint_save_to(job, 4, null_mut()), ARGUMENT);
        assert!(error().contains("not a surefoot_place"), "{}", error());
    }
    // NULL, a number out of thin air, a handle of the other kind, and, at last, a closed one.
    assert_eq!(surefoot_checkpoint_close(job), OK);
    for wrong in [null_mut(), without_provenance_mut(3), config.cast(), job] {
        // SAFETY: what is not a handle is what the function asks for.
        let refused = unsafe {
            [
                surefoot_config_set(
                    if wrong == config.cast() { job.cast() } else { wrong.cast() },
                    name_text,
                    name_text,
                ),
                surefoot_checkpoint_open(job.cast(), null(), &mut out),
                surefoot_checkpoint_protect(wrong, name_text, data.as_mut_ptr().cast(), 8),
                surefoot_checkpoint_release(wrong, name_text),
                surefoot_checkpoint_route_file(wrong, name_text, name.as_mut_ptr(), 16),
                surefoot_checkpoint_need(wrong, &mut is_needed),
                surefoot_checkpoint_save(wrong, null_mut()),
                surefoot_checkpoint_restart(wrong, null_mut()),
                surefoot_checkpoint_restart_into(wrong, null(), null_mut()),
                surefoot_checkpoint_restart_resized(wrong, null(), null_mut()),
                surefoot_checkpoint_open_resized(wrong, null_mut()),
                surefoot_checkpoint_resized_entry(wrong, 0, null_mut()),
                surefoot_checkpoint_read_resized(wrong, null(), 0),
                surefoot_checkpoint_scrub(wrong),
                surefoot_checkpoint_finish(wrong),
                surefoot_checkpoint_save_to(wrong, 3, null_mut()),
                surefoot_checkpoint_told_to_end(wrong, &mut is_needed),
                surefoot_checkpoint_complete(wrong),
                surefoot_checkpoint_discard(wrong),
            ]
        };
        assert_eq!(refused, [ARGUMENT; 19], "{wrong:?}");
        assert!(out.is_null() && error().contains("surefoot_checkpoint"), "{}", error());
        assert_eq!(surefoot_checkpoint_close(wrong), if wrong.is_null() { OK } else { ARGUMENT });
        assert!(
            text(surefoot_checkpoint_reasons(wrong)).is_empty() && text(surefoot_checkpoint_report(wrong)).is_empty()
        );
        assert!(surefoot_checkpoint_notice(wrong).is_null());
    }
    assert_eq!(surefoot_config_free(null_mut()), OK);
    assert_eq!((surefoot_config_free(config), surefoot_config_free(config)), (OK, ARGUMENT));
}

#[test]
fn a_job_ends_durable_completed_or_without_a_trace() {
    let home = Home::new();
    let ssd = home.0.path().join("ssd");
    std::fs::create_dir(&ssd).unwrap();
    let with_ssd = [("durable", ssd.to_str().unwrap()), ("policy", "memory")];
    let report = |job| text(surefoot_checkpoint_report(job));
    let mut state = [7u8; 10_000];
    let mut saved = SurefootSaved { generation: 9, payload_bytes: 9, visible_s: -1.0, place: 9 };
    let mut restored = SurefootRestored { generation: 9, taken_realtime_ns: 9 };
    let mut is_told = 9;
    // SAFETY: the state stays where it is and is left alone during calls; all else are addresses of what is asked for.
    let mut protect =
        |job| unsafe { surefoot_checkpoint_protect(job, c"state".as_ptr(), state.as_mut_ptr().cast(), 10_000) };
    // SAFETY: as above.
    unsafe {
        let job = home.open(&[("policy", "memory")]);
        assert_eq!((protect(job), surefoot_checkpoint_save(job, null_mut())), (OK, OK));
        let durable = SurefootPlace::Durable as c_int;
        assert_eq!(surefoot_checkpoint_save_to(job, durable, &mut saved), SurefootStatus::Option as c_int);
        assert_eq!(surefoot_checkpoint_finish(job), OK, "that there is no durable tier is no failure");
        assert!(report(job).contains("in memory only"), "{}", report(job));
        assert_eq!(surefoot_checkpoint_close(job), OK);

        let job = home.open(&with_ssd);
        assert_eq!((protect(job), surefoot_checkpoint_restart(job, null_mut())), (OK, OK));
        assert_eq!(surefoot_checkpoint_save_to(job, durable, &mut saved), OK, "{}", error());
        assert_eq!((saved.generation, saved.place), (2, durable));
        assert_eq!(surefoot_checkpoint_save_to(job, SurefootPlace::Skipped as c_int, &mut saved), OK);
        assert_eq!((saved.generation, saved.place), (3, SurefootPlace::Memory as c_int), "as the policy says");
        assert_eq!((surefoot_checkpoint_told_to_end(job, &mut is_told), is_told), (OK, 0));
        assert_eq!(surefoot_checkpoint_complete(job), OK);
        assert!(report(job).contains("generation 3 is on the SSD"), "{}", report(job));
        assert_eq!(surefoot_checkpoint_close(job), OK);

        let job = home.open(&with_ssd);
        assert_eq!(protect(job), OK);
        assert_eq!(surefoot_checkpoint_restart(job, &mut restored), SurefootStatus::Nothing as c_int);
        assert!(text(surefoot_checkpoint_notice(job)).contains("completed at generation 3"));
        assert_eq!(surefoot_checkpoint_close(job), OK);
        let job = home.open(&[&with_ssd[..], &[("after_completion", "continue")]].concat());
        assert_eq!((protect(job), surefoot_checkpoint_restart(job, &mut restored)), (OK, OK));
        assert_eq!(restored.generation, 3);
        assert_eq!((surefoot_checkpoint_discard(job), surefoot_checkpoint_close(job)), (OK, ARGUMENT));
    }
    assert_eq!(std::fs::read_dir(&ssd).unwrap().count(), 0);
    let job = home.open(&with_ssd);
    // SAFETY: NULL is allowed.
    assert_eq!(unsafe { surefoot_checkpoint_restart(job, null_mut()) }, SurefootStatus::Nothing as c_int);
    assert_eq!(surefoot_checkpoint_close(job), OK);
}

#[test]
fn memory_and_files_come_back_and_everything_has_its_words() {
    let home = Home::new();
    let ssd = home.0.path().join("ssd");
    std::fs::create_dir(&ssd).unwrap();
    let job = home.open(&[("durable", ssd.to_str().unwrap()), ("staleness_max_s", "0.001")]);
    let mut state: Vec<u8> = (0..100_000u32).map(|number| (number % 251) as u8).collect();
    let expected = state.clone();
    let mut path = [0; 4096];
    let mut saved = SurefootSaved { generation: 9, payload_bytes: 9, visible_s: -1.0, place: 9 };
    let mut restored = SurefootRestored { generation: 9, taken_realtime_ns: 9 };
    let mut is_needed = 9;
    // SAFETY: the state stays where it is and is left alone during calls; all else are addresses of what is asked for.
    unsafe {
        assert_eq!(surefoot_checkpoint_protect(job, c"state".as_ptr(), state.as_mut_ptr().cast(), state.len()), OK);
        assert_eq!(surefoot_checkpoint_protect(job, c"empty".as_ptr(), null_mut(), 0), OK);
        assert_eq!(surefoot_checkpoint_restart(job, &mut restored), SurefootStatus::Nothing as c_int);
        assert_eq!(restored.generation, 9, "nothing was touched");
        assert_eq!(surefoot_checkpoint_route_file(job, c"file".as_ptr(), path.as_mut_ptr(), path.len()), OK);
        let file = text(path.as_ptr());
        assert_eq!(surefoot_checkpoint_save(job, &mut saved), SurefootStatus::Storage as c_int, "no such file yet");
        assert!(text(surefoot_error_text(job)).contains(&file));
        std::fs::write(&file, "content").unwrap();
        assert_eq!(surefoot_checkpoint_need(job, &mut is_needed), OK);
        assert_eq!((is_needed, text(surefoot_checkpoint_reasons(job)).is_empty()), (1, false));
        assert_eq!(surefoot_checkpoint_save(job, &mut saved), OK, "{}", error());
        assert_eq!((saved.place, saved.payload_bytes), (SurefootPlace::Both as c_int, 100_007));
        assert!(saved.generation > 0 && saved.visible_s > 0.0);
        assert_eq!(surefoot_checkpoint_finish(job), OK);
        assert!(text(surefoot_checkpoint_notice(job)).contains("is durable"));
        assert!(surefoot_checkpoint_notice(job).is_null());
        state.fill(0);
        std::fs::write(&file, "half of").unwrap();
        assert_eq!(surefoot_checkpoint_restart(job, &mut restored), OK, "{}", error());
        assert_eq!(
            (restored.generation, std::fs::read_to_string(&file).unwrap().as_str()),
            (saved.generation, "content")
        );
        assert!(state == expected && restored.taken_realtime_ns > 1_600_000_000_000_000_000);
        assert!(text(surefoot_checkpoint_report(job)).contains("pages, intact"));
        assert_eq!(surefoot_checkpoint_scrub(job), OK);
        assert_eq!(text(surefoot_checkpoint_report(job)).lines().count(), 2);
        assert_eq!((surefoot_checkpoint_save(job, null_mut()), surefoot_checkpoint_restart(job, null_mut())), (OK, OK));
        assert_eq!(surefoot_checkpoint_release(job, c"state".as_ptr()), OK);
    }
    assert_eq!(surefoot_checkpoint_close(job), OK);
    let job = home.open(&[("policy", "never")]);
    // SAFETY: NULL and the address of room for the answer are allowed.
    unsafe {
        assert_eq!(surefoot_checkpoint_save(job, &mut saved), OK);
        assert_eq!((saved.generation, saved.place), (0, SurefootPlace::Skipped as c_int));
        assert_eq!(surefoot_checkpoint_need(job, &mut is_needed), OK);
    }
    assert_eq!(is_needed, 0);
    surefoot_checkpoint_close(job);
}

/// Room for each part, made when its length is known; the generation that was asked for comes first.
struct Room(u64, Vec<(String, Vec<u8>)>);

unsafe extern "C" fn make_room(context: *mut c_void, generation: u64, parts: *mut SurefootPart, count: usize) -> c_int {
    // SAFETY: the context is the test's room, and the parts are as many as was said.
    let (room, parts) = unsafe { (&mut *context.cast::<Room>(), std::slice::from_raw_parts_mut(parts, count)) };
    if room.0 == u64::MAX {
        return 7;
    }
    *room = Room(generation, parts.iter().map(|part| (text(part.name), vec![0; part.bytes])).collect());
    for (part, (_, bytes)) in parts.iter_mut().zip(&mut room.1) {
        part.start = bytes.as_mut_ptr().cast();
    }
    0
}

#[test]
fn who_does_not_know_the_lengths_makes_room_when_asked() {
    let home = Home::new();
    let job = home.open(&[]);
    let mut state = [9u8; 5000];
    let mut room = Room(0, Vec::new());
    let context = (&raw mut room).cast();
    let placer = SurefootPlacer { context, place: Some(make_room) };
    let without = SurefootPlacer { context, place: None };
    // SAFETY: the state and the room stay where they are and are left alone during calls.
    unsafe {
        assert_eq!(surefoot_checkpoint_restart_into(job, &placer, null_mut()), SurefootStatus::Nothing as c_int);
        assert_eq!(surefoot_checkpoint_protect(job, c"state".as_ptr(), state.as_mut_ptr().cast(), 5000), OK);
        assert_eq!(surefoot_checkpoint_save(job, null_mut()), OK, "{}", error());
        for refused in [null(), &raw const without] {
            assert_eq!(surefoot_checkpoint_restart_into(job, refused, null_mut()), ARGUMENT);
        }
        state.fill(0);
        assert_eq!(surefoot_checkpoint_restart_into(job, &placer, null_mut()), OK, "{}", error());
    }
    assert!(room.0 == 1 && room.1 == [("state".to_owned(), vec![9; 5000])] && state == [0; 5000]);
    room.0 = u64::MAX;
    // SAFETY: as above.
    let refused = unsafe { surefoot_checkpoint_restart_into(job, &placer, null_mut()) };
    assert_eq!(refused, SurefootStatus::NothingIntact as c_int);
    assert!(error().contains("the program refused it with 7"), "{}", error());
    surefoot_checkpoint_close(job);
}

/// Two ranks that are two threads: what one puts down, the other takes.
struct Pair {
    state: Mutex<(Vec<Vec<u8>>, u64, usize)>,
    changed: Condvar,
}

impl Pair {
    /// Puts down this rank's bytes, waits for the other's, and returns both in order.
    fn meet(&self, rank: usize, own: &[u8]) -> [Vec<u8>; 2] {
        let mut state = self.state.lock().unwrap();
        while state.0[rank].first() == Some(&1) {
            state = self.changed.wait(state).unwrap();
        }
        state.0[rank] = [&[1], own].concat();
        self.changed.notify_all();
        while state.0[1 - rank].is_empty() {
            state = self.changed.wait(state).unwrap();
        }
        let both = [state.0[0][1..].to_vec(), state.0[1][1..].to_vec()];
        state.2 += 1;
        let round = state.1;
        if state.2 == 2 {
            state.0 = vec![Vec::new(), Vec::new()];
            state.2 = 0;
            state.1 += 1;
            self.changed.notify_all();
        }
        while state.1 == round {
            state = self.changed.wait(state).unwrap();
        }
        both
    }
}

struct Side<'a> {
    pair: &'a Pair,
    rank: usize,
    fails: std::cell::Cell<bool>,
}

unsafe extern "C" fn broadcast(context: *mut c_void, data: *mut c_void, bytes: usize, root: u32) -> c_int {
    // SAFETY: the context is a side, and the data has that many bytes.
    let (side, data) = unsafe { (&*context.cast::<Side>(), std::slice::from_raw_parts_mut(data.cast::<u8>(), bytes)) };
    let both = side.pair.meet(side.rank, data);
    data.copy_from_slice(&both[root as usize]);
    0
}

unsafe extern "C" fn all_gather(context: *mut c_void, own: *const c_void, all: *mut c_void, each: usize) -> c_int {
    // SAFETY: the context is a side, and the buffers have room for one and two times as many bytes.
    let (side, own, all) = unsafe {
        let all = std::slice::from_raw_parts_mut(all.cast::<u8>(), 2 * each);
        (&*context.cast::<Side>(), std::slice::from_raw_parts(own.cast::<u8>(), each), all)
    };
    if side.fails.get() {
        return 77;
    }
    all.copy_from_slice(&side.pair.meet(side.rank, own).concat());
    0
}

unsafe extern "C" fn exchange(
    context: *mut c_void,
    _: u32,
    send: *const c_void,
    send_bytes: usize,
    from: u32,
    receive: *mut c_void,
    receive_bytes: usize,
) -> c_int {
    // SAFETY: the context is a side, and the buffers have the lengths that are told.
    let (side, send, receive) = unsafe {
        let receive = std::slice::from_raw_parts_mut(receive.cast::<u8>(), receive_bytes);
        (&*context.cast::<Side>(), std::slice::from_raw_parts(send.cast::<u8>(), send_bytes), receive)
    };
    if side.fails.get() {
        // SAFETY: the text ends in a NUL.
        assert_eq!(unsafe { surefoot_group_failed(c"the cable was cut".as_ptr()) }, OK);
        return 77;
    }
    let all = side.pair.meet(side.rank, send);
    if !receive.is_empty() {
        receive.copy_from_slice(&all[from as usize]);
    }
    0
}

/// Runs a call on two ranks in turn with a group of this test's; returns the status and the text that each got.
fn on_two(home: &Home, call: impl Fn(u32, *mut SurefootCheckpoint) -> c_int + Sync) -> [(c_int, String); 2] {
    let pair = Pair { state: Mutex::new((vec![Vec::new(), Vec::new()], 0, 0)), changed: Condvar::new() };
    let rank = |rank: u32| {
        let side = Side { pair: &pair, rank: rank as usize, fails: false.into() };
        let group = SurefootGroup {
            context: std::ptr::from_ref(&side).cast_mut().cast(),
            rank,
            size: 2,
            broadcast: Some(broadcast),
            all_gather: Some(all_gather),
            exchange: Some(exchange),
            post: None,
        };
        let config = home.config(&[("policy", "memory")]);
        let mut job = null_mut();
        let mut state = vec![rank as u8 + 1; 5000];
        // SAFETY: side and state outlive the handle.
        unsafe {
            assert_eq!(surefoot_checkpoint_open(config, &group, &mut job), OK, "{}", error());
            assert_eq!(surefoot_checkpoint_protect(job, c"state".as_ptr(), state.as_mut_ptr().cast(), state.len()), OK);
            assert_eq!(surefoot_checkpoint_save(job, null_mut()), OK, "{}", error());
            assert_eq!(surefoot_checkpoint_open_resized(job, null_mut()), OK, "{}", error());
        }
        let told = call(rank, job);
        let said = if told == OK { String::new() } else { text(surefoot_error_text(job)) };
        // The session goes on.
        // SAFETY: as above.
        assert_eq!(unsafe { surefoot_checkpoint_save(job, null_mut()) }, OK, "{}", error());
        assert_eq!((surefoot_checkpoint_close(job), surefoot_config_free(config)), (OK, OK));
        (told, said)
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| rank(1));
        [rank(0), other.join().unwrap()]
    })
}

#[test]
fn a_call_that_one_rank_cannot_make_leaves_no_other_waiting_and_tells_it_why() {
    unsafe extern "C" fn nowhere(_: *mut c_void, _: u64, _: *mut SurefootPart, _: usize) -> c_int {
        1
    }
    type Made = fn(bool, *mut SurefootCheckpoint) -> c_int;
    // SAFETY: what is refused is NULL or no place; all else is as the functions ask for.
    let calls: [(&str, Made); 5] = unsafe {
        [
            ("is not a surefoot_place", |is_wrong, job| {
                surefoot_checkpoint_save_to(job, if is_wrong { 99 } else { 0 }, null_mut())
            }),
            ("placer or its function is NULL", |is_wrong, job| {
                let placer = SurefootPlacer { context: null_mut(), place: Some(nowhere) };
                surefoot_checkpoint_restart_into(job, if is_wrong { null() } else { &placer }, null_mut())
            }),
            ("no UTF-8 text", |is_wrong, job| {
                let left_out = if is_wrong { c"\xff" } else { c"x" };
                surefoot_checkpoint_restart_resized(job, left_out.as_ptr(), null_mut())
            }),
            ("3 pieces", |is_wrong, job| surefoot_checkpoint_read_resized(job, null(), if is_wrong { 3 } else { 0 })),
            ("answer is NULL", |is_wrong, job| {
                let mut answer = 0;
                surefoot_checkpoint_need(job, if is_wrong { null_mut() } else { &mut answer })
            }),
        ]
    };
    for (why, call) in calls {
        let home = Home::new();
        let [(zero, said), (one, own)] = on_two(&home, |rank, job| call(rank == 1, job));
        assert!(one == ARGUMENT && own.contains(why), "{why}: {one} {own}");
        // An answer has no way to fail: the other rank gets its own.
        let wanted = if why.starts_with("answer") { OK } else { SurefootStatus::OtherRank as c_int };
        assert_eq!(zero, wanted, "{why}: {said}");
        assert!(zero == OK || said.contains("rank 1 failed: argument: ") && said.contains(why), "{why}: {said}");
    }
}

#[test]
fn a_policy_for_a_tier_that_is_not_configured_is_refused() {
    let home = Home::new();
    let ssd = home.0.path().join("ssd");
    std::fs::create_dir(&ssd).unwrap();
    for (settings, tier) in [
        (&[("policy", "durable")][..], "durable"),
        (&[("policy", "every:2")], "durable"),
        (&[("memory", "none"), ("durable", ssd.to_str().unwrap()), ("policy", "memory")], "memory"),
    ] {
        let config = home.config(settings);
        let mut job = null_mut();
        // SAFETY: the handle's address is that of a pointer.
        let opened = unsafe { surefoot_checkpoint_open(config, null(), &mut job) };
        assert_eq!(opened, SurefootStatus::Option as c_int, "{settings:?}");
        let said = error();
        assert!(said.starts_with("policy: ") && said.contains(&format!("set {tier} to a directory")), "{said}");
        assert_eq!(surefoot_config_free(config), OK);
    }
}

#[test]
fn a_group_of_the_programs_own_works_and_its_failure_is_an_error() {
    let home = Home::new();
    let pair = Pair { state: Mutex::new((vec![Vec::new(), Vec::new()], 0, 0)), changed: Condvar::new() };
    let rank = |rank: u32| {
        let side = Side { pair: &pair, rank: rank as usize, fails: false.into() };
        let context = std::ptr::from_ref(&side).cast_mut().cast();
        let group = SurefootGroup {
            context,
            rank,
            size: 2,
            broadcast: Some(broadcast),
            all_gather: Some(all_gather),
            exchange: Some(exchange),
            post: None,
        };
        let config = home.config(&[("policy", "memory")]);
        let mut job = null_mut();
        let mut state = vec![rank as u8 + 1; 5000 + 70_000 * rank as usize];
        // SAFETY: side and state outlive the handle.
        unsafe {
            assert_eq!(surefoot_checkpoint_open(config, &group, &mut job), OK, "{}", error());
            assert_eq!(surefoot_checkpoint_protect(job, c"state".as_ptr(), state.as_mut_ptr().cast(), state.len()), OK);
            assert_eq!(surefoot_checkpoint_save(job, null_mut()), OK, "{}", error());
            state.fill(0);
            assert_eq!(surefoot_checkpoint_restart(job, null_mut()), OK, "{}", error());
            assert!(state.iter().all(|&byte| byte == rank as u8 + 1));
            side.fails.set(true);
            assert_eq!(surefoot_checkpoint_save(job, null_mut()), SurefootStatus::Group as c_int);
        }
        assert!(text(surefoot_error_text(job)).contains("exchange failed: the cable was cut"), "{}", error());
        assert_eq!((surefoot_checkpoint_close(job), surefoot_config_free(config)), (OK, OK));
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| rank(1));
        rank(0);
        other.join().unwrap();
    });
    // What cannot be a group, and one of a single rank, whose functions are not asked for.
    let config = home.config(&[]);
    let none = SurefootGroup {
        context: null_mut(),
        rank: 0,
        size: 1,
        broadcast: None,
        all_gather: None,
        exchange: None,
        post: None,
    };
    let mut job = null_mut();
    for (rank, size, status) in [(0, 0, ARGUMENT), (2, 2, ARGUMENT), (0, 2, ARGUMENT), (0, 1, OK)] {
        let group = SurefootGroup { rank, size, ..none };
        // SAFETY: no function is there to be called.
        let opened = unsafe { surefoot_checkpoint_open(config, &group, &mut job) };
        assert_eq!(opened, status, "rank {rank} of {size}");
        assert_eq!(job.is_null(), status != OK);
    }
    assert_eq!((surefoot_checkpoint_close(job), surefoot_config_free(config)), (OK, OK));
}

#[test]
fn a_thread_has_its_own_text_and_a_handle_goes_from_thread_to_thread() {
    let home = Home::new();
    let job = home.open(&[]).addr();
    // SAFETY: NULL is refused.
    assert_eq!(unsafe { surefoot_checkpoint_release(without_provenance_mut(job), null()) }, ARGUMENT);
    let here = error();
    std::thread::spawn(move || {
        assert_eq!(error(), "");
        let job: *mut SurefootCheckpoint = without_provenance_mut(job);
        assert!(text(surefoot_error_text(job)).contains("name is NULL"));
        // SAFETY: NULL is allowed.
        assert_eq!(unsafe { surefoot_checkpoint_save(job, null_mut()) }, OK, "{}", error());
        assert_eq!(surefoot_checkpoint_close(job), OK);
        assert_eq!(surefoot_checkpoint_close(job), ARGUMENT);
    })
    .join()
    .unwrap();
    assert_eq!(error(), here);
}
