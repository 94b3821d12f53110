//! Files that anybody may have put into the directory, and what the reader makes of them.

use super::{directory, is_root, only, open};
use proptest::prelude::*;
use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, TryRecvError};
use std::time::Duration;
use surefoot_inloop::reader::Counts;
use surefoot_inloop::{Loop, Reader};

const HEADER_BYTES: usize = 192;
const HEAD_AT: u64 = 128;

/// A loop's file with these numbers in its name, in this process's directory.
fn name_for(directory: &Path, pid: u32, tid: u32, distinct: u64) -> PathBuf {
    directory.join(format!("{pid}-{tid}-{distinct:016x}.loop"))
}

fn this_thread() -> u32 {
    // SAFETY: cannot fail and touches no memory.
    unsafe { libc::gettid() as u32 }
}

/// The bytes of a good file of this thread with three gaps in it.
fn good_bytes() -> Vec<u8> {
    let directory = directory();
    let mut gaps = open(directory.path(), Duration::ZERO);
    while gaps.noted() < 3 {
        gaps.turn();
    }
    std::fs::read(gaps.path().unwrap()).unwrap()
}

fn forge(directory: &Path, bytes: &[u8]) -> PathBuf {
    let path = name_for(directory, std::process::id(), this_thread(), 7);
    std::fs::write(&path, bytes).unwrap();
    path
}

/// Reads twice, and checks what holds for anything that is taken.
fn read_through(directory: &Path) -> Counts {
    let mut reader = Reader::from_start(directory).unwrap();
    for _ in 0..2 {
        for found in reader.poll() {
            assert!(found.gaps.len() < 16_384 && found.gaps.iter().all(|(before, after)| after > before));
            assert!((1..=63).contains(&found.name.len()) && found.name.bytes().all(|byte| (32..127).contains(&byte)));
            assert_eq!((found.pid, found.tid), (std::process::id(), this_thread()));
        }
    }
    reader.counts()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn random_files_are_left_out(bytes in proptest::collection::vec(any::<u8>(), 0..4_096)) {
        let directory = directory();
        forge(directory.path(), &bytes);
        let counts = read_through(directory.path());
        prop_assert_eq!((counts.loops, counts.malformed + counts.not_ready), (0, 1));
    }

    #[test]
    fn damaged_files_harm_nobody(
        damage in proptest::collection::vec((0usize..400, any::<u8>()), 1..12),
        length in prop_oneof![Just(None), (0usize..70_000).prop_map(Some)],
    ) {
        let directory = directory();
        let mut bytes = good_bytes();
        for (at, value) in damage {
            bytes[at] = value;
        }
        if let Some(length) = length {
            bytes.resize(length, 0xa5);
        }
        forge(directory.path(), &bytes);
        read_through(directory.path());
    }
}

#[test]
fn a_good_file_is_read_so_the_damaged_ones_could_have_been() {
    let directory = directory();
    forge(directory.path(), &good_bytes());
    let mut reader = Reader::from_start(directory.path()).unwrap();
    assert_eq!(only(reader.poll()).gaps.len(), 3);
}

#[test]
fn any_head_is_survived() {
    let good = good_bytes();
    for head in [0u64, 1, 4_095, 4_096, 4_097, 1 << 40, u64::MAX - 1, u64::MAX] {
        let directory = directory();
        let path = forge(directory.path(), &good);
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(&head.to_ne_bytes(), HEAD_AT).unwrap();
        let mut reader = Reader::from_start(directory.path()).unwrap();
        let found = only(reader.poll());
        let shown = found.gaps.len() as u64 + reader.counts().impossible_gaps;
        assert_eq!(shown + found.overwritten, head, "every gap that the head claims is somewhere");
        assert!(shown <= 4_096);
        // A head that goes back is no library's doing.
        if head > 0 {
            file.write_all_at(&(head - 1).to_ne_bytes(), HEAD_AT).unwrap();
            assert_eq!((reader.poll(), reader.counts().broken), (vec![], 1));
        }
    }
}

#[test]
fn things_that_are_no_files_are_left_out_without_waiting() {
    let directory = directory();
    let outside = directory.path().join("outside");
    std::fs::write(&outside, good_bytes()).unwrap();
    let name = |distinct| name_for(directory.path(), std::process::id(), this_thread(), distinct);
    std::os::unix::fs::symlink(&outside, name(1)).unwrap();
    std::fs::create_dir(name(2)).unwrap();
    let pipe = CString::new(name(3).as_os_str().as_bytes()).unwrap();
    // SAFETY: the path ends in NUL.
    assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o666) }, 0);
    let _socket = std::os::unix::net::UnixListener::bind(name(4)).unwrap();
    File::create(name(5)).unwrap().set_len(1 << 40).unwrap();
    File::create(name(6)).unwrap();
    std::fs::write(directory.path().join("README"), "nothing").unwrap();
    let mut reader = Reader::open(directory.path()).unwrap();
    assert_eq!(reader.poll(), []);
    // The link, the socket, the directory and the pipe are not opened; the two files lack a header.
    let counts = Counts { unreadable: 4, not_ready: 2, ..Counts::default() };
    assert_eq!(reader.counts(), counts);
    assert_eq!(reader.clean_stale().unwrap(), Default::default());
}

#[test]
fn a_name_and_a_header_that_differ_are_no_loop() {
    let directory = directory();
    std::fs::write(name_for(directory.path(), 1, 1, 1), good_bytes()).unwrap();
    assert_eq!(read_through(directory.path()), Counts { malformed: 1, ..Counts::default() });
}

