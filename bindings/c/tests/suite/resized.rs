//! Restarts with another number of ranks, as C calls them.

use super::interface::{ARGUMENT, Home, OK, error, text};
use std::ffi::c_char;
use std::ptr::{null, null_mut};
use surefoot::*;

const NOTHING: i32 = SurefootStatus::Nothing as i32;
const OPTION: i32 = SurefootStatus::Option as i32;

#[test]
fn a_checkpoint_is_opened_listed_and_read() {
    let home = Home::new();
    let job = home.open(&[("policy", "memory")]);
    let mut state: Vec<u8> = (0..100_000u32).map(|number| (number % 251) as u8).collect();
    let mut opened = SurefootResized { generation: 9, taken_realtime_ns: 9, ranks: 9, entry_count: 9 };
    let mut entry = SurefootEntry { rank: 9, name: null(), bytes: 9 };
    let mut room = [0u8; 10];
    let piece = |name: *const c_char, rank: u32, offset: usize, room: &mut [u8]| SurefootPiece {
        rank,
        name,
        offset,
        bytes: room.len(),
        start: room.as_mut_ptr().cast(),
    };
    // SAFETY: every address is that of what the function asks for, and the state is left alone during the calls.
    unsafe {
        assert_eq!(surefoot_checkpoint_open_resized(job, &mut opened), NOTHING);
        assert_eq!(surefoot_checkpoint_restart_resized(job, null(), null_mut()), NOTHING);
        assert_eq!(surefoot_checkpoint_resized_entry(job, 0, &mut entry), ARGUMENT);
        assert!(error().contains("no checkpoint is open"), "{}", error());
        assert_eq!(surefoot_checkpoint_read_resized(job, null(), 0), ARGUMENT);
        assert_eq!(surefoot_checkpoint_protect(job, c"state".as_ptr(), state.as_mut_ptr().cast(), state.len()), OK);
        assert_eq!(surefoot_checkpoint_save(job, null_mut()), OK);
        assert_eq!(surefoot_checkpoint_open_resized(job, &mut opened), OK, "{}", error());
        assert_eq!((opened.generation, opened.ranks, opened.entry_count), (1, 1, 1));
        assert!(text(surefoot_checkpoint_report(job)).contains("pages, intact"));
        assert_eq!(surefoot_checkpoint_resized_entry(job, 0, &mut entry), OK);
        assert_eq!((entry.rank, text(entry.name), entry.bytes), (0, "state".to_owned(), 100_000));
        assert_eq!(surefoot_checkpoint_resized_entry(job, 1, &mut entry), ARGUMENT);
        assert_eq!(surefoot_checkpoint_resized_entry(job, 0, null_mut()), ARGUMENT);
        let pieces = [piece(entry.name, 0, 4_096, &mut room), piece(entry.name, 0, 100_000, &mut [])];
        assert_eq!(surefoot_checkpoint_read_resized(job, pieces.as_ptr(), 2), OK, "{}", error());
        assert_eq!(room, state[4_096..4_106]);
        for (wrong, status, word) in [
            (piece(c"other".as_ptr(), 0, 0, &mut room), OPTION, "saved nothing called"),
            (piece(entry.name, 1, 0, &mut room), OPTION, "rank 1 saved nothing"),
            (piece(entry.name, 0, 99_991, &mut room), OPTION, "has 100000 bytes"),
            (piece(entry.name, 0, usize::MAX, &mut room), OPTION, "has 100000 bytes"),
            (piece(null(), 0, 0, &mut room), ARGUMENT, "NULL"),
            (SurefootPiece { start: null_mut(), ..piece(entry.name, 0, 0, &mut room) }, ARGUMENT, "no room"),
        ] {
            assert_eq!(surefoot_checkpoint_read_resized(job, &wrong, 1), status, "{word}");
            assert!(error().contains(word), "{}", error());
        }
        assert_eq!(surefoot_checkpoint_read_resized(job, null(), 1), ARGUMENT);
        state.fill(0);
        assert_eq!(surefoot_checkpoint_restart_resized(job, c"python:".as_ptr(), null_mut()), OK, "{}", error());
        assert_eq!(state[99_999], (99_999u32 % 251) as u8);
        assert_eq!(surefoot_checkpoint_close(job), OK);
    }
}

#[test]
fn a_checkpoint_of_other_ranks_has_a_status_of_its_own() {
    let failure = surefoot_checkpoint::Error::OtherRanks { number: 7, saved: 4, ranks: 2 };
    assert!(failure.to_string().contains("generation 7 was saved by 4 ranks, and this job has 2"), "{failure}");
}
