//! A real process that protects or repairs a real file, killed at each of its system calls, and told at each that it
//! failed: the file is as it was or as it should be, and the next run finds its way. And one of root's in a directory of
//! another user, who changes all names at each of them: no file of root's is another then.

use super::payload::payload;
use super::traced::{self, Ended, Fate, can_trace, trace};
use std::cell::RefCell;
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use surefoot_heal::sidecar::{Protected, Repaired, Trust, check, protect, repair, sidecar_path};
use surefoot_testkit::not_run::not_run;

/// The environment variables that tell the program its file and what to do with it.
const FILE: &str = "SUREFOOT_TEST_FILE";
const ACTION: &str = "SUREFOOT_TEST_ACTION";

const ACTIONS: [&str; 2] = ["protect", "repair"];
const BYTES: usize = 9_000;

fn quiet(_: u64, _: u64) {}

fn act(action: &str, path: &Path, trust: Trust) -> Result<(), String> {
    let done = match action {
        "protect" => protect(path, false, trust, &mut quiet).map(|_| ()),
        _ => match repair(path, false, trust, &mut quiet) {
            Ok(Repaired::Whole(_) | Repaired::Done { .. }) => Ok(()),
            Ok(other) => return Err(format!("{other:?}")),
            Err(error) => Err(error),
        },
    };
    done.map_err(|error| error.to_string())
}

#[test]
#[ignore = "runs in a child process, which its parent kills"]
fn worker() {
    let path = PathBuf::from(std::env::var_os(FILE).unwrap());
    let action = std::env::var(ACTION).unwrap();
    traced::begin();
    let done = act(&action, &path, Trust::DirectoryOwner);
    traced::end();
    println!("{}", done.map_or_else(|error| format!("failed: {error}"), |()| "reported".into()));
}

/// A file that is to be protected, or one of which a page and a page of its sidecar went bad.
struct Case {
    home: tempfile::TempDir,
    whole: Vec<u8>,
    found: Vec<u8>,
}

impl Case {
    fn new(action: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let whole = payload(BYTES, 5);
        let mut case = Case { home, found: whole.clone(), whole };
        fs::write(case.path(), &case.whole).unwrap();
        fs::set_permissions(case.path(), fs::Permissions::from_mode(0o640)).unwrap();
        if action == "repair" {
            protect(&case.path(), false, Trust::Root, &mut quiet).unwrap();
            let file = fs::File::options().write(true).open(case.path()).unwrap();
            let modified = file.metadata().unwrap().modified().unwrap();
            file.write_all_at(b"bad", 5_000).unwrap();
            file.set_times(fs::FileTimes::new().set_modified(modified)).unwrap();
            case.found[5_000..5_003].copy_from_slice(b"bad");
            let sidecar = fs::File::options().write(true).open(sidecar_path(&case.path())).unwrap();
            sidecar.write_all_at(b"bad", 9_000).unwrap();
        }
        case
    }

    fn path(&self) -> PathBuf {
        self.home.path().join("model.pt")
    }