#[test]
fn a_file_that_shrinks_and_grows_while_it_is_read_stops_nobody() {
    let directory = directory();
    let bytes = good_bytes();
    let file = OpenOptions::new().write(true).open(forge(directory.path(), &bytes)).unwrap();
    std::thread::scope(|scope| {
        // Ends when its sender does, so that the thread does not outlive a test that failed.
        let (stop, stopped) = mpsc::channel::<()>();
        let other = directory.path().join("other");
        scope.spawn(move || {
            let mut turn = 0u64;
            while stopped.try_recv() == Err(TryRecvError::Empty) {
                turn += 1;
                // The directory is looked through when a name has come.
                std::fs::write(&other, "").unwrap();
                std::fs::remove_file(&other).unwrap();
                file.set_len([0, 100, 192, 200, 40_000][(turn % 5) as usize]).unwrap();
                file.write_all_at(&bytes, 0).unwrap();
                file.write_all_at(&(turn * 37).to_ne_bytes(), HEAD_AT).unwrap();
            }
        });
        let mut reader = Reader::from_start(directory.path()).unwrap();
        let mut taken = 0;
        let end = std::time::Instant::now() + Duration::from_secs(60);
        while (taken == 0 || reader.counts().broken == 0) && std::time::Instant::now() < end {
            taken += reader.poll().len();
        }
        drop(stop);
        assert!(taken > 0 && reader.counts().broken > 0, "{taken} taken, {:?}", reader.counts());
    });
}

#[test]
fn a_file_for_somebody_elses_thread_is_not_believed() {
    if !is_root() {
        let why = "giving a file to another user needs root";
        surefoot_testkit::not_run::not_run("a_file_for_somebody_elses_thread_is_not_believed", why);
        return;
    }
    let directory = directory();
    let path = forge(directory.path(), &good_bytes());
    std::os::unix::fs::chown(&path, Some(54_321), None).unwrap();
    assert_eq!(read_through(directory.path()), Counts { not_owner: 1, ..Counts::default() });
    std::os::unix::fs::chown(&path, Some(0), None).unwrap();
    assert_eq!(read_through(directory.path()).loops, 1);
}

#[test]
fn an_earlier_thread_of_the_same_number_is_stale() {
    let directory = directory();
    let mut bytes = good_bytes();
    // The start of the thread.
    bytes[24] ^= 1;
    let path = forge(directory.path(), &bytes);
    assert_eq!(read_through(directory.path()), Counts { stale: 1, ..Counts::default() });
    let mut reader = Reader::open(directory.path()).unwrap();
    assert_eq!(reader.clean_stale().unwrap().removed, 1);
    assert!(!path.exists());
}

#[test]
fn a_file_of_another_pid_namespace_is_neither_read_nor_removed() {
    let directory = directory();
    let mut bytes = good_bytes();
    bytes[104] ^= 1;
    let path = forge(directory.path(), &bytes);
    assert_eq!(read_through(directory.path()), Counts { other_namespace: 1, ..Counts::default() });
    assert_eq!(Reader::open(directory.path()).unwrap().clean_stale().unwrap().removed, 0);
    assert!(path.exists());
}

#[test]
#[ignore = "runs in a child process, which a_killed_program_leaves_its_last_gaps_and_a_file_that_can_be_removed kills"]
fn child_that_is_killed() {
    let directory = std::env::var("SUREFOOT_TEST_DIRECTORY").unwrap();
    let mut gaps = open(Path::new(&directory), Duration::ZERO);
    while gaps.noted() < 10 {
        gaps.turn();
    }
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn a_killed_program_leaves_its_last_gaps_and_a_file_that_can_be_removed() {
    let directory = directory();
    let mut reader = Reader::open(directory.path()).unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "suite::hostile::child_that_is_killed"])
        .env("SUREFOOT_TEST_DIRECTORY", directory.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let end = std::time::Instant::now() + Duration::from_secs(60);
    let mut gaps = 0;
    while gaps == 0 && std::time::Instant::now() < end {
        gaps += reader.poll().iter().map(|found| found.gaps.len()).sum::<usize>();
        std::thread::sleep(Duration::from_millis(5));
    }
    let own = open(directory.path(), Duration::from_secs(1));
    child.kill().unwrap();
    child.wait().unwrap();
    let found = reader.poll();
    gaps += found.iter().map(|found| found.gaps.len()).sum::<usize>();
    assert!(gaps >= 10 && found.iter().any(|found| found.pid == child.id() && found.ended), "{gaps}: {found:?}");
    assert_eq!((only(reader.poll()).pid, reader.counts().stale), (std::process::id(), 1));
    assert_eq!(reader.clean_stale().unwrap().removed, 1);
    // The one that lives stays.
    assert!(own.path().unwrap().exists());
    assert_eq!((only(reader.poll()).ended, reader.counts().stale), (false, 0));
}

#[test]
fn a_directory_that_is_missing_may_come_and_go() {
    let parent = directory();
    let path = parent.path().join("loops");
    let mut reader = Reader::open(&path).unwrap();
    assert_eq!((reader.poll(), reader.clean_stale().unwrap()), (vec![], Default::default()));
    let gaps: Loop = open(&path, Duration::from_secs(1));
    assert_eq!(reader.poll().len(), 1);
    std::fs::remove_dir_all(&path).unwrap();
    assert!(only(reader.poll()).ended);
    assert_eq!((reader.poll(), reader.counts()), (vec![], Counts::default()));
    drop(gaps);
    assert!(good_bytes().len() > HEADER_BYTES);
}
