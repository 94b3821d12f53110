#![allow(clippy::unwrap_used)]
use super::dress::{Stamp, dress};
use super::folder::effective_user;
use super::place::Part;
use super::{Trust, check, protect, repair, sidecar_path};
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use surefoot_testkit::not_run::not_run;

/// The user that owns nothing.
const NOBODY: u32 = 65_534;

fn quiet(_: u64, _: u64) {}

fn said(path: &Path, trust: Trust) -> [String; 2] {
    let protected = protect(path, true, trust, &mut quiet).unwrap_err().to_string();
    [protected, repair(path, true, trust, &mut quiet).unwrap_err().to_string()]
}

#[test]
fn root_writes_in_no_directory_of_another_user_and_says_who_may() {
    if effective_user() != 0 {
        return not_run("root_writes_in_no_directory_of_another_user_and_says_who_may", "it is about root");
    }
    let home = tempfile::tempdir().unwrap();
    let theirs = home.path().join("theirs");
    let below = theirs.join("below");
    fs::create_dir_all(&below).unwrap();
    let file = below.join("model.pt");
    fs::write(&file, [7; 10_000]).unwrap();
    protect(&file, false, Trust::Root, &mut quiet).unwrap();
    chown(&theirs, Some(NOBODY), Some(NOBODY)).unwrap();
    for words in said(&file, Trust::Root) {
        assert!(words.contains("sudo -u '#65534'") && words.contains("theirs"), "{words}");
        assert!(words.contains("--trust-directory-owner"), "{words}");
    }
    protect(&file, true, Trust::DirectoryOwner, &mut quiet).unwrap();
    chown(&theirs, Some(0), Some(0)).unwrap();
    for mode in [0o777, 0o775] {
        fs::set_permissions(&theirs, Permissions::from_mode(mode)).unwrap();
        assert!(said(&file, Trust::Root)[0].contains("chmod go-w"), "{mode:o}");
    }
    fs::set_permissions(&theirs, Permissions::from_mode(0o1777)).unwrap();
    protect(&file, true, Trust::Root, &mut quiet).unwrap();
    // Links on the way: root's own are followed, those of others could lead anywhere.
    let link = theirs.join("link");
    symlink(&below, &link).unwrap();
    protect(&link.join("model.pt"), true, Trust::Root, &mut quiet).unwrap();
    std::os::unix::fs::lchown(&link, Some(NOBODY), Some(NOBODY)).unwrap();
    for trust in [Trust::Root, Trust::DirectoryOwner] {
        let words = &said(&link.join("model.pt"), trust)[0];
        assert!(words.contains("does not follow") && words.contains("link"), "{words}");
    }
    check(&link.join("model.pt"), &mut quiet).unwrap();
    symlink("loop", theirs.join("loop")).unwrap();
    assert!(said(&theirs.join("loop/model.pt"), Trust::Root)[0].contains("symbolic links"));
    assert!(protect(&below.join("../below/./model.pt"), true, Trust::Root, &mut quiet).is_ok());
}

#[test]
fn a_repaired_program_does_not_run_as_its_owner() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("program");
    let old = File::create(&path).unwrap();
    old.set_permissions(Permissions::from_mode(0o6755)).unwrap();
    let new = File::create(home.path().join("new")).unwrap();
    let stamp = Stamp::of(&old.metadata().unwrap());
    for (part, mode) in [(Part::File, 0o755), (Part::Sidecar, 0o644)] {
        dress(&new, &old, &stamp, part).unwrap();
        assert_eq!(new.metadata().unwrap().mode() & 0o7777, mode);
    }
    // Whose group cannot be given: nobody but the owner may read it.
    let mut stranger = stamp;
    stranger.owner = (NOBODY - 1, NOBODY - 1);
    if effective_user() != 0 {
        dress(&new, &old, &stranger, Part::Sidecar).unwrap();
        assert_eq!(new.metadata().unwrap().mode() & 0o7777, 0o600);
    }
}

#[test]
fn the_sidecar_is_read_by_whom_the_file_is_read_by_and_by_nobody_else() {
    if effective_user() != 0 {
        return not_run(
            "the_sidecar_is_read_by_whom_the_file_is_read_by_and_by_nobody_else",
            "only root gives files away",
        );
    }
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("secret");
    fs::write(&path, [7; 100]).unwrap();
    chown(&path, Some(1), Some(NOBODY)).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
    protect(&path, false, Trust::Root, &mut quiet).unwrap();
    let found = fs::metadata(sidecar_path(&path)).unwrap();
    assert_eq!((found.uid(), found.gid(), found.mode() & 0o7777), (1, NOBODY, 0o640));
}

