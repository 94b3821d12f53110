//! What a directory is good for, by the file system that it lies on: by the list of mounts alone, because whoever asks a file
//! system that does not answer waits for it.

use std::path::Path;
use surefoot_hostfs::mounts::{Mount, Mounts};
use surefoot_model::CheckpointTier;

/// Overlays on overlays that are looked through; the kernel allows fewer.
const LAYERS_MAX: usize = 4;

/// Block devices that are memory, by the beginning of their path.
const IN_MEMORY: [&str; 2] = ["/dev/ram", "/dev/zram"];

/// The tier that a directory would make, whose path has no links; `None` where its mount is not listed.
pub(super) fn tier(mounts: &Mounts, path: &Path) -> Option<CheckpointTier> {
    let mount = mounts.on(path)?;
    Some(match () {
        () if is_in_memory(mounts, mount, LAYERS_MAX) => CheckpointTier::Memory,
        () if mount.is_shared() => CheckpointTier::Shared,
        () => CheckpointTier::Durable,
    })
}

/// Whether what is written there goes with the power, an overlay by its upper directory.
fn is_in_memory(mounts: &Mounts, mount: &Mount, layers: usize) -> bool {
    let upper = || mount.option("upperdir").filter(|_| mount.kind == "overlay" && layers > 0);
    let beneath = || upper().and_then(|upper| mounts.on(Path::new(&upper)).filter(|found| *found != mount));
    mount.is_in_memory()
        || IN_MEMORY.iter().any(|known| mount.source.starts_with(known))
        || beneath().is_some_and(|beneath| is_in_memory(mounts, beneath, layers - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_no_ssd_whatever_it_looks_like() {
        let mounts = Mounts::parse(
            "22 1 254:1 / / rw - ext4 /dev/vda1 rw\n\
             25 22 0:22 / /shm rw - tmpfs tmpfs rw\n\
             26 22 0:23 / /over rw - overlay overlay rw,lowerdir=/a,upperdir=/shm/u,workdir=/shm/w\n\
             27 22 0:24 / /box rw - overlay overlay rw,lowerdir=/a,upperdir=/var/u,workdir=/var/w\n\
             28 22 1:0 / /ram rw - ext4 /dev/ram0 rw\n\
             29 22 0:25 / /pfs rw - lustre mds:/x rw\n\
             30 22 0:26 / /self rw - overlay overlay rw,lowerdir=/a,upperdir=/self/u,workdir=/self/w\n",
        );
        use CheckpointTier::{Durable, Memory, Shared};
        for (path, wanted) in [
            ("/ssd", Durable),
            ("/shm/x", Memory),
            ("/over/x", Memory),
            ("/box/x", Durable),
            ("/ram/x", Memory),
            ("/pfs/x", Shared),
            ("/self/x", Durable),
        ] {
            assert_eq!(tier(&mounts, Path::new(path)), Some(wanted), "{path}");
        }
    }
}
