use super::*;
use crate::poller::push_by_hand;
use crate::{Loop, Options};
use std::sync::mpsc::{self, TryRecvError};
use std::time::Duration;

fn directory() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("surefoot-test-").tempdir_in("/dev/shm").unwrap()
}

fn open(directory: &tempfile::TempDir, capacity: u32) -> Loop {
    let threshold = Duration::from_secs(3600);
    Loop::open_with("test", &Options { directory: directory.path().to_owned(), threshold, capacity }).unwrap()
}

fn only(mut found: Vec<LoopGaps>) -> LoopGaps {
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

#[test]
fn what_was_not_read_in_time_is_counted_and_the_rest_is_in_order() {
    let directory = directory();
    let mut gaps = open(&directory, 16);
    let mut reader = Reader::from_start(directory.path()).unwrap();
    assert_eq!(only(reader.poll()).gaps, []);
    for number in 0..5u64 {
        push_by_hand(&mut gaps, number * 10, number * 10 + 3);
    }
    let found = only(reader.poll());
    assert_eq!((found.gaps.len(), found.overwritten, found.ended), (5, 0, false));
    assert_eq!(found.gaps[4], (40, 43));
    assert_eq!(only(reader.poll()).gaps, []);
    // 20 more: the ring holds 16, and the place of the oldest is the one where the next will be written.
    for number in 5..25u64 {
        push_by_hand(&mut gaps, number * 10, number * 10 + 3);
    }
    let found = only(reader.poll());
    assert_eq!((found.gaps.len(), found.overwritten), (15, 5));
    assert_eq!(found.gaps, (10..25u64).map(|number| (number * 10, number * 10 + 3)).collect::<Vec<_>>());
    drop(gaps);
    assert!(only(reader.poll()).ended);
    assert_eq!(reader.poll(), []);
}

#[test]
fn a_reader_that_is_opened_leaves_out_what_was_before_it() {
    let directory = directory();
    let mut gaps = open(&directory, 16);
    push_by_hand(&mut gaps, 1, 2);
    let mut reader = Reader::open(directory.path()).unwrap();
    push_by_hand(&mut gaps, 5, 7);
    assert_eq!(only(reader.poll()).gaps, [(5, 7)]);
    assert_eq!(only(Reader::from_start(directory.path()).unwrap().poll()).gaps, [(1, 2), (5, 7)]);
    // One that comes later is new as a whole.
    let mut later = open(&directory, 16);
    push_by_hand(&mut later, 8, 9);
    assert!(reader.poll().iter().any(|found| found.gaps == [(8, 9)]));
}

#[test]
fn the_last_gaps_of_a_loop_that_was_closed_are_read() {
    let directory = directory();
    let mut gaps = open(&directory, 16);
    let mut reader = Reader::open(directory.path()).unwrap();
    push_by_hand(&mut gaps, 5, 7);
    drop(gaps);
    let found = only(reader.poll());
    assert_eq!((found.gaps, found.ended), (vec![(5, 7)], true));
    assert_eq!(reader.counts().loops, 0);
}

#[test]
fn gaps_that_end_before_they_begin_are_counted_and_not_shown() {
    let directory = directory();
    let mut gaps = open(&directory, 16);
    let mut reader = Reader::open(directory.path()).unwrap();
    for (before, after) in [(5, 7), (9, 9), (12, 3), (13, 14)] {
        push_by_hand(&mut gaps, before, after);
    }
    assert_eq!(only(reader.poll()).gaps, [(5, 7), (13, 14)]);
    assert_eq!(reader.counts().impossible_gaps, 2);
}

#[test]
fn every_gap_is_read_or_counted_while_a_fast_writer_overwrites_them() {
    let directory = directory();
    let mut reader = Reader::open(directory.path()).unwrap();
    let (opened, is_open) = mpsc::channel();
    std::thread::scope(|scope| {
        // Both end when their senders do, so that the writer does not outlive a test that failed.
        let (stop, stopped) = mpsc::channel::<()>();
        let (looked, has_looked) = mpsc::channel::<()>();
        let writer = scope.spawn(move || {
            let mut gaps = open(&directory, 64);
            opened.send(()).unwrap();
            let mut number = 1u64;
            while stopped.try_recv() == Err(TryRecvError::Empty) {
                // Both halves tell the number, so that a torn gap is seen.
                push_by_hand(&mut gaps, number << 20, (number << 20) + number);
                number += 1;
                if number.is_multiple_of(50) {
                    std::thread::yield_now();
                }
            }
            opened.send(()).unwrap();
            // The file goes when the reader has looked once more.
            let _ = has_looked.recv();
            number - 1
        });
        is_open.recv().unwrap();
        let (mut read, mut overwritten, mut last) = (0u64, 0u64, 0u64);
        let mut take = |reader: &mut Reader| {
            let found = only(reader.poll());
            overwritten += found.overwritten;
            for (before, after) in found.gaps {
                let number = before >> 20;
                assert_eq!((before, after), (number << 20, (number << 20) + number), "torn");
                assert!(number > last, "{number} after {last}");
                last = number;
                read += 1;
                assert_eq!(read + overwritten, number, "a gap is missing");
            }
        };
        let end = std::time::Instant::now() + Duration::from_millis(500);
        while std::time::Instant::now() < end {
            take(&mut reader);
        }
        drop(stop);
        is_open.recv().unwrap();
        take(&mut reader);
        drop(looked);
        let written = writer.join().unwrap();
        assert_eq!(last, written);
        assert!(read > 0 && overwritten > 0, "{read} read, {overwritten} overwritten: the race did not happen");
        assert_eq!(reader.counts().impossible_gaps, 0);
    });
}

#[test]
fn a_forked_child_leaves_the_file_to_its_parent() {
    let directory = directory();
    let gaps = open(&directory, 16);
    let path = gaps.path().unwrap().to_owned();
    // SAFETY: the child only drops the loop, which unmaps and asks for its number, and exits; it allocates nothing.
    let child = unsafe { libc::fork() };
    if child == 0 {
        drop(gaps);
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    // SAFETY: waits for the child just made; `status` may be written.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0);
    assert!(path.exists());
    drop(gaps);
    assert!(!path.exists());
}

#[test]
fn one_user_cannot_take_all_places() {
    let directory = directory();
    let loops: Vec<Loop> = (0..LOOPS_OF_USER_MAX + 3).map(|_| open(&directory, 16)).collect();
    let mut reader = Reader::open(directory.path()).unwrap();
    assert_eq!(reader.poll().len(), LOOPS_OF_USER_MAX);
    assert_eq!(reader.counts().left_out, 3);
    drop(loops);
    assert_eq!(reader.poll().len(), LOOPS_OF_USER_MAX);
    assert_eq!((reader.poll(), reader.counts()), (vec![], Counts::default()));
}

/// Each file that is closed is freed through RCU, which interrupts every busy core.
#[test]
fn polls_between_which_nothing_changes_do_not_look_through_the_directory() {
    let directory = directory();
    let mut gaps = open(&directory, 16);
    let mut reader = Reader::open(directory.path()).unwrap();
    for number in 0..100u64 {
        push_by_hand(&mut gaps, number * 10, number * 10 + 3);
        std::thread::sleep(Duration::from_millis(5));
        let found = only(reader.poll());
        assert_eq!((found.gaps, found.ended), (vec![(number * 10, number * 10 + 3)], false));
    }
    let looks = reader.changes.looks;
    assert!((1..=16).contains(&looks), "{looks} looks in 100 polls");
}
