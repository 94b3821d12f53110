//! Files of other programs that go bad, and what their sidecars bring back: the same bytes, or a refusal.

use super::faulty::Faulty;
use super::payload::payload;
use proptest::prelude::*;
use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use surefoot_heal::sidecar::through::{Begun, Part, Place, check_in, protect_in, repair_in};
use surefoot_heal::sidecar::{Label, Repaired, Trust, check, protect, repair, sidecar_bytes, sidecar_path};
use surefoot_heal::{Error, Storage, StoredFile};
use surefoot_testkit::storage::{FaultyDisk, Plan};

const PAGE: usize = 4096;

fn quiet(_: u64, _: u64) {}

/// A file on a made-up disk, which can refuse pages.
struct Made {
    disk: FaultyDisk,
    content: Vec<u8>,
}

const FILE: &str = "/file";
const SIDECAR: &str = "/file.surefoot";

impl Made {
    fn new(bytes: usize) -> Self {
        let made = Made { disk: FaultyDisk::new(Plan::default()), content: payload(bytes, bytes as u64 + 1) };
        let file = made.disk.create_file(Path::new(FILE), 0).unwrap();
        file.write_at(&made.content, 0).unwrap();
        file.sync().unwrap();
        made.disk.sync_directory(Path::new("/")).unwrap();
        made.protect().unwrap();
        made
    }

    fn storage(&self) -> Faulty {
        Faulty(self.disk.clone())
    }

    fn protect(&self) -> Result<Label, Error> {
        protect_in(self, 5, None, &mut quiet)
    }

    fn repair(&self) -> Result<Repaired, Error> {
        repair_in(self, 5, false, &mut quiet)
    }

    fn is_whole(&self) -> bool {
        let storage = self.storage();
        let file = storage.open_file(Path::new(FILE), false).unwrap();
        let mut bytes = vec![0; file.length().unwrap() as usize];
        file.read_at(&mut bytes, 0).is_ok() && bytes == self.content
    }

    fn change(&self, path: &str, change: impl FnOnce(&mut Vec<u8>)) {
        self.disk.corrupt(Path::new(path), change).unwrap();
    }
}

impl Place for Made {
    fn path(&self, part: Part) -> PathBuf {
        if part == Part::File { FILE } else { SIDECAR }.into()
    }

    fn open(&self, part: Part) -> io::Result<Box<dyn StoredFile>> {
        self.storage().open_file(&self.path(part), false)
    }

    fn begin(&self, part: Part, bytes: u64) -> io::Result<Box<dyn Begun + '_>> {
        let new = Path::new("/file.surefoot.new-0");
        match self.storage().remove_file(new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = self.storage().create_file(new, bytes, false)?;
        Ok(Box::new(MadeNew { made: self, part, new, file }))
    }
}

struct MadeNew<'a> {
    made: &'a Made,
    part: Part,
    new: &'static Path,
    file: Box<dyn StoredFile>,
}

impl Begun for MadeNew<'_> {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_at(bytes, offset)
    }

    fn put(self: Box<Self>, _: i64) -> Result<(), Error> {
        let put = || {
            self.file.sync()?;
            self.made.storage().rename(self.new, &self.made.path(self.part))?;
            self.made.storage().sync_directory(Path::new("/"))
        };
        put().map_err(|source| Error::Storage { action: "put", path: self.new.into(), source })
    }
}

#[test]
fn three_pages_of_a_row_come_back_and_a_fourth_is_refused_by_name() {
    let made = Made::new(20 * 16 * PAGE);
    let page_of = |column: usize, row: usize| (column * 20 + row) * PAGE;
    made.change(FILE, |bytes| [0, 5, 15].into_iter().for_each(|column| bytes[page_of(column, 7)] ^= 1));
    let Repaired::Done { findings, file: true, sidecar: false } = made.repair().unwrap() else {
        panic!("not repaired")
    };
    assert_eq!((findings.file_pages_bad, findings.parity_pages_bad), (3, 0));
    assert!(made.is_whole());
    assert!(matches!(made.repair().unwrap(), Repaired::Whole(_)));
    made.change(FILE, |bytes| [0, 5, 6, 15].into_iter().for_each(|column| bytes[page_of(column, 7)] ^= 1));
    let Repaired::Lost(findings) = made.repair().unwrap() else { panic!("not refused") };
    assert_eq!(findings.rows_lost, 1);
    assert!(findings.lost[0].contains("row 7") && findings.lost[0].contains('4'), "{findings:?}");
}

