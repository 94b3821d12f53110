use std::io;
use std::path::{Path, PathBuf};
use surefoot_foreign::said;

/// What can go wrong with a recording or a history. Each variant names its file and says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file system refused to open, create or inspect the file.
    #[error("{}: cannot be opened: {}", path.display(), said(source))]
    Open {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The path leads to something else than a regular file.
    #[error("{}: this is {what}, not a regular file; name a file", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
        /// What it is, with its article: `a directory`.
        what: &'static str,
    },
    /// The file, or the link that leads to it, belongs to another user.
    #[error("{}: it, or the link that leads to it, belongs to user {owner}; name a file of your own", path.display())]
    NotOwn {
        /// The path.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
    },
    /// Other users can write it, or the files beside it that SQLite takes for its own.
    #[error("{}: {why}; use a file in a directory that only you can write (mode 700), or remove that write access", path.display())]
    OfOthers {
        /// The path.
        path: PathBuf,
        /// Who can, and where.
        why: String,
    },
    /// A database of ours whose file has several names: SQLite keeps its log beside one of them.
    #[error(
        "{0}: its file has {names} names (hard links), and its log, FILE-wal, lies beside one of them only: under another name what is in the log \
         would be missing. It was left as it is. `find DIRECTORY -xdev -samefile {0}` lists the names: keep the one that has a FILE-wal beside \
         it, and remove the others. For a second copy, stop what writes it and copy the file with its -wal",
        path.display()
    )]
    SeveralNames {
        /// The file.
        path: PathBuf,
        /// How many names it has.
        names: u32,
    },
    /// A log lies beside a symbolic link to a database of ours: SQLite looks for it beside the file itself.
    #[error(
        "{0}: it is a symbolic link to {1}, and {0}-wal lies beside the link, where SQLite does not look: what is in that log would be missing. \
         Nothing was changed. If {1} was moved there, move {0}-wal to {1}-wal, unless one is there already; if it is no longer needed, move it \
         away and keep it",
        link.display(), target.display()
    )]
    LogOfLink {
        /// The link.
        link: PathBuf,
        /// The file to which it leads.
        target: PathBuf,
    },
    /// A recording of this name exists and the caller did not ask to replace it.
    #[error("{}: exists already; choose another name or replace it (--force)", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The directory for a new history is missing.
    #[error("there is no directory {} for a new history", path.display())]
    NoDirectory {
        /// The directory.
        path: PathBuf,
    },
    /// Another process is writing this file.
    #[error("{}: {} is using it; stop that one or choose another file", path.display(), process(*pid))]
    InUse {
        /// The file.
        path: PathBuf,
        /// The other process, where it left its number.
        pid: Option<u32>,
    },
    /// The recording holds nothing at all.
    #[error("{}: the file is empty; a recording has at least a header", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The file does not begin as a recording does.
    #[error("{}: not a recording (it does not begin with SUREFOOT)", path.display())]
    NotARecording {
        /// The file.
        path: PathBuf,
    },
    /// The recording was cut within its header, before any event.
    #[error("{}: the recording is cut off after {bytes} bytes, within its header; it holds no events", path.display())]
    HeaderTorn {
        /// The file.
        path: PathBuf,
        /// How much is left of the file.
        bytes: u64,
    },
    /// The header does not match its checksum.
    #[error(
        "{}: the header of the recording is damaged (its checksum does not match); copy the file again",
        path.display()
    )]
    HeaderDamaged {
        /// The file.
        path: PathBuf,
    },
    /// The recording is of another version of the format.
    #[error(
        "{}: the recording has format version {found}, this program reads version {known}; use the release \
         that wrote it",
        path.display()
    )]
    RecordingVersion {
        /// The file.
        path: PathBuf,
        /// The version of the file.
        found: u16,
        /// The version that this program reads.
        known: u16,
    },
    /// One event is larger than a recording can hold. It was left out and counted.
    #[error(
        "{}: an event of {bytes} bytes is over the limit of {limit_bytes} and was left out \
         ({dropped_events} left out in all)",
        path.display()
    )]
    EventTooLarge {
        /// The recording.
        path: PathBuf,
        /// Size of the event as JSON, or of its frame when that is what is too large.
        bytes: usize,
        /// The limit.
        limit_bytes: usize,
        /// Events left out so far.
        dropped_events: u64,
    },
    /// The recording could not be written further.
    #[error(
        "{}: cannot be written: {source}; {safe_events} events ({safe_bytes} bytes) are in the file and replay, \
         {waiting_events} wait for another try, {dropped_events} were dropped",
        path.display()
    )]
    RecordingWrite {
        /// The recording.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
        /// Events in whole frames of the file.
        safe_events: u64,
        /// Bytes of the header and of whole frames.
        safe_bytes: u64,
        /// Events in memory that the next flush tries again.
        waiting_events: u64,
        /// Events given up because memory for waiting ones is limited.
        dropped_events: u64,
    },
    /// The file exists but is no history of Surefoot's.
    #[error("{}: not a history of Surefoot ({why}); it was left as it is, choose another file", path.display())]
    NotAHistory {
        /// The file.
        path: PathBuf,
        /// What it is instead.
        why: String,
    },
    /// A newer Surefoot wrote the history.
    #[error(
        "{}: the history has schema version {found}, this program knows up to {known}; use the newer \
         release or choose another file",
        path.display()
    )]
    HistoryVersion {
        /// The history.
        path: PathBuf,
        /// The version of the file.
        found: i64,
        /// The newest version that this program knows.
        known: i64,
    },
    /// SQLite found the history damaged.
    #[error(
        "{}: the history is damaged ({what}), and was left as it is. {}. {}",
        path.display(), Kept::History.todo(path), salvage(path)
    )]
    Corrupt {
        /// The history.
        path: PathBuf,
        /// What SQLite found.
        what: String,
    },
    /// A database of another program is not what was asked for, or cannot be read.
    #[error("{}: cannot be read as a database of {of}: {why}", path.display())]
    Foreign {
        /// The database.
        path: PathBuf,
        /// The program.
        of: &'static str,
        /// What is wrong with it, and what to do.
        why: String,
    },
    /// What was recorded could not be written to the history; nothing that was committed before is lost.
    #[error(
        "{}: cannot be written: {why}; {waiting} records wait for another try, {} were dropped ({} in all)",
        path.display(), dropped_now.total(), dropped_in_all
    )]
    HistoryWrite {
        /// The history.
        path: PathBuf,
        /// What SQLite or the kernel said.
        why: String,
        /// Whether the disk, or the space allowed to the history, is used up.
        full: bool,
        /// Records in memory that the next commit tries again.
        waiting: usize,
        /// What was given up with this error because memory for waiting records is limited.
        dropped_now: crate::history::Dropped,
        /// Records given up since the history was opened.
        dropped_in_all: u64,
    },
    /// An event came before the host's, so that its time of day is unknown. It was left out and counted.
    #[error(
        "{}: an event came before the description of its host and was left out ({dropped_events} left out \
         in all)",
        path.display()
    )]
    NoHostYet {
        /// The history.
        path: PathBuf,
        /// Events left out so far for this reason.
        dropped_events: u64,
    },
    /// The place of the history lacks what it needs.
    #[error("{}: a history cannot be kept here: {why}; choose a place on a local disk", path.display())]
    Unsupported {
        /// The history.
        path: PathBuf,
        /// What is missing.
        why: String,
    },
    /// The history is there and whole, and this process cannot read it.
    #[error("{}: cannot be read: {why}", path.display())]
    Unreadable {
        /// The history.
        path: PathBuf,
        /// What is in the way, and what to do.
        why: String,
    },
    /// A query would return more than one answer may hold.
    #[error(
        "{}: the range holds more than {limit} windows; ask for a shorter range or a coarser resolution",
        path.display()
    )]
    TooManyWindows {
        /// The history.
        path: PathBuf,
        /// The limit.
        limit: usize,
    },
    /// The address of a store of cases is none.
    #[error("{address}: {why}")]
    CaseStore {
        /// What was given, without a password.
        address: String,
        /// What is wrong with it, and what would be right.
        why: String,
    },
    /// The database is there, and holds no cases of Surefoot's.
    #[error("{store}: not a store of cases ({why}); it was left as it is, name another")]
    NotCases {
        /// The store, without a password.
        store: String,
        /// What it is instead.
        why: String,
    },
    /// A store of cases whose file, or log, is damaged; both are left as they are.
    #[error(
        "{}: the store of cases is damaged ({what}), and was left as it is. If `dmesg` has read errors of its disk, replace that first. {}. {}",
        path.display(), put_back(path), salvage(path)
    )]
    CasesDamaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// The log beside a database is that of another file, or of another state of it: of the one that a backup was copied over, for instance.
    /// SQLite would read it into the file.
    #[error(
        "{0}: its log {0}-wal does not belong to it ({what}). Nothing was changed. {1}",
        path.display(), kept.todo(path)
    )]
    LogOfAnother {
        /// The file.
        path: PathBuf,
        /// By what that shows.
        what: String,
        /// What the file is to hold.
        kept: Kept,
    },
    /// What lies beside a database in the place of its log is none, and the database is whole without.
    #[error(
        "{0}-wal is not a log of this {kept} ({what}). {0} itself looks whole. Stop {1}, move {0}-wal and {0}-shm away (keep them: if it was \
         the log once, what was written last may be there alone), and start again",
        path.display(), kept.writers()
    )]
    LogStray {
        /// The file.
        path: PathBuf,
        /// By what that shows.
        what: String,
        /// What the file holds.
        kept: Kept,
    },
    /// A new store of cases cannot be made; nothing of it is left.
    #[error("{}: no new store can be made here: {}", path.display(), said(source))]
    Create {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// There is no store of cases where one is to be read; none is made.
    #[error("no store at {store}: {why}")]
    NoStore {
        /// The store, without a password.
        store: String,
        /// What is there instead, and what to do.
        why: String,
    },
    /// The file of an open history was deleted, replaced or overwritten: nothing that is written now would be found again.
    #[error(
        "{what} while it was open; what it held is gone with it, and what is there now is used, or a new file begun"
    )]
    Gone {
        /// Which file, and what became of it.
        what: String,
    },
    /// The files of an open store of cases were deleted or replaced: nothing that is written now would be found again.
    #[error("{what} while the controller had it open{}", saved_to(saved))]
    Moved {
        /// Which file, and what became of it.
        what: String,
        /// Where what the open file holds was saved, or why it could not be; `None` if it was not tried.
        saved: Option<std::result::Result<PathBuf, String>>,
    },
    /// The file of an open store of cases was written over in place: it is another store's now, or an older state.
    #[error(
        "{} was overwritten by another program while the controller had it open: what it held is gone, and nothing more is written to it{}; {}",
        path.display(), log_aside(log), after_overwriting(*is_empty)
    )]
    Overwritten {
        /// The file.
        path: PathBuf,
        /// Whether nothing is in it now.
        is_empty: bool,
        /// Where its log is now, or why it could not be moved aside; `None` where it had none.
        log: Option<std::result::Result<PathBuf, String>>,
    },
    /// The store of cases cannot be asked or written to now; the same may work later.
    #[error("{store}: {doing}: {why}")]
    Cases {
        /// The store, without a password.
        store: String,
        /// What was being done.
        doing: &'static str,
        /// What the database or the system said.
        why: String,
    },
    /// Somebody else changed the case meanwhile, or holds its lease.
    #[error("case {case} was changed by another client in between: {why}")]
    CaseConflict {
        /// The case; 0 for one that was to be opened.
        case: u64,
        /// What was expected, and what is.
        why: String,
    },
    /// The case is there and this release cannot read it.
    #[error("{says}; use the release that wrote it, or close it with `surefoot remedy cancel {case}`")]
    CaseUnread {
        /// The case.
        case: u64,
        /// Which case of which host, and why.
        says: String,
    },
    /// There is no such case.
    #[error("there is no case {case}")]
    NoCase {
        /// The number that was asked for.
        case: u64,
    },
    /// Another failure of SQLite.
    #[error("{}: {doing}: {source}", path.display())]
    Sqlite {
        /// The history.
        path: PathBuf,
        /// What was being done.
        doing: &'static str,
        /// What SQLite said.
        source: rusqlite::Error,
    },
}

