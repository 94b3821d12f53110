//! Whether a log was damaged after it had been written.
//!
//! SQLite reads a log up to the first frame whose sum is wrong, takes that for the place where the last write was torn, and in the end
//! deletes what lies behind. Where each commit is on the disk before the next begins (`synchronous = FULL`), nothing but one commit can
//! have been torn: what belongs to two transactions behind the first wrong frame was committed, and is lost by reading on.
//!
//! A frame behind it counts where its header has the salts of the log and its sum goes on from the one that stands in the frame before,
//! or where the next frame goes on from its own. Each transaction writes a page once, so a page that comes twice is of two transactions, too.

use super::copy::{TRIES, WAIT};
use super::log::{FRAME_HEADER_BYTES, HEADER_BYTES, Header, fill, word};
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::{mem, thread};

/// Where a log is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogDamage {
    /// The first frame that is wrong, from 1.
    pub(crate) frame: u64,
    /// The ends of commits that can still be told behind it, and in it.
    pub(crate) commits: u64,
}

/// `None` where all is in order, or only the last commit was torn. The log must be one for which each commit is synced.
///
/// # Errors
/// What the kernel says.
pub(crate) fn log_damage(log: &Path) -> io::Result<Option<LogDamage>> {
    let mut before = None;
    for _ in 0..TRIES {
        let found = match super::judge::opened(log)? {
            Some(file) => scan(BufReader::with_capacity(1 << 16, file))?,
            None => None,
        };
        // A writer at work may have been in the middle of that frame, or begun the log anew.
        if found.is_none() || found.map(|(begin, damage)| (begin, damage.frame)) == before {
            return Ok(found.map(|(_, damage)| damage));
        }
        before = found.map(|(begin, damage)| (begin, damage.frame));
        thread::sleep(WAIT);
    }
    Ok(None)
}

/// What a frame says of itself.
struct Told {
    number: u32,
    is_commit: bool,
    sums: [u32; 2],
    /// Whether it has the salts of the log.
    is_salted: bool,
    /// Whether its sum goes on from that in the frame before.
    is_linked: bool,
}

/// The header of the log, and where the log is damaged.
fn scan(mut log: BufReader<File>) -> io::Result<Option<([u8; HEADER_BYTES], LogDamage)>> {
    let mut begin = [0; HEADER_BYTES];
    if !fill(&mut log, &mut begin)? {
        return Ok(None);
    }
    let Some(header) = Header::read(&begin) else { return Ok(None) };
    let mut behind = Behind::default();
    let (mut sums, mut first_wrong, mut count) = (header.sums, None, 0_u64);
    let mut last: Option<Told> = None;
    while let Some(told) = next(&mut log, &header, sums)? {
        count += 1;
        sums = told.sums;
        if first_wrong.is_none() && told.is_linked {
            behind.pages.insert(told.number);
            if told.is_commit {
                behind.pages.clear();
            }
            continue;
        }
        if let Some(last) = last.take() {
            behind.note(&last, first_wrong == Some(count - 1), Some(&told));
        }
        first_wrong.get_or_insert(count);
        last = Some(told);
    }
    let Some(frame) = first_wrong else { return Ok(None) };
    if let Some(last) = last {
        behind.note(&last, count == frame, None);
    }
    let is_of_two = behind.commits > 1 || behind.commits == 1 && behind.is_repeated;
    Ok(is_of_two.then_some((begin, LogDamage { frame, commits: behind.commits })))
}

/// The next whole frame, whose sum should go on from these.
fn next(log: &mut impl Read, header: &Header, sums: [u32; 2]) -> io::Result<Option<Told>> {
    let mut frame = vec![0; FRAME_HEADER_BYTES + header.page_bytes];
    if !fill(log, &mut frame)? {
        return Ok(None);
    }
    let is_salted = [word(&frame, 8), word(&frame, 12)] == header.salt;
    let due = header.sum(header.sum(sums, &frame[..8]), &frame[FRAME_HEADER_BYTES..]);
    let told = [word(&frame, 16), word(&frame, 20)];
    Ok(Some(Told {
        number: word(&frame, 0),
        is_commit: word(&frame, 4) > 0,
        sums: told,
        is_salted,
        is_linked: is_salted && due == told,
    }))
}

