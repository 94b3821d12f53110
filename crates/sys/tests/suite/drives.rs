//! Real controllers: QEMU's NVMe and SATA drives under Debian's kernel, read by the code that reads real ones.

use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use surefoot_hostfs::Root;
use surefoot_model::{DriveReport, DriveSource, DriveWear};
use surefoot_sys::drive::{Kind, smartctl, survey};
use surefoot_testkit::guest::Guest;
use surefoot_testkit::not_run::not_run;

const MIB: u64 = 1 << 20;

/// What is written to the NVMe drive, so that it counts it.
const WRITTEN_BYTES: u64 = 24 * MIB;

/// The libraries of a program, as the loader names them.
fn libraries(program: &Path) -> Vec<PathBuf> {
    let said = Command::new("ldd").arg(program).output().unwrap().stdout;
    let said = String::from_utf8(said).unwrap();
    let paths = said.lines().filter_map(|line| line.rsplit("=> ").next()?.split_whitespace().next());
    paths.filter(|path| path.starts_with('/')).map(PathBuf::from).collect()
}

#[test]
fn emulated_drives_tell_their_wear_to_a_real_kernel() {
    let test = "drives::emulated_drives_tell_their_wear_to_a_real_kernel";
    let guest = match Guest::find() {
        Ok(guest) => guest.with_memory_mib(768),
        Err(why) => return not_run(test, &why),
    };
    let folder = tempfile::tempdir().unwrap();
    let image = |name: &str| {
        let path = folder.path().join(name);
        fs::File::create(&path).unwrap().set_len(64 * MIB).unwrap();
        format!("if=none,id={name},format=raw,file={}", path.display())
    };
    let modules = ["nvme", "ahci", "sd_mod", "crc32c_generic", "ext4", "loop", "overlay", "dm_mod"];
    let mut guest = modules.iter().fold(guest, |guest, module| guest.with_module(module));
    for words in [
        ["-drive", &image("flash"), "-device", "nvme,drive=flash,serial=plain"],
        // One drive with two controllers, which the kernel shows as one device.
        ["-device", "nvme-subsys,id=both,nqn=both", "-device", "nvme,serial=twice,subsys=both"],
        ["-drive", &image("shared"), "-device", "nvme-ns,drive=shared,nsid=1,shared=on"],
        ["-device", "nvme,serial=twice,subsys=both", "-drive", &image("sata")],
        ["-device", "ide-hd,drive=sata,bus=ide.0,rotation_rate=1,serial=SATA1,model=EXAMPLE", "-name", "drives"],
    ] {
        guest = guest.with_device(&words);
    }
    for (program, what) in [("/usr/sbin/smartctl", "a SATA drive's own counts"), ("/usr/sbin/dmsetup", "volumes")] {
        let program = Path::new(program);
        if !program.is_file() {
            not_run(&format!("{test}, {what}"), &format!("{} is not installed", program.display()));
            continue;
        }
        for file in libraries(program).into_iter().chain([program.to_owned()]) {
            guest = guest.with_file(&file, file.to_str().unwrap());
        }
    }
    let arguments = ["drives::inside_", "--ignored", "--nocapture", "--test-threads=1"];
    let environment = [("TMPDIR", "/dev/shm"), ("RUST_BACKTRACE", "0")];
    let ran = guest.run(&std::env::current_exe().unwrap(), &arguments, &environment).unwrap();
    println!("{}", ran.text);
    assert!(ran.code == Some(0) && ran.text.contains("1 passed"), "{:?}: {}\n{}", ran.code, ran.text, ran.console);
}

/// A table of one partition from 1 MiB on, as DOS wrote it, and the kernel told to look.
fn partition(device: &Path) {
    let file = fs::File::options().read(true).write(true).open(device).unwrap();
    let mut sector = [0u8; 512];
    sector[446 + 4] = 0x83;
    sector[446 + 8..446 + 12].copy_from_slice(&2048u32.to_le_bytes());
    sector[446 + 12..446 + 16].copy_from_slice(&100_000u32.to_le_bytes());
    sector[510..].copy_from_slice(&[0x55, 0xAA]);
    file.write_all_at(&sector, 0).unwrap();
    file.sync_all().unwrap();
    // SAFETY: BLKRRPART of <linux/fs.h> takes no argument and touches no memory of ours.
    let answer = unsafe { libc::ioctl(file.as_raw_fd(), 0x125F) };
    assert_eq!(answer, 0, "{}", std::io::Error::last_os_error());
}

fn drive<'a>(report: &'a DriveReport, serial: &str) -> &'a DriveWear {
    let found = report.drives.iter().filter(|drive| drive.serial.as_deref() == Some(serial)).collect::<Vec<_>>();
    assert_eq!(found.len(), 1, "{serial}: {report:#?}");
    found[0]
}

/// A loop device that shows a file on /mnt, and an overlay whose upper directory is there, lead to the drive.
fn leads_down_from_above(root: &Root, name: &str) {
    let run = |words: &str| {
        let mut words = words.split(' ');
        assert!(Command::new(format!("/bin/{}", words.next().unwrap())).args(words).status().unwrap().success());
    };
    fs::File::create("/mnt/image").unwrap().set_len(MIB).unwrap();
    run("losetup /dev/loop0 /mnt/image");
    ["/mnt/up", "/mnt/work", "/lower", "/merged"].iter().for_each(|folder| fs::create_dir(folder).unwrap());
    run("mount -t overlay -o lowerdir=/lower,upperdir=/mnt/up,workdir=/mnt/work overlay /merged");
    for path in ["/dev/loop0", "/mnt/image", "/merged", "/mnt/up"] {
        let report = survey(root, &[PathBuf::from(path)], 1).unwrap().unwrap();
        assert_eq!(report.drives.iter().map(|drive| &*drive.name).collect::<Vec<_>>(), [name], "{path}");
    }
    // A job in the overlay sees a number that is no device's; the report of all drives knows it.
    let number = fs::metadata("/merged").unwrap().dev();
    assert_eq!(libc::major(number), 0);
    let all = survey(root, &[], 1).unwrap().unwrap();
    let number = format!("0:{}", libc::minor(number));
    assert_eq!(all.beneath(&number).map(|drive| &*drive.name).collect::<Vec<_>>(), [name], "{all:#?}");
}

