//! How old checkpoints are: by what they say themselves, not by the times of their files.

use super::session::{Rank, Tiers, job};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use surefoot_checkpoint::controller::Fixed;
use surefoot_checkpoint::inspect;
use surefoot_checkpoint::{Disk, Manifest, Place, Policy};

fn saves(rank: &mut Rank, steps: u64) {
    for step in 1..=steps {
        assert_ne!(rank.save(step), Place::Skip);
    }
}

fn set_modified(path: &Path, at: SystemTime) {
    fs::File::options().write(true).open(path).unwrap().set_modified(at).unwrap();
}

/// A backup that was unpacked, a copy that keeps times or does not, a file server with another clock: none of them makes a checkpoint older
/// or younger.
#[test]
fn a_checkpoint_is_as_old_as_its_manifest_says_whatever_the_times_of_its_files() {
    let tiers = Tiers::new();
    let config = tiers.config(Policy::Fixed(Fixed::Memory));
    job(2, &config, |mut rank| saves(&mut rank, 2));
    let newest = |tiers: &Tiers| {
        let job =
            inspect::job(&[tiers.home.path().join("memory"), tiers.home.path().join("ssd")], "job").unwrap().remove(0);
        (job.checkpoint_realtime_ns(), job.newest_realtime_ns(), job.is_checkpoint_time_a_bound())
    };
    let paths = |kind| (0..2).flat_map(|rank| tiers.memory_files(rank, kind)).collect::<Vec<_>>();
    let taken = paths("manifest").into_iter().map(|path| Manifest::read(&Disk, &path).unwrap().taken_realtime_ns);
    let taken_ns = taken.max().unwrap();
    let year = Duration::from_secs(365 * 86_400);
    for at in [UNIX_EPOCH, SystemTime::now() + year] {
        ["manifest", "copy", "image"].into_iter().flat_map(paths).for_each(|path| set_modified(&path, at));
        assert_eq!(newest(&tiers), (Some(taken_ns), taken_ns, false));
    }
    // One of the two manifests of each slot is enough.
    for path in paths("manifest") {
        fs::write(&path, b"damaged").unwrap();
    }
    assert_eq!(newest(&tiers), (Some(taken_ns), taken_ns, false));
    // What cannot be read is not old, and it is said that the time is only the latest possible.
    for path in ["manifest", "copy"].into_iter().flat_map(paths) {
        fs::write(&path, b"damaged").unwrap();
        set_modified(&path, UNIX_EPOCH);
    }
    let (checkpoint_ns, newest_ns, is_bound) = newest(&tiers);
    assert!(is_bound && newest_ns >= taken_ns && checkpoint_ns == Some(newest_ns), "{taken_ns} {checkpoint_ns:?}");
}

/// Retention would never remove a job whose manifests something damages, or touches, again and again.
#[test]
fn damage_to_a_manifest_on_the_ssd_does_not_make_its_checkpoint_young() {
    let tiers = Tiers::new();
    job(2, &tiers.config(Policy::Fixed(Fixed::Durable)), |mut rank| saves(&mut rank, 1));
    let newest = || {
        let job = inspect::job(&[tiers.home.path().join("ssd")], "job").unwrap().remove(0);
        (job.checkpoint_realtime_ns().unwrap(), job.is_checkpoint_time_a_bound())
    };
    let manifests = tiers.durable_files("manifest");
    assert_eq!(manifests.len(), 2);
    let taken_ns = Manifest::read(&Disk, &manifests[0]).unwrap().taken_realtime_ns;
    fs::write(&manifests[0], b"damaged").unwrap();
    assert_eq!(newest(), (taken_ns, false), "the other rank's manifest says it");
    let images = tiers.durable_files("image").into_iter().map(|path| fs::metadata(path).unwrap());
    let written_ns = images.map(|found| found.ctime() * 1_000_000_000 + found.ctime_nsec()).min().unwrap();
    // The kernel's times are as coarse as its tick.
    std::thread::sleep(Duration::from_millis(50));
    manifests.iter().for_each(|path| fs::write(path, b"damaged").unwrap());
    let (at_ns, is_bound) = newest();
    assert!(is_bound && at_ns <= written_ns as u64, "{at_ns}, and the images are of {written_ns}");
}
