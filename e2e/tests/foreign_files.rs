//! Files and directories of another user: what `nobody` puts in the way of root's own commands, before and while they
//! run, and what becomes of root's files.

use std::fs::{self, Permissions};
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use surefoot_checkpoint::controller::Fixed;
use surefoot_checkpoint::{Alone, Checkpointer, Config, Policy};
use surefoot_e2e::command::{NOBODY, surefoot};
use surefoot_e2e::machine::{Need, has_program, turn};
use surefoot_testkit::not_run::not_run;

/// Runs of root's during which the other user changes names all the time.
const RACES: usize = 30;

/// A file of root's that nobody else may read, and a directory of the other user.
struct Place {
    home: tempfile::TempDir,
}

/// What must stay as it is of root's file.
type Stamp = (u32, u32, u32, i64, i64, u64, Vec<u8>);

impl Place {
    fn new() -> Self {
        let place = Place { home: tempfile::tempdir().unwrap() };
        fs::set_permissions(place.home.path(), Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(place.victim()).unwrap();
        fs::write(place.secret(), vec![b's'; 20_000]).unwrap();
        fs::set_permissions(place.secret(), Permissions::from_mode(0o600)).unwrap();
        fs::create_dir(place.theirs()).unwrap();
        fs::create_dir(place.theirs().join("d")).unwrap();
        fs::write(place.file(), content()).unwrap();
        for path in [place.theirs(), place.theirs().join("d"), place.file()] {
            chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        place
    }

    /// A directory of root's with the file in it.
    fn victim(&self) -> PathBuf {
        self.home.path().join("victim")
    }

    fn secret(&self) -> PathBuf {
        self.victim().join("model.pt")
    }

    fn theirs(&self) -> PathBuf {
        self.home.path().join("theirs")
    }

    fn file(&self) -> PathBuf {
        self.theirs().join("d/model.pt")
    }

    fn beside(&self, end: &str) -> PathBuf {
        let mut path = self.file().into_os_string();
        path.push(end);
        path.into()
    }

    /// Root's file, and the names beside it.
    fn stamp(&self) -> (Stamp, usize) {
        let found = fs::metadata(self.secret()).unwrap();
        let bytes = fs::read(self.secret()).unwrap();
        let stamp = (found.uid(), found.gid(), found.mode(), found.mtime(), found.mtime_nsec(), found.nlink(), bytes);
        (stamp, fs::read_dir(self.victim()).unwrap().count())
    }

    fn run(&self, words: &str) -> surefoot_e2e::command::Finished {
        surefoot(&format!("checkpoint {words}")).arg(self.file()).run()
    }

    fn damage(&self) {
        let file = fs::File::options().write(true).open(self.file()).unwrap();
        file.write_all_at(b"bad", 5_000).unwrap();
    }
}

fn content() -> Vec<u8> {
    (0..40_000u32).flat_map(|number| number.to_le_bytes()).collect()
}

const PROTECT: &str = "protect --force --trust-directory-owner";
const REPAIR: &str = "repair --force --trust-directory-owner";

#[test]
fn what_another_user_puts_beside_his_file_leads_root_to_no_other_file() {
    let test = "what_another_user_puts_beside_his_file_leads_root_to_no_other_file";
    let Some(_turn) = turn(test, Need::Root) else { return };
    let place = Place::new();
    for command in ["protect", "repair"] {
        place
            .run(command)
            .expect_refusal(2, &["root does not write in", "sudo -u '#65534'", "--trust-directory-owner"]);
    }
    // Names that one may guess, as symbolic links and as hard links.
    for end in [".surefoot.new", ".surefoot.repaired", ".surefoot.lock", ".surefoot", ".surefoot.new-0123456789abcdef"]
    {
        for is_hard in [false, true] {
            let place = Place::new();
            if end != ".surefoot" {
                place.run(PROTECT).expect_code(0);
                place.damage();
            }
            match is_hard {
                true => fs::hard_link(place.secret(), place.beside(end)).unwrap(),
                false => symlink(place.secret(), place.beside(end)).unwrap(),
            }
            let before = place.stamp();
            let runs = [place.run(REPAIR), place.run("protect --trust-directory-owner"), place.run(PROTECT)];
            for run in &runs {
                assert!(matches!(run.code, Some(0 | 2)), "{end}: {run:#?}");
            }
            if end != ".surefoot" && end != ".surefoot.lock" {
                runs[0].expect_code(0);
                assert_eq!(fs::read(place.file()).unwrap(), content(), "{end}");
            }
            let mut after = place.stamp();
            // A name that was taken away is one link less.
            after.0.5 = before.0.5;
            assert!(after == before, "{end}, hard: {is_hard}: root's file is another now");
            let found = fs::metadata(place.file()).unwrap();
            assert_eq!((found.uid(), found.mode() & 0o7000), (NOBODY, 0), "{end}");
        }
    }
}

#[test]
fn what_is_no_file_of_the_other_user_is_refused_or_stays_roots() {
    let test = "what_is_no_file_of_the_other_user_is_refused_or_stays_roots";
    let Some(_turn) = turn(test, Need::Root) else { return };
    let place = Place::new();
    let make = |arguments: &[&str]| {
        let _ = fs::remove_file(place.file());
        Command::new("mknod").arg(place.file()).args(arguments).status().is_ok_and(|status| status.success())
    };
    for arguments in [&["p"][..], &["c", "1", "5"]] {
        if !make(arguments) {
            return not_run(test, "no special files can be made here");
        }
        for command in [PROTECT, REPAIR, "repair --check"] {
            place.run(command).expect_refusal(2, &["not a regular file"]);
        }
    }
    // Root's own file under a name in the other user's directory: its parity is for root alone, too.
    fs::remove_file(place.file()).unwrap();
    fs::hard_link(place.secret(), place.file()).unwrap();
    place.run(PROTECT).expect_code(0);
    let sidecar = fs::metadata(place.beside(".surefoot")).unwrap();
    assert_eq!((sidecar.uid(), sidecar.mode() & 0o7777), (0, 0o600));
    // And what the other user says of it is not believed.
    fs::remove_file(place.beside(".surefoot")).unwrap();
    let forged = Place::new();
    forged.run(PROTECT).expect_code(0);
    fs::copy(forged.beside(".surefoot"), place.beside(".surefoot")).unwrap();
    chown(place.beside(".surefoot"), Some(NOBODY), Some(NOBODY)).unwrap();
    let before = place.stamp();
    for command in [REPAIR, "repair --check", "protect --trust-directory-owner"] {
        place.run(command).expect_refusal(2, &["belongs to the user with number 65534"]);
    }
    assert!(place.stamp() == before);
    // Set-id bits do not come back by themselves.
    let place = Place::new();
    place.run(PROTECT).expect_code(0);
    place.damage();
    fs::set_permissions(place.file(), Permissions::from_mode(0o6755)).unwrap();
    place.run(REPAIR).expect_code(0);
    let found = fs::metadata(place.file()).unwrap();
    assert_eq!((found.uid(), found.gid(), found.mode() & 0o7777), (NOBODY, NOBODY, 0o755));
    assert_eq!(fs::read(place.file()).unwrap(), content());
}

/// Ends a program that a test started.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Changes names as the other user, again and again, until it is dropped.
fn change_names(script: &str, arguments: &[&Path]) -> Ended {
    let mut perl = Command::new("perl");
    perl.arg("-e").arg(format!("$| = 1; print 'go'; while (1) {{ {script} }}")).args(arguments);
    perl.current_dir("/").uid(NOBODY).gid(NOBODY).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = Ended(perl.spawn().unwrap());
    child.0.stdout.take().unwrap().read_exact(&mut [0; 2]).unwrap();
    child
}

#[test]
fn names_that_change_while_root_writes_lead_it_nowhere_else() {
    let test = "names_that_change_while_root_writes_lead_it_nowhere_else";
    let Some(_turn) = turn(test, Need::Root) else { return };
    if !has_program("perl") {
        return not_run(test, "there is no perl");
    }
    // The directory, every new name in it, and the file itself.
    for script in [
        "rename \"$ARGV[0]/d\", \"$ARGV[0]/e\"; symlink $ARGV[1], \"$ARGV[0]/d\"; unlink \"$ARGV[0]/d\"; \
         rename \"$ARGV[0]/e\", \"$ARGV[0]/d\"",
        "opendir D, \"$ARGV[0]/d\"; for (grep /new-|lock|repaired/, readdir D) { unlink \"$ARGV[0]/d/$_\"; \
         symlink \"$ARGV[1]/model.pt\", \"$ARGV[0]/d/$_\" }",
        "rename \"$ARGV[0]/d/model.pt\", \"$ARGV[0]/d/kept\"; symlink \"$ARGV[1]/model.pt\", \"$ARGV[0]/d/model.pt\"; \
         unlink \"$ARGV[0]/d/model.pt\"; rename \"$ARGV[0]/d/kept\", \"$ARGV[0]/d/model.pt\"",
    ] {
        let place = Place::new();
        place.run(PROTECT).expect_code(0);
        place.damage();
        let before = place.stamp();
        let changing = change_names(script, &[&place.theirs(), &place.victim()]);
        for _ in 0..RACES {
            for command in [PROTECT, REPAIR] {
                let run = place.run(command);
                assert!(matches!(run.code, Some(0..=2)), "{run:#?}");
            }
        }
        drop(changing);
        assert!(place.stamp() == before, "root's directory or file is another now: {script}");
    }
}

#[test]
fn what_root_writes_into_his_directory_is_written_over_no_other_file_and_read_by_nobody_else() {
    let test = "what_root_writes_into_his_directory_is_written_over_no_other_file_and_read_by_nobody_else";
    let Some(_turn) = turn(test, Need::Root) else { return };
    const PLAN: &str = "checkpoint plan --size 64GB --memory-mtbf-s 3600 --durable-mtbf-s 10800";
    let place = Place::new();
    let in_memory = tempfile::Builder::new().tempdir_in("/dev/shm").unwrap();
    fs::set_permissions(in_memory.path(), Permissions::from_mode(0o755)).unwrap();
    chown(in_memory.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    let before = place.stamp();
    for directory in [&place.theirs(), in_memory.path()] {
        let out = directory.join("out");
        let is_on_one_disk = fs::metadata(directory).unwrap().dev() == fs::metadata(place.secret()).unwrap().dev();
        for kind in ["symbolic link", "hard link", "own file", "pipe"] {
            match kind {
                "symbolic link" => symlink(place.secret(), &out).unwrap(),
                "hard link" if is_on_one_disk => fs::hard_link(place.secret(), &out).unwrap(),
                "pipe" => assert!(Command::new("mkfifo").arg(&out).status().unwrap().success()),
                _ => {
                    fs::write(&out, "his").unwrap();
                    fs::set_permissions(&out, Permissions::from_mode(0o666)).unwrap();
                    chown(&out, Some(NOBODY), Some(NOBODY)).unwrap();
                }
            }
            for words in [
                &format!("{PLAN} --chart"),
                "checkpoint simulate --sizes 1GB --iterations 10 --chart",
                "stall record --duration 1s --force --output",
                "stall who --duration 1s --cpus 0 --anew --trace",
                "stall who --duration 1s --cpus 0 --anew --folded",
                "stall who --duration 1s --cpus 0 --anew --force --record",
            ] {
                let run = surefoot(words).arg(&out).run();
                assert_eq!(run.code, Some(2), "{kind}: {run:#?}");
            }
            if kind == "own file" {
                assert_eq!(fs::read_to_string(&out).unwrap(), "his", "nothing of root's is in it");
            }
            fs::remove_file(&out).unwrap();
            assert!(place.stamp() == before, "{kind}: root's file is another now");
        }
        // What root makes new there is root's alone.
        surefoot(&format!("{PLAN} --chart")).arg(&out).run().expect_code(0);
        let found = fs::metadata(&out).unwrap();
        assert_eq!((found.uid(), found.mode() & 0o7777), (0, 0o600));
    }
}

/// A job with a checkpoint in memory below a directory.
fn save(home: &Path) {
    for directory in ["memory", "ssd"] {
        fs::create_dir(home.join(directory)).unwrap();
    }
    let mut config = Config::new("train", home.join("memory"), Some(home.join("ssd")));
    config.policy = Policy::Fixed(Fixed::Memory);
    config.set("drive_file", "none").unwrap();
    let mut job = Checkpointer::open(config, Box::new(Alone)).unwrap();
    for number in 0..40 {
        fs::write(job.route_file(&format!("state-{number}")).unwrap(), [7; 1_000]).unwrap();
    }
    job.checkpoint().unwrap();
    job.finish().unwrap();
}

/// All files below a directory, with owner, mode and content.
fn files(directory: &Path) -> Vec<(PathBuf, u32, u32, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
        let about = fs::symlink_metadata(&entry).unwrap();
        match about.is_dir() {
            true => found.extend(files(&entry)),
            false => found.push((entry.clone(), about.uid(), about.mode(), fs::read(&entry).unwrap_or_default())),
        }
    }
    found.sort();
    found
}

fn give(path: &Path) {
    std::os::unix::fs::lchown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    if path.is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| give(&entry.unwrap().path()));
    }
}