    fn names(&self) -> Vec<String> {
        let names = fs::read_dir(self.home.path()).unwrap();
        let mut names: Vec<String> = names.map(|name| name.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Holds it to what must be true whatever befell the program, and lets the next run put it in order.
    fn judge(&self, action: &str, ended: &Ended, what: &str) {
        let now = fs::read(self.path()).unwrap();
        assert!(now == self.whole || now == self.found, "{what}: the file is neither the old one nor the whole");
        if ended.said.contains("reported") {
            assert!(now == self.whole, "{what}: reported as done");
            assert!(check(&self.path(), &mut quiet).unwrap().is_sidecar_whole(), "{what}");
        }
        let sidecar = sidecar_path(&self.path());
        if action == "protect" && sidecar.exists() {
            let findings = check(&self.path(), &mut quiet).unwrap();
            assert!(findings.is_file_whole() && findings.is_sidecar_whole(), "{what}: {findings:?}");
        }
        let before = protect(&self.path(), false, Trust::Root, &mut quiet);
        assert!(matches!(before, Ok(Protected::New { .. } | Protected::Before { .. })), "{what}: {before:?}");
        act("repair", &self.path(), Trust::Root).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(fs::read(self.path()).unwrap() == self.whole, "{what}");
        for path in [self.path(), sidecar] {
            // Where owner or access list could not be read or given, it is private.
            let mode = fs::metadata(path).unwrap().mode() & 0o7777;
            assert!(
                mode == 0o640 || mode == 0o600 && matches!(ended.call, Some("fchown" | "fgetxattr" | "fremovexattr")),
                "{what}: {mode:o}"
            );
        }
        let clean = protect(&self.path(), true, Trust::Root, &mut quiet);
        assert!(clean.is_ok(), "{what}: {clean:?}");
        assert_eq!(self.names(), ["model.pt", "model.pt.surefoot"], "{what}: nothing stays");
    }
}

fn run(action: &str, at: Option<u64>, fate: Fate) -> Ended {
    let case = Case::new(action);
    let ended = work(action, &case.path(), at, fate);
    case.judge(action, &ended, &format!("{action}, {fate:?} at {at:?}: {ended:?}"));
    ended
}

fn work(action: &str, path: &Path, at: Option<u64>, fate: Fate) -> Ended {
    let mut command = Command::new("/proc/self/exe");
    command.args(["suite::sidecar_kill::worker", "--exact", "--ignored", "--nocapture", "--test-threads=1"]);
    command.env(FILE, path).env(ACTION, action).env("RUST_BACKTRACE", "0");
    trace(&mut command, at, fate)
}

/// Of how many points one is tried; at full size all are.
fn stride(fate: Fate) -> usize {
    match fate {
        _ if std::env::var_os("SUREFOOT_SOAK").is_some() => 1,
        Fate::Kill => 19,
        Fate::Error(_) => 5,
        Fate::ErrorOf(..) | Fate::Meet(_) => 1,
    }
}

#[test]
fn protect_and_repair_stopped_or_refused_at_any_system_call_leave_the_old_file_or_the_whole_one() {
    if let Err(why) = can_trace() {
        let test = "suite::sidecar_kill::protect_and_repair_stopped_or_refused_at_any_system_call_leave_the_old_file_or_\
                    the_whole_one";
        return not_run(test, &why);
    }
    for action in ACTIONS {
        for (fate, code) in [
            (Fate::Kill, None),
            (Fate::Error(libc::ENOSPC), Some(0)),
            // A file system without unnamed files, and one without access lists.
            (Fate::ErrorOf("openat", libc::EOPNOTSUPP), Some(0)),
        ] {
            let whole = run(action, None, fate);
            assert!(whole.code == Some(0) && whole.said.contains("reported"), "{whole:?}");
            assert!(whole.points > 9, "{action}, {fate:?}: {}", whole.points);
            for at in (0..whole.points).step_by(stride(fate)) {
                assert_eq!(run(action, Some(at), fate).code, code, "{action}, {fate:?} at {at}");
            }
            println!("{action}, {fate:?}: at {} points", whole.points);
        }
    }
}

/// The user that owns nothing.
const NOBODY: u32 = 65_534;

thread_local! {
    /// The other user's directory, and root's file.
    static PLACE: RefCell<(PathBuf, PathBuf)> = RefCell::default();
}

/// All that the other user may do to every name in his directory but the file's own.
fn change_names(make: fn(&Path, &Path)) {
    PLACE.with_borrow(|(theirs, secret)| {
        for name in fs::read_dir(theirs).unwrap().map(|entry| entry.unwrap().path()) {
            if name.file_name().unwrap() != "model.pt" {
                fs::remove_file(&name).unwrap();
                make(secret, &name);
            }
        }
    });
}

fn their_link(to: &Path, name: &Path) {
    symlink(to, name).unwrap();
    lchown(name, Some(NOBODY), Some(NOBODY)).unwrap();
}

fn to_symbolic_links() {
    change_names(their_link);
}

fn to_hard_links() {
    change_names(|secret, name| fs::hard_link(secret, name).unwrap());
}

fn to_a_link_in_place_of_the_directory() {
    PLACE.with_borrow(|(theirs, secret)| {
        fs::rename(theirs, theirs.with_extension("moved")).unwrap();
        their_link(secret.parent().unwrap(), theirs);
    });
}

fn to_a_link_in_place_of_the_file() {
    PLACE.with_borrow(|(theirs, secret)| {
        let _ = fs::remove_file(theirs.join("model.pt"));
        their_link(secret, &theirs.join("model.pt"));
    });
}

#[test]
fn names_that_another_user_changes_at_any_system_call_lead_root_to_no_other_file() {
    let test = "suite::sidecar_kill::names_that_another_user_changes_at_any_system_call_lead_root_to_no_other_file";
    if let Err(why) = can_trace() {
        return not_run(test, &why);
    }
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        return not_run(test, "it is about root");
    }
    for action in ACTIONS {
        for meet in [
            to_symbolic_links as fn(),
            to_hard_links,
            to_a_link_in_place_of_the_directory,
            to_a_link_in_place_of_the_file,
        ] {
            let run = |at: Option<u64>| {
                let case = Case::new(action);
                let theirs = case.home.path().join("theirs");
                let victim = tempfile::tempdir_in(case.home.path()).unwrap();
                let secret = victim.path().join("model.pt");
                fs::write(&secret, "for root alone").unwrap();
                fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
                fs::create_dir(&theirs).unwrap();
                for path in [case.path(), sidecar_path(&case.path())] {
                    let _ = fs::rename(&path, theirs.join(path.file_name().unwrap()));
                }
                fs::read_dir(&theirs).unwrap().for_each(|entry| {
                    chown(entry.unwrap().path(), Some(NOBODY), Some(NOBODY)).unwrap();
                });
                chown(&theirs, Some(NOBODY), Some(NOBODY)).unwrap();
                PLACE.set((theirs.clone(), secret.clone()));
                let ended = work(action, &theirs.join("model.pt"), at, Fate::Meet(meet));
                let what = format!("{action} at {at:?}: {ended:?}");
                assert_eq!(ended.code, Some(0), "{what}");
                let found = fs::metadata(&secret).unwrap();
                assert_eq!((found.uid(), found.gid(), found.mode() & 0o7777), (0, 0, 0o600), "{what}");
                assert_eq!(fs::read(&secret).unwrap(), b"for root alone", "{what}");
                assert_eq!(fs::read_dir(victim.path()).unwrap().count(), 1, "{what}");
                ended
            };
            let points = run(None).points;
            assert!(points > 20, "{points}");
            // At the end names are given: there at each call.
            let is_tried =
                |at: &u64| std::env::var_os("SUREFOOT_SOAK").is_some() || at.is_multiple_of(29) || at + 30 > points;
            (0..points).filter(is_tried).for_each(|at| drop(run(Some(at))));
        }
    }
}