#[test]
fn pages_that_the_kernel_refuses_and_a_cut_end_come_back() {
    for bytes in [1, 4095, 40_000, 16 * PAGE, 700_000] {
        let made = Made::new(bytes);
        made.disk.poison(Path::new(FILE), 0).unwrap();
        let repaired = made.repair().unwrap();
        let Repaired::Done { findings, file: true, .. } = repaired else { panic!("{bytes}: {repaired:?}") };
        assert_eq!((findings.pages_refused, findings.file_pages_bad), (1, 1));
        assert!(made.is_whole(), "{bytes}");
        let rows = bytes.div_ceil(16 * PAGE);
        // The last columns of what the file has: two and a part of a third.
        let cut = (2 * rows * PAGE + 100).min(bytes);
        made.change(FILE, |content| content.truncate(bytes - cut));
        let (findings, _) = check_in(&made, 5, &mut quiet).unwrap();
        assert_eq!((findings.file_bytes, findings.found_bytes), (bytes as u64, (bytes - cut) as u64));
        made.repair().unwrap();
        assert!(made.is_whole(), "{bytes}");
        made.change(FILE, |content| content.extend([7; 5000]));
        assert!(matches!(made.repair().unwrap(), Repaired::Done { file: true, sidecar: false, .. }));
        assert!(made.is_whole(), "{bytes}");
    }
}

#[test]
fn a_bad_sidecar_is_written_anew_from_the_whole_file() {
    let made = Made::new(300_000);
    let read = |path: &str| {
        let file = made.storage().open_file(Path::new(path), false).unwrap();
        let mut bytes = vec![0; file.length().unwrap() as usize];
        file.read_at(&mut bytes, 0).unwrap();
        bytes
    };
    let first = read(SIDECAR);
    assert_eq!(first.len() as u64, sidecar_bytes(300_000).unwrap());
    let length = first.len();
    for (what, change) in [
        ("first label", Box::new(|bytes: &mut Vec<u8>| bytes[20] ^= 1) as Box<dyn Fn(&mut Vec<u8>)>),
        ("first table", Box::new(|bytes| bytes[PAGE + 9] ^= 1)),
        ("parity", Box::new(|bytes| bytes[3 * PAGE..5 * PAGE].fill(0))),
        ("last label", Box::new(move |bytes| bytes[length - PAGE] ^= 1)),
        ("both tables", Box::new(move |bytes| (bytes[PAGE + 9], bytes[length - 2 * PAGE + 90]) = (99, 98))),
        ("the end is gone", Box::new(move |bytes| bytes.truncate(length / 2))),
        ("longer", Box::new(|bytes| bytes.extend([0; 10]))),
    ] {
        made.change(SIDECAR, &change);
        let repaired = made.repair();
        assert!(matches!(repaired, Ok(Repaired::Done { file: false, sidecar: true, .. })), "{what}: {repaired:?}");
        assert_eq!(read(SIDECAR), first, "{what}");
    }
    // Nothing of the tables is left: the file proves itself.
    made.change(SIDECAR, |bytes| {
        bytes[PAGE..2 * PAGE].fill(0);
        bytes[length - 2 * PAGE..length - PAGE].fill(0);
    });
    assert!(matches!(made.repair(), Ok(Repaired::Done { file: false, sidecar: true, .. })));
    assert_eq!(read(SIDECAR), first);
    // With nothing left that can be believed, nothing is.
    made.change(SIDECAR, |bytes| (bytes[20], bytes[length - PAGE]) = (bytes[20] ^ 1, 0));
    assert!(made.repair().unwrap_err().to_string().contains("checksum"), "{:?}", made.repair());
    // A sidecar of another file is noticed.
    let other = Made::new(299_000);
    made.change(SIDECAR, |bytes| {
        let file = other.storage().open_file(Path::new(SIDECAR), false).unwrap();
        bytes.resize(file.length().unwrap() as usize, 0);
        file.read_at(bytes, 0).unwrap();
    });
    assert!(matches!(made.repair(), Ok(Repaired::Lost(_))), "{:?}", made.repair());
    assert!(made.is_whole());
}