#[test]
fn a_scrub_of_roots_mends_his_copies_in_his_own_files_only() {
    let test = "a_scrub_of_roots_mends_his_copies_in_his_own_files_only";
    let Some(_turn) = turn(test, Need::Root) else { return };
    if !has_program("perl") {
        return not_run(test, "there is no perl");
    }
    let (roots, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::set_permissions(theirs.path(), Permissions::from_mode(0o755)).unwrap();
    save(roots.path());
    save(theirs.path());
    give(theirs.path());
    let rank = theirs.path().join("memory/train/rank-00000");
    // The slot that is in use: the one whose manifest there is.
    let manifest = fs::read_dir(&rank).unwrap().map(|entry| entry.unwrap().path());
    let manifest = manifest.filter(|path| path.to_string_lossy().contains("manifest")).min().unwrap();
    let image = fs::read_dir(&rank).unwrap().map(|entry| entry.unwrap().path());
    let images: Vec<PathBuf> = image.filter(|path| path.extension().is_some_and(|end| end == "image")).collect();
    let harm = || {
        for image in &images {
            fs::File::options().write(true).open(image).unwrap().write_all_at(&[9; 100], 3_000).unwrap();
        }
        fs::write(&manifest, "bad").unwrap();
    };
    let scrub = || surefoot("checkpoint scrub").arg(theirs.path()).run();
    harm();
    let _ = fs::remove_file(rank.join("lock"));
    let calm = scrub();
    calm.expect_code(0);
    for (path, owner, mode, _) in files(theirs.path()) {
        assert!(
            owner == NOBODY && (mode & 0o077 == 0 || !path.starts_with(&rank)),
            "{} belongs to {owner} now",
            path.display()
        );
    }
    assert!(calm.stdout.contains("repaired"), "{calm:#?}");
    // Root's own job under his names, while he changes them.
    let before = files(roots.path());
    let script = "rename $ARGV[0], \"$ARGV[0]-away\"; symlink $ARGV[1], $ARGV[0]; unlink $ARGV[0]; \
                  rename \"$ARGV[0]-away\", $ARGV[0]";
    let changing = change_names(script, &[&rank, &roots.path().join("memory/train/rank-00000")]);
    for _ in 0..RACES {
        let run = scrub();
        assert!(matches!(run.code, Some(0..=2)), "{run:#?}");
    }
    drop(changing);
    assert!(files(roots.path()) == before, "a file of root's job is another now");
    // He may have been ended between two of his steps.
    let mut away = rank.clone().into_os_string();
    away.push("-away");
    if Path::new(&away).exists() {
        let _ = fs::remove_file(&rank);
        fs::rename(&away, &rank).unwrap();
    }
    // A second name of a file of root's is not mended.
    let target = roots.path().join("precious");
    fs::copy(&images[0], &target).unwrap();
    fs::remove_file(&images[0]).unwrap();
    fs::hard_link(&target, &images[0]).unwrap();
    harm();
    let before = fs::read(&target).unwrap();
    scrub();
    assert!(fs::read(&target).unwrap() == before, "root's file was written to");
}

#[test]
fn a_checkpoint_that_root_restores_into_his_directory_lands_nowhere_else() {
    let test = "a_checkpoint_that_root_restores_into_his_directory_lands_nowhere_else";
    let Some(_turn) = turn(test, Need::Root) else { return };
    if !has_program("perl") {
        return not_run(test, "there is no perl");
    }
    let place = Place::new();
    let tiers = tempfile::tempdir().unwrap();
    save(tiers.path());
    let before = place.stamp();
    let restore = |to: &Path| surefoot("checkpoint restore --job train --to").arg(to).arg(tiers.path()).run();
    restore(&place.theirs().join("d/calm")).expect_code(0);
    assert_eq!(fs::read_dir(place.theirs().join("d/calm/rank-00000/files")).unwrap().count(), 40);
    let script = "opendir D, \"$ARGV[0]/d\"; for (grep /restoring/, readdir D) { rename \"$ARGV[0]/d/$_\", \
                  \"$ARGV[0]/d/away\" . $n++; symlink $ARGV[1], \"$ARGV[0]/d/$_\" }";
    let changing = change_names(script, &[&place.theirs(), &place.victim()]);
    for number in 0..RACES {
        let run = restore(&place.theirs().join(format!("d/out-{number}")));
        assert!(matches!(run.code, Some(0 | 2)), "{run:#?}");
        assert!(!run.stderr.contains("/proc/self"), "{}", run.stderr);
    }
    drop(changing);
    assert!(place.stamp() == before, "root's directory is another now");
    // A link of his on the way is not followed.
    symlink(place.victim(), place.theirs().join("link")).unwrap();
    std::os::unix::fs::lchown(place.theirs().join("link"), Some(NOBODY), Some(NOBODY)).unwrap();
    restore(&place.theirs().join("link/out")).expect_refusal(2, &["does not follow"]);
    assert!(place.stamp() == before);
}

/// `remove`, `scrub` and `drain` take the directory of a tier by its name. A link of another user chooses which one that is.
#[test]
fn no_link_of_another_user_leads_root_to_a_job_of_its_own() {
    let Some(_turn) = turn("no_link_of_another_user_leads_root_to_a_job_of_its_own", Need::Root) else { return };
    let (roots, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::set_permissions(theirs.path(), Permissions::from_mode(0o755)).unwrap();
    save(roots.path());
    let way = theirs.path().join("way");
    symlink(roots.path(), &way).unwrap();
    // The link and its directory, and not what it leads to.
    std::os::unix::fs::lchown(&way, Some(NOBODY), Some(NOBODY)).unwrap();
    chown(theirs.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    let before = files(roots.path());
    assert!(!before.is_empty());
    let (memory, ssd) = (way.join("memory"), way.join("ssd"));
    let refused = |words: &str, arguments: &[&Path]| {
        let command = arguments.iter().fold(surefoot(words), |command, argument| command.arg(argument));
        command.run().expect_refusal(2, &["root does not follow", "way", "name what it leads to instead"]);
        assert!(files(roots.path()) == before, "{words} changed root's files");
    };
    refused("checkpoint remove train --yes --in", &[&memory]);
    refused("checkpoint remove --older-than 0.001s --yes --in", &[&memory]);
    refused("checkpoint scrub", &[&way]);
    let (own_memory, own_ssd) = (roots.path().join("memory"), roots.path().join("ssd"));
    let durable = Path::new("--durable");
    refused("checkpoint drain train --memory", &[&memory, durable, &own_ssd]);
    refused("checkpoint drain train --memory", &[&own_memory, durable, &ssd]);
    // By its own name root's job is drained and removed.
    surefoot("checkpoint remove train --yes --in").arg(&own_memory).run().expect_code(0);
}

/// SQLite opens by path, and creates files beside its own: in a directory of another user it would do so wherever that user leads it.
#[test]
fn root_keeps_no_history_where_others_can_put_files_and_changes_nothing_by_reading_one() {
    let test = "root_keeps_no_history_where_others_can_put_files_and_changes_nothing_by_reading_one";
    let Some(_turn) = turn(test, Need::Root) else { return };
    let theirs = tempfile::tempdir().unwrap();
    fs::set_permissions(theirs.path(), Permissions::from_mode(0o755)).unwrap();
    let path = theirs.path().join("history.db");
    surefoot("watch --no-page --source counters --duration 2s --interval 200ms --history")
        .arg(&path)
        .run()
        .expect_code(0);
    let _ = fs::remove_file(theirs.path().join("history.db.lock"));
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    give(theirs.path());
    let before = files(theirs.path());
    let read = surefoot("history --json --last 1h --file").arg(&path).run();
    read.expect_code(0);
    assert!(read.stdout.contains("host"), "{read:#?}");
    surefoot("memory import").arg(&path).run().expect_refusal(2, &["history.db", "rasdaemon"]);
    assert!(files(theirs.path()) == before, "reading changed something");
    for folder in [theirs.path(), Path::new("/tmp")] {
        let history = folder.join("surefoot-test-new.db");
        let watch = surefoot("watch --no-page --source counters --duration 1s --history").arg(&history).run();
        watch.expect_refusal(2, &["--history", "use a file in a directory that only you can write"]);
        assert!(!history.exists());
    }
    assert!(files(theirs.path()) == before, "a refused watch changed something");
}