/// A volume on a volume, and one that is striped over two drives.
fn leads_down_from_volumes(root: &Root, nvme: &str, sata: &str) {
    if !Path::new("/usr/sbin/dmsetup").is_file() {
        return;
    }
    for (volume, table, wanted) in [
        ("lower", format!("0 20000 linear /dev/{nvme} 0"), vec![nvme]),
        ("upper", "0 1000 linear /dev/mapper/lower 0".to_owned(), vec![nvme]),
        ("striped", format!("0 20480 striped 2 128 /dev/{nvme} 40960 /dev/{sata} 0"), vec![nvme, sata]),
    ] {
        let mut dmsetup = Command::new("/usr/sbin/dmsetup");
        dmsetup.env("DM_DISABLE_UDEV", "1").args(["create", volume, "--table", &table]);
        assert!(dmsetup.status().unwrap().success(), "{volume}");
        let report = survey(root, &[PathBuf::from(format!("/dev/mapper/{volume}"))], 1).unwrap().unwrap();
        assert_eq!(report.drives.iter().map(|drive| &*drive.name).collect::<Vec<_>>(), wanted, "{volume}");
        let number = fs::metadata(format!("/dev/mapper/{volume}")).unwrap().rdev();
        let number = format!("{}:{}", libc::major(number), libc::minor(number));
        assert_eq!(survey(root, &[], 1).unwrap().unwrap().beneath(&number).count(), wanted.len(), "{volume}");
    }
}

/// In the guest: what is written is counted by the drive, and a directory on it leads to it.
#[test]
#[ignore = "runs in a child process, in a guest"]
fn inside_a_guest() {
    let root = Root::host();
    let all = || survey(&root, &[], 1).unwrap().unwrap();
    let before = all();
    println!("{before:#?}");
    let name = drive(&before, "plain").name.clone();
    let written = |report: &DriveReport| {
        let of = drive(report, "plain").written_bytes.clone();
        of.map_or((0, DriveSource::NvmeHealthLog), |of| (of.value, of.source))
    };
    let device = PathBuf::from(format!("/dev/{name}"));
    let file = fs::File::options().write(true).open(&device).unwrap();
    for at in 0..WRITTEN_BYTES / MIB {
        file.write_all_at(&vec![0x5A; MIB as usize], 16 * MIB + at * MIB).unwrap();
    }
    file.sync_all().unwrap();
    drop(file);
    let after = all();
    let (bytes, source) = written(&after);
    let grown = bytes - written(&before).0;
    assert_eq!(source, DriveSource::NvmeHealthLog);
    // The log counts in units of 512,000 bytes, rounded up.
    assert!((WRITTEN_BYTES..WRITTEN_BYTES + 2 * MIB).contains(&grown), "{grown}: {after:#?}");
    for serial in ["plain", "twice"] {
        let found = drive(&after, serial);
        assert!(found.percent_used.is_some() && found.power_on_hours.is_some(), "{found:#?}");
        assert!(found.model.contains("QEMU NVMe") && found.size_bytes == 64 * MIB, "{found:#?}");
        assert!(found.notes.iter().any(|note| note.contains("no endurance groups")), "{found:#?}");
    }
    // The drive with two controllers has two paths, which are hidden below one device.
    let names =
        fs::read_dir("/sys/class/block").unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let paths = names.filter(|name| name.strip_prefix("nvme").is_some_and(|rest| rest.contains('c')));
    assert_eq!(paths.count(), 2);
    partition(&device);
    let part = format!("{}p1", device.display());
    assert!(Command::new("/bin/mke2fs").arg(&part).status().unwrap().success());
    fs::create_dir("/mnt").unwrap();
    assert!(Command::new("/bin/mount").args(["-t", "ext4", &part, "/mnt"]).status().unwrap().success());
    let number = fs::metadata("/mnt").unwrap().dev();
    let number = format!("{}:{}", libc::major(number), libc::minor(number));
    let beneath = survey(&root, &[PathBuf::from("/mnt")], 1).unwrap().unwrap();
    assert_eq!(beneath.drives.iter().map(|drive| &drive.name).collect::<Vec<_>>(), [&name]);
    assert_eq!(beneath.beneath(&number).count(), 1, "{number}: {beneath:#?}");
    assert!(fs::metadata(format!("/sys/fs/ext4/{name}p1/lifetime_write_kbytes")).is_ok());
    leads_down_from_above(&root, &name);
    leads_down_from_volumes(&root, &drive(&after, "twice").name, &drive(&after, "SATA1").name);
    let sata = drive(&after, "SATA1");
    assert_eq!(surefoot_sys::drive::Identity::read(&root, &sata.name).kind, Kind::Scsi);
    match smartctl::program() {
        Some(_) => {
            let hours = sata.power_on_hours.as_ref().expect("the age of the SATA drive");
            assert_eq!(hours.source, DriveSource::Smartctl);
            assert!(sata.notes.is_empty() && sata.model.contains("EXAMPLE"), "{sata:#?}");
        }
        None => assert!(sata.notes[0].contains("smartmontools"), "{sata:#?}"),
    }
}