#[test]
fn a_sidecar_of_a_stranger_decides_nothing() {
    if effective_user() != 0 {
        return not_run("a_sidecar_of_a_stranger_decides_nothing", "only root gives files away");
    }
    let home = tempfile::tempdir().unwrap();
    fs::set_permissions(home.path(), Permissions::from_mode(0o1777)).unwrap();
    let path = home.path().join("model.pt");
    fs::write(&path, "what the stranger wants it to be").unwrap();
    protect(&path, false, Trust::Root, &mut quiet).unwrap();
    let sidecar = sidecar_path(&path);
    fs::write(&path, "what its owner wants it to be   ").unwrap();
    chown(&path, Some(1), Some(1)).unwrap();
    chown(&sidecar, Some(NOBODY), Some(NOBODY)).unwrap();
    for words in [
        repair(&path, true, Trust::Root, &mut quiet).unwrap_err().to_string(),
        check(&path, &mut quiet).unwrap_err().to_string(),
        protect(&path, false, Trust::Root, &mut quiet).unwrap_err().to_string(),
    ] {
        assert!(words.contains("65534"), "{words}");
    }
    assert!(fs::read_to_string(&path).unwrap().contains("owner"));
    chown(&sidecar, Some(1), Some(1)).unwrap();
    repair(&path, true, Trust::Root, &mut quiet).unwrap();
    assert!(fs::read_to_string(&path).unwrap().contains("stranger"));
    assert_eq!(fs::metadata(&path).unwrap().uid(), 1);
}

#[test]
fn what_a_killed_run_left_is_taken_away_and_what_others_called_so_is_not() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("model.pt");
    let at = |name: &str| home.path().join(format!("model.pt.surefoot.{name}"));
    fs::write(&path, [7; 100]).unwrap();
    fs::write(at("new-0123456789abcdef"), "half").unwrap();
    symlink("/etc/passwd", at("new-0123456789abcdee")).unwrap();
    for kept in ["new-0123", "new-0123456789abcdefg", "repaired", "new"] {
        fs::write(at(kept), "mine").unwrap();
    }
    protect(&path, false, Trust::Root, &mut quiet).unwrap();
    assert!(!at("new-0123456789abcdef").exists());
    assert!(at("new-0123456789abcdee").is_symlink());
    for kept in ["new-0123", "new-0123456789abcdefg", "repaired", "new"] {
        assert_eq!(fs::read_to_string(at(kept)).unwrap(), "mine");
    }
}

#[test]
fn a_strangers_lock_in_a_directory_for_everybody_keeps_nobody_from_work() {
    if effective_user() != 0 {
        return not_run("a_strangers_lock_in_a_directory_for_everybody_keeps_nobody_from_work", "it needs two users");
    }
    let home = tempfile::tempdir().unwrap();
    fs::set_permissions(home.path(), Permissions::from_mode(0o1777)).unwrap();
    let (file, lock) = (home.path().join("model.pt"), home.path().join("model.pt.surefoot.lock"));
    fs::write(&file, [7; 10_000]).unwrap();
    let held = File::create(&lock).unwrap();
    held.lock().unwrap();
    // Of root's it is the lock of another run.
    assert!(protect(&file, false, Trust::Root, &mut quiet).unwrap_err().to_string().contains("another run"));
    chown(&lock, Some(NOBODY), Some(NOBODY)).unwrap();
    protect(&file, false, Trust::Root, &mut quiet).unwrap();
    assert!(!lock.exists());
    // Where it is no file it is not taken for one, and what may be removed is.
    symlink("/etc/passwd", &lock).unwrap();
    std::os::unix::fs::lchown(&lock, Some(NOBODY), Some(NOBODY)).unwrap();
    repair(&file, true, Trust::Root, &mut quiet).unwrap();
    fs::create_dir(&lock).unwrap();
    chown(&lock, Some(NOBODY), Some(NOBODY)).unwrap();
    let words = repair(&file, true, Trust::Root, &mut quiet).unwrap_err().to_string();
    assert!(words.contains("65534") && words.contains("cannot be removed"), "{words}");
}
