//! A real process that protects or repairs a real file, killed at each of its system calls, and told at each that it
//! failed: the file is as it was or as it should be, and the next run finds its way.

use super::image::payload;
use super::kill::can_trace;
use super::traced::{self, Ended, Fate, trace};
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use surefoot_checkpoint::sidecar::{Protected, Repaired, Trust, check, protect, repair, sidecar_path};
use surefoot_testkit::not_run::not_run;

/// The environment variables that tell the program its file and what to do with it.
const FILE: &str = "SUREFOOT_TEST_FILE";
const ACTION: &str = "SUREFOOT_TEST_ACTION";

const ACTIONS: [&str; 2] = ["protect", "repair"];
const BYTES: usize = 9_000;

fn quiet(_: u64, _: u64) {}

fn act(action: &str, path: &Path) -> Result<(), String> {
    let done = match action {
        "protect" => protect(path, false, Trust::Root, &mut quiet).map(|_| ()),
        _ => match repair(path, false, Trust::Root, &mut quiet) {
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
    let done = act(&action, &path);
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
        act("repair", &self.path()).unwrap_or_else(|error| panic!("{what}: {error}"));
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
    let mut command = Command::new("/proc/self/exe");
    command.args(["suite::sidecar_kill::worker", "--exact", "--ignored", "--nocapture", "--test-threads=1"]);
    command.env(FILE, case.path()).env(ACTION, action).env("RUST_BACKTRACE", "0");
    let ended = trace(&mut command, at, fate);
    case.judge(action, &ended, &format!("{action}, {fate:?} at {at:?}: {ended:?}"));
    ended
}

/// Of how many points one is tried; at full size all are.
fn stride(fate: Fate) -> usize {
    match fate {
        _ if std::env::var_os("SUREFOOT_SOAK").is_some() => 1,
        Fate::Kill => 9,
        Fate::Error(_) => 3,
        Fate::ErrorOf(..) => 1,
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