/// The result of everything here that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What a file of this crate's holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// Cases.
    Cases,
    /// A history.
    History,
}

impl Kept {
    fn writers(self) -> &'static str {
        match self {
            Kept::Cases => "all controllers of the store",
            Kept::History => "the `surefoot watch` that writes it",
        }
    }

    /// How to go on with a backup, or anew, without losing what may still be read.
    fn todo(self, path: &Path) -> String {
        let path = path.display();
        let (writers, newest, or_new) = match self {
            Kept::Cases => {
                (self.writers(), "the newest cases", "start `surefoot remedy serve` without one for a new store")
            }
            Kept::History => (self.writers(), "what was recorded last", "start again without one for a new history"),
        };
        format!(
            "Stop {writers}. Move {path}, {path}-wal and {path}-shm away together and keep them: {newest} may be in {path}-wal alone. Then copy a \
             backup to {path}, or {or_new}"
        )
    }
}

impl std::fmt::Display for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Kept::Cases => "store",
            Kept::History => "history",
        })
    }
}

/// How to put a backup of a store of cases back.
pub(crate) fn put_back(path: &Path) -> String {
    Kept::Cases.todo(path)
}

/// SQLite's `.recover` needs a `sqlite3` that was built with SQLITE_ENABLE_DBPAGE_VTAB, which that of Debian is not.
fn salvage(path: &Path) -> String {
    let path = path.display();
    format!(
        "`sqlite3 COPY .dump` prints as SQL what can still be read, of a copy of {path} with its -wal: sqlite3 changes the files that it opens"
    )
}

