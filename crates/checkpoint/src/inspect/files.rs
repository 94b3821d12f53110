//! The files of one copy of a checkpoint, read by the descriptor of their directory.

use crate::StoredFile;
use crate::generation::Manifest;
use crate::storage::Directory;
use crate::tier::{MANIFESTS, PENDING};
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use surefoot_foreign::said;

/// A file of a job, which belongs to the user whose the job is or to root: whoever can make a second name for the file of
/// another user must not have it read as his own.
pub(super) fn open_of(directory: &Directory, name: &str, owner: u32) -> Result<(File, Metadata), String> {
    let (file, found) =
        directory.file(OsStr::new(name)).map_err(|error| format!("cannot open it: {}", said(&error)))?;
    match found.uid() == owner || found.uid() == 0 {
        true => Ok((file, found)),
        false => Err(format!("it belongs to the user with number {}, its directory to {owner}", found.uid())),
    }
}

/// Whether nothing of this name is in a directory.
pub(super) fn is_absent(directory: &Directory, name: &str) -> bool {
    directory.owner_of(OsStr::new(name)).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// A manifest, and when it was written or moved to where it is.
pub(super) fn read_manifest(directory: &Directory, name: &str, owner: u32) -> (Result<Manifest, String>, u64) {
    match open_of(directory, name, owner) {
        Ok((file, found)) => {
            let changed_ns = found.ctime().saturating_mul(1_000_000_000).saturating_add(found.ctime_nsec());
            (Manifest::of_file(&file as &dyn StoredFile), u64::try_from(changed_ns).unwrap_or(0))
        }
        Err(why) => (Err(why), 0),
    }
}

/// Which of the two files with a slot's manifest is not as the one that was read, and why. A job that runs takes the first away before the
/// second, and renames the second, so what is found is believed only if it is found twice, and the first is still there.
pub(super) fn bad_manifest(
    directory: &Directory,
    slot: usize,
    read: &str,
    manifest: &Manifest,
    owner: u32,
) -> Option<(String, String)> {
    let is_gone = |name: &str| matches!(directory.length_of(OsStr::new(name)), Ok(None));
    // The second one is written first, and a job that was killed then has told nobody of its checkpoint.
    if read.ends_with(PENDING) && is_gone(&format!("slot-{slot}.manifest")) {
        return None;
    }
    let look = || {
        let of = |kind: &&str| format!("slot-{slot}.{kind}");
        let others: Vec<String> = MANIFESTS.iter().map(of).filter(|name| name != read).collect();
        // Of the second one's two names it has one.
        let others = if read.ends_with("manifest") { &others[..] } else { &others[..1] };
        let look = |name: &String| match read_manifest(directory, name, owner).0 {
            Ok(found) if found == *manifest => Ok(()),
            Ok(_) => Err((name.clone(), "it is of another checkpoint".to_owned())),
            Err(_) if is_gone(name) => Err((name.clone(), "it is gone".to_owned())),
            Err(why) => Err((name.clone(), why)),
        };
        let bad: Vec<(String, String)> =
            others.iter().map(look).collect::<Vec<_>>().into_iter().filter_map(Result::err).collect();
        let worst = bad.iter().find(|(name, _)| !is_gone(name)).or_else(|| bad.first()).cloned();
        worst.filter(|_| bad.len() == others.len())
    };
    let bad = look()?;
    let is_still = read_manifest(directory, read, owner).0.as_ref() == Ok(manifest);
    look().filter(|again| is_still && *again == bad)
}

/// What is wrong with the image of a manifest, as far as its length says; its content is for `verify`.
pub(super) fn of_image(
    directory: &Directory,
    image: &str,
    name: &str,
    manifest: &Result<Manifest, String>,
    owner: u32,
) -> Option<String> {
    let manifest = manifest.as_ref().ok()?;
    let wanted = manifest.geometry().ok()?.file_bytes() as u64;
    let of_others = directory.owner_of(OsStr::new(image)).ok().filter(|found| *found != owner && *found != 0);
    let why = match directory.length_of(OsStr::new(image)) {
        _ if of_others.is_some() => {
            format!("it belongs to the user with number {}, its directory to {owner}", of_others.unwrap_or_default())
        }
        Ok(Some(length)) if length >= wanted => return None,
        Ok(Some(length)) => {
            format!("it has {length} of the {wanted} bytes that its manifest names; parts of the checkpoint are gone")
        }
        Ok(None) => "the manifest is there and the image is not".to_owned(),
        Err(error) => format!("whether the image is there is not known: {}", said(&error)),
    };
    // A job that runs may have begun another checkpoint in its place meanwhile.
    (read_manifest(directory, name, owner).0.as_ref() == Ok(manifest)).then_some(why)
}