#[derive(Debug, Clone)]
enum Harm {
    Flip(bool, usize, u8),
    Zero(bool, usize, usize),
    Poison(bool, usize),
    Cut(bool, usize),
    Grow(usize),
}

fn harm() -> impl Strategy<Value = Harm> {
    let at = 0usize..1_000_000;
    prop_oneof![
        (any::<bool>(), at.clone(), 1u8..).prop_map(|(of_file, at, bits)| Harm::Flip(of_file, at, bits)),
        (any::<bool>(), at.clone(), 1usize..40_000).prop_map(|(of_file, at, bytes)| Harm::Zero(of_file, at, bytes)),
        (any::<bool>(), at.clone()).prop_map(|(of_file, at)| Harm::Poison(of_file, at)),
        (any::<bool>(), at).prop_map(|(of_file, at)| Harm::Cut(of_file, at)),
        (1usize..9000).prop_map(Harm::Grow),
    ]
}

fn inflict(made: &Made, harm: &Harm) {
    let path = |of_file: bool| if of_file { FILE } else { SIDECAR };
    match *harm {
        Harm::Flip(of_file, at, bits) => made.change(path(of_file), |bytes| {
            let length = bytes.len();
            if length > 0 {
                bytes[at % length] ^= bits;
            }
        }),
        Harm::Zero(of_file, at, count) => made.change(path(of_file), |bytes| {
            let start = at % (bytes.len() + 1);
            let end = (start + count).min(bytes.len());
            bytes[start..end].fill(0);
        }),
        Harm::Poison(of_file, at) => made.disk.poison(Path::new(path(of_file)), (at / PAGE % 100) as u64).unwrap(),
        Harm::Cut(of_file, at) => made.change(path(of_file), |bytes| {
            let keep = bytes.len().saturating_sub(at % (bytes.len() / 3 + 1));
            bytes.truncate(keep);
        }),
        Harm::Grow(count) => made.change(FILE, |bytes| bytes.extend(std::iter::repeat_n(3, count))),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn any_damage_ends_in_the_same_bytes_or_a_refusal(
        bytes in prop_oneof![0usize..5000, 60_000usize..400_000],
        harms in proptest::collection::vec(harm(), 1..8),
    ) {
        let made = Made::new(bytes);
        harms.iter().for_each(|harm| inflict(&made, harm));
        let read = |path: &str| {
            let file = made.storage().open_file(Path::new(path), false).unwrap();
            let length = file.length().unwrap();
            let page = |at: u64| {
                let mut bytes = vec![0; PAGE.min((length - at) as usize)];
                file.read_at(&mut bytes, at).ok().map(|()| bytes)
            };
            (0..length).step_by(PAGE).map(page).collect::<Vec<_>>()
        };
        let before = read(FILE);
        match made.repair() {
            Ok(Repaired::Whole(_) | Repaired::Done { .. }) => {
                prop_assert!(made.is_whole());
                prop_assert!(matches!(made.repair(), Ok(Repaired::Whole(_))));
            }
            Ok(Repaired::WrittenSince(_)) => prop_assert!(false, "nobody wrote to it"),
            // What cannot be repaired is as it was.
            Ok(Repaired::Lost(_)) | Err(_) => prop_assert_eq!(read(FILE), before),
        }
    }

    #[test]
    fn three_bad_pages_anywhere_always_come_back(
        bytes in 1usize..400_000,
        pages in proptest::collection::vec((any::<bool>(), 0usize..1_000_000), 1..=3),
    ) {
        let made = Made::new(bytes);
        for (of_file, at) in pages {
            // Of the tables and labels one is enough; both at the same place are not.
            let (path, from, to) = if of_file { (FILE, 0, 0) } else { (SIDECAR, PAGE, 2 * PAGE) };
            made.change(path, |bytes| {
                let start = (from + at % (bytes.len() - from - to)) / PAGE * PAGE;
                let end = (start + PAGE).min(bytes.len());
                bytes[start..end].fill(0xA5);
            });
        }
        let repaired = made.repair();
        prop_assert!(matches!(repaired, Ok(Repaired::Whole(_) | Repaired::Done { .. })), "{:?}", repaired);
        prop_assert!(made.is_whole());
    }
}

#[test]
fn stopped_at_every_step_the_file_is_whole_or_can_be_repaired() {
    // A repair of file and sidecar, stopped before each of its operations and then begun anew.
    let harmed = || {
        let made = Made::new(200_000);
        made.change(FILE, |bytes| bytes[70_000] ^= 4);
        made.change(SIDECAR, |bytes| bytes[PAGE * 4] ^= 4);
        made
    };
    let whole = harmed();
    let before = whole.disk.operations();
    whole.repair().unwrap();
    let operations = whole.disk.operations() - before;
    assert!(operations > 20, "{operations}");
    for stop in 0..operations {
        let made = harmed();
        let stopped = made.disk.restarted(Plan { kill_at: Some(stop), ..Plan::default() });
        let again = Made { disk: stopped, content: made.content.clone() };
        let _ = again.repair();
        let back = Made { disk: again.disk.after_power_loss(stop, Plan::default()), content: made.content };
        back.repair().unwrap_or_else(|error| panic!("stopped at {stop}: {error}"));
        assert!(back.is_whole(), "stopped at {stop}");
    }
}

/// A real file in a directory of its own.
struct Real {
    home: tempfile::TempDir,
}

impl Real {
    fn new(bytes: usize) -> Self {
        let real = Real { home: tempfile::tempdir().unwrap() };
        fs::write(real.path(), payload(bytes, 9)).unwrap();
        real
    }

    fn path(&self) -> PathBuf {
        self.home.path().join("model.pt")
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.home.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

#[test]
fn a_real_file_keeps_its_time_and_mode_and_nothing_is_left_beside_it() {
    let real = Real::new(3_000_000);
    fs::set_permissions(real.path(), fs::Permissions::from_mode(0o640)).unwrap();
    assert!(protect(&real.path(), false, Trust::Root, &mut quiet).is_ok());
    assert_eq!(real.names(), ["model.pt", "model.pt.surefoot"]);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&sidecar_path(&real.path())), 0o640);
    let before = fs::metadata(real.path()).unwrap();
    let content = fs::read(real.path()).unwrap();
    let mut bad = content.clone();
    bad[1_000_000..1_008_192].fill(0);
    fs::write(real.path(), &bad).unwrap();
    let is_done = |force| repair(&real.path(), force, Trust::Root, &mut quiet).unwrap();
    // Somebody wrote to it: that may have been wanted.
    let Repaired::WrittenSince(findings) = is_done(false) else { panic!("it was taken for damage") };
    assert!(findings.written_since.is_some() && findings.file_pages_bad == 3, "{findings:?}");
    assert_eq!(fs::read(real.path()).unwrap(), bad);
    assert!(matches!(is_done(true), Repaired::Done { file: true, .. }));
    let after = fs::metadata(real.path()).unwrap();
    assert_eq!(fs::read(real.path()).unwrap(), content);
    assert_eq!((after.mtime(), after.mtime_nsec(), after.mode()), (before.mtime(), before.mtime_nsec(), before.mode()));
    assert_eq!(real.names(), ["model.pt", "model.pt.surefoot"]);
    // Bits that flip on the disk leave the time of the last write as it is.
    fs::write(real.path(), &bad).unwrap();
    let file = fs::File::options().write(true).open(real.path()).unwrap();
    file.set_times(fs::FileTimes::new().set_modified(before.modified().unwrap())).unwrap();
    assert!(matches!(is_done(false), Repaired::Done { file: true, .. }));
    assert_eq!(fs::read(real.path()).unwrap(), content);
}

#[test]
fn what_changes_while_it_is_read_is_not_protected() {
    let real = Real::new(3_000_000);
    let path = real.path();
    let mut calls = 0;
    let refused = protect(&path, false, Trust::Root, &mut |_, _| {
        calls += 1;
        if calls == 2 {
            fs::write(&path, "new").unwrap();
        }
    });
    assert!(refused.unwrap_err().to_string().contains("changed while it was read"));
    assert_eq!(real.names(), ["model.pt"]);
    // A byte behind the reader's back, at the same length and with the time put back: the kernel's own time tells.
    let real = Real::new(3_000_000);
    let path = real.path();
    let file = fs::File::options().write(true).open(&path).unwrap();
    let modified = file.metadata().unwrap().modified().unwrap();
    let refused = protect(&path, false, Trust::Root, &mut |done, total| {
        if done == total {
            std::thread::sleep(std::time::Duration::from_millis(20));
            file.write_all_at(b"x", 0).unwrap();
            file.set_times(fs::FileTimes::new().set_modified(modified)).unwrap();
        }
    });
    assert!(refused.unwrap_err().to_string().contains("changed while it was read"));
    assert_eq!(real.names(), ["model.pt"]);
}

#[test]
fn what_cannot_be_protected_is_refused_with_its_reason() {
    let real = Real::new(10_000);
    let said = |path: &Path| protect(path, false, Trust::Root, &mut quiet).unwrap_err().to_string();
    let link = real.home.path().join("link");
    symlink(real.path(), &link).unwrap();
    assert!(said(&link).contains("symbolic link"));
    assert!(said(real.home.path()).contains("not a regular file"));
    assert!(said(&real.home.path().join("none")).contains("No such file"));
    fs::write(sidecar_path(&real.path()), "mine").unwrap();
    assert!(said(&real.path()).contains("--force"), "{}", said(&real.path()));
    assert_eq!(fs::read(sidecar_path(&real.path())).unwrap(), b"mine");
    assert!(check(&real.path(), &mut quiet).unwrap_err().to_string().contains("cut to less than a sidecar"));
    protect(&real.path(), true, Trust::Root, &mut quiet).unwrap();
    assert!(said(&sidecar_path(&real.path())).contains("sidecar itself"));
    let again = protect(&real.path(), false, Trust::Root, &mut quiet).unwrap();
    assert_eq!(again, surefoot_heal::sidecar::Protected::Before { file_bytes: 10_000 });
    // A cut that left the time of the last write as it was is damage, not content.
    let file = fs::File::options().write(true).open(real.path()).unwrap();
    let modified = file.metadata().unwrap().modified().unwrap();
    file.set_len(9_000).unwrap();
    file.set_times(fs::FileTimes::new().set_modified(modified)).unwrap();
    assert!(said(&real.path()).contains("9000 bytes instead of 10000"), "{}", said(&real.path()));
    let lock = real.home.path().join("model.pt.surefoot.lock");
    let held = fs::File::create(&lock).unwrap();
    held.try_lock().unwrap();
    assert!(said(&real.path()).contains("another run"), "{}", said(&real.path()));
}

#[test]
fn a_label_that_lies_about_its_file_costs_neither_memory_nor_a_panic() {
    let made = Made::new(100_000);
    let label = |text: &str| {
        let sum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, text.as_bytes()) as u32;
        let mut page = b"SFSIDE01".to_vec();
        page.extend((text.len() as u32).to_le_bytes());
        page.extend(sum.to_le_bytes());
        page.extend(text.as_bytes());
        page.resize(PAGE, 0);
        page
    };
    for (text, said) in [
        (r#"{"file_bytes":17592186044416,"modified_realtime_ns":5,"table_crc32c":7}"#, "none of its tables"),
        (r#"{"file_bytes":18446744073709551615,"modified_realtime_ns":5,"table_crc32c":7}"#, "more than"),
        (r#"{"file_bytes":-1,"modified_realtime_ns":5,"table_crc32c":7}"#, "cannot be read"),
        (r#"{"file_bytes":99999,"modified_realtime_ns":5,"table_crc32c":7}"#, "nothing can be proved"),
        ("[]", "cannot be read"),
    ] {
        let page = label(text);
        made.change(SIDECAR, |bytes| {
            let end = bytes.len();
            bytes[..PAGE].copy_from_slice(&page);
            bytes[end - PAGE..].copy_from_slice(&page);
        });
        let refused = made.repair().map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains(said), "{text}: {refused}");
        assert!(made.is_whole());
    }
}