fn log_aside(log: &Option<std::result::Result<PathBuf, String>>) -> String {
    match log {
        Some(Ok(aside)) => format!(". Its log, in which the newest cases may be, was moved to {}", aside.display()),
        Some(Err(why)) => {
            format!(
                ". Its log, in which the newest cases may be, could not be moved aside ({why}): move its -wal and -shm away and keep them"
            )
        }
        None => String::new(),
    }
}

fn saved_to(saved: &Option<std::result::Result<PathBuf, String>>) -> String {
    match saved {
        Some(Ok(path)) => format!(
            "; what it held is saved in {0}: stop `surefoot remedy serve`, and start it with `--store sqlite:{0}`. To have it under the old \
             name, first remove the old store's -wal and -shm, if they are still there",
            path.display()
        ),
        Some(Err(why)) => format!(
            ", and what it held could not be saved ({why}): stop `surefoot remedy serve`, put the store back from a backup, and start it again"
        ),
        None => String::new(),
    }
}

fn after_overwriting(is_empty: bool) -> &'static str {
    if is_empty {
        "the file is empty now, and `surefoot remedy serve` does not start with an empty file: stop it, copy a backup there or remove the \
         file, and start it again. Without the file it makes a new store"
    } else {
        "restart `surefoot remedy serve` to use what is there now, or stop it and put the right file there first"
    }
}

fn process(pid: Option<u32>) -> String {
    match pid {
        Some(pid) => format!("process {pid}"),
        None => "another process".into(),
    }
}