/// What is known from the last commit that counts on.
#[derive(Default)]
struct Behind {
    pages: HashSet<u32>,
    /// Whether a page came twice before an end of a commit, and whether it did since the last one.
    is_repeated: bool,
    is_repeated_since: bool,
    commits: u64,
}

impl Behind {
    /// Takes note of a frame that does not count; `next` is the one behind it.
    fn note(&mut self, told: &Told, is_first: bool, next: Option<&Told>) {
        let is_followed = next.is_some_and(|next| next.is_salted);
        let is_confirmed = next.is_some_and(|next| next.is_linked);
        if !(is_confirmed || told.is_salted && (told.is_linked || is_first || !is_followed)) {
            return;
        }
        self.is_repeated_since |= !self.pages.insert(told.number);
        if told.is_commit {
            self.commits += 1;
            self.is_repeated |= mem::take(&mut self.is_repeated_since);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::database::beside;
    use rusqlite::Connection;
    use std::fs;

    /// A log of transactions of one row more each, and how many rows SQLite reads with it.
    fn written(home: &Path, before: &str, each: &str) -> (Vec<u8>, Vec<u8>) {
        let path = home.join("written");
        let writer = Connection::open(&path).unwrap();
        writer.execute_batch("PRAGMA page_size = 512; PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0; PRAGMA synchronous = OFF").unwrap();
        writer.execute_batch("CREATE TABLE meta (n); INSERT INTO meta VALUES (0); CREATE TABLE t (x)").unwrap();
        writer.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(())).unwrap();
        writer.execute_batch(before).unwrap();
        for _ in 0..5 {
            writer.execute_batch(&format!("BEGIN; UPDATE meta SET n = n + 1; {each}; COMMIT")).unwrap();
        }
        (fs::read(&path).unwrap(), fs::read(beside(&path, "-wal")).unwrap())
    }

    fn commits_read(home: &Path, file: &[u8], log: &[u8]) -> i64 {
        let path = home.join("read");
        fs::write(&path, file).unwrap();
        fs::write(beside(&path, "-wal"), log).unwrap();
        let _ = fs::remove_file(beside(&path, "-shm"));
        let open = Connection::open(&path).unwrap();
        open.pragma_update(None, "synchronous", "OFF").unwrap();
        open.query_row("SELECT n FROM meta", [], |row| row.get(0)).unwrap()
    }

    fn damaged(home: &Path, log: &[u8]) -> Option<LogDamage> {
        let path = home.join("log");
        fs::write(&path, log).unwrap();
        log_damage(&path).unwrap()
    }

    /// SQLite is the oracle: what it reads has all commits but the last, or the log is called damaged.
    #[test]
    fn a_log_that_lost_a_byte_or_a_page_is_damaged_unless_that_was_its_last_commit() {
        let small = "INSERT INTO t VALUES (randomblob(20))";
        let large = "INSERT INTO t VALUES (randomblob(3000))";
        for each in [small, large] {
            let home = tempfile::tempdir().unwrap();
            let (file, log) = written(home.path(), "", each);
            assert_eq!((damaged(home.path(), &log), commits_read(home.path(), &file, &log)), (None, 5));
            let mut changed = Vec::new();
            for frame in (HEADER_BYTES..log.len()).step_by(FRAME_HEADER_BYTES + 512) {
                for (at, bit) in
                    [(0, 1), (3, 1), (4, 128), (7, 1), (7, 255), (8, 2), (15, 4), (16, 1), (23, 8), (24, 1), (535, 1)]
                {
                    let mut log = log.clone();
                    log[frame + at] ^= bit;
                    changed.push(log);
                }
            }
            for begin in (0..log.len()).step_by(97) {
                for length in [24, 512] {
                    let mut log = log.clone();
                    let end = log.len().min(begin + length);
                    log[begin..end].fill(0);
                    changed.push(log);
                }
            }
            let (mut refused, mut read) = (0, 0);
            for changed in changed {
                if changed[..HEADER_BYTES] != log[..HEADER_BYTES] {
                    continue;
                }
                match damaged(home.path(), &changed) {
                    Some(damage) => {
                        refused += 1;
                        assert!(damage.frame > 0 && damage.commits > 0);
                    }
                    None => {
                        read += 1;
                        let at = changed.iter().zip(&log).position(|(now, before)| now != before);
                        assert!(commits_read(home.path(), &file, &changed) >= 4, "{each}: {at:?} of {}", log.len());
                    }
                }
            }
            assert!(refused > 20 && read > 10, "{refused} {read}");
        }
    }

    /// A power failure while the last commit is written leaves any of its pages on the disk, or half of them.
    #[test]
    fn a_commit_that_was_torn_is_no_damage() {
        for each in ["INSERT INTO t VALUES (randomblob(20))", "INSERT INTO t VALUES (randomblob(9000))"] {
            let home = tempfile::tempdir().unwrap();
            let (file, log) = written(home.path(), "", each);
            let frame_bytes = FRAME_HEADER_BYTES + 512;
            let is_commit = |at: &usize| word(&log, at + 4) > 0;
            let ends: Vec<usize> = (HEADER_BYTES..log.len()).step_by(frame_bytes).filter(is_commit).collect();
            let last = ends[ends.len() - 2] + frame_bytes;
            for cut in (last..=log.len()).step_by(37) {
                assert_eq!(damaged(home.path(), &log[..cut]), None, "cut at {cut}");
            }
            let pages: Vec<usize> = (last..log.len()).step_by(512).collect();
            for which in 0..64_u64 {
                let mut torn = log.clone();
                for (index, &at) in pages.iter().enumerate() {
                    if which.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(index as u32 * 7) & 1 == 0 {
                        let end = torn.len().min(at + 512);
                        torn[at..end].fill(0);
                    }
                }
                assert_eq!(damaged(home.path(), &torn), None, "{which}");
                assert!(commits_read(home.path(), &file, &torn) >= 4, "{which}");
            }
        }
    }

    /// What a transaction left that was rolled back after its pages went to the log, and what a former round of the log left.
    #[test]
    fn what_was_rolled_back_or_is_of_a_former_round_is_no_damage() {
        let home = tempfile::tempdir().unwrap();
        let rolled_back = "PRAGMA cache_size = 1; BEGIN; INSERT INTO t VALUES (randomblob(90000)); INSERT INTO t VALUES (randomblob(90000)); ROLLBACK";
        for before in [rolled_back, "INSERT INTO t VALUES (randomblob(90000)); PRAGMA wal_checkpoint(RESTART)"] {
            let (file, log) = written(home.path(), before, "INSERT INTO t VALUES (randomblob(20))");
            assert!(log.len() > 90_000, "{}", log.len());
            assert_eq!((damaged(home.path(), &log), commits_read(home.path(), &file, &log)), (None, 5), "{before}");
            for ending in ["", "-wal", "-shm"] {
                let _ = fs::remove_file(beside(&home.path().join("written"), ending));
            }
        }
    }

    #[test]
    fn the_log_of_a_writer_at_work_is_never_called_damaged() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("written");
        let writer = Connection::open(&path).unwrap();
        writer
            .execute_batch("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 40; PRAGMA synchronous = OFF")
            .unwrap();
        writer.execute_batch("CREATE TABLE t (id INTEGER PRIMARY KEY, x)").unwrap();
        let is_over = std::sync::atomic::AtomicBool::new(false);
        thread::scope(|scope| {
            let is_over = &is_over;
            scope.spawn(move || {
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    writer
                        .execute_batch("INSERT OR REPLACE INTO t VALUES (abs(random()) % 50, randomblob(3000))")
                        .unwrap();
                }
            });
            let found: Vec<_> = (0..300).map(|_| log_damage(&beside(&path, "-wal")).unwrap()).collect();
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
            assert!(found.iter().all(Option::is_none), "{found:?}");
        });
    }
}
